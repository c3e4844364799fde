"""Several picks in one pass on a GPU: draft them on a shortlist, then check them on all rows.

A round ranks all rows, drafts greedily on the best of them, makes the columns of all drafted picks
in one pass, and replays: a drafted pick stands if no row outside the shortlist comes near its gain
at its turn. All of it happens on the GPU; the host reads one small result per round. What is
drafted is scored afresh in float64 from the posterior, so the picks are those of the loop in
``greedy``, which takes over where a round cannot decide: ties beyond the shortlist, or drift.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sightline import numerics
from sightline.eligibility import Eligibility
from sightline.gpu import can_fuse
from sightline.greedy import Pick, Stop
from sightline.posterior import Tracker
from sightline.posterior.weight_tracker import WeightTracker
from sightline.rules import ITL, VTL, Rule, UncertaintySampling, UndirectedITL
from sightline.shapes import Float, Int

if TYPE_CHECKING:
    from sightline.gpu.drafting import Drafted

FUSED = {ITL: 0, VTL: 1, UncertaintySampling: 2, UndirectedITL: 3}  # as in gpu.scores


def fused_rounds(tracker: Tracker, rule: Rule, eligibility: Eligibility) -> "FusedRounds | None":
    """Rounds, where the rows are on a GPU and the rule has a kernel; else None."""
    if type(rule) not in FUSED or not isinstance(tracker, WeightTracker):
        return None
    if not tracker.problem.place.exchange.is_alone:  # a round decides about all rows at once
        return None
    if not eligibility.is_plain or tracker.width < 2 or not can_fuse(tracker.problem.rows.held):
        return None
    return FusedRounds(tracker, FUSED[type(rule)], eligibility)


class FusedRounds:
    """Picks made on the GPU, several at a time."""

    def __init__(self, tracker: WeightTracker, rule: int, eligibility: Eligibility) -> None:
        n, device = len(tracker.problem.rows), tracker.problem.device
        values = [run.values for run in tracker.running.values()]
        self._tracker = tracker
        self._rule = rule
        self._eligibility = eligibility
        self._variance, self._second = values[0], values[-1]
        self._steps = min(tracker.width, numerics.MOST_DRAFTED // len(values))
        self._length = 2 ** (min(n, numerics.DRAFTED_FROM).bit_length() - 1)
        self._columns = torch.empty(
            len(values), self._steps, n, dtype=torch.float64, device=device
        )
        self._scores = torch.empty(n, dtype=torch.float64, device=device)
        self._ranked_at = -1

    def advance(self, stop: Stop, most: int | None, first: float | None) -> list[Pick]:
        """The next picks; none where a round cannot decide which is the best."""
        from sightline.gpu.drafting import draft
        from sightline.gpu.replaying import replay

        self._rank()
        top = self._scores.topk(self._length)
        rows, problem = top.indices, self._tracker.problem
        block = problem.rows.rows(rows)
        unknown = torch.full((1,), float("nan") if first is None else first, device=block.device)
        drafted = draft(
            self._rule,
            *self._joint(block),
            problem.noise_variance[rows],
            rows,
            top.values,
            unknown.to(torch.float64),
            self._steps,
        )
        vectors = self._vectors(block[drafted.places], drafted)
        problem.rows.products(vectors.flatten(0, 1), self._columns.flatten(0, 1))
        excluded = self._eligibility.closed.index_fill(0, rows, True)
        rank, fall = replay(
            self._rule,
            self._columns,
            self._variance,
            self._second,
            problem.noise_variance,
            excluded,
        )
        stands = self._standing(drafted, rank, stop, most, first)
        return self._take(rows[drafted.places], vectors, drafted.gains, fall, stands)

    def _rank(self) -> None:
        """Rank the rows, unless the last round has done so."""
        if self._ranked_at != self._tracker.step:
            self._commit(torch.zeros((), dtype=torch.int32, device=self._scores.device))
        self._ranked_at = self._tracker.step

    def _joint(self, block: Float[Tensor, "L d"]) -> tuple[Tensor, Tensor]:
        """The two matrices of a draft; see gpu.drafting."""
        tracker = self._tracker
        against = block @ tracker.posterior.covariance
        first = against @ block.T
        if tracker.given_targets is not None:
            return first, block @ tracker.given_targets.covariance @ block.T
        squares = tracker.squares
        if squares is None:
            return first, first
        projected = against @ squares.root
        return first, projected @ projected.T

    def _vectors(self, phi: Float[Tensor, "T d"], drafted: "Drafted") -> Float[Tensor, "q T d"]:
        """The scaled vectors whose products with the rows are the columns of a replay."""
        tracker, root_scale = self._tracker, drafted.scale.rsqrt()[:, None]
        U = unwound(phi @ tracker.posterior.covariance, drafted.carried)
        if tracker.given_targets is not None:
            seen = unwound(phi @ tracker.given_targets.covariance, drafted.second_carried)
            return torch.stack([U * root_scale, seen * drafted.second_scale.rsqrt()[:, None]])
        if tracker.squares is None:
            return (U * root_scale)[None]
        root = tracker.squares.root
        projected = U @ root
        E = (projected @ projected.T).tril_(-1) / drafted.scale
        H = projected @ (root.T @ tracker.posterior.covariance) - E @ U
        U *= root_scale
        share = (drafted.second_scale / drafted.scale)[:, None]
        return torch.stack([U, 2.0 * root_scale * H - share * U])

    def _standing(
        self,
        drafted: "Drafted",
        rank: Float[Tensor, " T"],
        stop: Stop,
        most: int | None,
        first: float | None,
    ) -> Float[Tensor, " T"]:
        """1 for each drafted pick that is the best of all rows, up to the first that is not."""
        gains = drafted.gains
        outside = rank.log1p().mul_(0.5) if self._rule in (0, 3) else rank
        band = numerics.LEADER_BAND * gains.abs() + numerics.TIE_FLOOR * gains[:1].abs()
        stands = (outside < gains - band) & (drafted.drift < numerics.LEADER_BAND / 10)
        if stop.min_gain is not None:
            stands &= gains >= stop.min_gain
        if stop.min_gain_share is not None:
            stands &= gains >= stop.min_gain_share * (gains[:1] if first is None else first)
        if most is not None and most < len(stands):
            stands[most:] = False
        return stands.to(torch.float64).cumprod(dim=0)

    def _take(
        self,
        rows: Int[Tensor, " T"],
        vectors: Float[Tensor, "q T d"],
        gains: Float[Tensor, " T"],
        fall: Float[Tensor, " T"],
        stands: Float[Tensor, " T"],
    ) -> list[Pick]:
        """Observe the picks that stand."""
        tracker = self._tracker
        uncertainty = self._uncertainty(vectors[0], fall, stands)
        posteriors = (tracker.posterior, tracker.given_targets)
        for posterior, U in zip(posteriors, vectors, strict=False):
            if posterior is not None:
                posterior.covariance.addmm_((U * stands[:, None]).T, U, alpha=-1.0)
        self._eligibility.take_where(rows, stands > 0)
        self._commit(stands.sum().to(torch.int32))
        table = torch.stack([stands, rows.to(torch.float64), gains, uncertainty]).tolist()
        picks = [
            Pick(int(row), gain, left)
            for stood, row, gain, left in zip(*table, strict=True)
            if stood
        ]
        tracker.took(len(picks))
        self._ranked_at = tracker.step
        return picks

    def _uncertainty(self, U: Tensor, fall: Tensor, stands: Tensor) -> Float[Tensor, " T"]:
        """What is left after each pick; the targets' variances are brought up to date."""
        targets, problem = self._tracker.targets.state, self._tracker.problem
        if targets is None:
            return self._variance.mean() - (fall * stands).cumsum(dim=0) / len(problem.rows)
        squares = (U @ problem.known_targets.T).square_().mul_(stands[:, None])
        left = targets.weights @ targets.variance - (squares @ targets.weights).cumsum(dim=0)
        numerics.nonnegative(targets.variance.sub_(squares.sum(dim=0)))
        return left

    def _commit(self, accepted: Int[Tensor, ""]) -> None:
        from sightline.gpu.replaying import commit

        commit(
            self._rule,
            self._columns,
            self._variance,
            self._second,
            self._tracker.problem.noise_variance,
            self._eligibility.closed,
            accepted,
            self._scores,
        )


def unwound(vectors: Float[Tensor, "T d"], carried: Float[Tensor, "T T"]) -> Float[Tensor, "T d"]:
    """The vectors less what each shares with those before it."""
    return torch.linalg.solve_triangular(carried, vectors, upper=False, unitriangular=True)
