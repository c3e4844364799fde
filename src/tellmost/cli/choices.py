"""Mistakes in the options themselves, found before any file is read."""

from contextlib import suppress
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Any

from tellmost.cli.ending import UsageError

if TYPE_CHECKING:
    from tellmost.rules import Rule


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
    has_cost: bool = False,
) -> None:
    """The library's own checks of what needs no data; their errors are about usage."""
    from tellmost.selecting.arguments import check_combination
    from tellmost.selecting.limits import check_bounds

    known = read_rule(rule)
    if k is budget is min_gain is min_gain_share is None:
        raise UsageError(
            "say how much to pick: -k 100, --budget with --cost-column, or --min-gain-share."
        )
    try:
        check_combination(known, has_targets, replace, conditional, floor)
        check_bounds(k, budget, min_gain, min_gain_share, known, conditional)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    check_normalize(normalize)
    check_noise(*noise)
    if budget is not None and not has_cost:
        raise UsageError("--budget needs costs: --cost-column, or --cost with a file.")


def check_noise(ratio: float | None, std: str | None) -> None:
    """A ratio, or a standard deviation, which may be the name of a file."""
    if ratio is not None and std is not None:
        raise UsageError("give --noise-ratio or --noise-std, not both.")
    if ratio is not None and not 0 < ratio < inf:
        raise UsageError(f"--noise-ratio must be a positive number; got {ratio}.")
    with suppress(TypeError, ValueError):  # not given, or a file
        if not 0 < float(std) < inf:  # type: ignore[arg-type]
            raise UsageError(f"--noise-std must be a positive number, or a file; got {std}.")


def check_machine(device: str | None, memory: str | None) -> None:
    """Whether there is such a device, and whether the memory is a size."""
    from tellmost.selecting.arguments import check_device, check_memory

    try:
        check_memory(memory)
        if device is not None:
            check_device(device)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(str(error)) from error


def read_rule(text: str) -> "Rule":
    """A rule by its name, or as in Python, such as MMR(relevance=0.7)."""
    from tellmost.rules import BY_NAME
    from tellmost.rules.reading import read_rule as read

    if text in BY_NAME:
        return BY_NAME[text]()
    if "(" in text:
        try:
            return read(text)
        except ValueError as error:
            raise UsageError(f"--rule: {error}") from error
    close = get_close_matches(text, BY_NAME, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(f"there is no rule {text!r}; the rules are {', '.join(BY_NAME)}.{hint}")


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
    from tellmost.selecting.arguments import NORMALIZATIONS

    if normalize is not None and normalize not in NORMALIZATIONS:
        raise UsageError(f"--normalize must be {', '.join(NORMALIZATIONS)}; got {normalize!r}.")
