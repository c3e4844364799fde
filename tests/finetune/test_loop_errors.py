"""What goes wrong in a loop, or was asked for wrongly, and what is said about it."""

import numpy as np
import pytest
import torch
from loops import Recorder, clusters, train, tuner

from tellmost.finetune import (
    ActiveFineTuner,
    LaplaceCovariance,
    LastLayer,
    LossGradients,
    OutputGradients,
    Outputs,
    Predictive,
    Projected,
    Targeted,
    TargetedSampler,
    Weighted,
    embed,
    few_shot,
    fit_laplace,
)

POOL, LABELS = clusters()


@pytest.mark.parametrize("who", ["train", "evaluate"])
def test_a_model_that_is_moved_is_an_error_until_it_is_moved_back(who):
    def moving(model, *_):
        model.to("meta")
        return {}

    loop = tuner(**{who: moving})
    with pytest.raises(
        ValueError, match=f"given on cpu, and after {who} in round 1 it is on meta"
    ):
        loop.step()
    with pytest.raises(ValueError, match="given on cpu, and before round 1 it is on meta"):
        loop.step()
    assert len(loop.history) == 0


def test_a_trainer_that_fails_costs_no_labels():
    asked = []

    def failing(model, inputs, labels, round):
        if len(asked) == 1:
            asked.append(None)
            raise MemoryError("too large")
        return train(model, inputs, labels, round)

    loop = tuner(train=failing, labels=lambda rows: asked.append(rows) or LABELS[rows])
    with pytest.raises(MemoryError):
        loop.step()
    assert len(loop.history) == 0
    again = loop.step()
    assert len(asked) == 2 and again.rows.tolist() == asked[0].tolist()


@pytest.mark.parametrize("returned", [3, {"share": 1}, {"loss": "x"}], ids=str)
def test_what_a_trainer_returns_does_not_make_it_train_again(returned):
    rounds = []
    loop = tuner(train=lambda model, inputs, labels, round: rounds.append(round) or returned)
    with pytest.raises((TypeError, ValueError), match="train"):
        loop.step()
    done = loop.step()
    assert rounds == [1] and done.number == 1 and done.metrics == {}


def test_a_model_that_was_moved_by_the_trainer_is_not_trained_again_when_it_is_back():
    rounds = []
    loop = tuner(train=lambda model, inputs, labels, round: rounds.append(model.to("meta")))
    with pytest.raises(ValueError, match="after train in round 1"):
        loop.step()
    loop.model.to_empty(device="cpu")
    assert loop.step().number == 1 and len(rounds) == 1


