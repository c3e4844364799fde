"""The panel of health: the state of the pool, and how much the picks depend on the noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellmost.evaluation.health import Health
from tellmost.report.curves import RETRACED, pick_again
from tellmost.report.markup import percent, write_facts, write_list, write_section, write_small
from tellmost.selecting.replay import Recalled

BLIND_TO_NOISE = frozenset({"random", "cosine", "top-k", "mmr", "k-center", "k-means++"})
"""These rules look at similarities or distances alone, so other noise would change no pick."""

NOISE_FACTORS = {0.1: "a tenth of the noise", 10.0: "ten times the noise"}


@dataclass(frozen=True)
class Overlap:
    """The share of the picks that stays with other noise, or the reason why it is not known."""

    shares: dict[float, float]
    picks: int
    is_without_limits: bool
    obstacle: str | None

    def facts(self) -> Iterator[tuple[str, str]]:
        if self.obstacle is not None:
            yield "other noise", f"Not compared: {self.obstacle}."
        for factor, share in self.shares.items():
            yield f"at {NOISE_FACTORS[factor]}", f"{percent(share)} of the picks stay"

    def explain(self) -> str:
        if self.obstacle is not None:
            return ""
        limits = " All three selections are made without the limits." * self.is_without_limits
        return (
            f"Overlap of the first {self.picks:,} picks: the closer to 100%, the less depends on "
            f"the choice of the noise.{limits}"
        )


def measure_overlap(recalled: Recalled) -> Overlap:
    """Select again with a tenth of the noise and with ten times the noise.

    Limits of cost or groups are not kept, so then all three selections are made without them.
    """
    chosen, obstacle = recalled.chosen, _obstacle(recalled)
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


def write_health(health: Health | None, overlap: Overlap) -> str:
    nothing = [("pool", "Row numbers of a precomputed kernel: there are no rows to examine.")]
    facts = nothing if health is None else health.facts()
    remarks = [] if health is None else health.remarks
    inner = write_list(remark[0].upper() + remark[1:] for remark in remarks)
    notes = f'<div class="notes">{inner}</div>' if remarks else ""
    body = write_facts([*facts, *overlap.facts()]) + write_small(overlap.explain()) + notes
    return write_section("health", "Health of the pool", body)
