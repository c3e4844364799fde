"""All experiments with safe optimization on one page."""

from collections.abc import Sequence

from tellmost_reproduction.machine import describe_machine
from tellmost_reproduction.overviews import Done, tabulate_all
from tellmost_reproduction.safebo.claims import RULE
from tellmost_reproduction.safebo.pooling import THREADS
from tellmost_reproduction.safebo.readme import ABOUT_NUMBERS, SMALL, command_for
from tellmost_reproduction.tables import in_markdown


def write_overview(done: Sequence[Done], study: Done, *, is_smoke: bool = False) -> str:
    """``study``: of wrong priors, which has questions and tables of its own."""
    parts = [
        "# The experiments with safe Bayesian optimization",
        *([SMALL] if is_smoke else []),
        f"**Command.** `{command_for('safebo', is_smoke=is_smoke)}`.",
        "## Verdicts",
        tabulate_all(done, RULE),
        f"Beyond these: [{study.name}](../{study.name}/README.md), {study.title}.",
        "## Every method on every task",
        ABOUT_NUMBERS,
        tabulate_methods(done),
        "## Time",
        tabulate_times([*done, study]),
    ]
    return "\n\n".join(parts) + "\n"


def tabulate_methods(done: Sequence[Done]) -> str:
    """One table; regrets are in the unit of each task."""
    heading = ["experiment", *done[0].summary[0]]
    rows = [[one.name, *row] for one in done for row in one.summary[1:]]
    return in_markdown([heading, *rows])


def tabulate_times(done: Sequence[Done]) -> str:
    """Processor time: two runs go side by side, so the wall sees half of it."""
    rows = [f"| {one.name} | {one.title} | {one.seconds:.0f} s |" for one in done]
    total = sum(one.seconds for one in done)
    return "\n".join(
        [
            f"Processor time of all asks and tells, without measuring, two runs side by side: "
            f"{describe_machine(THREADS)}.",
            "",
            "| experiment | | time |",
            "|---|---|---|",
            *rows,
            f"| all | | {total:.0f} s |",
        ]
    )
