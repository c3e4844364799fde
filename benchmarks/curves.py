"""How does the cost grow with n, m, k and d? One curve each, and the Gaussian kernel against n."""

import argparse
import json
import warnings

import tellmost as tm
from setting import NOISE_STD, RESULTS, clustered, save, seconds

RULES = ("itl", "vtl", "ctl")
BASE = {"n": 40_000, "d": 256, "m": 100, "k": 40}
SWEEPS = {
    "n": (5_000, 10_000, 20_000, 40_000, 80_000, 160_000),
    "d": (64, 128, 256, 512, 1_024),
    "m": (1, 10, 100, 1_000, 10_000),
    "k": (10, 20, 40, 80, 160),
}
GAUSSIAN = {"n": (6_250, 12_500, 25_000, 50_000, 100_000), "d": 16, "m": 100, "k": 40}


def point(n: int, d: int, m: int, k: int, rule: str, kernel: object = "linear") -> dict:
    """Seconds in all, and for the set-up alone, which one pick shows."""
    pool, targets = clustered(n, d, m)

    def run(picks: int) -> tm.Selection:
        return tm.select(pool, targets, picks, rule=rule, kernel=kernel, noise_std=NOISE_STD)

    whole, first = seconds(lambda: run(k), 3), seconds(lambda: run(1), 3)
    each = (whole["median"] - first["median"]) / (k - 1)
    return {"seconds": whole["median"], "set_up": first["median"], "per_pick": each}


def sweep(name: str, values: tuple[int, ...], rule: str) -> list[dict]:
    rows = []
    for value in values:
        rows.append({name: value, **point(**{**BASE, name: value}, rule=rule)})
        print(rule, rows[-1], flush=True)
    return rows


def main() -> dict:
    linear = {
        name: {rule: sweep(name, values, rule) for rule in RULES}
        for name, values in SWEEPS.items()
    }
    kernel = tm.kernels.Gaussian(1.0)
    size = {key: GAUSSIAN[key] for key in ("d", "m", "k")}
    gaussian = {
        rule: [{"n": n, **point(n, **size, rule=rule, kernel=kernel)} for n in GAUSSIAN["n"]]
        for rule in RULES
    }
    return {"base": BASE, "linear": linear, "gaussian": {"size": size, "rules": gaussian}}


def plot() -> None:
    """Seconds against each size on logarithmic axes; a straight line of slope one is linear."""
    from matplotlib.figure import Figure

    result = json.loads((RESULTS / "curves.json").read_text())
    panels = [(name, rows, "linear kernel") for name, rows in result["linear"].items()]
    panels.append(("n", result["gaussian"]["rules"], "Gaussian kernel, d = 16"))
    figure = Figure(figsize=(15, 3.4), layout="constrained")
    for axes, (name, by_rule, title) in zip(figure.subplots(1, 5), panels, strict=True):
        for rule, rows in by_rule.items():
            sizes = [row[name] for row in rows]
            key = "seconds" if name == "k" else "per_pick"
            axes.loglog(sizes, [row[key] for row in rows], "o-", label=rule, markersize=4)
        if name != "m":  # flat: there is nothing to be proportional to
            slope_one(axes, sizes, [row[key] for row in rows])
        else:
            axes.set_ylim(1e-4, 1e-1)
        axes.set(xlabel=name, title=title, ylabel="seconds" if name == "k" else "seconds per pick")
    figure.axes[0].legend(frameon=False)
    figure.savefig(RESULTS / "curves.svg")


def slope_one(axes, sizes: list[int], values: list[float]) -> None:
    guide = [values[-1] * size / sizes[-1] for size in sizes]
    axes.loglog(sizes, guide, color="0.7", linestyle=":", zorder=0, label="proportional")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smoke", action="store_true", help="one small point, to see that it runs"
    )
    parser.add_argument("--plot", action="store_true", help="only draw what was measured")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.smoke:
        print(point(1_000, 16, 5, 4, "vtl"))
    else:
        if not options.plot:
            save("curves", main())
        plot()
