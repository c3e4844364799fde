"""What a careful colleague would mention before the picks are used."""

from tellmost.posterior.problem import FewRows, Problem
from tellmost.posterior.weight_tracker import Tracker
from tellmost.rules import Rule
from tellmost.running.processes import Shard
from tellmost.selecting.data import SelectionNoise, evenly_spaced

DETERMINED = 1e-9
"""A variance below this share of what it was before the targets were seen is settled by them."""


def note_small_noise(problem: Problem, picks: int | None, noise: SelectionNoise) -> list[str]:
    """Small noise spreads picks over everything once they outnumber the pool's directions."""
    if (
        picks is None
        or noise.ratio >= 1.0
        or problem.targets is None
        or not problem.conditions_rows
    ):
        return []
    rank = effective_rank(problem)
    if picks <= rank:
        return []
    return [
        f"{picks} picks exceed the effective rank of the candidates (about {rank:.0f}) at a noise "
        f"ratio of {noise.ratio:.3g}: observations this precise settle the targets early, and the "
        f"later picks spread over everything. A noise_ratio of 1 or more keeps them together."
    ]


def effective_rank(problem: Problem) -> float:
    """(E k(x, x))^2 / E k(x, z)^2 over pairs: d for isotropic candidates, 1 for equal ones.

    The same as (tr K)^2 / |K|_F^2 of the whole pool, from pairs of a few evenly spaced rows.
    """
    n = problem.row_count
    points = FewRows.read(problem, evenly_spaced(n)).points
    count = len(points)
    K = problem.kernel.block(points, points)
    if count == 1:
        return 1.0
    own = float(K.diagonal().mean()) ** 2
    pairs = float(K.square().sum() - K.diagonal().square().sum()) / (count * (count - 1))
    return float(n) if own >= n * pairs else own / pairs


def note_determined_targets(tracker: Tracker, rule: Rule, shard: Shard | None) -> list[str]:
    """ITL about f_A is undirected where f_A determines every candidate."""
    if rule.name != "itl":
        return []
    is_open = not all(
        bool((state.variance_given_targets <= DETERMINED * state.variance).all())
        for _, _, state in tracker.states()
    )
    if is_open if shard is None else shard.is_any(is_open):
        return []
    return [
        "the targets determine f at every candidate, so ITL about f_A is uncertainty sampling "
        "here and no longer directed. Use rule='vtl' or rule='itl-y', which stay directed."
    ]
