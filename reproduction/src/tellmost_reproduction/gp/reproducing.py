"""``tellmost reproduce gp-...``: run, judge, compare with what is expected, write it down."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tellmost.numerics import REPRODUCED
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.experiments import Done, fill, keep_expected, tabulate_all
from tellmost_reproduction.frame.folders import (
    describe_machine,
    in_columns,
    keep_figure,
    keep_text,
    made,
)
from tellmost_reproduction.gp.claims import RULE, judge
from tellmost_reproduction.gp.curves import Curves, Tell, count_runs, trace_curves
from tellmost_reproduction.gp.figures import draw_curves
from tellmost_reproduction.gp.first_picks import draw_samples, draw_samples_figure, judge_samples
from tellmost_reproduction.gp.methods import Method, read_methods
from tellmost_reproduction.gp.page import (
    about_size,
    command_for,
    differences,
    keep_picks,
    keep_samples,
    keep_seeds,
    numbers_of,
    numbers_of_samples,
    read_numbers,
    table_of,
    write_readme,
    write_samples_readme,
)
from tellmost_reproduction.gp.settings import FULL, SMOKE, Size, settings

FIGURE_2, FIGURE_3 = "gp-fig2", "gp-fig3"
PART_1 = (FIGURE_2, *settings())
PRINTED = ("information", "mean_sd")
COMPARED_WITH_FIGURE_3 = ("itl", "vtl", "uncertainty")


def reproduce(name: str, request: Request) -> Outcome:
    """One experiment, or with ``gp`` all of them."""
    own = read_methods(request.rules)
    make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
    done = run_all(PART_1 if name == "gp" else (name,), request, own)
    folders = [request.out / one.name for one in done]
    if name == "gp":
        folders.append(_keep_overview(done, request))
    found = [] if request.is_smoke else [d for one in done for d in differences_of(one)]
    text = "\n\n".join(describe(one, is_smoke=request.is_smoke) for one in done)
    return Outcome(f"{text}\n\n{_left_out(own)}".rstrip(), tuple(found), tuple(folders))


def _keep_overview(done: Sequence[Done], request: Request) -> Path:
    page = write_overview(done, size_of(request), own=request.rules)
    with made(request.out / "gp") as folder:
        keep_text(page, folder / "README.md")
    return folder


def size_of(request: Request) -> Size:
    return SMOKE if request.is_smoke else FULL


def run_all(names: Sequence[str], request: Request, own: Sequence[Method]) -> list[Done]:
    """In their order; figure 3 is run once, whoever asks for it."""
    size = size_of(request)
    places = settings(size.side)
    most = sum(count_runs(places[name], size, own) for name in names if name in places)
    runs: list[str] = []
    with ProgressLine(request.progress, "runs", done_before=0) as line:

        def tell(method: str) -> None:
            runs.append(method)
            line(len(runs), most)

        figure3: list[Curves] = []
        done = []
        for name in names:
            with made(request.out / name) as folder:
                done.append(_run(folder, size, request, own, figure3, tell))
        return done


def _run(
    folder: Path,
    size: Size,
    request: Request,
    own: Sequence[Method],
    figure3: list[Curves],
    tell: Tell,
) -> Done:
    """The experiment that the folder is named after."""
    started, name = perf_counter(), folder.name
    if name == FIGURE_2:
        return _run_samples(size, request, own, folder, started)
    setting = settings(size.side)[name]
    curves = trace_curves(setting, size, own, tell=tell)
    if name == FIGURE_3:
        figure3.append(curves)
    if not figure3:
        reference = settings(size.side)[FIGURE_3]
        figure3.append(trace_curves(reference, size, only=COMPARED_WITH_FIGURE_3))
    verdicts = judge(curves, figure3[0])
    keep_figure(draw_curves(curves), folder)
    keep_picks(curves, folder / "picks.csv")
    keep_seeds(curves, folder / "seeds.csv")
    text = "\n\n".join(in_columns(table_of(curves, measure)) for measure in PRINTED)
    seconds = perf_counter() - started
    page = write_readme(curves, verdicts, seconds=seconds, own=request.rules)
    keep_text(page, folder / "README.md")
    return Done(name, setting.title, text, verdicts, numbers_of(curves), seconds)


def _run_samples(
    size: Size, request: Request, own: Sequence[Method], folder: Path, started: float
) -> Done:
    samples = draw_samples(size, own)
    verdicts = judge_samples(samples)
    keep_figure(draw_samples_figure(samples), folder)
    keep_samples(samples, folder / "picks.csv")
    seconds = perf_counter() - started
    page = write_samples_readme(samples, verdicts, size=size, seconds=seconds, own=request.rules)
    keep_text(page, folder / "README.md")
    numbers = numbers_of_samples(samples)
    return Done(FIGURE_2, "the first picks of ITL", "", verdicts, numbers, seconds)


def differences_of(done: Done) -> list[str]:
    found = differences(done.numbers, read_numbers(done.name))
    return [f"{done.name}: {difference}" for difference in found]


def describe(done: Done, *, is_smoke: bool) -> str:
    """For a terminal."""
    verdicts = "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in done.verdicts)
    found = [] if is_smoke else differences_of(done)
    agreement = (
        "smoke size: nothing is compared with the expected values"
        if is_smoke
        else f"{len(found)} numbers differ from the expected ones"
        if found
        else f"every mean is within {100 * REPRODUCED:.1f}% of the expected one"
    )
    parts = [f"{done.name}: {done.title}", done.text, verdicts, agreement]
    return "\n\n".join(part for part in parts if part) + f"; {done.seconds:.0f} s"


def _left_out(own: Sequence[Method]) -> str:
    """Rules of the user's that are not defined in some of the settings."""
    missing = [
        f"{method.key} is not defined in {name}"
        for method in own
        for name, setting in settings().items()
        if not method.applies(setting)
    ]
    return "\n".join(missing)


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


EXPECTED = Path(__file__).parent / "expected"


def publish(repository: Path) -> None:
    results = repository / "results"
    done = run_all(PART_1, Request(results), ())
    for one in done:
        keep_expected(one.numbers, EXPECTED / f"{one.name}.json", results / one.name)
        print(describe(one, is_smoke=False), end="\n\n")
    (results / "gp").mkdir(exist_ok=True)
    timed = json.loads((repository / "benchmarks/results/dense_rounds.json").read_text())
    dense = tabulate_dense(timed)
    keep_text(write_overview(done, FULL, dense=dense), results / "gp" / "README.md")
    fill_document(repository / "docs" / "gp-experiments.md", done, dense)


def fill_document(path: Path, done: Sequence[Done], dense: str) -> None:
    text = path.read_text(encoding="utf-8")
    for name, table in (
        ("verdicts", tabulate_all(done, RULE, "../results")),
        ("times", tabulate_times(done)),
        ("dense", dense),
    ):
        text = fill(text, name, table)
    keep_text(text, path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    publish(parser.parse_args(arguments).repository)


if __name__ == "__main__":
    main()
