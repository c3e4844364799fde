"""Figure 2: the first picks of ITL, for both kernels and both places of the targets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellmost.shapes import Int
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.verdicts import Verdict, conclude, percent
from tellmost_reproduction.gp.curves import pick_by
from tellmost_reproduction.gp.figures import GREY
from tellmost_reproduction.gp.methods import METHODS, Method
from tellmost_reproduction.gp.settings import Setting, Size, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FIRST = 25
SHOWN = ("gp-fig3", "gp-extrapolation", "gp-laplace", "gp-extrapolation-laplace")
INSIDE, OUTSIDE = SHOWN[0::2], SHOWN[1::2]


@dataclass(frozen=True)
class Samples:
    """The first picks of each method in each setting, by the keys of both."""

    settings: dict[str, Setting]
    methods: tuple[Method, ...]
    picks: dict[str, dict[str, Int[np.ndarray, " t"]]]

    def outside(self, method: str, setting: str) -> float:
        """The share of picks that are no targets."""
        is_target = self.settings[setting].is_target
        return float(1.0 - is_target[self.picks[method][setting]].mean())


def draw_samples(size: Size, own: Sequence[Method] = ()) -> Samples:
    """ITL's, local uncertainty sampling's to compare them with, and those of the user's rules."""
    shown = {name: settings(size.side)[name] for name in SHOWN}
    methods = (*(m for m in METHODS if m.key in ("itl", "local-uncertainty")), *own)
    picks = {
        method.key: {
            name: pick_by(method, setting, min(FIRST, size.rounds))
            for name, setting in shown.items()
            if method.applies(setting)
        }
        for method in methods
    }
    return Samples(shown, methods, picks)


def judge_samples(samples: Samples) -> list[Verdict]:
    return [_smooth(samples), _rough(samples), _leaking(samples)]


def _smooth(samples: Samples) -> Verdict:
    outside = samples.outside("itl", "gp-fig3")
    return Verdict(
        "Gaussian kernel, A inside S: ITL also picks outside A",
        conclude([outside > 0]),
        f"{percent(outside)} of the first {_count(samples)} picks are outside A",
    )


def _rough(samples: Samples) -> Verdict:
    outside = samples.outside("itl", "gp-laplace")
    one, other = (samples.picks[key]["gp-laplace"] for key in ("itl", "local-uncertainty"))
    same = int((one == other).sum())
    return Verdict(
        "Laplace kernel, A inside S: ITL does not leave A, and equals local UnSa",
        conclude([outside == 0, same == len(one)]),
        f"{percent(outside)} of the first {len(one)} picks are outside A; {same} of them are "
        f"those of local UnSa",
    )


def _leaking(samples: Samples) -> Verdict:
    shares = [samples.outside("itl", name) for name in OUTSIDE]
    return Verdict(
        'A not inside S: information "leaks" under either kernel',
        conclude([share > 0 for share in shares]),
        f"of the first {_count(samples)} picks {percent(shares[0])} (Gaussian) and "
        f"{percent(shares[1])} (Laplace) are outside A",
    )


def _count(samples: Samples) -> int:
    return len(samples.picks["itl"]["gp-fig3"])


COLORS = ("#ffffff", "#e3e3e3", "#c6dff0", "#8fc1e3")  # neither, S, A, both
ONCE, AGAIN = "#8c2d04", "#000000"
SIDE = 4.3  # inches of a panel


def draw_samples_figure(samples: Samples) -> "Figure":
    """Two by two panels for each method: a row per kernel, a column per place of the targets."""
    shown = [method for method in samples.methods if method.key == "itl" or method.is_own]
    figure = make_figure(2 * SIDE, (2 * SIDE + 0.4) * len(shown))
    grid = figure.subplots(2 * len(shown), 2, squeeze=False)
    for number, method in enumerate(shown):
        panels = grid[2 * number : 2 * number + 2].flat
        for axes, name in zip(panels, SHOWN, strict=True):
            _draw_setting(axes, samples.settings[name])
            _draw_picks(axes, samples, method, name)
    figure.supxlabel(
        "grey: may be observed (S) · light blue: to be known (A) · blue: both · numbers: order of "
        "the picks, black if picked again",
        fontsize=9,
        color=GREY,
    )
    return figure


def _draw_setting(axes: "Axes", setting: Setting) -> None:
    from matplotlib.colors import ListedColormap

    kind = np.zeros(len(setting.domain))
    kind[setting.samples] += 1
    kind[setting.targets] += 2
    half = (setting.axis[1] - setting.axis[0]) / 2
    low, high = setting.axis[0] - half, setting.axis[-1] + half
    side = len(setting.axis)
    axes.imshow(
        kind.reshape(side, side).T,
        origin="lower",
        extent=(low, high, low, high),
        cmap=ListedColormap(list(COLORS)),
        vmin=0,
        vmax=3,
    )
    axes.set(xticks=(-3, 0, 3), yticks=(-3, 0, 3))
    axes.spines[:].set_visible(False)


def _draw_picks(axes: "Axes", samples: Samples, method: Method, name: str) -> None:
    setting = samples.settings[name]
    if name not in samples.picks[method.key]:
        axes.set_title(f"{method.label}: {setting.title}\nnot defined here", fontsize=9)
        return
    picks = samples.picks[method.key][name].tolist()
    times = Counter(picks)
    for pick in times:
        x, y = setting.pool[pick]
        axes.scatter(x, y, s=56, color=ONCE if times[pick] == 1 else AGAIN, linewidths=0)
        number = str(picks.index(pick) + 1)
        axes.text(x, y, number, color="white", ha="center", va="center_baseline", fontsize=5.5)
    outside = 100 * samples.outside(method.key, name)
    axes.set_title(
        f"{method.label}: {setting.title}\n{outside:.0f}% of {len(picks)} picks outside A",
        fontsize=9,
    )
