"""The selection in words."""

from collections.abc import Iterator
from dataclasses import dataclass

from tellmost.kernels import Linear
from tellmost.report.levels import Level, find_levels, name_uncertainty
from tellmost.report.markup import number, percent
from tellmost.report.settings import describe_noise
from tellmost.report.stopping import Stop, explain_stop
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
