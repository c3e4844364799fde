"""What was used, a line each."""

from collections.abc import Iterator
from typing import Any

from tellmost.report.markup import number
from tellmost.selecting.selection import Selection


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
