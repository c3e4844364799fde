"""The page of a results folder: claim, command, time, result. Every number is from the runs."""

from collections.abc import Sequence

from tellmost.numerics import AGREEING_ERRORS, REPRODUCED
from tellmost_reproduction.machine import describe_machine
from tellmost_reproduction.safebo.claims import RULE
from tellmost_reproduction.safebo.keeping import BOX_SEEDS
from tellmost_reproduction.safebo.pooling import THREADS
from tellmost_reproduction.safebo.process import HOTTEST, PUREST, Process
from tellmost_reproduction.safebo.quadcopter.tuning import Tuning
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.safebo.tables import table_of, table_of_refusals
from tellmost_reproduction.safebo.tasks import NOISE_STD, Task
from tellmost_reproduction.tables import in_markdown
from tellmost_reproduction.verdicts import Verdict, tabulate_verdicts

BARRIERS = "safebo-barriers"
SMALL = "**Smoke size: this says that the code runs, and nothing about the paper.**"
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


def write_readme(
    record: Record, verdicts: Sequence[Verdict], *, seconds: float, is_smoke: bool
) -> str:
    name, title = record.experiment.name, record.experiment.title
    refusals = table_of_refusals(record)
    parts = [
        f"# {name}: {title}",
        *([SMALL] if is_smoke else []),
        f"**Claim.** Hübotter et al. 2024{_elsewhere(record)}: "
        + "; ".join(v.claim for v in verdicts)
        + ".",
        f"**Command.** `{command_for(name, is_smoke=is_smoke)}`. Needs "
        f'`pip install "tellmost[cli,plot]"`.',
        f"**Time.** {record.total_seconds:.0f} s of processor time for all that was asked and "
        f"told; {seconds:.0f} s for what was not on disk, verdicts and figures: "
        f"{describe_machine(THREADS)}.",
        f"**Set-up.** {describe_task(record)} {record.rounds} rounds, {record.seeds} seeds. "
        f"{ABOUT_METHODS} {describe_slopes(record)}",
        "**Result.**",
        tabulate_verdicts(verdicts),
        f"**Verdicts.** {RULE}",
        "![Regret and size of the safe set](figure.svg)",
        *_pictures(name),
        "## Numbers",
        ABOUT_NUMBERS,
        in_markdown(table_of(record)),
        *([] if refusals is None else ["## Refusals", ABOUT_REFUSALS, in_markdown(refusals)]),
        _files(record, is_smoke=is_smoke),
    ]
    return "\n\n".join(parts) + "\n"


def _elsewhere(record: Record) -> str:
    """The paper does not have the process."""
    return ", about tasks of its own" if isinstance(record.challenge, Process) else ""


ABOUT_REFUSALS = (
    "Runs that ended early because the optimizer refused to go on; they keep their last values."
)


def command_for(name: str, *, is_smoke: bool) -> str:
    return f"tellmost reproduce {name}{' --smoke' * is_smoke}"


def describe_slopes(record: Record) -> str:
    """Which Lipschitz constants there are; they differ from task to task."""
    if isinstance(record.challenge, Process):
        return BY_THE_POINTS
    if isinstance(record.challenge, Task):
        return BY_THE_CURVE if record.experiment.name == BARRIERS else BY_THE_PAPER
    return BY_THE_GRID


def describe_task(record: Record) -> str:
    task = record.challenge
    if isinstance(task, Task):
        function = "one function is" if task.is_shared else "two functions are"
        slopes = (
            f"; Lipschitz constants of the constraint: true {task.lipschitz[1]:.4g}, oracle "
            f"{task.paper_lipschitz[1]:.4g}, estimated {task.estimated_lipschitz[1]:.4g}"
        )
        return (
            f"{len(task.domain):,} points, {int(task.is_safe.sum())} of them safe; {function} "
            f"objective and constraint; noise sd {NOISE_STD}, beta {task.beta:g}"
            f"{'' if record.experiment.name == BARRIERS else slopes}."
        )
    if isinstance(task, Process):
        return describe_process(task)
    if isinstance(task, Tuning):
        return (
            f"Gains in [0, 20]^4, a random line of 2,000 points each round; noise sd {NOISE_STD}, "
            f"beta {task.configuration.beta:g}, {task.configuration.prior_observations} "
            f"observations of the safe seed, the published code's disturbance. The constraint "
            f"falls from 0.5 to -0.5 between neighbours of a line: no constant of practical size "
            f"bounds it. The safe set is counted among the points of the round."
        )
    return ""


def describe_process(task: Process) -> str:
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
    if name == BARRIERS:
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
    some = (
        ""
        if isinstance(record.challenge, Task | Process)
        else f" (of the first {BOX_SEEDS} seeds)"
    )
    expected = (
        "Nothing is compared with the expected numbers at this size."
        if is_smoke
        else "The expected means and standard errors come with the package; a run agrees if every "
        f"mean is within {AGREEING_ERRORS:.0f} standard errors of them, or within "
        f"{100 * REPRODUCED:.1f}%."
    )
    return (
        f"`picks.csv`: a row per run, what was measured in its order{some}. `seeds.csv`: regret, "
        f"size of the safe set and violations with every seed. {expected}"
    )
