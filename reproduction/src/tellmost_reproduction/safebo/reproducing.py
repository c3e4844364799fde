"""``tellmost reproduce safebo-...``: run, judge, and write it all down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from time import perf_counter

from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.frame.experiments import (
    Done,
    Subject,
)
from tellmost_reproduction.frame.folders import keep_figure, keep_text, made
from tellmost_reproduction.frame.numbers import agrees_within_errors
from tellmost_reproduction.frame.pages import (
    in_columns,
)
from tellmost_reproduction.safebo import misspecified_page as misspecified
from tellmost_reproduction.safebo.claims import judge
from tellmost_reproduction.safebo.experiments import EXPERIMENTS, SMOKE_ROUNDS, SMOKE_SEEDS
from tellmost_reproduction.safebo.figures import draw_barriers, draw_curves, draw_maps
from tellmost_reproduction.safebo.page import (
    keep_picks,
    keep_seeds,
    numbers_of,
    table_of,
    write_page,
)
from tellmost_reproduction.safebo.records import Experiment, Record
from tellmost_reproduction.safebo.runs import RUNS, WORKERS, Job, Tell, run_all

ALL = "safebo"
PICTURES = {"safebo-2d": ("maps", draw_maps), "safebo-barriers": ("picks", draw_barriers)}


def run_experiments(
    names: Sequence[str], request: Request, *, kept: Path | None = None
) -> list[Done]:
    """``kept``: a folder of runs that stays. None: one for each, removed when all is written."""
    done = []
    for name in names:
        with made(request.out / name) as folder:
            runs = folder / RUNS if kept is None else kept
            done.append(run_one(folder, request, runs))
            if kept is None:
                rmtree(runs)
    return done


def run_one(folder: Path, request: Request, runs: Path) -> Done:
    """Run the experiment that the folder is named after. Runs on disk are not made again."""
    over: list[Job] = []
    with ProgressLine(request.progress, "runs", done_before=0) as line:

        def tell(job: Job, most: int) -> None:
            over.append(job)
            line(len(over), most)

        if folder.name == misspecified.NAME:
            return misspecified.write_study(
                folder, is_smoke=request.is_smoke, runs=runs, tell=tell
            )
        started, experiment = perf_counter(), EXPERIMENTS[folder.name]
        record = make_record(experiment, is_smoke=request.is_smoke, runs=runs, tell=tell)
    return write_down(record, folder, started, is_smoke=request.is_smoke)


def make_record(experiment: Experiment, *, is_smoke: bool, runs: Path, tell: Tell) -> Record:
    small = experiment.make_small if is_smoke else None
    challenge = experiment.make() if small is None else small()
    rounds = min(SMOKE_ROUNDS, challenge.rounds) if is_smoke else challenge.rounds
    seeds = SMOKE_SEEDS if is_smoke else experiment.seeds
    jobs = [
        Job(challenge, method, seed, rounds)
        for method in experiment.methods
        for seed in range(seeds)
    ]
    made = run_all(jobs, workers=1 if is_smoke else WORKERS, kept=runs, tell=tell)
    return Record(experiment, challenge, rounds, seeds, tuple(made))


def write_down(record: Record, folder: Path, started: float, *, is_smoke: bool) -> Done:
    """Judge the runs, and write figures, files and the page."""
    name, title = record.experiment.name, record.experiment.title
    verdicts = [replace(one, configuration=title, seeds=record.seeds) for one in judge(record)]
    keep_figure(draw_curves(record), folder)
    if name in PICTURES:
        stem, draw = PICTURES[name]
        keep_figure(draw(record), folder, stem)
    keep_picks(record, folder / "picks.csv")
    keep_seeds(record, folder / "seeds.csv")
    page = write_page(record, verdicts, seconds=perf_counter() - started, is_smoke=is_smoke)
    keep_text(page, folder / "README.md")
    text, numbers = in_columns(table_of(record)), numbers_of(record)
    return Done(name, title, text, verdicts, numbers, record.total_seconds)


SAFEBO = Subject(
    folder="safebo",
    everything=ALL,
    names=(*EXPERIMENTS, misspecified.NAME),
    run=run_experiments,
    agrees=agrees_within_errors,
)
reproduce = SAFEBO.reproduce


def publish(repository: Path, runs: Sequence[Path]) -> None:
    """Make the runs that are not in the folder, and write down all of them."""
    (kept,) = runs
    request = Request(repository / "results", progress=True)
    done = run_experiments(SAFEBO.names, request, kept=kept)
    SAFEBO.publish(done, repository)
