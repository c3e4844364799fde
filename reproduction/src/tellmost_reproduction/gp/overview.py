"""All experiments on one page: every verdict, and the time that each took."""

from collections.abc import Sequence
from typing import Any

from tellmost_reproduction.gp.readme import about_size, command_for
from tellmost_reproduction.gp.ruling import RULE
from tellmost_reproduction.gp.settings import Size
from tellmost_reproduction.machine import describe_machine
from tellmost_reproduction.overviews import Done, tabulate_all


def write_overview(
    done: Sequence[Done], size: Size, *, own: Sequence[str] = (), dense: str | None = None
) -> str:
    """``dense``: the table of a benchmark, where one is at hand."""
    parts = [
        "# The Gaussian-process experiments",
        *about_size(size),
        f"**Command.** `{command_for('gp', size, own)}`: {size.rounds} rounds, {size.seeds} "
        f"seeds.",
        "## Verdicts",
        tabulate_all(done, RULE),
        "## Time",
        tabulate_times(done),
    ]
    if dense is not None:
        parts += ["## The same with a dense posterior in every round", dense]
    return "\n\n".join(parts) + "\n"


def tabulate_times(done: Sequence[Done]) -> str:
    rows = [f"| {one.name} | {one.title} | {one.seconds:.0f} s |" for one in done]
    total = sum(one.seconds for one in done)
    return "\n".join(
        [
            f"Picks, measures and figures: {describe_machine()}.",
            "",
            "| experiment | | time |",
            "|---|---|---|",
            *rows,
            f"| all | | {total:.0f} s |",
        ]
    )


def tabulate_dense(result: dict[str, Any]) -> str:
    """From the benchmark: all picks of all methods but Random, ours and dense."""
    lines, total, estimated = [], 0.0, 0.0
    for name, methods in result["settings"].items():
        ours = sum(row["seconds"] for row in methods.values())
        dense = sum(row["dense"]["estimated_seconds"] for row in methods.values())
        last = methods["itl"]["dense"]["round_seconds"][-1]
        lines.append(_times(name, ours, dense, f"{last:.2f} s"))
        total, estimated = total + ours, estimated + dense
    machine = result["machine"]
    return "\n".join(
        [
            f"All {result['rounds']} picks of every method but Random, once each. Dense runs are "
            f"interpolated from single rounds, {_same_picks(result)} of which made the pick that "
            f"`select` made there. "
            f"{machine['threads']} thread of {machine['cores']} cores, {machine['cpu']}, other "
            f"work on the machine not excluded (load {machine['load']:.1f}).",
            "",
            "| experiment | ours, measured | dense, estimated | times | ITL's last dense round |",
            "|---|---|---|---|---|",
            *lines,
            _times("all", total, estimated, ""),
        ]
    )


def _same_picks(result: dict[str, Any]) -> str:
    rounds = [row["dense"] for methods in result["settings"].values() for row in methods.values()]
    same = sum(dense["same_picks"] for dense in rounds)
    return f"{same} of {sum(len(dense['observations']) for dense in rounds)}"


def _times(name: str, ours: float, dense: float, last: str) -> str:
    return f"| {name} | {ours:.1f} s | {dense / 60:.0f} min | {dense / ours:.0f} | {last} |"
