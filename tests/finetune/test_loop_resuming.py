"""A loop that was interrupted goes on as if it had not been."""

import io
import json

import numpy as np
import pytest
import torch
from loops import Recorder, clusters, network, tuner
from torch import nn
from torch.utils.data import TensorDataset

from tellmost import numerics
from tellmost.finetune import LastLayer, Outputs, Targeted, Weighted
from tellmost.rows.pool import Fingerprint

POOL, LABELS = clusters()
TARGETS = clusters(12, seed=1)[0]
DRAWN = {"candidates": 30, "targets_per_round": 2, "task": [0, 1], "seed": 3}


def through_a_file(state):
    """As torch writes and reads it, without pickled objects."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("strategy", [Targeted(observed=True), Targeted("random")], ids=str)
def test_a_run_in_two_parts_is_the_run_in_one(strategy):
    whole = tuner(strategy=strategy, **DRAWN)
    whole.run(4)
    first = tuner(strategy=strategy, **DRAWN)
    first.run(2)
    state = through_a_file(first.state_dict(model=True))
    second = tuner(network(seed=9), strategy=strategy, **DRAWN)  # its weights are in the state
    second.load_state_dict(state)
    second.run(2)
    np.testing.assert_array_equal(second.chosen, whole.chosen)
    np.testing.assert_array_equal(second.history.is_in_task, whole.history.is_in_task)
    assert second.history.column("loss").tolist() == whole.history.column("loss").tolist()
    torch.testing.assert_close(second.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def test_without_the_model_the_state_is_json_and_the_weights_stay():
    first = tuner(**DRAWN)
    first.run(2)
    model = network(seed=9)
    before = [parameter.clone() for parameter in model.parameters()]
    second = tuner(model, **DRAWN)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.chosen.tolist() == first.chosen.tolist()
    assert second.history.columns() == first.history.columns()
    assert all(map(torch.equal, before, model.parameters()))


class Momentum:
    """A trainer that keeps its optimiser from round to round."""

    def __init__(self, model: nn.Module) -> None:
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def __call__(self, model, inputs, labels, round):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        self.optimizer.step()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


def with_momentum():
    model = network()
    return tuner(model, train=Momentum(model))


def test_a_trainer_with_a_state_is_saved_beside_the_model():
    whole, first, second = (with_momentum() for _ in range(3))
    whole.run(3)
    first.run(2)
    second.load_state_dict(through_a_file(first.state_dict(model=True)))
    second.run(1)
    torch.testing.assert_close(second.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def test_a_state_is_not_changed_by_later_rounds_and_goes_back_more_than_once():
    loop = with_momentum()
    loop.run(2)
    state = loop.state_dict(model=True)
    ends = []
    for _ in range(3):
        loop.run(2)
        ends.append([value.clone() for value in loop.model.state_dict().values()])
        loop.load_state_dict(state)
        assert len(loop.history) == 2
    assert all(map(torch.equal, ends[0], ends[1])) and all(map(torch.equal, ends[0], ends[2]))


def test_a_trainer_that_cannot_take_its_state_is_refused_before_weights_are_loaded():
    class Forgetful(Recorder):
        def state_dict(self):
            return {}

    first = tuner(train=Forgetful())
    first.run(1)
    model = network(seed=9)
    before = [parameter.clone() for parameter in model.parameters()]
    second = tuner(model, train=Forgetful())
    with pytest.raises(TypeError, match=r"load_state_dict\(state\); Forgetful has none"):
        second.load_state_dict(first.state_dict(model=True))
    assert all(map(torch.equal, before, model.parameters())) and len(second.history) == 0


def test_labels_that_were_bought_before_a_failure_are_in_the_state():
    def failing(model, inputs, labels, round):
        raise MemoryError("too large")

    def nobody(rows):
        raise AssertionError("these labels were bought before")

    first = tuner(train=failing)
    with pytest.raises(MemoryError):
        first.step()
    second = tuner(labels=nobody)
    second.load_state_dict(first.state_dict())
    done = second.step()
    np.testing.assert_array_equal(done.labels, LABELS[done.rows])
    np.testing.assert_array_equal(done.rows, tuner().step().rows)


def test_a_round_whose_evaluation_failed_is_not_trained_on_again():
    def failing(model):
        raise OSError("no test set")

    def never(model, inputs, labels, round):
        raise AssertionError("this round was trained on before")

    def evaluate(model):
        return {"size": 1.0}

    first, whole = tuner(evaluate=failing), tuner(evaluate=evaluate)
    with pytest.raises(OSError, match="no test set"):
        first.step()
    second = tuner(network(seed=9), evaluate=evaluate, train=never)
    second.load_state_dict(through_a_file(first.state_dict(model=True)))
    done, expected = second.step(), whole.step()
    assert done.rows.tolist() == expected.rows.tolist() and done.metrics == expected.metrics
    assert done.seconds.keys() == expected.seconds.keys()
    torch.testing.assert_close(second.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


class Confused:
    """The candidates whose two best classes are closest: a strategy of the caller's own."""

    name = "confused"

    def choose(self, inputs, k):
        logits = inputs.embed("candidates", Outputs()).points
        best = logits.softmax(dim=1).topk(2, dim=1).values
        return (best[:, 0] - best[:, 1]).argsort()[:k].numpy()


class Few:
    """Draws the first rows: a sampler of the caller's own."""

    def draw(self, rows, generator):
        return rows[:20]


