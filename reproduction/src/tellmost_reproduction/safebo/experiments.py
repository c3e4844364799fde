"""The experiments by name: task, methods, seeds, and when to look."""

from functools import cache

from tellmost_reproduction.safebo.methods import EXPANDING, METHODS
from tellmost_reproduction.safebo.process import process, small_process
from tellmost_reproduction.safebo.quadcopter.flight import plan_controls
from tellmost_reproduction.safebo.quadcopter.task import Quadcopter
from tellmost_reproduction.safebo.quadcopter.tuning import CODE_BETA, TEXT_BETA, Tuning
from tellmost_reproduction.safebo.records import Experiment
from tellmost_reproduction.safebo.tasks import barriers, bumps, island

SMOKE_SEEDS, SMOKE_ROUNDS = 2, 2
OFTEN = (10, 25, 50, 100)
SAME_CONSTANTS = ("safeopt-oracle", "safeopt-estimated", "goose-oracle", "goose-estimated")
"""Methods that are left out if a task has one Lipschitz constant for all."""

JUMPING = (*EXPANDING, *(one for one in METHODS if one.key not in SAME_CONSTANTS))
AS_BEFORE = tuple(one for one in METHODS if one.key != "ise-bo-draws")  # it is judged elsewhere
PROCESSING = tuple(one for one in AS_BEFORE if one.lipschitz != "oracle")  # it has none here


@cache
def quadcopter() -> Quadcopter:
    return Quadcopter(plan_controls().controls)


def tune_by_code() -> Tuning:
    return Tuning("quadcopter-code", CODE_BETA, quadcopter())


def tune_by_text() -> Tuning:
    return Tuning("quadcopter-text", TEXT_BETA, quadcopter())


EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "safebo-1d",
            "a valley that is barely safe, between two hills",
            bumps,
            METHODS,
            seeds=10,
            looked_at=(100, 200, 300, 400, 600, 800, 1_000),
        ),
        Experiment(
            "safebo-2d",
            "an island, with the maximum off its shore",
            island,
            METHODS,
            seeds=10,
            looked_at=OFTEN,
        ),
        Experiment(
            "safebo-barriers",
            "jumping past local barriers (a reconstruction)",
            barriers,
            JUMPING,
            seeds=10,
            looked_at=(5, 10, 25, 50, 100),
        ),
        Experiment(
            "safebo-quadcopter",
            "gains of a quadcopter, as in the published code (beta 1)",
            tune_by_code,
            METHODS,
            seeds=25,
            looked_at=OFTEN,
        ),
        Experiment(
            "safebo-quadcopter-text",
            "gains of a quadcopter, as in the paper's text (beta 10)",
            tune_by_text,
            AS_BEFORE,
            seeds=25,
            looked_at=OFTEN,
        ),
        Experiment(
            "safebo-process",
            "beyond the paper: a 6d process with two graded limits",
            process,
            PROCESSING,
            seeds=10,
            looked_at=OFTEN,
            make_small=small_process,
        ),
    )
}
"""In the order of the paper, then ours."""
