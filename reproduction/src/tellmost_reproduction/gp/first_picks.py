"""Figure 2: the first picks of ITL, for both kernels and both places of the targets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tellmost.numerics import RANK_TOLERANCE
from tellmost.shapes import Int
from tellmost_reproduction.frame.drawing import GREY, make_figure
from tellmost_reproduction.frame.folders import write_table
from tellmost_reproduction.frame.numbers import Numbers, Series
from tellmost_reproduction.frame.pages import in_paragraphs
from tellmost_reproduction.frame.verdicts import Verdict, conclude, percent, tabulate_verdicts
from tellmost_reproduction.gp.claims import FIRST
from tellmost_reproduction.gp.curves import pick_by
from tellmost_reproduction.gp.measures import measure
from tellmost_reproduction.gp.methods import METHODS, Method
from tellmost_reproduction.gp.page import about_expected, begin, joined
from tellmost_reproduction.gp.settings import NOISE_STD, Setting, Size, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "gp-fig2", "the first picks of ITL"
SHOWN = ("gp-fig3", "gp-extrapolation", "gp-laplace", "gp-extrapolation-laplace")
OUTSIDE = SHOWN[1::2]
COLORS = ("#ffffff", "#e3e3e3", "#c6dff0", "#8fc1e3")  # neither, S, A, both
ONCE, AGAIN = "#8c2d04", "#000000"
SIDE = 4.3  # inches of a panel


@dataclass(frozen=True)
class FirstPicks:
    """The first picks of each method in each setting, by the keys of both."""

    settings: dict[str, Setting]
    methods: tuple[Method, ...]
    picks: dict[str, dict[str, Int[np.ndarray, " t"]]]

    @property
    def count(self) -> int:
        return len(self.picks["itl"]["gp-fig3"])

    def outside(self, method: str, setting: str) -> float:
        """The share of picks that are no targets."""
        is_target = self.settings[setting].is_target
        return float(1.0 - is_target[self.picks[method][setting]].mean())


def make_first_picks(size: Size, own: Sequence[Method] = ()) -> FirstPicks:
    """Pick by ITL, by local uncertainty sampling to compare with, and by the user's rules."""
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
    return FirstPicks(shown, methods, picks)


def judge_first_picks(first: FirstPicks) -> list[Verdict]:
    smooth, rough = first.outside("itl", "gp-fig3"), first.outside("itl", "gp-laplace")
    one, other = (first.picks[key]["gp-laplace"] for key in ("itl", "local-uncertainty"))
    same = int((one == other).sum())
    shares = [first.outside("itl", name) for name in OUTSIDE]
    return [
        Verdict(
            "Gaussian kernel, A inside S: ITL also picks outside A",
            conclude([smooth > 0]),
            f"{percent(smooth)} of the first {first.count} picks are outside A",
        ),
        Verdict(
            "Laplace kernel, A inside S: ITL does not leave A, and equals local UnSa",
            conclude([rough == 0, same == len(one)]),
            f"{percent(rough)} of the first {len(one)} picks are outside A; {same} of them are "
            f"those of local UnSa",
        ),
        Verdict(
            'A not inside S: information "leaks" under either kernel',
            conclude([share > 0 for share in shares]),
            f"of the first {first.count} picks {percent(shares[0])} (Gaussian) and "
            f"{percent(shares[1])} (Laplace) are outside A",
        ),
    ]


def numbers_of(first: FirstPicks) -> Numbers:
    """What the last pick leaves, and the share outside A. Mirrored picks have the same numbers."""
    methods: dict[str, dict[str, Series]] = {}
    for key, by_setting in first.picks.items():
        found = methods.setdefault(key, {})
        for name, picks in by_setting.items():
            known = measure(first.settings[name], picks, range(1))
            found[f"{name}: share outside A"] = Series([first.outside(key, name)], None)
            found[f"{name}: information"] = Series.of(known.information[-1:], None)
            found[f"{name}: mean_sd"] = Series.of(known.mean_sd[-1:], None)
    return Numbers([first.count], methods)


def keep_picks(first: FirstPicks, path: Path) -> None:
    rows = (
        [setting, key, joined(picks)]
        for key, by_setting in first.picks.items()
        for setting, picks in by_setting.items()
    )
    write_table(path, ["setting", "method", "picks"], rows)


def write_page(
    first: FirstPicks,
    verdicts: Sequence[Verdict],
    *,
    size: Size,
    seconds: float,
    own: Sequence[str],
) -> str:
    random = " and ".join(method.label for method in first.methods if method.is_random)
    drawn = f"; those of {random} are drawn, and shown for the seed that the rule has"
    outside = first.settings["gp-extrapolation"]
    return in_paragraphs(
        [
            *begin(NAME, TITLE, verdicts, size, seconds, own),
            f"**Set-up.** The first {first.count} picks of ITL under the Gaussian kernel "
            f"(lengthscale 1) and the Laplace kernel (lengthscale 10), with A inside S and with A "
            f"mostly outside; noise sd {NOISE_STD}. K_AA is inverted up to {RANK_TOLERANCE:.0e} "
            f"of its largest eigenvalue. The picks do not depend on y"
            f"{drawn if random else ', so they are the same for every seed'}. Where A is mostly "
            f"outside, {int(outside.is_target.sum())} of its {len(outside.targets)} points are in "
            f"S, although the paper calls them disjoint.",
            "**Result.**",
            tabulate_verdicts(verdicts),
            "![Where ITL picks first](figure.svg)",
            "`picks.csv`: the numbers of the points in S, in the order picked, with those of "
            f"local UnSa. {about_expected(size)}",
        ]
    )


def draw_first_picks(first: FirstPicks) -> "Figure":
    """Two by two panels for each method: a row per kernel, a column per place of the targets."""
    shown = [method for method in first.methods if method.key == "itl" or method.is_own]
    figure = make_figure(2 * SIDE, (2 * SIDE + 0.4) * len(shown))
    grid = figure.subplots(2 * len(shown), 2, squeeze=False)
    for number, method in enumerate(shown):
        panels = grid[2 * number : 2 * number + 2].flat
        for axes, name in zip(panels, SHOWN, strict=True):
            _draw_setting(axes, first.settings[name])
            _draw_picks(axes, first, method, name)
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


def _draw_picks(axes: "Axes", first: FirstPicks, method: Method, name: str) -> None:
    setting = first.settings[name]
    if name not in first.picks[method.key]:
        axes.set_title(f"{method.label}: {setting.title}\nnot defined here", fontsize=9)
        return
    picks = first.picks[method.key][name].tolist()
    times = Counter(picks)
    for pick in times:
        x, y = setting.pool[pick]
        axes.scatter(x, y, s=56, color=ONCE if times[pick] == 1 else AGAIN, linewidths=0)
        number = str(picks.index(pick) + 1)
        axes.text(x, y, number, color="white", ha="center", va="center_baseline", fontsize=5.5)
    outside = 100 * first.outside(method.key, name)
    axes.set_title(
        f"{method.label}: {setting.title}\n{outside:.0f}% of {len(picks)} picks outside A",
        fontsize=9,
    )