WRONG = [
    ({"labels": None}, ValueError, "yields no labels. Give labels="),
    ({"labels": LABELS[:7]}, ValueError, r"a whole number per row, \(60,\)"),
    ({"labels": LABELS + 0.5}, ValueError, "labels must be class numbers"),
    ({"labels": lambda rows: [0]}, ValueError, r"what labels\(rows\) returns must be"),
    ({"targets": [60]}, ValueError, "targets must name rows of the pool, 0 to 59; got 60"),
    ({"targets": POOL[:0]}, ValueError, "targets must not be empty"),
    ({"targets": (POOL, LABELS)}, TypeError, "inputs beside their labels"),
    ({"targets": [POOL, LABELS[:, None]]}, TypeError, "inputs beside their labels"),
    ({"targets": [POOL, LABELS.tolist()]}, TypeError, "inputs beside their labels"),
    ({"targets": {"x": POOL}}, TypeError, "targets must have a row per input; got a mapping with"),
    ({"targets": np.arange(60) < 3}, TypeError, "targets must be a vector of integers"),
    ({"targets": POOL.tolist()}, TypeError, r"Give torch.tensor\(targets\)"),
    ({"targets": POOL[:2].tolist()}, TypeError, r"lists of numbers. Give torch.tensor\(targets\)"),
    (
        {"targets": [POOL.tolist(), LABELS.tolist()]},
        TypeError,
        "a list of lists of numbers, which looks like inputs beside their labels",
    ),
    (
        {"targets": torch.cat([POOL[:3], LABELS[:3, None]], dim=1)},
        ValueError,
        r"got pool \(60, 6\) and targets \(3, 7\). .* A column of labels",
    ),
    ({"targets": POOL[0]}, ValueError, r"targets \(6,\). \(a\) A single input needs a row"),
    ({"pool": POOL[:0], "labels": []}, ValueError, "pool must have .* it is empty"),
    ({"pool": [], "labels": None}, ValueError, "pool must have .* it is empty"),
    (
        {"labels": LABELS - 1},
        ValueError,
        "labels must be class numbers from 0 .* -1 at position 0",
    ),
    ({"labels": lambda rows: -LABELS[rows] - 1}, ValueError, "returns must be .* from 0"),
    ({"pool": [(x, -1) for x in POOL], "labels": None}, ValueError, "from 0 .* of item 0 is -1"),
    ({"targets": POOL.double()}, TypeError, "of torch.float32 and targets of torch.float64"),
    ({"pool": POOL.double().numpy()}, TypeError, "of torch.float32 and pool of torch.float64"),
    ({"pool": [(x, "cat") for x in POOL], "labels": None}, ValueError, "of item 0 is 'cat'"),
    ({"pool": [(x, np.nan) for x in POOL], "labels": None}, ValueError, "of item 0 is nan"),
    ({"labels": LABELS * np.inf}, ValueError, "labels must be class numbers"),
    ({"pool": iter([])}, TypeError, "pool must be a tensor"),
    ({"pool": [POOL[0]] * 60, "labels": None}, ValueError, "must yield labels here"),
    ({"targets_per_round": 4}, ValueError, "targets_per_round of 3 targets .* at most 3; got 4"),
    ({"batch": 0}, ValueError, "batch must be a whole number"),
    ({"candidates": 0}, ValueError, "candidates must be a whole number"),
    ({"candidates": 4}, ValueError, r"at least the 5 rows .* drew 4 of 60"),
    ({"candidates": "all"}, TypeError, "candidates must be a whole number"),
    ({"strategy": Targeted}, TypeError, "strategy must be an object"),
    ({"task": []}, ValueError, "task must name at least one"),
    ({"task": 3}, TypeError, r"several class numbers, such as \[3, 6\]; got 3"),
    ({"task": [-1]}, ValueError, "task must be class numbers from 0"),
    ({"task": "36"}, ValueError, "task must be class numbers"),
    ({"train_on": "some"}, ValueError, "train_on must be 'all', 'chosen' or 'new'"),
    ({"observed": [3, 3]}, ValueError, "observed has row 3 more than once"),
    ({"seed": -1}, ValueError, "seed must be"),
    ({"train": lambda *_: 3}, TypeError, "train must return metrics"),
    ({"train": lambda *_: {"share": 1}}, ValueError, "got 'share'"),
    ({"train": lambda *_: {"loss": "x"}}, TypeError, "train's loss must be a number"),
    ({"evaluate": lambda _: None}, TypeError, "evaluate must return metrics"),
    ({"evaluate": lambda _: {"loss": 1.0}}, ValueError, "both return 'loss'"),
]