def test_what_chooses_may_be_of_the_callers_own():
    whole = tuner(strategy=Confused(), candidates=Few())
    whole.run(2)
    first = tuner(strategy=Confused(), candidates=Few())
    first.run(1)
    second = tuner(strategy=Confused(), candidates=Few())
    second.load_state_dict(through_a_file(first.state_dict(model=True)))
    second.run(1)
    assert second.chosen.tolist() == whole.chosen.tolist()
    with pytest.raises(ValueError, match=r"its strategy is .*Confused 'confused'"):
        tuner(candidates=Few()).load_state_dict(first.state_dict())


def test_matrices_are_told_apart_by_all_their_values():
    """Written out, their middles would be left out."""
    one = torch.eye(60, dtype=torch.float64)
    other = one.clone()
    other[30, 30] = 2

    def loop(matrix):
        return tuner(strategy=Targeted(embedding=Weighted(LastLayer(), matrix)))

    state = loop(one).state_dict()
    loop(one.clone()).load_state_dict(state)
    with pytest.raises(ValueError, match="its strategy is"):
        loop(other).load_state_dict(state)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"seed": 1}, "its seed is 0, that of this one 1"),
        ({"batch": 4}, "its batch is 5"),
        ({"strategy": Targeted("ctl")}, "its strategy is"),
        ({"task": [1]}, "its task is None"),
        ({"observed": [4]}, r"its observed is \[\]"),
    ],
)
def test_the_state_of_another_loop_is_refused(changes, text):
    state = tuner().state_dict()
    with pytest.raises(ValueError, match=text):
        tuner(**changes).load_state_dict(state)


@pytest.mark.parametrize(
    "damage",
    [
        lambda first, second: first.pop("labels"),
        lambda first, second: first["rows"].__setitem__(0, 60),
        lambda first, second: first["rows"].__setitem__(0, -1),
        lambda first, second: first["rows"].__setitem__(0, 0.5),
        lambda first, second: first["rows"].__setitem__(0, 7),  # observed
        lambda first, second: first["rows"].pop(),
        lambda first, second: first["is_in_task"].pop(),
        lambda first, second: second.update(first),
    ],
)
def test_a_damaged_state_is_refused_whole(damage):
    loop = tuner(observed=[7])
    loop.run(2)
    state = loop.state_dict()
    damage(*state["history"])
    other = tuner(observed=[7])
    with pytest.raises(ValueError, match="damaged, and nothing of it was taken over"):
        other.load_state_dict(state)
    assert len(other.history) == 0


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="annotations refuse it first")
def test_what_is_no_state_is_refused():
    with pytest.raises(TypeError, match=r"state must be a mapping, .*; got NoneType"):
        tuner().load_state_dict(None)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"pool": POOL.flip(0)}, "its pool is '60 inputs of content"),
        ({"pool": POOL.numpy() + 1e-6}, "its pool is '60 inputs of content"),
        ({"pool": TensorDataset(-POOL, LABELS)}, "its pool is '60 inputs of content"),
        ({"targets": TARGETS[1:4]}, "its targets is '3 inputs of content"),
        ({"targets": [0, 4, 8]}, "its targets is '3 inputs of content"),
        ({"targets": None}, "that of this one None"),
        ({"pool": list(POOL[:-1]), "labels": LABELS[:-1]}, "that of this one '59 inputs'"),
    ],
)
def test_the_state_of_other_inputs_is_refused(changes, text):
    state = tuner().state_dict()
    with pytest.raises(ValueError, match=f"of another loop: .*{text}"):
        tuner(**changes).load_state_dict(state)


def test_inputs_are_known_again_in_another_form():
    loop = tuner(targets=[0, 4, 8])
    loop.run(1)
    for changes in (
        {"pool": POOL.numpy(), "targets": POOL[[0, 4, 8]].double().float()},
        {"pool": TensorDataset(POOL, LABELS), "targets": POOL[[0, 4, 8]]},
    ):
        tuner(**changes).load_state_dict(json.loads(json.dumps(loop.state_dict())))


def test_large_pools_are_known_by_all_their_blocks(monkeypatch):
    state = tuner().state_dict()
    monkeypatch.setattr(numerics, "CHUNK_BYTES", 7 * 8 * POOL.shape[1])
    add, starts = Fingerprint.add, []
    monkeypatch.setattr(
        Fingerprint,
        "add",
        lambda self, start, rows: starts.append(start) or add(self, start, rows),
    )
    tuner().load_state_dict(state)
    assert set(starts) == set(range(0, 60, 7))
    for row in (0, 30, 59):
        changed = POOL.clone()
        changed[row, 2] += 1
        with pytest.raises(ValueError, match="its pool is"):
            tuner(pool=changed).load_state_dict(state)


@pytest.mark.parametrize("own", [True, False], ids=["the dataset's own", "an array"])
def test_the_state_of_other_labels_is_refused(own):
    def loop(shift):
        labels = (LABELS + shift) % 4
        pool = list(zip(POOL, labels.tolist(), strict=True)) if own else POOL
        return tuner(pool=pool, labels=None if own else labels, train=Recorder())

    first = loop(0)
    row = first.step().rows[0]
    state = first.state_dict()
    loop(0).load_state_dict(state)
    other = loop(1)
    expected = f"row {row} has label {LABELS[row]}, here {(LABELS[row] + 1) % 4}"
    with pytest.raises(ValueError, match=f"another pool or has other labels: .*{expected}"):
        other.load_state_dict(state)
    assert len(other.history) == 0


def test_labels_that_are_bought_are_not_bought_again_to_compare_them():
    loop = tuner(train=Recorder())
    loop.run(2)

    def nobody(rows):
        raise AssertionError("these labels were bought before")

    again = tuner(labels=nobody)
    again.load_state_dict(loop.state_dict())
    assert again.chosen.tolist() == loop.chosen.tolist()
