"""Several picks in one pass on a GPU: draft them on a shortlist, then check them on all rows.

A round ranks all rows, drafts greedily on the best of them, makes the columns of all drafted picks
in one pass, and replays: a drafted pick stands if no row outside the shortlist comes near its gain
at its turn. All of it happens on the GPU; the host reads one small result per round. What is
drafted is scored afresh in float64 from the posterior, so the picks are those of the loop, which
takes over where a round cannot decide: with ties beyond the shortlist, or drift.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from tellmost import numerics
from tellmost.gpu.drafts import Board
from tellmost.posterior.problem import nonnegative
from tellmost.posterior.weight_tracker import WeightTracker
from tellmost.rules import ITL, VTL, UncertaintySampling, UndirectedITL
from tellmost.selecting.data import Pick
from tellmost.selecting.limits import Eligibility, Stop
from tellmost.shapes import Float, Int

DRAFTED_FROM = 2_048
"""A shortlist on a GPU has so many rows at most. The picks of a round are drafted from these."""

DRAFTED_BYTES = 8 * 2**20
"""A shortlist's features take so many bytes in float64 at most. More features mean fewer rows,
since their joint covariances cost rows x features^2."""

SPREAD = 8
"""VTL drafts from so many times as many of the best rows, by turns. In clusters the best rows are
near-copies of few, and a shortlist of these would not have the next picks."""

FUSED: Mapping[type, int] = {
    ITL: 0,
    VTL: 1,
    UncertaintySampling: 2,
    UndirectedITL: 3,
}  # as in gpu.scores


class FusedRounds:
    """Picks made on the GPU, several at a time; ``most`` is how many there will be in all."""

    def __init__(
        self, tracker: WeightTracker, rule: int, eligibility: Eligibility, most: int | None
    ) -> None:
        problem, values = tracker.problem, [run.values for run in tracker.running.values()]
        n = len(problem.rows)
        tracker.width = min(tracker.width, numerics.MOST_DRAFTED // len(values))
        affordable = DRAFTED_BYTES // (8 * problem.rows.dimension)
        length = 2 ** (min(n, DRAFTED_FROM, max(affordable, 64)).bit_length() - 1)
        steps = min(tracker.width, most or n)
        self._tracker, self._eligibility = tracker, eligibility
        self._covariances = _side_by_side(tracker)
        self._board = Board.of(rule, values, problem.noise_variance, steps, length)
        self._ranked_at = -1
        self.made = 0

    def advance(self, stop: Stop, most: int | None, first: float | None) -> list[Pick]:
        """The next picks; no pick where a round cannot decide which row is the best."""
        self._prepare(first)
        board, closed, rows = self._board, self._eligibility.closed, self._shortlist()
        vectors = self._draft(rows)
        self._tracker.problem.rows.products(vectors.flatten(0, 1), board.columns.flatten(0, 1))
        board.scores.index_fill_(0, rows, -torch.inf)
        outside, falls = board.replay()
        board.judge(
            outside,
            rows,
            closed,
            most=len(board.scores) if most is None else most,
            min_gain=stop.min_gain,
            min_share=stop.min_gain_share,
        )
        self._condition(vectors, falls)
        board.commit(closed)
        return self._picks()

    def _prepare(self, first: float | None) -> None:
        """Rank the rows, unless the last round has done so."""
        if self._ranked_at != self._tracker.step:
            self._board.accepted.zero_()
            self._board.commit(self._eligibility.closed)
        if first is not None:
            self._board.first.fill_(first)

    def _shortlist(self) -> Int[Tensor, " L"]:
        """The best rows. For VTL the best about each target come first, then the second best."""
        length, scores, squares = self._board.length, self._board.scores, self._tracker.squares
        if squares is None:
            return scores.topk(length).indices
        best = scores.topk(min(SPREAD * length, len(scores))).indices
        about = self._covariances[0] @ squares.root
        covariance = self._tracker.problem.rows.rows(best) @ about
        target, order = covariance.abs_().argmax(dim=1).sort(stable=True)
        turn = torch.arange(len(best), device=best.device) - torch.searchsorted(target, target)
        return best[order[turn.argsort(stable=True)[:length]]]

    def _draft(self, rows: Int[Tensor, " L"]) -> Float[Tensor, "q T d"]:
        """Draft picks, and return the vectors whose products with the rows are their columns."""
        board, squares = self._board, self._tracker.squares
        block = self._tracker.problem.rows.rows(rows)
        against = block @ self._covariances
        matrices = against @ block.T
        projected = None if squares is None else against[0] @ squares.root
        if projected is not None:
            matrices = torch.stack([matrices[0], projected @ projected.T])
        board.draft(matrices, rows)
        raw, mixing = against[:, board.places], board.mixing
        if projected is None or squares is None:
            return mixing[: len(raw)] @ raw
        W = projected[board.places] @ (squares.root.T @ self._covariances[0])
        return torch.stack([mixing[0] @ raw[0], mixing[1] @ W + mixing[2] @ raw[0]])

    def _condition(self, vectors: Float[Tensor, "q T d"], falls: Float[Tensor, "P T"]) -> None:
        """Take the picks that stand into the posterior, and note what they leave uncertain."""
        stands, left = self._board.table[0], self._board.table[3]
        self._uncertainty(vectors[0], falls, stands, left)
        U = vectors[: len(self._covariances)]
        self._covariances.baddbmm_((U * stands[:, None]).mT, U, alpha=-1.0)

    def _uncertainty(self, U: Tensor, falls: Tensor, stands: Tensor, left: Tensor) -> None:
        """Write down the uncertainty after each pick, and update the targets' variances."""
        summary, problem = self._tracker.targets, self._tracker.problem
        if summary.state is None:
            fall = (falls.sum(dim=0) * stands).cumsum(dim=0) / len(problem.rows)
            torch.sub(self._board.variance.mean(), fall, out=left)
            return
        squares = (U @ problem.known_targets.T).square_()
        fall = (summary.fall(U, squares) * stands).cumsum(dim=0)
        torch.sub(summary.mean, fall, out=left)
        summary.lower(fall[-1])
        nonnegative(summary.state.variance.sub_(stands @ squares))

    def _picks(self) -> list[Pick]:
        """Read the result: the only time that the host waits for the GPU."""
        self.made += 1
        rows = zip(*self._board.table.tolist(), strict=True)
        picks = [Pick(int(row), gain, left) for stood, row, gain, left in rows if stood]
        self._eligibility.took_directly()
        self._tracker.took(len(picks))
        self._ranked_at = self._tracker.step
        return picks


def _side_by_side(tracker: WeightTracker) -> Float[Tensor, "_ d d"]:
    """The posterior covariances in one tensor, of which the posteriors then hold views."""
    posteriors = list(tracker.known.posteriors.values())
    covariances = torch.stack([posterior.covariance for posterior in posteriors])
    for posterior, covariance in zip(posteriors, covariances, strict=True):
        posterior.covariance = covariance
    return covariances
