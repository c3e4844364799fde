"""The paper's claims about a task, each judged by the runs."""

from collections.abc import Callable

from tellmost_reproduction.safebo.orders import (
    goose_fails,
    heuristic_fails,
    ise_bo_never_better,
    ise_worst,
    on_par,
    safeopt_slower,
    slopes_fail,
    thompson_better,
    thompson_worse,
    vtl_ahead,
)
from tellmost_reproduction.safebo.places import (
    adapt,
    eic_violates,
    focus,
    jump,
    never_opens,
    size_matches,
    stay_safe,
)
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.verdicts import FAILS, HOLDS, IN_PART, Verdict

Judge = Callable[[Record], Verdict]

RULE = (
    "Regret is that of the recommendation, averaged over all rounds; methods are compared seed by "
    "seed, and a difference counts if it is clear at 95% (Student's t over the seeds). "
    f"*{HOLDS}*: all comparisons that the claim makes come out as it says; for *on par* it is "
    f"enough that none is clearly lost. *{IN_PART}*: some do. *{FAILS}*: none does. A method "
    f"*fails* if with most seeds half of the regret of the start is left at the end, and is not "
    f"*worst* if any other is clearly worse."
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
        ise_worst,
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
        ise_bo_never_better,
        stay_safe,
    ),
}
"""What is claimed about each experiment."""


def judge(record: Record) -> list[Verdict]:
    return [claim(record) for claim in CLAIMS.get(record.experiment.name, ())]
