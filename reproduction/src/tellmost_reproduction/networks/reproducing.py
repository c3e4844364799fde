"""``tellmost reproduce nn-...``: run what has not been run, judge, and write it all down."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tellmost.running.progress import ProgressLine
from tellmost_reproduction.catalogue import Request
from tellmost_reproduction.frame.answering import PACKAGE
from tellmost_reproduction.frame.experiments import Done, Subject
from tellmost_reproduction.frame.folders import keep_figure, keep_text, made
from tellmost_reproduction.frame.pages import fill, in_columns, in_markdown
from tellmost_reproduction.frame.verdicts import Verdict
from tellmost_reproduction.networks.claims import judge
from tellmost_reproduction.networks.configurations import SEEDS
from tellmost_reproduction.networks.curves import EQUALITIES, MEASURES, Curves
from tellmost_reproduction.networks.experiments import EXPERIMENTS, Experiment, jobs_in_order
from tellmost_reproduction.networks.figures import draw_curves, draw_noise
from tellmost_reproduction.networks.page import (
    datasets,
    keep_seeds,
    lengths,
    numbers_of,
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
from tellmost_reproduction.networks.scheduling import Conditions, open_jobs, run_job

AGREEING_TRAININGS = 4.0
"""Standard errors within which a mean over the seeds of a network experiment is the expected one:
chance alone puts few of a hundred means so far off. Two runs on GPUs are not bit-equal, and
training amplifies the difference."""

LEAST_ERROR = 1e-3
"""The least standard error of an accuracy that counts: one test image of a thousand. A smaller one
means that the seeds happened to agree."""

SMOKE_ROUNDS, SMOKE_SEEDS = 2, 2
RUNS = "runs.jsonl"
DOCUMENT = Path("docs", "network-experiments.md")
ON_DIGITS = (
    "Smoke size: 8 x 8 digits stand in for both datasets, so that these numbers and verdicts say "
    "that the code runs, and nothing about the paper."
)


def is_near(got: float, expected: float, error: float | None) -> bool:
    """GPUs add in no fixed order and networks amplify it, so runs agree by their errors."""
    return error is None or abs(got - expected) <= AGREEING_TRAININGS * max(error, LEAST_ERROR)


def run_all(names: Sequence[str], request: Request) -> list[Done]:
    chosen = [EXPERIMENTS[name] for name in names]
    runs = run_smoke(chosen) if request.is_smoke else run_rest(chosen, request)
    return [write_experiment(one, runs, request.out, is_smoke=request.is_smoke) for one in chosen]


def run_smoke(chosen: Sequence[Experiment]) -> dict[RunId, Run]:
    conditions = Conditions(None, "cpu", SMOKE_ROUNDS, is_smoke=True)
    runs = [run_job(conditions, job) for job in jobs_in_order(chosen, SMOKE_SEEDS)]
    return {(run.configuration, run.seed): run for run in runs}


def run_rest(chosen: Sequence[Experiment], request: Request) -> Mapping[RunId, Run]:
    """Run one after the other. Runs that the folder has count, also from compressed files."""
    with made(request.out / "nn") as folder:
        files = [folder / RUNS, folder / f"{RUNS}.gz"]
        conditions = Conditions(request.data, request.device)
        jobs = open_jobs(chosen, SEEDS, files, conditions.rounds)
        with ProgressLine(request.progress, "runs", done_before=0) as line:
            for number, job in enumerate(jobs):
                line(number, len(jobs))
                append_run(run_job(conditions, job), folder / RUNS)
        runs = read_runs(path for path in files if path.exists())
        check_runs(runs.values())
        return runs


def write_experiment(
    experiment: Experiment, runs: Mapping[RunId, Run], out: Path, *, is_smoke: bool = False
) -> Done:
    """Write the folder of an experiment, from the runs that there are."""
    curves, beside = Curves.of(experiment, runs), Curves.beside(experiment, runs)
    name, judged, others = experiment.name, judge(curves), judge(beside)
    verdicts = beside_others(judged, others)
    with made(out / name) as folder:
        keep_figure(draw_noise(curves) if name == "nn-rho" else draw_curves(curves), folder)
        keep_seeds([curves, beside], folder / "seeds.csv")
        page = write_page(curves, judged, beside, is_smoke=is_smoke)
        keep_text(page, folder / "README.md")
    tables = [
        in_columns(table_of(curves, dataset, measure))
        for dataset in datasets(curves)
        for measure in MEASURES
    ]
    text = "\n\n".join([ON_DIGITS, *tables] if is_smoke else tables)
    return Done(name, experiment.title, text, verdicts, numbers_of(curves, beside))


def beside_others(judged: Sequence[Verdict], others: Sequence[Verdict]) -> list[Verdict]:
    """Say of each claim what its verdict is by the other training, which may be all there is."""
    by_claim = {one.claim: one for one in others}
    found = []
    for one in judged:
        other = by_claim.pop(one.claim, None)
        words = f" ({other.configuration}: {other.holds}, {other.seeds} seeds)" if other else ""
        found.append(replace(one, configuration=f"{one.configuration}{words}"))
    return [*found, *by_claim.values()]


NETWORKS = Subject(
    folder="networks",
    everything="nn",
    names=tuple(EXPERIMENTS),
    run=run_all,
    agrees=is_near,
    uncompared={one.name for e in EXPERIMENTS.values() for one in e.configurations if one.is_past},
)
reproduce = NETWORKS.reproduce


def publish(repository: Path, files: Sequence[Path]) -> None:
    """Merge runs into those that are kept, and write down all of them. Nothing is run."""
    results = repository / "results"
    kept = results / "nn" / f"{RUNS}.gz"
    runs = read_checked([*files, *([kept] if kept.exists() else [])])
    for place in (PACKAGE / NETWORKS.folder, DOCUMENT):
        if not (repository / place).exists():
            raise FileNotFoundError(
                f"--repository must be a checkout of Tellmost; {repository} has no {place}."
            )
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_runs(runs.values(), kept)
    having = [one for one in EXPERIMENTS.values() if Curves.of(one, runs).runs]
    done = [write_experiment(one, runs, results) for one in having]
    tables = {
        "runs": count_runs(runs),
        "equalities": in_markdown(
            [["the same", "because"], *map(list, {e.words: e.reason for e in EQUALITIES}.items())]
        ),
    }
    noise = Curves.of(EXPERIMENTS["nn-rho"], runs)
    if noise.runs:
        tables["rho"] = in_markdown(table_of_noise(noise))
    NETWORKS.publish(done, repository)
    page = repository / DOCUMENT
    keep_text(fill(page.read_text(encoding="utf-8"), tables), page)


def read_checked(files: Sequence[Path]) -> dict[RunId, Run]:
    """Read all runs, and refuse what cannot be kept before any file is written."""
    for path in files:
        for run in read_runs([path]).values():
            check_real(run)
    runs = read_runs(files)
    check_runs(runs.values())
    return runs


def count_runs(runs: Mapping[RunId, Run]) -> str:
    """How many runs there are, how long they are, and how many of what is to be run that is."""
    jobs = {(one.name, seed) for one, seed in jobs_in_order([*EXPERIMENTS.values()], SEEDS)}
    by_length = ", ".join(
        f"{count} of {rounds} rounds" for rounds, count in lengths(runs.values()).items()
    )
    past = sum(key not in jobs for key in runs)
    return (
        f"There are {len(runs):,} runs ({by_length}). {len(jobs & set(runs)):,} are of the "
        f"{len(jobs):,} that the experiments name, and {past} are of TypiClust as it was."
    )
