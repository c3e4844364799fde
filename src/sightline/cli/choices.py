"""Mistakes in the options themselves, found before any file is read."""

from typing import Any

from sightline.cli.ending import UsageError


def check_choices(
    rule: str,
    *,
    has_targets: bool,
    normalize: str | None = None,
    noise: tuple[Any, Any] = (None, None),
    conditional: bool = True,
    k: int | None = None,
    budget: float | None = None,
    min_gain: float | None = None,
    min_gain_share: float | None = None,
    replace: bool = False,
    floor: bool = False,
) -> None:
    """The library's own checks of what needs no data; their errors are about usage."""
    from sightline import checking

    try:
        known = checking.check_rule(rule)
        checking.check_combination(known, has_targets, replace, conditional, floor)
        checking.check_bounds(k, budget, min_gain, min_gain_share, known, conditional)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    check_normalize(normalize)
    if None not in noise:
        raise UsageError("give --noise-ratio or --noise-std, not both.")


def check_normalize(normalize: str | None) -> None:
    from sightline.checking import NORMALIZATIONS

    if normalize is not None and normalize not in NORMALIZATIONS:
        raise UsageError(f"--normalize must be {', '.join(NORMALIZATIONS)}; got {normalize!r}.")
