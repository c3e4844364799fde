"""few_shot(): a network of its own for every query."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from tellmost.finetune.embedding import evaluating
from tellmost.finetune.history import NO_ROWS
from tellmost.finetune.inputs import Collate, Inputs, call, check_labels, check_model, device_of
from tellmost.finetune.plan import RoundPlan, are_row_numbers
from tellmost.finetune.strategies import BY_VTL, Strategy
from tellmost.finetune.training import (
    Trainer,
    check_devices,
    check_metrics,
    check_trainer,
    devices_of,
    run_trainer,
)
from tellmost.rows.checks import check_whole
from tellmost.running.progress import ProgressLine
from tellmost.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class FewShot:
    """The answers of the networks, and the rows that each was trained on."""

    outputs: Float[Tensor, "q c"]
    rows: Int[np.ndarray, "q k"]  # of the pool, in the order chosen
    seconds: Mapping[str, float]  # of embedding, selecting and training, over all queries

    @property
    def predictions(self) -> Int[np.ndarray, " q"]:
        """The class with the largest output."""
        return self.outputs.argmax(dim=1).cpu().numpy()


def few_shot(
    model: nn.Module,
    queries: Any,
    *,
    pool: Any,
    train: Trainer,
    k: int,
    labels: Any = None,
    strategy: Strategy = BY_VTL,
    candidates: Any = None,
    batch_size: int = 256,
    collate: Collate = default_collate,
    seed: int = 0,
    progress: bool | None = None,
) -> FewShot:
    """Choose k examples for every query, train a copy of the network on them, and predict.

    Hübotter et al. 2024, Sec. 4, "Towards task-driven few-shot learning": each query is the only
    target of its round. The network itself stays as it is, so the pool is embedded once. If the
    training of a copy diverges, the error names the query.

    Args:
        model: the network that every copy starts from.
        queries: inputs to predict, which are not in the pool.
        pool: inputs to learn from, with their labels or with ``labels`` beside them.
        train: ``train(copy, inputs, labels, number)``, as in ``ActiveFineTuner``; the number is
            that of the query, from 1. Metrics are not kept.
        k: examples per query.
        labels: as in ``ActiveFineTuner``.
        strategy: what chooses; where none is given, ``Targeted("vtl", normalize="center+unit")``.
        candidates: how many rows to look at, drawn once for all queries; None for the whole pool.
        batch_size, collate, seed: as in ``ActiveFineTuner``.
        progress: a line on stderr; None shows it on a terminal after a second.
    """
    if queries is None or are_row_numbers(queries):
        raise TypeError(
            f"queries must be inputs to predict; got {type(queries).__name__} without inputs. "
            "Row numbers of the pool are refused, since each row would be chosen for itself."
        )
    plan = RoundPlan(
        pool,
        queries,
        strategy=strategy,
        candidates=candidates,
        batch_size=batch_size,
        collate=collate,
        seed=seed,
        called="queries",
    )
    aims = plan.targets
    assert aims is not None  # they are the queries
    label_of, trainer = check_labels(labels, plan.pool), check_trainer(train)
    candidate_rows = plan.draw(0, np.arange(len(plan.pool)), at_least=1)
    count = check_whole(k, "k, of the candidates,", most=len(candidate_rows))
    inputs = plan.inputs_of(check_model(model), 0, candidate_rows, NO_ROWS, NO_ROWS)
    outputs: list[Tensor] = []
    chosen: list[np.ndarray] = []
    with ProgressLine(progress, "queries", done_before=0) as line:
        for number in range(1, len(aims) + 1):
            query = aims.subset(np.array([number - 1]))
            now = replace(inputs, targets=query, seed=plan.seed_of(number, "strategy"))
            rows = candidate_rows[plan.choose(now, count)]
            with inputs.watch.measure("training"):
                copy = trained_copy(model, plan, rows, label_of(rows), trainer, number)
            chosen.append(rows)
            outputs.append(answer(copy, query, number))
            line(number, len(aims))
    plan.warn_of_notes()
    return FewShot(torch.cat(outputs), np.stack(chosen), inputs.watch.seconds)


def trained_copy(
    model: nn.Module,
    plan: RoundPlan,
    rows: Int[np.ndarray, " k"],
    labels: Int[np.ndarray, " k"],
    train: Trainer,
    number: int,
) -> nn.Module:
    copy = deepcopy(model)
    seed = plan.seed_of(number, "training")
    made = run_trainer(train, copy, plan.pool.subset(rows), labels, number, seed=seed)
    check_metrics(made, "train")
    check_devices(copy, devices_of(model), f"after train of query {number}")
    return copy


def answer(model: nn.Module, query: Inputs, number: int) -> Float[Tensor, "1 c"]:
    """The outputs of a trained copy for its query, which must be numbers."""
    with evaluating(model), torch.no_grad():
        outputs = call(model, query.batch(np.arange(1), device_of(model)))
    if not bool(torch.isfinite(outputs).all()):
        raise ValueError(
            f"the outputs for query {number}, row {number - 1} of queries, are not finite. (a) "
            f"The training of its copy diverged: train more gently. (b) The query is not finite, "
            f"or (c) the network overflows in half precision."
        )
    return outputs
