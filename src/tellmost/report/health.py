"""The state of the pool, and how much the picks depend on the noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.health import Health, facts_about
from tellmost.report.baselines import BLIND_TO_NOISE, pick_again
from tellmost.report.curves import RETRACED
from tellmost.report.markup import percent
from tellmost.selecting.replay import Recalled

NOISE_FACTORS = {0.1: "a tenth of the noise", 10.0: "ten times the noise"}


@dataclass(frozen=True)
class Overlap:
    """Which share of the picks stays at other noise; or why that is not known."""

    shares: dict[float, float]
    picks: int
    is_without_limits: bool
    obstacle: str | None


def measure_overlap(recalled: Recalled) -> Overlap:
    """Select again at a tenth and at ten times the noise.

    With limits of cost or groups, which are not kept, all three selections are made without.
    """
    chosen = recalled.chosen
    obstacle = _obstacle(recalled)
    k, is_limited = min(len(chosen), RETRACED), bool(chosen.settings["limits"])
    if obstacle is not None:
        return Overlap({}, k, is_limited, obstacle)
    rule = chosen.rule
    assert rule is not None  # else there is an obstacle
    own = pick_again(recalled, rule, k) if is_limited else chosen.indices[:k]
    shares = {}
    for factor in NOISE_FACTORS:
        others = pick_again(recalled, rule, k, noise_factor=factor)
        shares[factor] = len(np.intersect1d(own, others)) / len(np.unique(own))
    return Overlap(shares, k, is_limited, None)


def _obstacle(recalled: Recalled) -> str | None:
    rule = recalled.chosen.settings["rule"]
    if len(recalled.chosen) == 0:
        return "nothing was picked"
    if rule in BLIND_TO_NOISE:
        return f"the picks of {rule} do not depend on the noise"
    if recalled.chosen.rule is None:
        return f"the rule {rule} is not one of Tellmost's, and only its name is kept"
    return recalled.obstacle


def describe_overlap(overlap: Overlap) -> Iterator[tuple[str, str]]:
    if overlap.obstacle is not None:
        yield "other noise", f"Not compared: {overlap.obstacle}."
        return
    for factor, name in NOISE_FACTORS.items():
        yield f"at {name}", f"{percent(overlap.shares[factor])} of the picks stay"


def explain_overlap(overlap: Overlap) -> str:
    if overlap.obstacle is not None:
        return ""
    limits = " All three selections are made without the limits." * overlap.is_without_limits
    return (
        f"Overlap of the first {overlap.picks:,} picks: the closer to 100%, the less depends on "
        f"the choice of the noise.{limits}"
    )


def describe_health(health: Health | None) -> Iterator[tuple[str, str]]:
    if health is None:
        yield "pool", "Row numbers of a precomputed kernel: there are no rows to examine."
        return
    yield from facts_about(health)
