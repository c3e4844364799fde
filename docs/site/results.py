"""Write docs/results.md from the JSON of ``results`` and ``benchmarks/results``.

``python docs/site/results.py`` does it. A test says when the page is not what this would write.
"""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"

LEARNED = {
    "default": "**Tellmost**, the call without options",
    "MMR 0.5": "MMR, relevance 0.5",
    "MMR 0.7": "MMR, relevance 0.7",
    "MMR 0.3": "MMR, relevance 0.3",
    "in turn": "nearest of each target in turn",
    "FLQMI": "FLQMI (submodlib)",
    "nearest": "nearest neighbours",
    "random": "random",
    "k-centre": "k-centre",
}
SETS = {
    "banking77-rest": "Banking77",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "fashion": "Fashion-MNIST",
}
MODES = {
    "exact-itl": "ITL, exact",
    "exact-vtl": "VTL, exact",
    "exact-ctl": "CTL, exact",
    "default-itl": "ITL, by a tournament of chunks",
    "default-vtl": "VTL, by a tournament of chunks",
    "logdetmi": "LogDetMI, which is ITL about noisy targets",
    "bait": "BAIT, no targets",
    "maxdet": "MaxDet, no targets",
}
CIFAR = {
    "itl": "**Tellmost**, ITL",
    "vtl": "**Tellmost**, VTL",
    "ctl": "**Tellmost**, CTL",
    "cosine": "nearest by cosine",
    "information-density": "information density",
    "badge": "BADGE",
    "random": "random",
}
LABELS = (100, 200, 500, 1000)
ANSWERS = {
    "preselected": "**Tellmost**, `Retriever`",
    "refresh": "**Tellmost**, `Retriever(refresh=True)`",
    "loop of select, candidates given": "**Tellmost**, a loop of `select`",
    "activeft sift-fast": "activeft, fast mode",
    "activeft sift": "activeft",
}


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text())


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def teaching() -> str:
    sets = read("benchmarks/results/defaults.json")["on confirming sets"]["datasets"]
    rows = [
        [said, *(f"{sets[name]['mean'][method]:.3f}" for name in SETS)]
        for method, said in LEARNED.items()
    ]
    return table(["picks by", *SETS.values()], rows)


def losses() -> str:
    """Where another method is ahead of the call without options by two standard errors."""
    sets = read("benchmarks/results/defaults.json")["on confirming sets"]["datasets"]
    rows = [
        [said, setting, LEARNED[method], f"{-lead:.1f} ± {error:.1f}"]
        for name, said in SETS.items()
        for setting, leads in sets[name]["by setting"].items()
        for method, (lead, error) in leads.items()
        if method in LEARNED and lead < -2 * error and -lead >= 1
    ]
    return table(["data", "targets", "method", "points ahead of the call"], rows)


def networks() -> str:
    with open(ROOT / "results" / "nn-cifar100" / "seeds.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    rows = []
    for name, said in CIFAR.items():
        cells = [said]
        for labels in LABELS:
            found = [
                float(run["accuracy"])
                for run in runs
                if run["configuration"] == f"cifar100-head/{name}" and run["labels"] == str(labels)
            ]
            error = stdev(found) / len(found) ** 0.5
            cells.append(f"{mean(found):.3f} ± {error:.3f}")
        rows.append(cells)
    return table(["labels chosen by", *(f"{labels:,} labels" for labels in LABELS)], rows)


def beside_others() -> str:
    rows = []
    for row in read("benchmarks/results/peers.json")["rows"]:
        ours = row["library"] == "tellmost"
        name = "**Tellmost**" if ours else f"{row['library']} {row['version']}"
        mode = row["mode"] + ", exact" if ours else MODES[row["mode"]]
        taken = seconds(row["seconds"]) + (
            ", from four picks" if row.get("is_extrapolated") else ""
        )
        left = f"{row['left']:.3f}" if row["left"] else ""
        rows.append([name, mode, f"{row['n']:,}", taken, left])
    return table(["library", "computes", "rows", "100 picks", "variance left"], rows)


def against_the_machine() -> str:
    limit, million = (read(f"benchmarks/results/{name}.json") for name in ("limit", "million"))
    gpu = read("benchmarks/results/gpu.json")
    size = "{n:,} x {d:,}".format
    rows = [
        ["two CPU cores", size(**limit["size"]), rule, seconds(took["median"]),
         f"{took['over_limit']:.2f} of the products `V @ X.T`"]
        for rule, took in limit["rules"].items()
    ]  # fmt: skip
    rows += [
        ["two CPU cores", size(**million["size"]), rule, seconds(took["seconds"]),
         f"{took['beyond_pool_mb']:.0f} MB beyond the pool"]
        for rule, took in million["rules"].items()
    ]  # fmt: skip
    rows += [
        [gpu["gpu"], size(**run), run["rule"], f"{run['milliseconds']['median']:.0f} ms",
         f"{run['reads_per_pick']:.2f} of reading the pool once a pick"]
        for run in gpu["selections"]
        if run["kernel"] == "linear" and run["pool"] == "clustered" and run["k"] == 100
    ]  # fmt: skip
    return table(["machine", "pool", "rule", "100 picks", "against the limit"], rows)


def per_query() -> str:
    took = read("benchmarks/results/retrieval.json")["seconds_per_query"]
    return table(
        ["50 rows of 14,744 for a query", "milliseconds"],
        [[said, f"{1000 * took[name]:.2g}"] for name, said in ANSWERS.items()],
    )


def safe_asks() -> str:
    rows = [
        [f"{ask['points']:,}", ask["observed"], ask["kernels"]]
        + [f"{1000 * ask[who]['seconds_per_ask']:.1f}" for who in ("vtl", "itl", "safeopt")]
        for ask in read("benchmarks/results/safe_optimizer.json")["asks"]
    ]
    return table(
        ["points", "observed", "kernels of outputs", "VTL", "ITL", "safeopt 0.16, heuristic"],
        rows,
    )


TEXT = """# Results

This page is made from the files of results by `docs/site/results.py`. It shows our numbers
beside those of other methods and of the machine's limits, and it shows where we lose.

## What the picks teach

Mean accuracy of four learners over seven settings and 10 to 1,000 picks, on data that had no
say in any default ([how it was measured](defaults.md)):

{teaching}

Here another method is ahead of the call without options by at least one point and two standard
errors:

{losses}

## Labels for a network

Accuracy on ten classes of CIFAR-100, of which the pool has all hundred. The last layer of a
pre-trained EfficientNet-Lite0 is trained on the labels chosen; ten seeds ([all
experiments](network-experiments.md)):

{networks}

## Time beside other libraries

100 picks for 100 targets from rows of 256 features on two CPU cores. *Variance left* is the
mean variance of the targets after the picks, from 1 before them. Smaller is better
([more](speed.md)).

{beside_others}

## Time against the machine

{against_the_machine}

## Many queries

{per_query}

The picks are those of `tm.select`; activeft picks rows several times ([more](retrieval.md)).

## Asking safely

Milliseconds for one `ask` on one thread ([more](speed.md)). The `safeopt` package stops at the
first expander that it finds.

{safe_asks}

## Every experiment
"""

FILES = """
```{toctree}
:glob:
:maxdepth: 1

../results/*/README
../benchmarks/README
../benchmarks/*/README
```
"""


def page() -> str:
    parts = [teaching, losses, networks, beside_others, against_the_machine, per_query, safe_asks]
    return TEXT.format(**{part.__name__: part() for part in parts}) + FILES


if __name__ == "__main__":
    PAGE.write_text(page())
