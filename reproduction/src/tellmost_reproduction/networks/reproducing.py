"""``tellmost reproduce nn-...``: run what has not been run, judge, and write it all down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tellmost.report.drawing import make_figure
from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.keeping import keep_figure, keep_text, made, write_table
from tellmost_reproduction.networks.claims import judge
from tellmost_reproduction.networks.curves import MEASURES, Curves
from tellmost_reproduction.networks.experiments import Experiment, experiments, jobs_in_order
from tellmost_reproduction.networks.figures import draw_curves
from tellmost_reproduction.networks.noise_figure import draw_noise
from tellmost_reproduction.networks.numbering import is_near, numbers_of
from tellmost_reproduction.networks.pages import write_page
from tellmost_reproduction.networks.running import Run
from tellmost_reproduction.networks.scheduling import Conditions, Worker, open_jobs, set_up
from tellmost_reproduction.networks.settings import SEEDS
from tellmost_reproduction.networks.storing import RunId, append_run, check_runs, read_runs
from tellmost_reproduction.networks.tables import shown, table_of
from tellmost_reproduction.numbers import Numbers, find_differences, read_expected
from tellmost_reproduction.tables import in_columns
from tellmost_reproduction.verdicts import Verdict

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
