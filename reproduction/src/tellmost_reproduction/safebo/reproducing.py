"""``tellmost reproduce safebo-...``: run, judge, compare with what is expected, write it down."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from time import perf_counter

from tellmost.numerics import AGREEING_ERRORS, REPRODUCED
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.experiments import Done, fill, keep_expected, tabulate_all
from tellmost_reproduction.frame.folders import (
    describe_machine,
    in_columns,
    in_markdown,
    keep_figure,
    keep_text,
    made,
)
from tellmost_reproduction.frame.numbers import (
    Numbers,
    Series,
    find_differences,
    read_expected,
    shorten,
)
from tellmost_reproduction.safebo.claims import RULE, judge
from tellmost_reproduction.safebo.experiments import EXPERIMENTS, SMOKE_ROUNDS, SMOKE_SEEDS
from tellmost_reproduction.safebo.figures import draw_barriers, draw_curves, draw_maps
from tellmost_reproduction.safebo.misspecified.page import (
    differences as differences_of_study,
)
from tellmost_reproduction.safebo.misspecified.page import reproduce_study, tabulate
from tellmost_reproduction.safebo.page import (
    ABOUT_NUMBERS,
    SMALL,
    command_for,
    keep_picks,
    keep_seeds,
    summary_of,
    table_of,
    write_readme,
)
from tellmost_reproduction.safebo.records import MEASURES, Experiment, Record
from tellmost_reproduction.safebo.runs import RUNS, THREADS, WORKERS, Job, run_all

PACKAGE = "tellmost_reproduction.safebo"


def numbers_of(record: Record) -> Numbers:
    methods = {key: {name: _series(record, name, key) for name in MEASURES} for key in record.keys}
    return Numbers(record.counts, methods)


def _series(record: Record, name: str, key: str) -> Series:
    mean, error = record.mean(name, key)[record.counts], record.error(name, key)[record.counts]
    return Series([shorten(value) for value in mean], [shorten(value) for value in error])


def agrees(got: float, expected: float, error: float | None) -> bool:
    """A rounding that differs between machines can change a pick, and all that follow it."""
    return abs(got - expected) <= max(REPRODUCED * abs(expected), AGREEING_ERRORS * (error or 0.0))


def differences(got: Numbers, name: str) -> list[str]:
    found = find_differences(got, read_expected(PACKAGE, name), agrees=agrees)
    return [f"{name}: {difference}" for difference in found]


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


EXPECTED = Path(__file__).parent / "expected"


def publish(repository: Path, runs: Path) -> None:
    results = repository / "results"
    done = []
    for name in EXPERIMENTS:
        one = reproduce_one(name, Request(results, progress=True), runs=runs)
        keep_expected(one.numbers, EXPECTED / f"{name}.json", results / name)
        done.append(one)
    study = reproduce_study(Request(results, progress=True), runs=runs)
    keep_expected(study.numbers, EXPECTED / f"{study.name}.json", results / study.name)
    (results / ALL).mkdir(exist_ok=True)
    keep_text(write_overview(done, study), results / ALL / "README.md")
    fill_document(repository / "docs" / "safebo-experiments.md", done, study)


def fill_document(path: Path, done: Sequence[Done], study: Done) -> None:
    text = path.read_text(encoding="utf-8")
    text = fill(text, "verdicts", tabulate_all(done, RULE, "../results"))
    text = fill(text, "priors", tabulate(study.verdicts))
    keep_text(fill(text, "times", tabulate_times([*done, study])), path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    given = parser.parse_args(arguments)
    publish(given.repository, given.runs)


if __name__ == "__main__":
    main()
