"""The paper's claims about a task, each judged by the runs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tellmost.evaluation.statistics import Mean, rank_correlation
from tellmost_reproduction.frame.verdicts import (
    FAILS,
    HOLDS,
    IN_PART,
    OPEN,
    Verdict,
    conclude,
)
from tellmost_reproduction.safebo.process import find_reaching
from tellmost_reproduction.safebo.records import (
    Record,
    compare,
    describe,
    describe_rounds,
    rank,
    rounds_needed,
)
from tellmost_reproduction.safebo.runs import Run
from tellmost_reproduction.safebo.tasks import Task, third_bump

OURS = ("itl", "vtl")
SOLVED = 0.5  # a task counts as solved below this share of the regret at the start


def rivals_of(record: Record) -> list[str]:
    """The methods of others that the paper has and that keep safe."""
    not_others = (*OURS, "itl-thompson", "eic")
    methods = record.experiment.methods
    return [m.key for m in methods if not m.is_extra and m.key not in not_others]


def opens(record: Record, key: str) -> bool:
    """True if it ever learns of a safe point that was not known to be safe at the start."""
    return any(int(run.safe.max()) > int(run.safe[0]) for run in record.of(key))


def on_par(record: Record) -> Verdict:
    """Only methods that can leave the start are rivals, since to beat the others is nothing."""
    rivals = rivals_of(record)
    stuck = [record.label(key) for key in rivals if not opens(record, key)]
    moving = [key for key in rivals if opens(record, key)]
    made = [compare(record, ours, rival) for ours in OURS for rival in moving]
    lost = [one for one in made if one.is_worse]
    won = sum(one.is_better for one in made)
    text = f"Comparisons: {won} won, {len(made) - won - len(lost)} on par, {len(lost)} lost"
    lost_to = f": {'; '.join(describe(one) for one in lost)}" if lost else ""
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
    return Verdict("VTL is slightly better than ITL", verdict, describe(one))


def safeopt_slower(record: Record) -> Verdict:
    slopes = ("safeopt-oracle", "safeopt-estimated")
    made = [compare(record, ours, slow) for ours in OURS for slow in slopes]
    level = SOLVED * float(record.mean("regret", "itl")[0])
    keys = (*OURS, *slopes, *(key for key in ("safeopt",) if key in record.keys))
    when = ", ".join(describe_rounds(record, key, level) for key in keys)
    return Verdict(
        "SafeOpt, even with the oracle constant, is slower than ITL and VTL",
        conclude([one.is_better for one in made]),
        f"{'; '.join(describe(one) for one in made)}. Below half of the first regret "
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
    """All constants count. The finding also tells what is possible if all values are known."""
    by_slope = ("safeopt", "safeopt-estimated", "goose", "goose-estimated")
    claim = "(ours) SafeOpt and GoOSE, which grow safe sets by slopes, cannot leave the start"
    found = [opens(record, key) for key in by_slope]
    task = record.challenge
    assert isinstance(task, Task)
    reaching, safe = int(find_reaching(task).sum()), int(task.is_safe.sum())
    return Verdict(
        claim,
        conclude([not one for one in found]),
        f"{sum(found)} of {len(by_slope)} ever learn of another safe point. In six dimensions "
        f"points are far apart: with the true constants, and all values known, {reaching} of the "
        f"{safe} safe points would prove another one safe",
    )


def ise_worse(record: Record) -> Verdict:
    made = [compare(record, "ise", ours) for ours in OURS]
    return Verdict(
        "ISE, which does not trade expansion against exploration, is significantly worse than ITL "
        "and VTL",
        conclude([one.is_worse for one in made]),
        "; ".join(describe(one) for one in made),
    )


def thompson_better(record: Record) -> Verdict:
    one = compare(record, "itl-thompson", "itl")
    claim = "Thompson targets are better than all potential maximizers"
    return Verdict(claim, HOLDS if one.is_better else FAILS, describe(one))


def thompson_worse(record: Record) -> Verdict:
    one = compare(record, "itl-thompson", "itl")
    claim = "Thompson targets are worse where expansion is hard"
    return Verdict(claim, HOLDS if one.is_worse else FAILS, describe(one))


def ise_bo_never_better(record: Record) -> Verdict:
    """Judge the published form, which draws f* from all that a draw calls safe."""
    made, other = (
        [compare(record, key, ours) for ours in OURS] for key in ("ise-bo-draws", "ise-bo")
    )
    return Verdict(
        "ISE-BO is not better than ITL or VTL",
        conclude([not one.is_better for one in made]),
        "; ".join(describe(one) for one in (*made, *other)),
    )


EARLY = 50  # rounds in which the paper counts the violations of EIC
CLOSE = 0.8  # the rank correlation from which on two measures match closely


def count_violations(record: Record, key: str, first: int | None = None) -> np.ndarray:
    return np.array([run.violates[:first].sum() for run in record.of(key)])


def stay_safe(record: Record) -> Verdict:
    counts = {key: int(count_violations(record, key).sum()) for key in record.keys}
    others = [f"{record.label(k)} {n}" for k, n in counts.items() if n and k not in ("itl", "vtl")]
    wrong = {key: max(int(run.wrong.max()) for run in record.of(key)) for key in record.keys}
    false = [f"{record.label(key)} {n}" for key, n in wrong.items() if n]
    taken = f"; points wrongly taken for safe, at most: {', '.join(false)}" if false else ""
    return Verdict(
        "ITL and VTL violate no constraint",
        conclude([counts["itl"] == 0, counts["vtl"] == 0]),
        f"ITL {counts['itl']}, VTL {counts['vtl']} violations in {record.seeds} x "
        f"{record.rounds} rounds; of the others: {', '.join(others) or 'none'}{taken}",
    )


def eic_violates(record: Record) -> Verdict:
    """That ITL and VTL violate nothing is a claim of its own."""
    counts = count_violations(record, "eic", EARLY)
    return Verdict(
        "EIC violates constraints, in 1.6 of the first 50 rounds",
        conclude([bool(counts.any())]),
        f"In the first {min(EARLY, record.rounds)} rounds: EIC "
        f"{Mean.of(counts).text(digits=2)}{describe_eic(record)}",
    )


def describe_eic(record: Record) -> str:
    """What may explain a difference: a wrong sign in the published one, and how far it went."""
    asked = {tuple(np.atleast_1d(x)) for run in record.of("eic") for x in run.picks}
    return (
        f". EIC asked for {len(asked):,} different points; the published one multiplies by the "
        f"probability of being unsafe, this one by that of being safe"
    )


def size_matches(record: Record) -> Verdict:
    """Compare methods that keep safe, in the middle of the run and at the end."""
    keys = [key for key in record.keys if key != "eic"]
    found = []
    for count in (record.rounds // 2, record.rounds):
        regret = np.array([record.mean("regret", key)[count] for key in keys])
        safe = np.array([record.mean("safe", key)[count] for key in keys])
        found.append(rank_correlation(regret, safe).value)
    return Verdict(
        "The size of the safe set matches the regret closely",
        conclude([value <= -CLOSE for value in found]),
        f"rank correlation of the two over the {len(keys)} methods that keep safe: "
        f"{found[0]:.2f} after {record.rounds // 2} rounds, {found[1]:.2f} at the end "
        f"(closely: beyond -{CLOSE})",
    )


def focus(record: Record) -> Verdict:
    """Compare the true objective at the places of the measurements."""
    task = record.challenge
    assert isinstance(task, Task)
    keys = ("itl", "safeopt-oracle", "itl-thompson", "goose-oracle")
    at = {key: np.array([task.f[run.picks].mean() for run in record.of(key)]) for key in keys}
    wide, focused = keys[:2], keys[2:]
    facts = [Mean.of(at[one] - at[other]).sign > 0 for one in focused for other in wide]
    means = ", ".join(f"{record.label(k)} {Mean.of(v).text(digits=2)}" for k, v in at.items())
    return Verdict(
        "ITL and SafeOpt expand evenly; ITL with Thompson targets and GoOSE focus where the "
        "objective is high",
        conclude(facts),
        f"mean objective where is measured: {means}",
    )


def never_opens(record: Record) -> Verdict:
    """Judge what the printed beta does. The paper does not claim it."""
    kept = [key for key in record.keys if key != "eic"]
    moved = {key: sum(map(has_moved, record.of(key))) for key in kept}
    left = [
        f"{record.label(key)} in {count} of {record.seeds} runs, with a regret of "
        f"{record.mean('regret', key)[-1]:.3f} at the end"
        for key, count in moved.items()
        if count
    ]
    others = f"; others: {', '.join(left)}" if left else ""
    return Verdict(
        "(ours) With beta 10 the safe set never grows beyond the seed",
        conclude([count == 0 for count in moved.values()]),
        f"{len(kept) - len(left)} of {len(kept)} methods that keep safe measured nothing but the "
        f"seed{others}",
    )


def has_moved(run: Run) -> bool:
    """True if more than one point was measured."""
    return len(np.unique(run.picks, axis=0)) > 1


def jump(record: Record) -> Verdict:
    keys = ("itl-expanders", "safeopt-expanders", "safeopt")
    reached = {key: share_reached(record, key) for key in (*keys, "goose")}
    words = ", ".join(
        f"{record.label(key)} {sum(share > 0 for share in shares)} of {len(shares)} seeds, "
        f"{100 * np.mean(shares):.0f}% of it"
        for key, shares in reached.items()
    )
    return Verdict(
        "ITL with potential expanders reaches the third bump, SafeOpt never does",
        conclude([min(reached[keys[0]]) > 0, *(max(reached[key]) == 0 for key in keys[1:])]),
        f"reached: {words}",
    )


def share_reached(record: Record, key: str) -> list[float]:
    """The share of the third bump that is known to be safe at the end of each run."""
    task = record.challenge
    assert isinstance(task, Task)
    bump = third_bump(task)
    return [float(record.replay(run).safe_mask[bump].mean()) for run in record.of(key)]


def adapt(record: Record) -> Verdict:
    """Count measurements where the sine is within a thousandth of its extremes."""
    task = record.challenge
    assert isinstance(task, Task)
    top = np.abs(np.sin(task.domain[:, 0])) > 0.999
    shares = {
        key: Mean.of(np.array([top[run.picks].mean() for run in record.of(key)]))
        for key in ("itl-expanders", "safeopt-expanders")
    }
    words = ", ".join(f"{record.label(key)} {one.text(100.0)}%" for key, one in shares.items())
    itl, slow = (one.value for one in shares.values())
    return Verdict(
        "ITL measures where the sine is largest, SafeOpt at the boundary",
        conclude([itl > 0.5, slow < 0.5]),
        f"share of measurements where the sine is beyond 0.999 or -0.999: {words}",
    )


Judge = Callable[[Record], Verdict]

RULE = (
    "Regret is that of the recommendation, averaged over all rounds; methods are compared seed by "
    "seed, and a difference counts if it is clear at 95% (Student's t over the seeds). "
    f"*{HOLDS}*: all comparisons that the claim makes come out as it says; for *on par* it is "
    f"enough that none is clearly lost. *{IN_PART}*: some do. *{FAILS}*: none does. A method "
    f"*fails* if with most seeds half of the regret of the start is left at the end. *{OPEN}*: "
    f"the claim is about ITL and VTL, and both never leave the start."
)
"""When a claim gets which verdict."""

CLAIMS: dict[str, tuple[Judge, ...]] = {
    "safebo-1d": (
        on_par,
        vtl_ahead,
        safeopt_slower,
        heuristic_fails,
        goose_fails,
        thompson_worse,
        ise_bo_never_better,
        size_matches,
        stay_safe,
    ),
    "safebo-2d": (
        on_par,
        vtl_ahead,
        ise_worse,
        thompson_better,
        ise_bo_never_better,
        focus,
        stay_safe,
    ),
    "safebo-barriers": (jump, adapt, stay_safe),
    "safebo-quadcopter": (
        on_par,
        vtl_ahead,
        safeopt_slower,
        goose_fails,
        thompson_worse,
        ise_bo_never_better,
        eic_violates,
        stay_safe,
    ),
    "safebo-quadcopter-text": (
        never_opens,
        on_par,
        safeopt_slower,
        goose_fails,
        eic_violates,
        stay_safe,
    ),
    "safebo-process": (
        on_par,
        vtl_ahead,
        heuristic_fails,
        slopes_fail,
        stay_safe,
    ),
}
"""What is claimed about each experiment."""


ABOUT_OURS = (on_par, vtl_ahead, safeopt_slower, ise_bo_never_better, stay_safe)


def judge(record: Record) -> list[Verdict]:
    """Judge what is claimed. Of rules that never leave the start little can be said."""
    is_moving = any(opens(record, key) for key in OURS)
    return [
        replace(verdict, holds=OPEN) if claim in ABOUT_OURS and not is_moving else verdict
        for claim in CLAIMS.get(record.experiment.name, ())
        for verdict in [claim(record)]
    ]
