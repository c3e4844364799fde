"""``tellmost reproduce gp-...``: run, judge, and write it all down."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.frame.experiments import (
    Done,
    Subject,
    count_and_tabulate,
    tabulate_times,
)
from tellmost_reproduction.frame.folders import keep_figure, keep_text, made
from tellmost_reproduction.frame.pages import (
    SMALL,
    command_for,
    describe_machine,
    in_columns,
    in_markdown,
    in_paragraphs,
)
from tellmost_reproduction.gp import first_picks
from tellmost_reproduction.gp.claims import RULE, judge
from tellmost_reproduction.gp.curves import Curves, Tell, count_runs, trace_curves
from tellmost_reproduction.gp.methods import Method, read_methods
from tellmost_reproduction.gp.page import (
    draw_curves,
    keep_picks,
    keep_seeds,
    numbers_of,
    table_of,
    write_page,
)
from tellmost_reproduction.gp.settings import FULL, SMOKE, Size, settings

FIGURE_3 = "gp-fig3"
NAMES = (first_picks.NAME, *settings())
PRINTED = ("information", "mean_sd")
COMPARED_WITH_FIGURE_3 = ("itl", "vtl", "uncertainty")


def size_of(request: Request) -> Size:
    return SMOKE if request.is_smoke else FULL


def run_all(names: Sequence[str], request: Request) -> list[Done]:
    """Run the experiments in their order. Figure 3 is run once, whoever asks for it."""
    size, own = size_of(request), read_methods(request.rules)
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
                done.append(
                    run_first_picks(folder, request, own)
                    if name == first_picks.NAME
                    else run_setting(folder, request, own, figure3, tell)
                )
        return done


def run_first_picks(folder: Path, request: Request, own: Sequence[Method]) -> Done:
    started, size = perf_counter(), size_of(request)
    first = first_picks.make_first_picks(size, own)
    verdicts = first_picks.judge_first_picks(first)
    keep_figure(first_picks.draw_first_picks(first), folder)
    first_picks.keep_picks(first, folder / "picks.csv")
    seconds = perf_counter() - started
    page = first_picks.write_page(first, verdicts, size=size, seconds=seconds, own=request.rules)
    keep_text(page, folder / "README.md")
    numbers = first_picks.numbers_of(first)
    return Done(first_picks.NAME, first_picks.TITLE, "", verdicts, numbers, seconds)


def run_setting(
    folder: Path, request: Request, own: Sequence[Method], figure3: list[Curves], tell: Tell
) -> Done:
    """Run the experiment that the folder is named after. ``figure3`` is filled when it is run."""
    started, size, name = perf_counter(), size_of(request), folder.name
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
    left_out = [f"{one.key} is not defined in {name}" for one in own if not one.applies(setting)]
    tables = [in_columns(table_of(curves, measure)) for measure in PRINTED]
    seconds = perf_counter() - started
    keep_text(
        write_page(curves, verdicts, seconds=seconds, own=request.rules), folder / "README.md"
    )
    text = "\n\n".join([*tables, *left_out])
    return Done(name, setting.title, text, verdicts, numbers_of(curves), seconds)


def write_overview(done: Sequence[Done], request: Request, *, dense: str | None = None) -> str:
    """All experiments on one page. ``dense``: the table of a benchmark."""
    size = size_of(request)
    command = command_for("gp", is_smoke=request.is_smoke, rules=request.rules)
    parts = [
        "# The Gaussian-process experiments",
        *([SMALL] if request.is_smoke else []),
        f"**Command.** {command}: {size.rounds} rounds, {size.seeds} seeds.",
        "## Verdicts",
        count_and_tabulate(done, RULE),
        "## Time",
        tabulate_times(done, about_time()),
    ]
    if dense is not None:
        parts += ["## The same with a dense posterior in every round", dense]
    return in_paragraphs(parts)


def about_time() -> str:
    return f"Picks, measures and figures: {describe_machine()}."


GP = Subject(
    folder="gp",
    everything="gp",
    names=NAMES,
    document=Path("docs", "gp-experiments.md"),
    run=run_all,
    write_overview=write_overview,
    uncompared=("rmse",),  # it depends on y: equal picks that change places meet other errors
    takes_rules=True,
)
reproduce = GP.reproduce


def publish(repository: Path, runs: Sequence[Path]) -> None:
    """Run everything, and renew the results, the expected numbers and the document."""
    request = Request(repository / "results")
    done = run_all(NAMES, request)
    timed = json.loads((repository / "benchmarks/results/dense_rounds.json").read_text())
    dense = tabulate_dense(timed)
    tables = {
        "verdicts": count_and_tabulate(done, RULE, "../results"),
        "times": tabulate_times(done, about_time()),
        "dense": dense,
    }
    GP.publish(done, repository, tables, write_overview(done, request, dense=dense))


def tabulate_dense(result: Mapping[str, Any]) -> str:
    """The benchmark's times for all picks of all methods but Random, ours and dense."""
    settings, machine = result["settings"], result["machine"]
    rows, total, estimated = [], 0.0, 0.0
    for name, methods in settings.items():
        ours = sum(row["seconds"] for row in methods.values())
        dense = sum(row["dense"]["estimated_seconds"] for row in methods.values())
        last = methods["itl"]["dense"]["round_seconds"][-1]
        rows.append(_times(name, ours, dense, f"{last:.2f} s"))
        total, estimated = total + ours, estimated + dense
    rounds = [row["dense"] for methods in settings.values() for row in methods.values()]
    same = sum(dense["same_picks"] for dense in rounds)
    about = (
        f"All {result['rounds']} picks of every method but Random, once each. Dense runs are "
        f"interpolated from single rounds, {same} of "
        f"{sum(len(dense['observations']) for dense in rounds)} of which made the pick that "
        f"`select` made there. "
        f"{machine['threads']} thread of {machine['cores']} cores, {machine['cpu']}, other "
        f"work on the machine not excluded (load {machine['load']:.1f})."
    )
    heading = [
        "experiment",
        "ours, measured",
        "dense, estimated",
        "times",
        "ITL's last dense round",
    ]
    return f"{about}\n\n{in_markdown([heading, *rows, _times('all', total, estimated, '')])}"


def _times(name: str, ours: float, dense: float, last: str) -> list[str]:
    return [name, f"{ours:.1f} s", f"{dense / 60:.0f} min", f"{dense / ours:.0f}", last]
