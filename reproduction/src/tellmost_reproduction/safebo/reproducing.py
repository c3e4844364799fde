"""``tellmost reproduce safebo-...``: run, judge, compare with what is expected, write it down."""

from pathlib import Path
from shutil import rmtree
from time import perf_counter

from tellmost.report.drawing import make_figure
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.keeping import keep_figure, keep_text, made
from tellmost_reproduction.overviews import Done
from tellmost_reproduction.safebo.claims import judge
from tellmost_reproduction.safebo.figures import draw_curves
from tellmost_reproduction.safebo.keeping import keep_picks, keep_seeds
from tellmost_reproduction.safebo.misspecified.reproducing import (
    differences as differences_of_study,
)
from tellmost_reproduction.safebo.misspecified.reproducing import reproduce_study
from tellmost_reproduction.safebo.numbers import differences, numbers_of
from tellmost_reproduction.safebo.overview import write_overview
from tellmost_reproduction.safebo.picture import draw_barriers, draw_maps
from tellmost_reproduction.safebo.pooling import WORKERS, run_all
from tellmost_reproduction.safebo.readme import write_readme
from tellmost_reproduction.safebo.records import Experiment, Record
from tellmost_reproduction.safebo.running import Job
from tellmost_reproduction.safebo.settings import EXPERIMENTS, SMOKE_ROUNDS, SMOKE_SEEDS
from tellmost_reproduction.safebo.storing import RUNS
from tellmost_reproduction.safebo.tables import summary_of, table_of
from tellmost_reproduction.tables import in_columns

ALL = "safebo"
PICTURES = {"safebo-2d": ("maps", draw_maps), "safebo-barriers": ("picks", draw_barriers)}


def reproduce(name: str, request: Request) -> Outcome:
    """One experiment, or with ``safebo`` all of them."""
    if request.rules:
        raise ValueError(
            "--rule is for the Gaussian-process experiments; methods of safe optimization are "
            "listed in tellmost_reproduction.safebo.methods."
        )
    make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
    if name == ALL:
        return reproduce_all(request)
    done = reproduce_one(name, request)
    found = () if request.is_smoke else tuple(differences_of(done))
    return Outcome(describe(done, is_smoke=request.is_smoke), found, (request.out / name,))


def reproduce_all(request: Request) -> Outcome:
    """Every experiment, what wrong lengthscales do, and a page about all."""
    done = [reproduce_one(name, request) for name in EXPERIMENTS]
    study = reproduce_study(request)
    with made(request.out / ALL) as folder:
        page = write_overview(done, study, is_smoke=request.is_smoke)
        keep_text(page, folder / "README.md")
    found = [difference for one in done for difference in differences_of(one)]
    found += differences_of_study(study.numbers)
    parts = [describe(one, is_smoke=request.is_smoke) for one in done]
    return Outcome(
        "\n\n".join([*parts, f"{study.name}: {study.title}\n\n{study.text}"]),
        () if request.is_smoke else tuple(found),
        (*(request.out / one.name for one in (*done, study)), folder),
    )


def reproduce_one(name: str, request: Request, *, runs: Path | None = None) -> Done:
    """``runs``: a folder of runs that stays; None: one that is removed when all is written."""
    started = perf_counter()
    with made(request.out / name) as folder:
        kept = folder / RUNS if runs is None else runs
        record = make_record(EXPERIMENTS[name], request, kept)
        done = write_down(record, folder, started, is_smoke=request.is_smoke)
        if runs is None:
            rmtree(kept)
        return done


def make_record(experiment: Experiment, request: Request, kept: Path) -> Record:
    """Runs that are on disk are not run again."""
    small = experiment.make_small if request.is_smoke else None
    challenge = experiment.make() if small is None else small()
    rounds = min(SMOKE_ROUNDS, challenge.rounds) if request.is_smoke else challenge.rounds
    seeds = SMOKE_SEEDS if request.is_smoke else experiment.seeds
    jobs = [
        Job(challenge, method, seed, rounds)
        for method in experiment.methods
        for seed in range(seeds)
    ]
    over: list[Job] = []
    with ProgressLine(request.progress, "runs", done_before=0) as line:

        def tell(job: Job) -> None:
            over.append(job)
            line(len(over), len(jobs))

        workers = 1 if request.is_smoke else WORKERS
        runs = run_all(jobs, workers=workers, kept=kept, tell=tell)
    return Record(experiment, challenge, rounds, seeds, tuple(runs))


def write_down(record: Record, folder: Path, started: float, *, is_smoke: bool) -> Done:
    """Verdicts, figures, files and the page."""
    name = record.experiment.name
    verdicts = judge(record)
    keep_figure(draw_curves(record), folder)
    if name in PICTURES:
        stem, draw = PICTURES[name]
        keep_figure(draw(record), folder, stem)
    keep_picks(record, folder / "picks.csv")
    keep_seeds(record, folder / "seeds.csv")
    seconds = perf_counter() - started
    page = write_readme(record, verdicts, seconds=seconds, is_smoke=is_smoke)
    keep_text(page, folder / "README.md")
    text = in_columns(table_of(record))
    title, numbers = record.experiment.title, numbers_of(record)
    seconds_asked, summary = record.total_seconds, summary_of(record)
    return Done(name, title, text, verdicts, numbers, seconds_asked, summary)


def differences_of(done: Done) -> list[str]:
    return differences(done.numbers, done.name)


def describe(done: Done, *, is_smoke: bool) -> str:
    """For a terminal."""
    verdicts = "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in done.verdicts)
    parts = [f"{done.name}: {done.title}", done.text, verdicts, _agreement(done, is_smoke)]
    return "\n\n".join(parts)


def _agreement(done: Done, is_smoke: bool) -> str:
    if is_smoke:
        return "smoke size: this says that the code runs, and nothing about the paper"
    found = differences_of(done)
    took = f"{done.seconds:.0f} s to ask and tell"
    return f"{len(found)} numbers differ from the expected ones; {took}"
