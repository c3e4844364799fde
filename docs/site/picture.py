"""Draw the picture of the front page: what three ways to choose leave unknown.

``python docs/site/picture.py`` writes docs/front.svg. The numbers in it are those of the calls.
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "tellmost", "svg.fonttype": "path"})

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

import tellmost as tm  # noqa: E402

TITLES = {"random": "random", "cosine": "nearest neighbours", "vtl": "Tellmost"}
GREY, BLUE, RED = "#c3c9d0", "#2563c9", "#d4502a"


def scene() -> tuple[np.ndarray, np.ndarray]:
    """A pool with a crowded corner, and targets in three places."""
    rng = np.random.default_rng(4)
    crowd = rng.normal([2.2, 2.4], 0.35, size=(80, 2))
    pool = np.vstack([rng.uniform(0, 10, size=(240, 2)), crowd])
    centres = np.array([[2.4, 2.2], [6.8, 3.2], [4.6, 7.4]])
    targets = np.vstack([rng.normal(centre, 0.6, size=(12, 2)) for centre in centres])
    return pool, targets


def draw(path: Path, k: int = 12) -> None:
    pool, targets = scene()
    kernel = tm.kernels.Gaussian(lengthscale=1.2)
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.6))
    for axis, (rule, title) in zip(axes, TITLES.items(), strict=True):
        chosen = tm.select(pool, targets, k, rule=rule, kernel=kernel, noise_std=0.2)
        axis.plot(*pool.T, "o", ms=2.2, color=GREY, mew=0)
        axis.plot(*targets.T, "+", ms=5.5, color=RED, mew=1.1)
        axis.plot(*pool[chosen.indices].T, "o", ms=6.5, color=BLUE, mec="white")
        left = chosen.uncertainty[-1] / chosen.uncertainty[0]
        axis.set_title(f"{title}: {left:.0%} still unknown", fontsize=10.5)
        axis.set(xticks=[], yticks=[], xlim=(-0.3, 10.3), ylim=(-0.3, 10.3), aspect="equal")
    figure.legend(
        handles=[
            plt.Line2D([], [], color=GREY, marker="o", ls="", ms=4, label="pool"),
            plt.Line2D([], [], color=RED, marker="+", ls="", label="targets"),
            plt.Line2D([], [], color=BLUE, marker="o", ls="", label=f"{k} picks"),
        ],
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=9.5,
    )
    figure.tight_layout(rect=(0, 0.07, 1, 0.99))
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "front.svg")
