"""Figure 2: the first picks of ITL, for both kernels and both places of the targets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tellmost.shapes import Int
from tellmost_reproduction.gp.methods import METHODS, Method
from tellmost_reproduction.gp.picking import pick_by
from tellmost_reproduction.gp.settings import Setting, Size, settings
from tellmost_reproduction.verdicts import Verdict, conclude, percent

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
