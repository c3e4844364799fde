"""ActiveFineTuner: choose inputs, ask for their labels, train, and repeat."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn
from torch.utils.data import default_collate

from tellmost.finetune.history import (
    FORMAT,
    NO_ROWS,
    FineTuningHistory,
    FineTuningRound,
    read_saved,
    write_round,
)
from tellmost.finetune.inputs import (
    Collate,
    check_labels,
    check_model,
    check_task,
    device_of,
    is_in_task,
)
from tellmost.finetune.plan import RoundPlan
from tellmost.finetune.strategies import BY_VTL, Strategy
from tellmost.finetune.training import (
    Evaluation,
    Trainer,
    check_devices,
    check_metrics,
    check_trainer,
    devices_of,
    loader_of,
    run_evaluation,
    run_trainer,
)
from tellmost.learner.record import check_same
from tellmost.rows.checks import check_distinct, check_indices, check_whole, check_word
from tellmost.running.progress import ProgressLine
from tellmost.running.stopwatch import Stopwatch
from tellmost.shapes import Int

TRAIN_ON = ("all", "chosen", "new")


class ActiveFineTuner:
    """Chooses round by round what to train a network on, so that it predicts the targets well.

    A round is that of Hübotter et al. 2024, Alg. 1. It draws candidates from the pool and some of
    the targets, embeds both with the current network, and chooses a batch, each pick as if those
    before it had been observed. Then it asks for the labels of the batch, and trains.

    What a round draws depends on the seed and its number alone. While the trainer runs, torch's
    generators are seeded in the same way and put back afterwards, so a loop is repeatable if the
    trainer takes its randomness from them. A failure costs no labels: the next ``step`` goes on in
    the same round. A trainer that failed is called again, and starts from the weights that it
    left. If the evaluation failed, or the trainer did not return metrics, the next ``step`` only
    evaluates.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        pool: Any,
        train: Trainer,
        targets: Any = None,
        labels: Any = None,
        strategy: Strategy | None = None,
        batch: int = 10,
        candidates: Any = 1_000,
        targets_per_round: int | None = None,
        observed: Any = None,
        task: Any = None,
        train_on: str = "all",
        evaluate: Evaluation | None = None,
        batch_size: int = 256,
        collate: Collate = default_collate,
        seed: int = 0,
        progress: bool | None = None,
    ) -> None:
        """A network, what it may learn from, and what it is to be good at.

        Args:
            model: any module; it is trained in place, and stays on its device.
            pool: inputs to choose from: a tensor or array with a row per input, or a dataset.
            train: ``train(model, inputs, labels, round)`` trains the model in place on everything
                labelled so far, and may return metrics for the history. ``inputs`` is a
                tensor on the model's device if the pool is a tensor, else a dataset of inputs;
                ``labels`` are class numbers on the model's device; ``round`` counts from 1.
            targets: inputs to predict well, without labels (those of a dataset are not read); or
                whole numbers, which are rows of the pool. None for strategies without targets.
            labels: of the pool: None where the dataset yields them; class numbers, one per row;
                or a function from row numbers to class numbers, asked for the picks alone.
            strategy: what chooses, such as ``Targeted("itl-y", noise_std=0.01)`` or a baseline;
                where none is given, ``Targeted("vtl", normalize="center+unit")``, with
                ``observed=True`` where ``observed`` names rows: the choice is then conditioned on
                them, and on what earlier rounds trained on.
            batch: picks per round; the last round of a pool takes what is left.
            candidates: how many rows each round chooses from, at least ``batch``, drawn anew; None
                for the whole pool; or an object with ``draw(rows, generator)``. What was labelled
                is never drawn again.
            targets_per_round: how many targets each round has, drawn anew; None for all.
            observed: rows of the pool that the network was trained on before, such as the source
                domain. Their labels are known, they are never picked, and strategies that
                condition on what was observed start from them.
            task: class numbers that count. Picks and observed rows of other classes are not
                trained on, and picks of them cost a label all the same. None counts all.
            train_on: "all" that is labelled; "chosen" leaves out ``observed``; "new" is what this
                round chose. Where there is nothing, the trainer is not called.
            evaluate: ``evaluate(model)`` returns metrics after each round. The model is in eval
                mode, without gradients.
            batch_size: how many inputs go into one call of the model, for embeddings.
            collate: makes a batch of a list of the dataset's inputs.
            seed: determines all draws.
            progress: a line on stderr during ``run``; None shows it on a terminal.
        """
        if strategy is None:
            strategy = replace(BY_VTL, observed=observed is not None)
        self._model, self._devices = check_model(model), devices_of(model)
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
        self._train, self._evaluate = check_trainer(train), evaluate
        self._labels = check_labels(labels, self._plan.pool)
        self._batch = check_whole(batch, "batch")
        self._task = check_task(task)
        check_word(train_on, "train_on", TRAIN_ON)
        self._train_on = train_on
        self._observed = NO_ROWS
        if observed is not None:
            rows = check_indices(observed, "observed", len(self._plan.pool))
            check_distinct(rows, "observed", "Name each row once.")
            self._observed = rows.numpy()
        self._observed_labels = self._labels(self._observed) if len(self._observed) else NO_ROWS
        self._progress = progress
        self._history = FineTuningHistory(has_task=self._task is not None)
        self._unfinished: FineTuningRound | None = None

    # ---- the loop

    def step(self) -> FineTuningRound:
        """Take one round: choose, ask for labels, train, evaluate."""
        done = self._step()
        self._plan.warn_of_notes()
        return done

    def _step(self) -> FineTuningRound:
        self._check_devices("before")
        if self._unfinished is None:
            self._unfinished = self._buy()
        if not self._unfinished.is_trained:
            self._unfinished = self._trained(self._unfinished)
        done = self._evaluated(self._unfinished)
        self._history = replace(self._history, rounds=(*self._history.rounds, done))
        self._unfinished = None
        return done

    def run(self, rounds: int) -> FineTuningHistory:
        """Take so many rounds more, and return the history of all."""
        count = check_whole(rounds, "rounds")
        left = len(self.open_rows)
        if (count - 1) * self._batch >= left:
            raise ValueError(
                f"run({count}) of batch {self._batch} needs more than {(count - 1) * self._batch} "
                f"rows to choose from; {left} are left. Run at most {-(-left // self._batch)}."
            )
        with ProgressLine(self._progress, "rounds", done_before=0) as line:
            for done in range(count):
                line(done, count)
                self._step()
        self._plan.warn_of_notes()
        return self._history

    # ---- what happened

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def history(self) -> FineTuningHistory:
        """All rounds so far, as a value that later rounds do not change."""
        return self._history

    @property
    def chosen(self) -> Int[np.ndarray, " t"]:
        """All picks in their order, as rows of the pool."""
        return self._history.rows

    @property
    def open_rows(self) -> Int[np.ndarray, " n"]:
        """Rows of the pool that may still be picked, ascending."""
        taken = np.zeros(len(self._plan.pool), dtype=bool)
        taken[self._observed] = True
        taken[self._history.rows] = True
        return np.flatnonzero(~taken)

    # ---- save and resume

    def state_dict(self, *, model: bool = False) -> dict[str, Any]:
        """Picks, labels and history, as plain values that torch.save and JSON can hold.

        No generator is in it, since each round's draws follow from the seed. With ``model`` it
        also has the state of the network, and that of the trainer if it is an object with a
        ``state_dict`` (such as its optimiser's); else save these yourself. It is a copy, which
        later rounds do not change.
        """
        state = {
            **self._identity(),
            "history": [write_round(one) for one in self._history],
            "unfinished": None if self._unfinished is None else write_round(self._unfinished),
        }
        if model:
            state["model"] = deepcopy(self._model.state_dict())
            if hasattr(self._train, "state_dict"):
                state["train"] = deepcopy(self._train.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loop with this state stood. Its arguments must have been the same."""
        check_same(state, self._identity(), "loop")
        history, unfinished = read_saved(
            state, has_task=self._task is not None, n=len(self._plan.pool), taken=self._observed
        )
        for one in (*history, *([] if unfinished is None else [unfinished])):
            self._labels.check_same(one.rows, one.labels)
        load_train = loader_of(self._train) if "train" in state else None
        if "model" in state:
            self._model.load_state_dict(state["model"])
        if load_train is not None:
            load_train(deepcopy(state["train"]))  # an optimiser would go on to change the state
        self._history, self._unfinished = history, unfinished

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "batch": self._batch,
            "task": None if self._task is None else list(self._task),
            "train_on": self._train_on,
            "observed": self._observed.tolist(),  # before the strategy, which may follow from it
            **self._plan.identity(),
        }

    # ---- the parts of a round

    def _buy(self) -> FineTuningRound:
        """Choose rows, and ask for their labels."""
        open_rows = self.open_rows
        if len(open_rows) == 0:
            raise ValueError("no row is left to choose: every row of the pool is labelled.")
        number = len(self._history) + 1
        candidates = self._plan.draw(number, open_rows, at_least=self._batch)
        labelled = np.concatenate([self._observed, self._history.rows])
        inputs = self._plan.inputs_of(self._model, number, candidates, *self._known(), labelled)
        rows = candidates[self._plan.choose(inputs, self._batch)]
        labels, seconds = self._labels(rows), inputs.watch.seconds
        inside = is_in_task(labels, self._task)
        return FineTuningRound(number, rows, labels, inside, {}, seconds, is_trained=False)

    def _known(self) -> tuple[Int[np.ndarray, " o"], Int[np.ndarray, " o"]]:
        """The rows observed before and the picks that were trained on, with their labels."""
        rows = np.concatenate([self._observed, self._history.rows])
        labels = np.concatenate([self._observed_labels, self._history.labels])
        kept = is_in_task(labels, self._task)
        return rows[kept], labels[kept]

    def _trained(self, bought: FineTuningRound) -> FineTuningRound:
        """The round after training. It must not be done twice, whatever the trainer returned."""
        watch = Stopwatch(device_of(self._model))
        with watch.measure("training"):
            returned = self._train_on_what_is_known(bought)
        done = replace(bought, is_trained=True, seconds={**bought.seconds, **watch.seconds})
        self._unfinished = done
        self._check_devices("after train in")
        return replace(done, metrics=check_metrics(returned, "train"))

    def _train_on_what_is_known(self, bought: FineTuningRound) -> Any:
        """Return what the trainer returned; None if there is nothing to train on."""
        rows, labels = bought.rows[bought.is_in_task], bought.labels[bought.is_in_task]
        if self._train_on != "new":
            earlier, earlier_labels = self._known()
            skipped = 0
            if self._train_on == "chosen":
                skipped = int(is_in_task(self._observed_labels, self._task).sum())
            rows = np.concatenate([earlier[skipped:], rows])
            labels = np.concatenate([earlier_labels[skipped:], labels])
        if len(rows) == 0:
            return None
        inputs, seed = self._plan.pool.subset(rows), self._plan.seed_of(bought.number, "training")
        return run_trainer(self._train, self._model, inputs, labels, bought.number, seed=seed)

    def _evaluated(self, trained: FineTuningRound) -> FineTuningRound:
        """The round at its end."""
        if self._evaluate is None:
            return trained
        watch = Stopwatch(device_of(self._model))
        seed = self._plan.seed_of(trained.number, "training")
        with watch.measure("evaluating"):
            found = run_evaluation(self._evaluate, self._model, seed=seed)
        for name in sorted(trained.metrics.keys() & found.keys()):
            raise ValueError(
                f"train and evaluate must name their metrics differently; both return {name!r}."
            )
        self._check_devices("after evaluate in")
        metrics, seconds = {**trained.metrics, **found}, {**trained.seconds, **watch.seconds}
        return replace(trained, metrics=metrics, seconds=seconds)

    def _check_devices(self, when: str) -> None:
        check_devices(self._model, self._devices, f"{when} round {len(self._history) + 1}")
