"""Claims about who finds better points sooner.

Regrets are averaged over the rounds, which is the area under the paper's curves, and compared seed
by seed; a difference counts if it is clear at 95%.
"""

from tellmost_reproduction.safebo.comparing import compare, describe_rounds, rank, rounds_needed
from tellmost_reproduction.safebo.process import Process
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.verdicts import FAILS, HOLDS, IN_PART, Verdict, conclude

OURS = ("itl", "vtl")
SOLVED = 0.5  # a task counts as solved below this share of the regret at the start


def rivals_of(record: Record) -> list[str]:
    """The methods of others that the paper has and that keep safe."""
    not_others = (*OURS, "itl-thompson", "eic")
    methods = record.experiment.methods
    return [m.key for m in methods if not m.is_extra and m.key not in not_others]


def opens(record: Record, key: str) -> bool:
    """Whether it ever learns of a safe point that was not known to be safe at the start."""
    return any(int(run.safe.max()) > int(run.safe[0]) for run in record.of(key))


def on_par(record: Record) -> Verdict:
    """Against those that can leave the start; to beat the others is nothing."""
    rivals = rivals_of(record)
    stuck = [record.label(key) for key in rivals if not opens(record, key)]
    moving = [key for key in rivals if opens(record, key)]
    made = [compare(record, ours, rival) for ours in OURS for rival in moving]
    lost = [one for one in made if one.is_worse]
    won = sum(one.is_better for one in made)
    text = f"Comparisons: {won} won, {len(made) - won - len(lost)} on par, {len(lost)} lost"
    lost_to = f": {'; '.join(one.describe() for one in lost)}" if lost else ""
    left_out = f". Not compared, as they never leave the start: {', '.join(stuck)}" * bool(stuck)
    best = ", ".join(
        f"{record.label(key)} {record.areas(key).mean():.3g}"
        for key in rank(record, record.keys)[:4]
    )
    return Verdict(
        "ITL and VTL are better than or on par with all methods of others that keep safe",
        conclude([not one.is_worse for one in made]),
        f"{text}{lost_to}{left_out}. Lowest mean regret of all, EIC and our additions included: "
        f"{best}",
    )


def vtl_ahead(record: Record) -> Verdict:
    one = compare(record, "vtl", "itl")
    lower = one.means[0] < one.means[1]
    verdict = HOLDS if one.is_better else IN_PART if lower and not one.is_worse else FAILS
    return Verdict("VTL is slightly better than ITL", verdict, one.describe())


def safeopt_slower(record: Record) -> Verdict:
    slopes = ("safeopt-oracle", "safeopt-estimated")
    made = [compare(record, ours, slow) for ours in OURS for slow in slopes]
    level = SOLVED * float(record.mean("regret", "itl")[0])
    keys = (*OURS, *slopes, *(key for key in ("safeopt",) if key in record.keys))
    when = ", ".join(describe_rounds(record, key, level) for key in keys)
    return Verdict(
        "SafeOpt, even with the oracle constant, is slower than ITL and VTL",
        conclude([one.is_better for one in made]),
        f"{'; '.join(one.describe() for one in made)}. Below half of the first regret "
        f"for good: {when}",
    )


def never_solves(record: Record, keys: tuple[str, ...], claim: str) -> Verdict:
    """A method fails if with most seeds half of the first regret is left at the end."""
    level = SOLVED * float(record.mean("regret", keys[0])[0])
    solved = {key: sum(n is not None for n in rounds_needed(record, key, level)) for key in keys}
    most = record.seeds / 2
    sizes = ", ".join(
        f"{record.label(key)}: {solved[key]} of {record.seeds} seeds solve it, regret "
        f"{record.mean('regret', key)[-1]:.3g}, safe set {record.mean('safe', key)[-1]:.0f}"
        for key in keys
    )
    return Verdict(claim, conclude([solved[key] < most for key in keys]), sizes)


def heuristic_fails(record: Record) -> Verdict:
    return never_solves(record, ("heuristic-safeopt",), "Heuristic SafeOpt fails")


def goose_fails(record: Record) -> Verdict:
    return never_solves(record, ("goose-oracle", "goose-estimated"), "GoOSE fails")


def slopes_fail(record: Record) -> Verdict:
    """With all constants that were tried; and whether anybody could, who knew everything."""
    by_slope = ("safeopt", "safeopt-estimated", "goose", "goose-estimated")
    claim = "(ours) SafeOpt and GoOSE, which grow safe sets by slopes, cannot leave the start"
    found = [opens(record, key) for key in by_slope]
    task = record.challenge
    assert isinstance(task, Process)
    reaching, safe = int(task.find_reaching().sum()), int(task.is_safe.sum())
    return Verdict(
        claim,
        conclude([not one for one in found]),
        f"{sum(found)} of {len(by_slope)} ever learn of another safe point. In six dimensions "
        f"points are far apart: with the true constants, and all values known, {reaching} of the "
        f"{safe} safe points would prove another one safe",
    )


def ise_worst(record: Record) -> Verdict:
    others = [*OURS, "itl-thompson", *(key for key in rivals_of(record) if key != "ise")]
    made = [compare(record, "ise", key) for key in others]
    below = [one for one in made if one.is_better]
    verdict = FAILS if below else conclude([one.is_worse for one in made])
    text = (
        f"; clearly worse than ISE: {'; '.join(one.describe() for one in below)}" if below else ""
    )
    return Verdict(
        "ISE is worst, as it does not look at the objective",
        verdict,
        f"{sum(one.is_worse for one in made)} of {len(made)} other methods are clearly better"
        f"{text}",
    )


def thompson_better(record: Record) -> Verdict:
    one = compare(record, "itl-thompson", "itl")
    return Verdict(
        "Thompson targets are better than all potential maximizers",
        HOLDS if one.is_better else FAILS,
        one.describe(),
    )


def thompson_worse(record: Record) -> Verdict:
    one = compare(record, "itl-thompson", "itl")
    return Verdict(
        "Thompson targets are worse where expansion is hard",
        HOLDS if one.is_worse else FAILS,
        one.describe(),
    )


def ise_bo_never_better(record: Record) -> Verdict:
    made = [compare(record, "ise-bo", ours) for ours in OURS]
    return Verdict(
        "ISE-BO is not better than ITL or VTL",
        conclude([not one.is_better for one in made]),
        "; ".join(one.describe() for one in made),
    )
