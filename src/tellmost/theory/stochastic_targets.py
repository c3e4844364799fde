"""How often targets that are drawn anew each round come near a point."""

from dataclasses import dataclass
from math import exp, expm1, log1p, sqrt

from tellmost.rows.opening import check_positive, check_whole


@dataclass(frozen=True)
class StochasticTargetBound:
    r"""With probability 1 - ``failure`` at least ``rounds`` of n rounds had a target near a point.

    Near is within a ball of weight p. ``share`` is :math:`\nu = 1 - (1-p)^K`, the probability
    of that in a round. The paper takes :math:`\nu \approx K p`, which is larger: its numbers,
    ``approximate_rounds`` and ``approximate_failure``, promise too much unless K p is small.
    """

    share: float
    rounds: float
    failure: float
    approximate_rounds: float
    approximate_failure: float

    def reducible(
        self, capacity: float, *, constant: float, lipschitz: float, radius: float
    ) -> float:
        r"""The reducible variance that the paper's sketch gives,
        :math:`C L_I \gamma\, \gamma_{k(n)} / \sqrt{k(n)}`, of which only the order is proved.

        ``capacity`` is that of k(n) = ``rounds`` observations, ``constant`` the one of the
        convergence theorem, ``lipschitz`` that of the ITL objective, ``radius`` the ball's.
        """
        factors = {"constant": constant, "lipschitz": lipschitz, "radius": radius}
        product = check_positive(capacity, "capacity") / sqrt(self.rounds)
        for name, factor in factors.items():
            product *= check_positive(factor, name)
        return product


def stochastic_target_bound(n: int, *, size: int, weight: float) -> StochasticTargetBound:
    r"""How many of n rounds see a target near a point, if ``size`` targets are drawn in each.

    .. math:: \Pr\Big[ \sum_{i \le n} X_i \ge \tfrac12 n \nu \Big] \ge 1 - e^{-n \nu / 8}, \qquad
        \nu = 1 - (1 - p)^K \approx K p

    Hübotter et al. 2024, App. "Stochastic Target Spaces": Chernoff's bound for n independent
    rounds, K = ``size`` and p = ``weight`` the probability of the ball. The proposition prints a
    failure of :math:`e^{-(1-p) n / (8K)}`, which falls as the ball gets lighter and rises with
    more targets; its proof gives :math:`e^{-K p n / 8}`, the approximate form here.
    """
    count, K, p = check_whole(n, "n"), check_whole(size, "size"), check_positive(weight, "weight")
    if p > 1:
        raise ValueError(f"weight is the probability of a ball, at most 1; got {weight}.")
    share = 1.0 if p == 1 else -expm1(K * log1p(-p))
    return StochasticTargetBound(
        share=share,
        rounds=count * share / 2.0,
        failure=exp(-count * share / 8.0),
        approximate_rounds=K * p * count / 2.0,
        approximate_failure=exp(-K * p * count / 8.0),
    )
