r"""The runs of a comparison: halves of pool and targets, and how each method chooses in them.

Ways to choose that people use, and that are no rule of ``select``, see the similarity
:math:`s(x, a) = k(x, a) / \sqrt{k(x, x)\, k(a, a)}` of candidates and targets, which is the cosine
for inner products.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.evaluation.health import as_given
from tellmost.kernels import Kernel, Linear
from tellmost.kernels.kernel import Points
from tellmost.posterior.problem import CHOSEN_FIELDS, FIXED_FIELDS
from tellmost.rows.pool import Pool
from tellmost.rules import Rule
from tellmost.selecting.data import SelectionData
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Bool, Float, Int
from tellmost.targets.examples import LEAST_GAIN, Density, estimate_density, kernel_distances

BLIND_FIELDS = FIXED_FIELDS | CHOSEN_FIELDS  # who reads only these has no model that learns
Method = Rule | str  # a rule, or the name of a baseline


def nearest_in_turn(similarity: Float[Tensor, "c m"], k: int) -> Int[Tensor, " k"]:
    """The nearest rows, where each target in turn takes its nearest row that is still there."""
    similarity = similarity.clone()
    picks = []
    for t in range(k):
        picks.append(similarity[:, t % similarity.shape[1]].argmax())
        similarity[picks[-1]] = -torch.inf
    return torch.stack(picks)


def facility_location(similarity: Float[Tensor, "c m"], k: int) -> Int[Tensor, " k"]:
    r"""Facility-location mutual information (FLQMI), by greedy choice.

    .. math:: f(X) = \sum_{a \in A} \max_{x \in X} s(x, a) + \sum_{x \in X} \max_{a \in A} s(x, a)

    Kothawade et al. 2022, with both terms of the same weight.
    """
    own = similarity.amax(dim=1)
    covered = similarity.new_zeros(similarity.shape[1])
    picks = []
    for _ in range(k):
        picks.append(((similarity - covered).clamp_(min=0.0).sum(dim=1) + own).argmax())
        own[picks[-1]] = -torch.inf
        covered = covered.maximum(similarity[picks[-1]])
    return torch.stack(picks)


def random_in_region(region: Bool[np.ndarray, " c"], k: int, seed: int) -> Int[np.ndarray, " k"]:
    """Rows of the region in random order, and then all others in random order."""
    order = np.random.default_rng(seed).permutation(len(region))
    return order[np.argsort(~region[order], kind="stable")][:k]


BY_SIMILARITY: dict[str, Callable[[Tensor, int], Tensor]] = {
    "nearest-in-turn": nearest_in_turn,
    "flqmi": facility_location,
}
IN_REGION = "random-in-region"
BASELINES = (*BY_SIMILARITY, IN_REGION)


def similarities(
    pool: Points, targets: Points, kernel: Kernel | None = None
) -> Float[Tensor, "n m"]:
    """The similarity s of rows and targets. A row of variance zero is like none."""
    kernel = kernel or Linear()
    lengths = (kernel.diagonal(points).sqrt() for points in (pool, targets))
    return (kernel.block(pool, targets) / torch.outer(*lengths)).nan_to_num_(nan=0.0)


def nearest_similarity(
    pool: Pool, targets: Points, kernel: Kernel | None = None
) -> Float[Tensor, " m"]:
    """The similarity of each target to the row nearest to it, in one pass."""
    nearest = torch.full((len(targets),), -torch.inf, dtype=torch.float64, device=targets.device)
    most = max(numerics.CHUNK_BYTES // (8 * len(targets)), numerics.LEAST_BLOCK_ROWS)

    def similar(start: int, stop: int, block: Tensor) -> Tensor:
        return similarities(block, targets, kernel).amax(dim=0)

    pool.each(similar, lambda found: torch.maximum(nearest, found, out=nearest), most)
    return nearest


@dataclass(frozen=True)
class Run:
    """A choice from half of the pool, steered by half of the targets and judged by the others."""

    number: int
    steers: Bool[np.ndarray, " m"]
    candidates: Int[np.ndarray, " c"]


@dataclass(frozen=True)
class RunData:
    """What all runs have in common."""

    data: SelectionData  # as the rule sees it
    pool: Any
    given: Tensor  # targets
    k: int
    options: Mapping[str, Any]  # of the rule

    @property
    def is_plain(self) -> bool:
        """Whether methods that have no model see rows as they are given, and cosines."""
        kernel = self.options["kernel"]
        return kernel is None or (isinstance(kernel, str) and kernel == "linear")

    @property
    def others_see(self) -> tuple[Pool, Tensor, Kernel]:
        """Rows, targets and kernel of methods that have no model: as given, unless it is said."""
        assert self.data.targets is not None
        if self.is_plain:
            return as_given(self.data.pool), self.given, Linear()
        return self.data.pool, self.data.targets, self.data.kernel

    @cached_property
    def similarity(self) -> Float[Tensor, "n m"]:
        pool, targets, kernel = self.others_see
        made = [similarities(block, targets, kernel).cpu() for _, _, block in pool.blocks()]
        return torch.cat(made)

    @cached_property
    def copies(self) -> Int[np.ndarray, "c 2"]:
        """Numbers of a row and of a target that are the same point."""
        pool, targets, kernel = self.others_see
        found = [np.empty((0, 2), dtype=np.int64)]
        for start, _, block in pool.blocks():
            same = (kernel_distances(kernel, block, targets) == 0).nonzero().cpu().numpy()
            found.append(same + np.array([start, 0]))
        return np.concatenate(found)

    def density(self, some: Bool[np.ndarray, " m"]) -> Density:
        """The estimated distribution that some of the targets are drawn from."""
        data = self.data
        assert data.targets is not None
        points = data.targets[torch.from_numpy(some)]
        weights = torch.full((len(points),), 1 / len(points), dtype=torch.float64)
        weights = weights.to(points.device)
        return estimate_density(data.pool, points, weights, data.kernel, memory=data.plan.kept)

    def leave_out(self, methods: Sequence[Method]) -> tuple[list[Method], list[str]]:
        """The methods without baselines that have no meaning here, and what is to be said."""
        whole, notes = self.density(np.full(len(self.given), True)), []
        missing: dict[str, str] = {}
        if 8 * len(self.data.pool) * len(self.given) > self.data.plan.kept:
            reason = "the similarities of all rows and targets do not fit into the memory"
            missing |= dict.fromkeys(BY_SIMILARITY, reason)
        if whole.gain < LEAST_GAIN or whole.row_count == 0:
            missing[IN_REGION] = (
                f"the targets do not predict one another (gain {whole.gain:.2f}, below "
                f"{LEAST_GAIN}), so they show no region"
            )
        elif IN_REGION in methods:
            notes.append(
                f"The targets' region: {whole.row_count:,} rows of the pool are likelier under "
                f"the targets' estimated density than under the pool (gain {whole.gain:.2f})."
            )
        kept = [one for one in methods if one not in missing]
        notes += [f"{one} is left out: {missing[one]}." for one in methods if one in missing]
        if len(kept) < 2:
            raise ValueError(f"methods leaves nothing to compare with. {' '.join(notes)}")
        return kept, notes

    def pick(
        self, method: Method, run: Run, *, is_other: bool
    ) -> tuple[Int[np.ndarray, " k"], dict[str, Any]]:
        """The picks of a method, and the settings if it is a rule."""
        rows, steers = run.candidates, torch.from_numpy(run.steers)
        if method == IN_REGION:
            region, density = np.zeros(len(self.data.pool), bool), self.density(run.steers)
            region[density.rows.cpu().numpy()] = density.gain >= LEAST_GAIN
            return rows[random_in_region(region[rows], self.k, run.number)], {}
        if isinstance(method, str):
            similarity = self.similarity[torch.from_numpy(rows)][:, steers]
            return rows[BY_SIMILARITY[method](similarity, self.k)], {}
        options = dict(self.options) | ({"targets_are": None} if is_other else {})
        if is_other and method.needs <= BLIND_FIELDS and self.is_plain:
            options |= {"kernel": "linear", "normalize": None}
        chosen = select_quietly(
            self.pool,
            self.given[steers],
            self.k,
            rule=with_seed(method, run.number),
            candidates=rows,
            progress=False,
            **options,
        )
        return chosen.indices, chosen.settings


def draw_runs(data: RunData, seeds: int, classes: np.ndarray | None) -> list[Run]:
    """Two runs for each seed, which share neither candidates nor targets that steer."""
    n, runs = len(data.data.pool), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        order, is_first = rng.permutation(n), halve(data.given.cpu().numpy(), classes, rng)
        parts = zip(np.array_split(order, 2), (is_first, ~is_first), strict=True)
        for number, (rows, steers) in enumerate(parts, 2 * seed):
            copies, of = data.copies.T
            runs.append(Run(number, steers, np.setdiff1d(rows, copies[~steers[of]])))
    least = min(len(run.candidates) for run in runs)
    if data.k > least:
        raise ValueError(
            f"k must be at most half of the pool, here {least} of {n} rows, since each run "
            f"chooses from a random half without held-out targets; got {data.k}. Ask for fewer."
        )
    return runs


def halve(
    targets: np.ndarray, classes: np.ndarray | None, rng: np.random.Generator
) -> Bool[np.ndarray, " m"]:
    """A random half of the targets, with half of each class. Equal targets stay together."""
    _, first, which = np.unique(targets, axis=0, return_index=True, return_inverse=True)
    if len(first) < 2:
        raise ValueError(
            "targets must be at least two different points, since compare lets one half of them "
            "steer the choice and judges it on the other; got 1. Give more targets."
        )
    which, first = np.argsort(np.argsort(first))[which.reshape(-1)], np.sort(first)
    order = rng.permutation(len(first))
    if classes is not None:
        _, numbers = np.unique(classes, return_inverse=True)
        shuffled = rng.permutation(numbers.max() + 1)[numbers[first]]
        order = order[np.argsort(shuffled[order], kind="stable")]
    is_first = np.empty(len(first), dtype=bool)
    is_first[order] = np.arange(len(first)) % 2 == 0
    return is_first[which]


def name_of(method: Method) -> str:
    return method if isinstance(method, str) else method.name


def with_seed(rule: Any, seed: int) -> Rule:
    """The rule with this seed, if it draws at random."""
    has_seed = "seed" in getattr(type(rule), "__dataclass_fields__", {})
    return replace(rule, seed=seed) if has_seed else rule
