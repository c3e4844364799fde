"""``tellmost reproduce safebo-misspecified``: run, judge, compare, write it all down."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from shutil import rmtree

from tellmost.report.drawing import make_figure
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.keeping import keep_figure, keep_text, made, write_table
from tellmost_reproduction.numbers import Numbers, find_differences, read_expected
from tellmost_reproduction.overviews import Done
from tellmost_reproduction.safebo.misspecified.figure import draw_figure
from tellmost_reproduction.safebo.misspecified.findings import judge
from tellmost_reproduction.safebo.misspecified.page import NAME, TITLE, write_page
from tellmost_reproduction.safebo.misspecified.studying import (
    FULL,
    SETTINGS,
    SMOKE,
    Ending,
    Size,
    make_jobs,
    study,
)
from tellmost_reproduction.safebo.misspecified.summaries import agrees, group, numbers_of
from tellmost_reproduction.safebo.running import Job
from tellmost_reproduction.safebo.storing import RUNS
from tellmost_reproduction.verdicts import Verdict

PACKAGE = "tellmost_reproduction.safebo.misspecified"


def reproduce(name: str, request: Request) -> Outcome:
    if request.rules:
        raise ValueError("--rule is for the Gaussian-process experiments.")
    make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
    done = reproduce_study(request)
    found = [] if request.is_smoke else differences(done.numbers)
    return Outcome(f"{name}: {TITLE}\n\n{done.text}", tuple(found), (request.out / NAME,))


def reproduce_study(request: Request, *, runs: Path | None = None) -> Done:
    """``runs``: a folder of runs that stays; None: one that is removed when all is written."""
    with made(request.out / NAME) as folder:
        kept = folder / RUNS if runs is None else runs
        endings = run(request, kept)
        verdicts = write_results(endings, folder, SMOKE if request.is_smoke else FULL)
        if runs is None:
            rmtree(kept)
    text = "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in verdicts)
    seconds = sum(one.seconds for one in endings)
    return Done(NAME, TITLE, text, verdicts, numbers_of(group(endings)), seconds)


def write_results(endings: Sequence[Ending], folder: Path, size: Size) -> list[Verdict]:
    groups, verdicts = group(endings), judge(endings)
    keep_figure(draw_figure(groups), folder)
    keep_endings(endings, folder / "runs.csv")
    page = write_page(groups, verdicts, size=size)
    keep_text(page, folder / "README.md")
    return verdicts


def run(request: Request, kept: Path) -> list[Ending]:
    """``kept``: a folder of runs, which need not be made again."""
    size, workers = (SMOKE, 1) if request.is_smoke else (FULL, 2)
    most, done = len(make_jobs(SETTINGS, size)), []
    with ProgressLine(request.progress, "runs", done_before=0) as line:

        def tell(job: Job) -> None:
            done.append(job)
            line(len(done), most)

        return study(size, workers=workers, kept=kept, tell=tell)


def keep_endings(endings: Sequence[Ending], path: Path) -> None:
    """A row per run; what did not happen is left empty."""
    heading = [field.name for field in fields(Ending)]
    rows = ([_cell(value) for value in asdict(one).values()] for one in endings)
    write_table(path, heading, rows)


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def differences(numbers: Numbers) -> list[str]:
    return find_differences(numbers, read_expected(PACKAGE, NAME), agrees=agrees)
