"""Tables of an experiment, for a terminal and for a page."""

from collections.abc import Sequence

from tellmost.evaluation.statistics import Mean
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.tables import Cells

ENDING = ("mean regret", "safe set", "violations", "ms per ask")
SUMMARY = (
    "method",
    "regret after a quarter of the rounds",
    "after half",
    "at the end",
    *ENDING,
)


def table_of(record: Record) -> Cells:
    """A row per method: regret at fixed rounds, safe set, violations, seconds."""
    after = [f"regret after {count}" for count in record.counts]
    heading = ["method", *after, *ENDING]
    return [heading, *(_row(record, key, record.counts) for key in record.keys)]


def summary_of(record: Record) -> Cells:
    """The same for experiments of any length: after shares of their rounds."""
    counts = [max(record.rounds // 4, 1), max(record.rounds // 2, 1), record.rounds]
    return [list(SUMMARY), *(_row(record, key, counts) for key in record.keys)]


def _row(record: Record, key: str, counts: Sequence[int]) -> list[str]:
    regret, safe, violations = (
        record.curves(measure, key) for measure in ("regret", "safe", "violations")
    )
    return [
        record.label(key),
        *(write(Mean.of(regret[:, count])) for count in counts),
        write(Mean.of(record.areas(key))),
        Mean.of(safe[:, -1]).text(digits=0),
        Mean.of(violations[:, -1]).text(digits=1) if violations[:, -1].any() else "0",
        Mean.of(1e3 * record.ask_seconds(key)).text(digits=1),
    ]


def write(one: Mean) -> str:
    """With three digits behind the point, or none where all seeds agree."""
    return f"{one.value:.3f}" if not one.error else f"{one.value:.3f} ± {one.error:.3f}"


def table_of_refusals(record: Record) -> Cells | None:
    """Runs that ended early, by method and error."""
    found = [run for run in record.runs if run.refusal]
    if not found:
        return None
    rows = [
        [
            record.label(run.method),
            str(run.seed),
            str(len(run.picks)),
            run.refusal.split(":")[0],
        ]
        for run in found
    ]
    return [["method", "seed", "rounds made", "refusal"], *rows]
