"""Tell what the runs found: tables on stdout, the figure, and the numbers behind both as JSON.

A score is the mean over learners; an error of a table counts as its negative, so that larger is
better everywhere. Differences are paired, in points (hundredths), and clustered by seed.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from tasks import TABLES

HERE = Path(__file__).parent
RIVALS = ("MMR 0.3", "MMR 0.5", "MMR 0.7", "FLQMI", "in turn", "nearest", "k-centre", "random")
SHOWN = ("MMR 0.5", "FLQMI", "nearest", "random")


class Scores:
    """The score of every method in every case (dataset, setting, seed) and number of picks."""

    def __init__(self, path: Path) -> None:
        self.of: dict[tuple, dict[int, dict[str, float]]] = {}
        for line in path.read_text().splitlines():
            found = json.loads(line)
            sign = -1.0 if found["dataset"] in TABLES else 1.0
            self.of[found["dataset"], found["setting"], found["seed"]] = {
                int(k): dict(
                    zip(found["methods"], sign * np.mean(list(by.values()), axis=0), strict=True)
                )
                for k, by in found["scores"].items()
            }

    def datasets(self) -> list[str]:
        return list(dict.fromkeys(dataset for dataset, _, _ in self.of))

    def settings(self, dataset: str) -> list[str]:
        return list(dict.fromkeys(setting for d, setting, _ in self.of if d == dataset))

    def budgets(self, dataset: str) -> list[int]:
        return sorted({k for (d, _, _), by in self.of.items() if d == dataset for k in by})

    def mean(self, method: str, dataset: str, setting=None, k=None) -> float:
        values = self._values(lambda by: by[method], dataset, setting, k)
        return float(np.mean([np.mean(of) for of in values.values()]))

    def difference(self, ours: str, other: str, dataset: str, setting=None, k=None):
        """Points by which ours is ahead, and the standard error, clustered by seed."""
        values = self._values(lambda by: by[ours] - by[other], dataset, setting, k)
        seeds = np.array([np.mean(of) for of in values.values()])
        return 100 * seeds.mean(), 100 * seeds.std(ddof=1) / len(seeds) ** 0.5

    def _values(self, value, dataset, setting, k) -> dict[int, list[float]]:
        found = defaultdict(list)
        for (d, s, seed), by_budget in self.of.items():
            if d == dataset and setting in (None, s):
                found[seed] += [value(by) for b, by in by_budget.items() if k in (None, b)]
        return found


CHOSEN = 0.1  # the noise ratio that is the default since the choosing runs


def ours_on(dataset: str, *, is_choosing: bool) -> str:
    """The call that is judged: without options, or for tables with kernel="gaussian".

    When the choosing runs were made, the default ratio was another one.
    """
    if is_choosing:
        return f"{'gaussian' if dataset in TABLES else 'examples'} {CHOSEN}"
    return "gaussian" if dataset in TABLES else "default"


def tell_choosing(scores: Scores) -> dict:
    """The mean score of each method on embeddings: each dataset counts the same."""
    embeddings = [d for d in scores.datasets() if d not in TABLES]
    table: dict[str, dict] = {}
    for method in next(iter(next(iter(scores.of.values())).values())):
        by_dataset = {d: scores.mean(method, d) for d in embeddings}
        table[method] = {"mean": float(np.mean(list(by_dataset.values()))), **by_dataset}
        for k in sorted({k for d in embeddings for k in scores.budgets(d)}):
            has = [d for d in embeddings if k in scores.budgets(d)]
            table[method][f"k={k}"] = float(np.mean([scores.mean(method, d, k=k) for d in has]))
    print_table("Embeddings, choosing", table)
    for d in scores.datasets():
        if d in TABLES:
            names = next(iter(next(v for key, v in scores.of.items() if key[0] == d).values()))
            table[d] = {m: {"mean": -scores.mean(m, d)} for m in names}
            print_table(f"{d}: error over the spread", table[d])
    return table


def tell_judged(scores: Scores, *, is_choosing: bool) -> dict:
    """By how many points our call is ahead of each rival: by dataset, setting and picks."""
    told: dict = {"datasets": {}, "overall": {}}
    for d in scores.datasets():
        ours = ours_on(d, is_choosing=is_choosing)
        rivals = [*RIVALS, "paper"]
        if d in TABLES and not is_choosing:
            rivals.append("default")
        told["datasets"][d] = {
            "mean": {m: scores.mean(m, d) for m in [ours, *rivals]},
            "ahead": {m: scores.difference(ours, m, d) for m in rivals},
            "by setting": {
                s: {m: scores.difference(ours, m, d, setting=s) for m in rivals}
                for s in scores.settings(d)
            },
            "by picks": {
                k: {m: scores.difference(ours, m, d, k=k) for m in rivals}
                for k in scores.budgets(d)
            },
        }
        ahead = told["datasets"][d]["ahead"]
        print_table(
            f"{d}: points ahead", {m: {"ahead": a, "se": e} for m, (a, e) in ahead.items()}
        )
    for kind, group in {
        "embeddings": [d for d in scores.datasets() if d not in TABLES],
        "tables": [d for d in scores.datasets() if d in TABLES],
    }.items():
        if not group:
            continue
        ahead = {m: [told["datasets"][d]["ahead"][m] for d in group] for m in [*RIVALS, "paper"]}
        told["overall"][kind] = {
            m: (
                float(np.mean([a for a, _ in pairs])),
                float(np.sum([e**2 for _, e in pairs]) ** 0.5 / len(pairs)),
            )
            for m, pairs in ahead.items()
        }
        print_table(
            kind, {m: {"ahead": a, "se": e} for m, (a, e) in told["overall"][kind].items()}
        )
    return told


def print_table(title: str, table: dict[str, dict]) -> None:
    columns = list(next(iter(table.values())))
    print(f"\n{title}\n{'':16}" + "".join(f"{c:>13}" for c in columns))
    for name, values in table.items():
        print(f"{name:16}" + "".join(f"{values[c]:13.3f}" for c in columns if c in values))


def print_markdown(told: dict) -> None:
    """The page's table: a row for each rival, a column for each data set and their mean."""
    columns = {**{d: one["ahead"] for d, one in told["datasets"].items()}, **told["overall"]}
    print("\n| ahead of | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for rival in (*RIVALS, "paper", "default"):
        cells = [
            f"{a[0]:.1f} ± {a[1]:.1f}" if (a := c.get(rival)) else "" for c in columns.values()
        ]
        print(f"| {rival} | " + " | ".join(cells) + " |")


def draw(told: dict, path: Path) -> None:
    """One row for each dataset and setting: how far our call is ahead of four rivals."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "defaults"
    datasets = sorted(told["datasets"], key=lambda d: d in TABLES)
    rows = [(d, s) for d in datasets for s in told["datasets"][d]["by setting"]]
    figure, axes = plt.subplots(1, len(SHOWN), figsize=(11, 0.24 * len(rows) + 1.2), sharey=True)
    for axis, rival in zip(axes, SHOWN, strict=True):
        for y, (d, s) in enumerate(rows):
            ahead, error = told["datasets"][d]["by setting"][s][rival]
            colour = (
                "tab:green" if ahead > 2 * error else "tab:red" if ahead < -2 * error else "0.5"
            )
            axis.errorbar(ahead, y, xerr=2 * error, fmt="o", color=colour, ms=3.5, lw=1)
        axis.axvline(0, color="0.2", lw=0.8)
        axis.set_title(f"ahead of {rival}", fontsize=9)
        axis.tick_params(labelsize=7)
        axis.set_xlabel("points", fontsize=8)
        axis.grid(axis="x", lw=0.3)
    axes[0].set_yticks(range(len(rows)), [f"{d}: {s}" for d, s in rows])
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("choosing", type=Path)
    parser.add_argument("confirming", type=Path)
    parser.add_argument("--machine", default="not named")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "defaults.json")
    parser.add_argument("--figure", type=Path, default=HERE.parents[1] / "docs" / "defaults.svg")
    given = parser.parse_args()
    choosing, confirming = Scores(given.choosing), Scores(given.confirming)
    found = {
        "machine": given.machine,
        "choosing": tell_choosing(choosing),
        "on choosing sets": tell_judged(choosing, is_choosing=True),
        "on confirming sets": tell_judged(confirming, is_choosing=False),
    }
    given.out.write_text(json.dumps(rounded(found), indent=1) + "\n")
    draw(found["on confirming sets"], given.figure)
    print_markdown(found["on confirming sets"])


def rounded(value):
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return round(float(value), 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
