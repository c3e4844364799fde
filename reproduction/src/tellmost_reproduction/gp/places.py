"""Claims about where ITL looks, and what that leaves unknown."""

from tellmost_reproduction.gp.curves import Curves
from tellmost_reproduction.gp.levels import irreducible, local_level
from tellmost_reproduction.gp.orders import OURS, RIVALS
from tellmost_reproduction.verdicts import Verdict, conclude, percent

FIRST = 25  # picks that the paper's figure 2 shows


def stay_inside(curves: Curves, figure3: Curves) -> Verdict:
    shares = [curves.share("itl", curves.setting.is_target, first) for first in (FIRST, None)]
    return Verdict(
        "ITL does not leave A",
        conclude([share == 1.0 for share in shares]),
        f"{percent(shares[0])} of the first {FIRST} picks and {percent(shares[1])} of all "
        f"{curves.size.rounds} are in A",
    )


def leak(curves: Curves, figure3: Curves) -> Verdict:
    outside = ~curves.setting.is_target
    shares = [curves.share("itl", outside, first) for first in (FIRST, None)]
    return Verdict(
        'Information "leaks": ITL picks points outside A',
        conclude([share > 0 for share in shares]),
        f"{percent(shares[0])} of the first {FIRST} picks and {percent(shares[1])} of all "
        f"{curves.size.rounds} are outside A",
    )


def local_misses(curves: Curves, figure3: Curves) -> Verdict:
    floor, limit = (float(sd(curves.setting).mean()) for sd in (irreducible, local_level))
    after = {key: curves.mean("mean_sd", key)[-1] for key in ("local-uncertainty", *OURS)}
    reached = ", ".join(f"{curves.label(key)} {value:.4g}" for key, value in after.items())
    return Verdict(
        "Local UnSa does not reach the irreducible level",
        conclude([limit > floor]),
        f"mean sd given all of S {floor:.4g}, given all of A in S {limit:.4g} "
        f"({limit / floor:.2f} times as much); after {curves.size.rounds} observations {reached}",
    )


def avoid_noise(curves: Curves, figure3: Curves) -> Verdict:
    loud = curves.setting.noise_std > curves.setting.noise_std.min()
    shares = {key: curves.share(key, loud) for key in ("itl", "vtl", *RIVALS, "ctl")}
    before, after = (c.area("mean_sd", "itl") for c in (figure3, curves))
    others = [c.area("mean_sd", "uncertainty") for c in (figure3, curves)]
    return Verdict(
        "ITL avoids the noisy square, which speeds learning up",
        conclude([shares["itl"] == 0.0, after / before < others[1] / others[0]]),
        "share of picks there: "
        + ", ".join(f"{curves.label(k)} {percent(s)}" for k, s in shares.items())
        + f"; with equal noise ITL {percent(figure3.share('itl', loud))}. The noise takes ITL's "
        f"mean sd from {before:.4g} to {after:.4g}, that of UnSa from {others[0]:.4g} to "
        f"{others[1]:.4g}",
    )
