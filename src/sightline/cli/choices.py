"""Mistakes in the options themselves, found before any file is read."""

from difflib import get_close_matches
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
    from sightline.rules import BY_NAME

    if rule not in BY_NAME:
        close = get_close_matches(rule, BY_NAME, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"there is no rule {rule!r}; the rules are {', '.join(BY_NAME)}.{hint}")
    if k is budget is min_gain is min_gain_share is None:
        raise UsageError(
            "say how much to pick: -k 100, --budget with --cost-column, or --min-gain-share."
        )
    try:
        known = checking.check_rule(rule)
        checking.check_combination(known, has_targets, replace, conditional, floor)
        checking.check_bounds(k, budget, min_gain, min_gain_share, known, conditional)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    check_normalize(normalize)
    if None not in noise:
        raise UsageError("give --noise-ratio or --noise-std, not both.")


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def split_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(name) for name in split_names(text)]
    except ValueError as error:
        raise UsageError(
            f"{option} must be whole numbers by commas, such as 10,20; got {text!r}."
        ) from error


def check_normalize(normalize: str | None) -> None:
    from sightline.checking import NORMALIZATIONS

    if normalize is not None and normalize not in NORMALIZATIONS:
        raise UsageError(f"--normalize must be {', '.join(NORMALIZATIONS)}; got {normalize!r}.")