@pytest.mark.parametrize(("changes", "error", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_bad_input_is_an_error_that_helps(changes, error, text):
    with pytest.raises(error, match=text):
        tuner(**changes).step()


@pytest.mark.parametrize("name", ["pool", "targets"])
def test_an_input_that_is_not_finite_is_named_by_the_row_of_the_callers_data(name):
    damaged = POOL.clone()
    damaged[47] = torch.nan
    with pytest.raises(ValueError, match=f"not finite in batch 0, rows 47 of {name}"):
        tuner(**{name: damaged}, observed=range(9), targets_per_round=None).step()


def test_targets_of_other_sizes_are_for_networks_that_take_them():
    class Pooling(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(1, 4)

        def forward(self, x):
            return self.head(x.mean(dim=1, keepdim=True))

    longer = torch.randn(3, 9)
    with pytest.raises(ValueError, match=r"give a dataset: list\(targets\)"):
        tuner(Pooling(), targets=longer)
    tuner(Pooling(), targets=list(longer), train=Recorder()).step()


@pytest.mark.parametrize("wrong", [None, 3, Recorder], ids=repr)
def test_a_trainer_that_cannot_be_called_is_refused_before_anything_is_bought(wrong):
    with pytest.raises(TypeError, match=r"train must be a function|parameter 'train'"):
        tuner(train=wrong)


def test_a_task_may_come_from_a_generator():
    given, drawn = tuner(task=[0, 2]), tuner(task=(number for number in (0, 2)))
    assert given.run(2).column("share").tolist() == drawn.run(2).column("share").tolist()
    assert drawn.state_dict()["task"] == [0, 2]


def test_a_wrong_strategy_is_named():
    class Twice:
        name = "twice"

        def choose(self, inputs, k):
            return np.zeros(k, dtype=np.int64)

    with pytest.raises(ValueError, match="'twice' must choose 5 different positions among 60"):
        tuner(strategy=Twice(), candidates=None).step()


def test_a_wrong_sampler_is_named():
    class Outside:
        def draw(self, rows, generator):
            return rows + 1

    with pytest.raises(ValueError, match="candidates must draw at least one of the rows"):
        tuner(candidates=Outside()).step()


def test_bad_arguments_of_targeted_are_errors_at_once():
    with pytest.raises(ValueError, match="rule"):
        Targeted("itl-x")
    with pytest.raises(
        TypeError, match=r"must be an object such as tellmost.finetune.LastLayer\(\)"
    ):
        Targeted(embedding=Outputs)
    with pytest.raises(ValueError, match="would be counted twice"):
        Targeted(covariance=LaplaceCovariance(), observed=True)
    with pytest.raises(ValueError, match=r"normalize='unit' would change. Leave normalize out"):
        Targeted(covariance=LaplaceCovariance(), normalize="unit")


@pytest.mark.parametrize(
    ("structure", "embedding", "text"),
    [
        ("full", LossGradients(), r"needs LossGradients\(materialize=True\)"),
        ("kronecker", Outputs(), r"got Outputs\(\)"),
        ("kronecker", OutputGradients("all"), "got OutputGradients"),
        ("diagonal", OutputGradients(("0.weight",)), "got OutputGradients"),
        ("kronecker", Projected(LastLayer(), 4), "got Projected"),
        ("kronecker", Predictive(3), "got Predictive"),
        ("kronecker", Weighted(LastLayer(), torch.eye(8)), "got Weighted"),
    ],
    ids=str,
)
def test_points_that_a_covariance_cannot_weigh_are_refused_at_once(structure, embedding, text):
    with pytest.raises((TypeError, ValueError), match=text):
        Targeted(embedding=embedding, covariance=LaplaceCovariance(structure))


@pytest.mark.parametrize(
    ("covariance", "embedding", "text"),
    [
        (LaplaceCovariance(), LastLayer("0"), "must be those of its final layer '0'"),
        (LaplaceCovariance(), LastLayer("1"), "'1' is a Tanh"),
        (LaplaceCovariance("full"), LastLayer(), "of 36 weights is too large"),
        (LaplaceCovariance(), LossGradients(materialize=True), "of 36 weights is too large"),
    ],
    ids=str,
)
def test_a_network_that_a_covariance_does_not_fit_is_refused_before_labels_are_bought(
    covariance, embedding, text, monkeypatch
):
    def nobody(rows):
        raise AssertionError("labels were bought")

    if "too large" in text:
        monkeypatch.setattr("tellmost.finetune.curvatures.FULL_LAPLACE", 35)
    loop = tuner(labels=nobody, strategy=Targeted(embedding=embedding, covariance=covariance))
    with pytest.raises(ValueError, match=text):
        loop.step()


@pytest.mark.parametrize("structure", ["kronecker", "diagonal", "full"])
@pytest.mark.parametrize(
    "embedding",
    [LastLayer(), LastLayer("3"), LossGradients(materialize=True), OutputGradients()],
    ids=str,
)
def test_points_of_the_final_layer_go_with_every_covariance(structure, embedding):
    strategy = Targeted(embedding=embedding, covariance=LaplaceCovariance(structure))
    assert len(tuner(strategy=strategy).run(2).rows) == 10


def test_rows_that_are_no_features_are_not_normalised():
    with pytest.raises(ValueError, match="compared by inner products"):
        tuner(strategy=Targeted(embedding=LossGradients(), normalize="unit")).step()
    written_out = LossGradients(materialize=True)
    tuner(strategy=Targeted(embedding=written_out, normalize="unit")).step()


def test_a_matrix_is_no_covariance_that_is_fitted():
    with pytest.raises(TypeError, match=r"A matrix goes into embedding=Weighted"):
        Targeted(covariance=torch.eye(3))


def test_the_model_may_be_any_module_and_its_layers_are_named_where_one_is_missing():
    with pytest.raises(ValueError, match="head"):
        tuner(strategy=Targeted(embedding=LastLayer("head"))).step()
    assert isinstance(tuner(), ActiveFineTuner)


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="annotations refuse it first")
@pytest.mark.parametrize("wrong", ["resnet", None, torch.nn.Linear, torch.relu])
def test_what_is_no_network_is_refused_wherever_a_network_is_asked_for(wrong):
    x, labels = torch.eye(12, 4), np.arange(12) % 2
    calls = [
        lambda: ActiveFineTuner(wrong, pool=x, targets=x[:2], labels=labels, train=train),
        lambda: TargetedSampler(wrong, pool=x, targets=x[:2], labels=labels, batch=2),
        lambda: embed(wrong, x, LastLayer()),
        lambda: few_shot(wrong, x[:2], pool=x, train=train, k=2, labels=labels),
        lambda: fit_laplace(wrong, x, labels=labels),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="model must be an instance of"):
            call()
