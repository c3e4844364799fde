"""The folder of an experiment: numbers, tables, files and page. Every number is from the runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tellmost.evaluation.statistics import Mean
from tellmost_reproduction.frame.folders import write_table
from tellmost_reproduction.frame.numbers import AGREEING_ERRORS, REPRODUCED, Numbers, Series
from tellmost_reproduction.frame.pages import (
    NEEDS,
    UNCOMPARED,
    Cells,
    command_for,
    describe_machine,
    head,
    in_markdown,
    in_paragraphs,
)
from tellmost_reproduction.frame.verdicts import Verdict, tabulate_verdicts
from tellmost_reproduction.safebo.claims import RULE
from tellmost_reproduction.safebo.process import HOTTEST, PUREST
from tellmost_reproduction.safebo.quadcopter.tuning import Tuning
from tellmost_reproduction.safebo.records import MEASURES, Record, curve_of
from tellmost_reproduction.safebo.runs import THREADS
from tellmost_reproduction.safebo.tasks import NOISE_STD, Task

ENDING = ("mean regret", "safe set", "violations", "ms per ask")
BOX_SEEDS = 5
"""Points in a box are long to write, so those of the first seeds alone are kept."""

ABOUT_NUMBERS = (
    "Means over the seeds ± one standard error (none where all seeds agree). *Mean regret*: over "
    "all rounds. *Safe set*: points known to be safe at the end. *Violations*: measurements of "
    "truly unsafe points in a whole run. *ms per ask*: processor time of ask and tell, one thread."
)
ABOUT_METHODS = (
    "All methods share domain, prior, bounds and history, and with one seed they meet the same "
    "first observations and the same noise. The recommendation is the point known to be safe with "
    "the largest lower bound."
)
GROWING = (
    "the first observations are declared safe to them, since they grow their sets from there."
)
BY_THE_PAPER = (
    "SafeOpt and GoOSE get Lipschitz constants of the constraint, in the L1 norm: *true*, which "
    "hold (the default of this library), *oracle*, which the paper prints and which are below the "
    f"true ones, and *estimated*, the paper's from draws of the prior; {GROWING}"
)
BY_THE_CURVE = (
    "SafeOpt and GoOSE get the Lipschitz constant of the function, 1.1; the paper prints none. "
    "Nothing is observed beforehand: known to be safe at first is what the prior proves."
)
BY_THE_POINTS = (
    "SafeOpt and GoOSE get Lipschitz constants of each limit, in the L1 norm over shares of the "
    f"ranges: *true* ones, and *estimated* ones from draws of our priors; {GROWING}"
)
BY_THE_GRID = (
    "SafeOpt and GoOSE get Lipschitz constants of the constraint, in the L1 norm: *true*, which "
    "no two points of any line exceed (200), *oracle*, which the paper prints and which bounds "
    "nothing (5.514), and *estimated*, from a draw of the prior for each seed; the seed is "
    "declared safe to them, since they grow their sets from there."
)
ABOUT_SLOPES = {
    "1d": BY_THE_PAPER,
    "2d": BY_THE_PAPER,
    "barriers": BY_THE_CURVE,
    "process": BY_THE_POINTS,
}
"""Which Lipschitz constants a task has; the quadcopter has those of the grid."""

ABOUT_REFUSALS = (
    "Runs that ended early because the optimizer refused to go on; they keep their last values."
)


def write_page(
    record: Record, verdicts: Sequence[Verdict], *, seconds: float, is_smoke: bool
) -> str:
    name, refusals = record.experiment.name, table_of_refusals(record)
    challenge = record.challenge.name
    elsewhere = ", about tasks of its own" if challenge == "process" else ""
    return in_paragraphs(
        [
            *head(name, record.experiment.title, is_smoke=is_smoke),
            f"**Claim.** Hübotter et al. 2024{elsewhere}: "
            + "; ".join(v.claim for v in verdicts)
            + ".",
            f"**Command.** {command_for(name, is_smoke=is_smoke)}. {NEEDS}",
            f"**Time.** {record.total_seconds:.0f} s of processor time for all that was asked and "
            f"told; {seconds:.0f} s for what was not on disk, verdicts and figures: "
            f"{describe_machine(THREADS)}.",
            f"**Set-up.** {describe_task(record)} {record.rounds} rounds, {record.seeds} seeds. "
            f"{ABOUT_METHODS} {ABOUT_SLOPES.get(challenge, BY_THE_GRID)}",
            "**Result.**",
            tabulate_verdicts(verdicts, *(["question"] if elsewhere else [])),
            f"**Verdicts.** {RULE}",
            "![Regret and size of the safe set](figure.svg)",
            *_pictures(name),
            "## Numbers",
            ABOUT_NUMBERS,
            in_markdown(table_of(record)),
            *(["## Refusals", ABOUT_REFUSALS, in_markdown(refusals)] if refusals else []),
            _files(record, is_smoke=is_smoke),
        ]
    )


def describe_task(record: Record) -> str:
    task = record.challenge
    if isinstance(task, Tuning):
        return (
            f"Gains in [0, 20]^4, a random line of 2,000 points each round; noise sd {NOISE_STD}, "
            f"beta {task.beta:g}, {task.prior_observations} observations of the safe seed, the "
            f"published code's disturbance. The constraint falls from 0.5 to -0.5 between "
            f"neighbours of a line: no constant of practical size bounds it. The safe set is "
            f"counted among the points of the round."
        )
    assert isinstance(task, Task)
    if task.name == "process":
        return describe_process(task)
    is_shared = task.constraints["g"].gp is task.objective
    slope = {which: slopes["g"].constant for which, slopes in task.slopes.items()}
    slopes = (
        f"; Lipschitz constants of the constraint: true {slope['true']:.4g}, oracle "
        f"{slope['oracle']:.4g}, estimated {slope['estimated']:.4g}"
    )
    return (
        f"{len(task.domain):,} points, {int(task.is_safe.sum())} of them safe; "
        f"{'one function is' if is_shared else 'two functions are'} objective and constraint; "
        f"noise sd {NOISE_STD}, beta {task.beta:g}{'' if task.name == 'barriers' else slopes}."
    )


def describe_process(task: Task) -> str:
    best = {name: values[task.optimum] for name, values in task.values.items()}
    return (
        f"Beyond the paper: its claims about its own tasks are held against this one. The recipe "
        f"of a reactor is to produce the most (equations: `tellmost_reproduction.safebo.reactor`; "
        f"task and priors: `.process`). {len(task.domain):,} Sobol points in six dimensions, "
        f"{int(task.is_safe.sum())} of them safe: temperature at most {HOTTEST:g} K, purity at "
        f"least {PUREST:g}%. The safe optimum makes {best['objective']:.1f} kg/h at "
        f"{best['temperature']:.1f} K and {best['purity']:.1f}%. {len(task.starts)} safe points "
        f"are observed beforehand; beta {task.beta:g}. Regret is in kg/h."
    )


def _pictures(name: str) -> list[str]:
    if name == "safebo-2d":
        return [
            "![Maps of the picks](maps.svg)",
            "The picks of six methods with the first seed, early ones dark, late ones bright: "
            "unsafe points dark grey, safe ones light grey, those known to be safe at the end "
            "white; the star is the safe optimum.",
        ]
    if name == "safebo-barriers":
        return [
            "![The barriers](picks.svg)",
            "The picks with the first seed: dark, what is known to be safe before the start; "
            "light, at the end; dashed, the function. Domain, noise and beta are ours: the "
            "paper prints none, and its code does not have the experiment. Its SafeOpt picks "
            "among expanders alone, and so does the one shown; SafeOpt itself is in the tables. "
            "Bounds of three standard deviations are wrong now and then: a violation in the "
            "tables is a point taken for safe by such a bound.",
        ]
    return []


def _files(record: Record, *, is_smoke: bool) -> str:
    is_finite = isinstance(record.challenge, Task)
    some = "" if is_finite else f" (of the first {BOX_SEEDS} seeds)"
    expected = (
        "The expected means and standard errors come with the package; a run agrees if every mean "
        f"is within {AGREEING_ERRORS:.0f} standard errors of them, or within "
        f"{100 * REPRODUCED:.1f}%."
    )
    return (
        f"`picks.csv`: a row per run, what was measured in its order{some}. `seeds.csv`: regret, "
        f"size of the safe set and violations with every seed. "
        f"{UNCOMPARED if is_smoke else expected}"
    )


def numbers_of(record: Record) -> Numbers:
    counts = record.counts
    methods = {
        key: {
            name: Series.of(record.mean(name, key)[counts], record.error(name, key)[counts])
            for name in MEASURES
        }
        for key in record.keys
    }
    return Numbers(counts, methods)


def table_of(record: Record) -> Cells:
    """A row per method: regret at fixed rounds, safe set, violations, seconds."""
    after = [f"regret after {count}" for count in record.counts]
    heading = ["method", *after, *ENDING]
    return [heading, *(_row(record, key, record.counts) for key in record.keys)]


def _row(record: Record, key: str, counts: Sequence[int]) -> list[str]:
    regret, safe, violations = (
        record.curves(measure, key) for measure in ("regret", "safe", "violations")
    )
    return [
        record.label(key),
        *(write(Mean.of(regret[:, count])) for count in counts),
        write(Mean.of(record.areas(key))),
        Mean.of(safe[:, -1]).text(digits=0),
        Mean.of(violations[:, -1]).text(digits=1) if violations[:, -1].any() else "0",
        Mean.of(1e3 * record.ask_seconds(key)).text(digits=1),
    ]


def write(one: Mean) -> str:
    """Three digits behind the point, and no error if all seeds agree."""
    return f"{one.value:.3f}" if not one.error else f"{one.value:.3f} ± {one.error:.3f}"


def table_of_refusals(record: Record) -> Cells:
    """Runs that ended early, by method and error. It is empty if there are none."""
    rows = [
        [record.label(run.method), str(run.seed), str(len(run.picks)), run.refusal.split(":")[0]]
        for run in record.runs
        if run.refusal
    ]
    return [["method", "seed", "rounds made", "refusal"], *rows] if rows else []


def keep_picks(record: Record, path: Path) -> None:
    """Write a row per run: rows of the domain, or points, in the order measured."""
    rows = (
        [run.method, run.seed, " ".join(_words(run.picks))]
        for run in record.runs
        if run.picks.ndim == 1 or run.seed < BOX_SEEDS
    )
    write_table(path, ["method", "seed", "picks"], rows)


def _words(picks: np.ndarray) -> list[str]:
    if picks.ndim == 1:
        return [str(row) for row in picks.tolist()]
    return [",".join(f"{x:.5g}" for x in point) for point in picks.tolist()]


def keep_seeds(record: Record, path: Path) -> None:
    """Write what each method comes to with each seed, after some observations."""
    rows = (
        [run.method, run.seed, count, *(f"{curve[count]:.6g}" for curve in curves), seconds]
        for run in record.runs
        for curves in [[curve_of(run, measure) for measure in MEASURES]]
        for seconds in [f"{np.nanmean(run.seconds):.3g}"]
        for count in record.counts
    )
    heading = ["method", "seed", "observations", *MEASURES, "seconds_per_ask"]
    write_table(path, heading, rows)
