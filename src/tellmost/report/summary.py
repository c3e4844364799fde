"""The selection in words.

What was used, a line each.

The state of the pool, and how much the picks depend on the noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellmost.evaluation.health import Health
from tellmost.kernels import Linear
from tellmost.report.curves import (
    BLIND_TO_NOISE,
    RETRACED,
    Level,
    Stop,
    explain_stop,
    find_levels,
    name_uncertainty,
    pick_again,
)
from tellmost.report.markup import number, percent
from tellmost.selecting.replay import Recalled
from tellmost.selecting.selection import Selection

ROWS_IN_WORDS = {
    None: "Rows were used as given, not normalised.",
    "unit": "Rows were scaled to length 1.",
    "center": "The pool's mean was subtracted from every row.",
    "center+unit": "The pool's mean was subtracted from every row, and rows scaled to length 1.",
}
MEANING = {
    "whole pool": "every candidate observed once, with noise",
    "floor": "every candidate known exactly",
}


@dataclass(frozen=True)
class Card:
    """One number, its name, and how to take it."""

    name: str
    value: str
    remark: str


@dataclass(frozen=True)
class Summary:
    """Sentences and numbers, the most important first."""

    title: str
    sentences: list[str]
    cards: list[Card]
    notes: list[str]


def summarize(chosen: Selection, stop: Stop | None) -> Summary:
    levels = telling_levels(chosen)
    return Summary(
        title=f"{_count(len(chosen), 'pick')} by {chosen.settings['rule']}",
        sentences=[
            f"{_picked(chosen)} {_fallen(chosen)} {_compared(chosen, levels)}".strip(),
            explain_stop(stop, len(chosen)) if len(chosen) else "Nothing was picked.",
            _conditions(chosen),
        ],
        cards=list(_cards(chosen, levels, stop)),
        notes=chosen.settings["notes"],
    )


def telling_levels(chosen: Selection) -> list[Level]:
    """The whole pool, and the floor unless it is zero up to rounding."""
    return [level for level in find_levels(chosen) if level.remark != "uninformative"]


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _picked(chosen: Selection) -> str:
    used = chosen.settings
    m = used["targets"]
    aim = f" to learn about {_count(m, 'target')}" if m else ""
    return (
        f"Of {used['candidates']:,} candidates {len(chosen):,} were picked by {used['rule']}{aim}."
    )


def _fallen(chosen: Selection) -> str:
    before, after = chosen.uncertainty[[0, -1]]
    share = f", {percent(1 - after / before)} less" if before > 0 else ""
    name = name_uncertainty(chosen)
    return f"The {name} went from {number(before)} to {number(after)}{share}."


def _compared(chosen: Selection, levels: list[Level]) -> str:
    """What the picks bring of what the whole pool would."""
    before, after = chosen.uncertainty[[0, -1]]
    whole = next((level for level in levels if level.name == "whole pool"), None)
    if whole is None or whole.value >= before:
        return ""
    share = percent((before - after) / (before - whole.value))
    bound = "at most " if whole.remark else ""
    return (
        f"Observing the whole pool would leave {whole.text}: the picks bring {bound}{share} of "
        f"the fall that all candidates together would."
    )


def _conditions(chosen: Selection) -> str:
    used = chosen.settings
    meaning = " (inner products of the rows)" if used["kernel"] == repr(Linear()) else ""
    return (
        f"Noise variance {describe_noise(used)}; kernel {used['kernel']}{meaning}. "
        f"{ROWS_IN_WORDS[used['normalize']]}"
    )


def _cards(chosen: Selection, levels: list[Level], stop: Stop | None) -> Iterator[Card]:
    before, after = chosen.uncertainty[[0, -1]]
    less = f"{percent(1 - after / before)} less" if before > 0 else ""
    yield Card("picks", f"{len(chosen):,}", f"of {chosen.settings['candidates']:,} candidates")
    yield Card("uncertainty before", number(before), name_uncertainty(chosen))
    yield Card("uncertainty after", number(after), less)
    for level in levels:
        bound = f"{level.remark}; " if level.remark else ""
        yield Card(level.name, level.shown, bound + MEANING[level.name])
    if len(chosen):
        value = "none earlier" if stop is None else f"{stop.picks:,} picks"
        yield Card("suggested stop", value, "by marginal gain per pick")


def describe_settings(chosen: Selection) -> Iterator[tuple[str, str]]:
    """Names and values, of those that have one."""
    for name, value in _settings(chosen):
        if value is not None:
            yield name, str(value)


def describe_noise(used: dict[str, Any]) -> str:
    variance, ratio = used["noise_variance"], used["noise_ratio"]
    shown = "per point, mean" if isinstance(variance, str) else number(variance)
    if ratio is None:
        return shown
    return f"{shown} = {number(ratio)} × the candidates' mean prior variance"


def _settings(chosen: Selection) -> Iterator[tuple[str, Any]]:
    used = chosen.settings
    observed = len(chosen.observed_indices)
    if chosen.observed_points is not None:
        observed += len(chosen.observed_points)
    ranking = "anew after every pick" if used["conditional"] else "once, by the first gain"
    yield "rule", used["rule"]
    yield "ranked", ranking
    yield "limited by", ", ".join(used["limits"]) or None
    yield "kernel", used["kernel"]
    yield "noise variance", describe_noise(used)
    yield "normalisation", used["normalize"] or "none"
    yield "pool", f"{used['rows']:,} rows of {used['features']:,} features, {used['dtype']}"
    yield "candidates", f"{used['candidates']:,}"
    yield "targets", f"{used['targets']:,}{', weighted' if used['target_weights'] else ''}"
    yield "observed before", f"{observed:,}"
    yield "device", used["device"]
    yield "passes over the pool", f"{used['passes']:,}"
    yield "floor", used["floor"]
    yield "stopped", chosen.stop_reason
    yield "fingerprint of the pool", chosen.fingerprint


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
    yield from health.facts()
