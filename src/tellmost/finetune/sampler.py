"""TargetedSampler: chosen batches for the caller's own training loop."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import nn
from torch.utils.data import Sampler, default_collate

from tellmost.finetune.history import read_batches
from tellmost.finetune.inputs import Collate, check_labels, check_model
from tellmost.finetune.plan import RoundPlan
from tellmost.finetune.strategies import BY_VTL, Strategy
from tellmost.learner.record import check_same
from tellmost.rows.checks import check_whole

FORMAT = "tellmost-sampler-2"


class TargetedSampler(Sampler[list[int]]):
    """Batches of a dataset that tell most about the targets, as the network is now.

    Give it to ``torch.utils.data.DataLoader(dataset, batch_sampler=...)``, like torch's
    ``BatchSampler``: as ``sampler=`` the loader would make batches of batches.

    An epoch has every row at most once. A loader with workers asks for batches ahead of the
    training, so the network that chooses is a few batches old, and the state counts what was asked
    for. Without workers both are exact. Iterating anew starts an epoch; after a state was loaded
    it goes on from there.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        pool: Any,
        targets: Any = None,
        labels: Any = None,
        batch: int = 64,
        batches: int | None = None,
        refresh: int = 1,
        strategy: Strategy = BY_VTL,
        candidates: Any = 1_000,
        targets_per_round: int | None = None,
        batch_size: int = 256,
        collate: Collate = default_collate,
        seed: int = 0,
    ) -> None:
        """The arguments are those of ``ActiveFineTuner``, except for these.

        Args:
            model: the network that is being trained; it embeds whenever batches are chosen.
            pool: the dataset of the loader, or its inputs alone.
            labels: strategies see them for the rows given out before; None: they see -1.
            batch: rows in a batch; the last one of a pool has what is left.
            batches: how many batches make an epoch; None for as many as the pool has.
            refresh: how many batches are chosen together, before the network embeds again; the
                candidates must be enough for so many.
            strategy: what chooses; where none is given, ``Targeted("vtl",
                normalize="center+unit")``, as in ``ActiveFineTuner``.
        """
        self._model = check_model(model)
        self._plan = RoundPlan(
            pool,
            targets,
            strategy=strategy,
            candidates=candidates,
            targets_per_round=targets_per_round,
            batch_size=batch_size,
            collate=collate,
            seed=seed,
        )
        self._labels = None if labels is None else check_labels(labels, self._plan.pool)
        self._batch = check_whole(batch, "batch")
        self._refresh = check_whole(refresh, "refresh")
        most = -(-len(self._plan.pool) // self._batch)
        name = "batches of an epoch, which has every row at most once,"
        self._batches = most if batches is None else check_whole(batches, name, most=most)
        self._epoch = 0
        self._given: list[list[int]] = []  # batches of this epoch
        self._ahead: list[list[int]] = []  # chosen, and not yet given
        self._is_resumed = False

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of this epoch, or those of the next one."""
        if not self._is_resumed and self._given:
            self._epoch, self._given, self._ahead = self._epoch + 1, [], []
        self._is_resumed = False
        while len(self._given) < self._batches:
            if not self._ahead:
                self._ahead = self._choose()
                self._plan.warn_of_notes()
            self._given.append(self._ahead.pop(0))
            yield list(self._given[-1])

    def state_dict(self) -> dict[str, Any]:
        """The batches of this epoch that were given, and those that are chosen already."""
        return {
            **self._identity(),
            "epoch": self._epoch,
            "given": [list(one) for one in self._given],
            "ahead": [list(one) for one in self._ahead],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on in the middle of the epoch; load the network beside it."""
        check_same(state, self._identity(), "sampler")
        self._epoch, self._given, self._ahead = read_batches(state, len(self._plan.pool))
        self._is_resumed = len(self._given) < self._batches

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **self._plan.identity(),
            "batch": self._batch,
            "batches": self._batches,
            "refresh": self._refresh,
        }

    def _choose(self) -> list[list[int]]:
        """The next batches, by the network as it is now."""
        number = self._epoch * self._batches + len(self._given)
        given = np.array([row for one in self._given for row in one], dtype=np.int64)
        open_rows = np.setdiff1d(np.arange(len(self._plan.pool)), given)
        wanted = self._batch * min(self._refresh, self._batches - len(self._given))
        candidates = self._plan.draw(number, open_rows, at_least=wanted)
        labels = np.full(len(given), -1) if self._labels is None else self._labels(given)
        inputs = self._plan.inputs_of(self._model, number, candidates, given, labels)
        rows = candidates[self._plan.choose(inputs, wanted)].tolist()
        return [rows[i : i + self._batch] for i in range(0, len(rows), self._batch)]
