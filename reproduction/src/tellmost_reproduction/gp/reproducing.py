"""``tellmost reproduce gp-...``: run, judge, and write it all down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.frame.experiments import (
    Done,
    Subject,
)
from tellmost_reproduction.frame.folders import keep_figure, keep_text, made
from tellmost_reproduction.frame.pages import (
    in_columns,
)
from tellmost_reproduction.frame.verdicts import Verdict
from tellmost_reproduction.gp import first_picks
from tellmost_reproduction.gp.claims import judge
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
    verdicts = about(first_picks.judge_first_picks(first), first_picks.TITLE, size)
    keep_figure(first_picks.draw_first_picks(first), folder)
    first_picks.keep_picks(first, folder / "picks.csv")
    seconds = perf_counter() - started
    page = first_picks.write_page(first, verdicts, size=size, seconds=seconds, own=request.rules)
    keep_text(page, folder / "README.md")
    numbers = first_picks.numbers_of(first)
    return Done(first_picks.NAME, first_picks.TITLE, "", verdicts, numbers, seconds)


def about(verdicts: Sequence[Verdict], title: str, size: Size) -> list[Verdict]:
    """Say of each verdict what was run."""
    return [replace(one, configuration=title, seeds=size.seeds) for one in verdicts]


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
    verdicts = about(judge(curves, figure3[0]), setting.title, size)
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


GP = Subject(
    folder="gp",
    everything="gp",
    names=NAMES,
    run=run_all,
    uncompared=("rmse",),  # it depends on y: equal picks that change places meet other errors
    takes_rules=True,
)
reproduce = GP.reproduce


def publish(repository: Path, runs: Sequence[Path]) -> None:
    """Run everything, and renew the results and the expected numbers."""
    GP.publish(run_all(NAMES, Request(repository / "results")), repository)
