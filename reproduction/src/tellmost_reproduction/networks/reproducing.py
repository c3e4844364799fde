"""``tellmost reproduce nn-...``: run what has not been run, judge, and write it all down."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.experiments import fill, keep_expected
from tellmost_reproduction.frame.folders import (
    Cells,
    in_columns,
    in_markdown,
    keep_figure,
    keep_text,
    made,
    write_table,
)
from tellmost_reproduction.frame.numbers import (
    Numbers,
    Series,
    find_differences,
    read_expected,
    shorten,
)
from tellmost_reproduction.frame.verdicts import Verdict
from tellmost_reproduction.networks.claims import judge
from tellmost_reproduction.networks.configurations import SEEDS
from tellmost_reproduction.networks.curves import MEASURES, Curves, tabulate_equalities
from tellmost_reproduction.networks.experiments import Experiment, experiments, jobs_in_order
from tellmost_reproduction.networks.figures import draw_curves, draw_noise
from tellmost_reproduction.networks.page import (
    counts_for,
    lengths,
    shown,
    table_of,
    table_of_noise,
    write_page,
)
from tellmost_reproduction.networks.runs import (
    Run,
    RunId,
    append_run,
    check_real,
    check_runs,
    read_runs,
    write_runs,
)
from tellmost_reproduction.networks.scheduling import Conditions, Worker, open_jobs, set_up
from tellmost_reproduction.networks.tying import TRIAL, tabulate_ties

AGREEING_TRAININGS = 4.0
"""Standard errors within which a mean over the seeds of a network experiment is the expected one:
chance alone puts few of a hundred means so far off. Two runs on GPUs are not bit-equal, and
training amplifies the difference."""

LEAST_ERROR = 1e-3
"""Of an accuracy, where a standard error is smaller because the seeds happened to agree: a test
image of a thousand."""


def numbers_of(curves: Curves) -> Numbers:
    """By configuration; observations are places in the tables, whose labels differ by dataset."""
    methods = {
        one.name: {measure: _series(curves, measure, one.name, counts) for measure in MEASURES}
        for dataset in curves.experiment.datasets
        if shown(curves, dataset)
        for counts in [counts_for(curves, dataset)]
        for one in shown(curves, dataset)
    }
    lengths = {len(series.mean) for measured in methods.values() for series in measured.values()}
    return Numbers(list(range(1, max(lengths, default=0) + 1)), methods)


def _series(curves: Curves, measure: str, name: str, counts: list[int]) -> Series:
    means = [curves.mean_at(measure, name, count) for count in counts]
    return Series(
        [shorten(mean.value) for mean in means],
        None if means[0].error is None else [shorten(mean.error or 0.0) for mean in means],
    )


def is_near(got: float, expected: float, error: float | None) -> bool:
    """GPUs add in no fixed order and networks amplify it, so that runs agree by their errors."""
    return error is None or abs(got - expected) <= AGREEING_TRAININGS * max(error, LEAST_ERROR)


PACKAGE = "tellmost_reproduction.networks"
SMOKE_ROUNDS, SMOKE_SEEDS = 2, 2
RUNS = "runs.jsonl"
ON_DIGITS = (
    "Smoke size: 8 x 8 digits stand in for both datasets, so that these numbers and verdicts say "
    "that the code runs, and nothing about the paper."
)


@dataclass(frozen=True)
class Done:
    """An experiment that is written down."""

    experiment: Experiment
    text: str
    verdicts: list[Verdict]
    numbers: Numbers


def reproduce(name: str, request: Request) -> Outcome:
    """One experiment, or with ``nn`` all of them."""
    if request.rules:
        raise ValueError("--rule is for the experiments with Gaussian processes (gp-...).")
    make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
    known = experiments()
    chosen = [*known.values()] if name == "nn" else [known[name]]
    runs = run_smoke(chosen) if request.is_smoke else run_rest(chosen, request)
    done = [
        write_experiment(Curves.of(one, runs), request.out, is_smoke=request.is_smoke)
        for one in chosen
    ]
    differences = [] if request.is_smoke else [d for one in done for d in differences_of(one)]
    text = "\n\n".join(describe(one) for one in done)
    return Outcome(text, tuple(differences), tuple(request.out / one.name for one in chosen))


def run_smoke(chosen: Sequence[Experiment]) -> dict[RunId, Run]:
    worker = Worker(Conditions(None, "cpu", SMOKE_ROUNDS, is_smoke=True))
    runs = [worker.run(job) for job in jobs_in_order(chosen, SMOKE_SEEDS)]
    return {(run.configuration, run.seed): run for run in runs}


def run_rest(chosen: Sequence[Experiment], request: Request) -> Mapping[RunId, Run]:
    """One after the other; files of runs that are in the folder count, compressed ones too."""
    with made(request.out / "nn") as folder:
        return run_into(folder, chosen, request)


def run_into(folder: Path, chosen: Sequence[Experiment], request: Request) -> Mapping[RunId, Run]:
    path = folder / RUNS
    conditions = Conditions(request.data, request.device, threads=torch.get_num_threads())
    set_up(conditions)
    jobs = open_jobs(chosen, SEEDS, run_files(folder), conditions.rounds)
    worker = Worker(conditions)
    with ProgressLine(request.progress, "runs", done_before=0) as line:
        for number, job in enumerate(jobs):
            line(number, len(jobs))
            append_run(worker.run(job), path)
    runs = read_runs(run_files(folder))
    check_runs(runs.values())
    return runs


def run_files(folder: Path) -> list[Path]:
    return [path for path in (folder / RUNS, folder / f"{RUNS}.gz") if path.exists()]


def write_experiment(curves: Curves, out: Path, *, is_smoke: bool = False) -> Done:
    """Its folder, from the runs that there are."""
    verdicts = judge(curves)
    with made(out / curves.experiment.name) as folder:
        drawn = draw_noise(curves) if curves.experiment.name == "nn-rho" else draw_curves(curves)
        keep_figure(drawn, folder)
        keep_seeds(curves, folder / "seeds.csv")
        page = write_page(curves, verdicts, is_smoke=is_smoke)
        keep_text(page, folder / "README.md")
    tables = [
        in_columns(table_of(curves, dataset, measure))
        for dataset in curves.experiment.datasets
        if shown(curves, dataset)
        for measure in MEASURES
    ]
    text = "\n\n".join([ON_DIGITS, *tables] if is_smoke else tables)
    return Done(curves.experiment, text, verdicts, numbers_of(curves))


def keep_seeds(curves: Curves, path: Path) -> None:
    """After every tenth round, and after the last."""
    rows = (
        [run.configuration, run.seed, (i + 1) * run.batch, run.accuracy[i], f"{run.share[i]:.5f}"]
        for _, run in sorted(curves.runs.items())
        for i in range(len(run.accuracy))
        if (i + 1) % 10 == 0 or i + 1 == len(run.accuracy)
    )
    write_table(path, ["configuration", "seed", "labels", *MEASURES], rows)


def differences_of(done: Done) -> list[str]:
    """None where nothing is expected yet."""
    name = done.experiment.name
    try:
        expected = read_expected(PACKAGE, name)
    except FileNotFoundError:
        return [f"{name}: no expected numbers are in the package"]
    found = find_differences(done.numbers, without_past(expected, done.experiment), agrees=is_near)
    return [f"{name}: {one}" for one in found]


def without_past(expected: Numbers, experiment: Experiment) -> Numbers:
    """What can be run again."""
    past = {one.name for one in experiment.configurations if one.is_past}
    kept = {name: series for name, series in expected.methods.items() if name not in past}
    return replace(expected, methods=kept)


def describe(done: Done) -> str:
    """For a terminal."""
    verdicts = "\n".join(f"{v.holds:>14}: {v.claim}\n{'':16}{v.finding}" for v in done.verdicts)
    parts = (f"{done.experiment.name}: {done.experiment.title}", done.text, verdicts)
    return "\n\n".join(part for part in parts if part)


PLACE = Path("reproduction", "src", "tellmost_reproduction", "networks")
DOCUMENT = Path("docs", "network-experiments.md")

TIMINGS = {"times": "timing.json", "times on a CPU": "timing-cpu.json"}
"""Files with the times of choosing and training, by their marks in the document."""


def publish(repository: Path, files: Sequence[Path], timing: Path | None) -> None:
    results = repository / "results"
    kept = results / "nn" / "runs.jsonl.gz"
    runs = read_checked([*files, *([kept] if kept.exists() else [])])
    check_repository(repository)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_runs(runs.values(), kept)
    if timing is not None:
        keep_text(timing.read_text(), results / "nn" / "timing.json")
    done = []
    for experiment in experiments().values():
        curves = Curves.of(experiment, runs)
        if not curves.runs:
            continue
        one = write_experiment(curves, results)
        expected = repository / PLACE / "expected" / f"{experiment.name}.json"
        keep_expected(one.numbers, expected, results / experiment.name)
        print(describe(one), end="\n\n")
        done.append(one)
    fill_document(repository, done, runs)


def check_repository(repository: Path) -> None:
    for place in (PLACE, DOCUMENT):
        if not (repository / place).exists():
            raise FileNotFoundError(
                f"--repository must be a checkout of Tellmost; {repository} has no {place}."
            )


def read_checked(files: Sequence[Path]) -> dict[RunId, Run]:
    """All runs, after what cannot be kept has been refused: no file is written before."""
    for path in files:
        for run in read_runs([path]).values():
            check_real(run)
    runs = read_runs(files)
    check_runs(runs.values())
    return runs


def fill_document(repository: Path, done: Sequence[Done], runs: Mapping[RunId, Run]) -> None:
    page = repository / DOCUMENT
    text = fill(page.read_text(encoding="utf-8"), "verdicts", tabulate_all(done))
    text = fill(text, "runs", count_runs(runs))
    text = fill(text, "equalities", in_markdown(tabulate_equalities()))
    noise = Curves.of(experiments()["nn-rho"], runs)
    if noise.runs:
        text = fill(text, "rho", in_markdown(table_of_noise(noise)))
    for mark, name in TIMINGS.items():
        timing = repository / "results" / "nn" / name
        if timing.exists():
            text = fill(text, mark, tabulate_times(json.loads(timing.read_text())))
    sticking = repository / "results" / "nn" / "sticking.json"
    trial = json.loads(sticking.read_text()).get(TRIAL) if sticking.exists() else None
    if trial is not None:
        text = fill(text, "ties", in_markdown(tabulate_ties(trial)))
    keep_text(text, page)


def count_runs(runs: Mapping[RunId, Run]) -> str:
    """How many there are, how long they are, and how many of what is to be run that is."""
    jobs = {(one.name, seed) for one, seed in jobs_in_order([*experiments().values()], SEEDS)}
    by_length = ", ".join(
        f"{count} of {rounds} rounds" for rounds, count in lengths(runs.values()).items()
    )
    past = sum(key not in jobs for key in runs)
    return (
        f"There are {len(runs):,} runs ({by_length}). {len(jobs & set(runs)):,} are of the "
        f"{len(jobs):,} that the experiments name, and {past} are of TypiClust as it was."
    )


def tabulate_all(done: Sequence[Done]) -> str:
    rows = [
        [
            f"[{one.experiment.name}](../results/{one.experiment.name}/README.md)",
            v.claim,
            f"**{v.holds}**",
            v.finding,
        ]
        for one in done
        for v in one.verdicts
    ]
    return in_markdown([["experiment", "claim of the paper", "verdict", "numbers"], *rows])


def tabulate_times(timed: Mapping[str, Any]) -> str:
    """Choosing, and its share of each way to train, on the machine of the file."""
    trained = timed["training"]
    heading = ["choosing", "ms", *(f"of {way}, {n} images" for way, n in _trainings(trained))]
    rows: Cells = [heading, ["(training, ms)", "", *_milliseconds(trained)]]
    for name, seconds in timed["selecting"].items():
        shares = (f"{100 * seconds / trained[way][n]:.1f}%" for way, n in _trainings(trained))
        rows.append([name, f"{1000 * seconds:.1f}", *shares])
    embedded = ", ".join(f"{n} in {1000 * s:.1f} ms" for n, s in timed["embedding"].items())
    return f"{timed['machine']}. Embedding images: {embedded}.\n\n{in_markdown(rows)}"


def _trainings(trained: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    return [(way, n) for way, by_count in trained.items() for n in by_count]


def _milliseconds(trained: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [f"{1000 * trained[way][n]:.0f}" for way, n in _trainings(trained)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--timing", type=Path)
    given = parser.parse_args(arguments)
    publish(given.repository, given.runs, given.timing)


if __name__ == "__main__":
    main()
