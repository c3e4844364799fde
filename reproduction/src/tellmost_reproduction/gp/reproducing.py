"""``tellmost reproduce gp-...``: run, judge, compare with what is expected, write it all down."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from tellmost.numerics import REPRODUCED
from tellmost.report.drawing import make_figure
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.gp.claims import judge
from tellmost_reproduction.gp.curves import Curves, Tell, count_runs, trace_curves
from tellmost_reproduction.gp.figures import draw_curves
from tellmost_reproduction.gp.keeping import keep_picks, keep_samples, keep_seeds
from tellmost_reproduction.gp.methods import Method
from tellmost_reproduction.gp.numbers import (
    differences,
    numbers_of,
    numbers_of_samples,
    read_numbers,
)
from tellmost_reproduction.gp.overview import write_overview
from tellmost_reproduction.gp.own_rules import read_methods
from tellmost_reproduction.gp.readme import write_readme, write_samples_readme
from tellmost_reproduction.gp.samples import draw_samples, judge_samples
from tellmost_reproduction.gp.samples_figure import draw_samples_figure
from tellmost_reproduction.gp.settings import FULL, SMOKE, Size, settings
from tellmost_reproduction.gp.tables import table_of
from tellmost_reproduction.keeping import keep_figure, keep_text, made
from tellmost_reproduction.overviews import Done
from tellmost_reproduction.tables import in_columns

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
