"""ActiveFineTuner: what it chooses, whom it asks, what it hands to the trainer, what it tells."""

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from loops import Recorder, clusters, fit, network, targets_of_class_0, tuner
from torch import nn
from torch.utils.data import DataLoader, StackDataset, TensorDataset

import oracle
import oracle_finetune_loop
from tellmost.finetune import (
    LaplaceCovariance,
    LastLayer,
    LossGradients,
    Outputs,
    Targeted,
    Uniform,
    Weighted,
    WholePool,
)

POOL, LABELS = clusters()


# ---- what it chooses


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize(
    ("rule", "score"), [("vtl", oracle.vtl), ("itl-y", oracle.itl), ("ctl", oracle.ctl)]
)
def test_the_picks_are_those_of_the_papers_algorithm(rule, score, conditioned):
    model = network(dropout=0.0)
    loop = tuner(model, strategy=Targeted(rule, observed=conditioned), candidates=None, batch=4)
    history = loop.run(3)
    same = network(dropout=0.0)
    expected = oracle_finetune_loop.rounds_of_picks(
        same,
        POOL,
        LABELS,
        targets_of_class_0(),
        fit,
        score=score,
        batch=4,
        rounds=3,
        conditioned=conditioned,
    )
    assert [one.rows.tolist() for one in history] == expected
    torch.testing.assert_close(model.state_dict(), same.state_dict())


def test_a_mean_that_activations_share_changes_no_pick_of_the_default():
    def shifted(by):
        class Shifted(nn.Module):
            def forward(self, inputs):
                return inputs + by

        return nn.Sequential(Shifted(), nn.Linear(POOL.shape[1], 4))

    def picks(by, **changes):
        return tuner(shifted(by), train=Recorder(), **changes).step().rows.tolist()

    assert picks(10.0) == picks(0.0)
    assert picks(10.0, strategy=Targeted()) != picks(0.0, strategy=Targeted())


def test_directed_picks_are_of_the_targets_class():
    def share(rule):
        loops = [
            tuner(network(seed), task=[0], candidates=None, strategy=Targeted(rule), seed=seed)
            for seed in range(4)
        ]
        return np.mean([loop.run(2).column("share")[-1] for loop in loops])

    assert share("vtl") > 0.75 > 0.4 > share("random")


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def run(seed):
        made = tuner(candidates=20, targets_per_round=2, seed=seed).run(3)
        return made.rows.tolist(), made.column("loss").tolist()

    torch.manual_seed(1)
    first = run(0)
    torch.manual_seed(2)  # of no consequence: the loop seeds what the trainer draws from
    assert run(0) == first
    assert run(1) != first


def test_every_round_trains_from_a_seed_of_its_own():
    def draws():
        drawn = []
        tuner(train=lambda *_: drawn.append(torch.rand(()).item())).run(3)
        return drawn

    assert len(set(draws())) == 3 and draws() == draws()


def test_torchs_generator_is_put_back_after_a_round():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tuner().step()
    assert torch.equal(torch.rand(3), expected)


def test_a_round_looks_at_so_many_candidates_and_targets_drawn_anew():
    seen = []

    class First:
        name = "first"

        def choose(self, inputs, k):
            seen.append((inputs.candidates.rows, inputs.targets.rows))
            return np.arange(k)

    loop = tuner(strategy=First(), candidates=20, targets_per_round=2)
    loop.run(3)
    assert [len(rows) for rows, _ in seen] == [20] * 3
    assert [len(rows) for _, rows in seen] == [2] * 3
    assert len({tuple(rows) for rows, _ in seen}) == len({tuple(rows) for _, rows in seen}) > 1
    for number in range(3):
        assert not np.isin(seen[number][0], loop.chosen[: 5 * number]).any()


@pytest.mark.parametrize("candidates", [None, 10**6, WholePool(), Uniform(60)])
def test_many_candidates_are_the_whole_pool(candidates):
    expected = tuner(candidates=None).step().rows
    np.testing.assert_array_equal(tuner(candidates=candidates).step().rows, expected)


def test_targets_inside_the_pool_are_its_rows_and_may_be_picked():
    rows = np.flatnonzero(LABELS == 0)[:3]
    inside = tuner(targets=rows, candidates=None).step().rows
    apart = tuner(targets=POOL[rows], candidates=None).step().rows
    np.testing.assert_array_equal(inside, apart)
    assert np.isin(inside, rows).any()


def test_a_strategy_without_targets_needs_none():
    by_name = Targeted("undirected-itl", embedding=Outputs())
    assert len(tuner(targets=None, strategy=by_name).step().rows) == 5
    with pytest.raises(ValueError, match="give targets="):
        tuner(targets=None).step()


def test_small_noise_is_not_warned_of_in_every_round():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tuner(strategy=Targeted(noise_std=0.01), batch=10).run(2)) == 2


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="calls go through the checker")
def test_a_note_of_the_strategy_is_warned_of_once_where_the_loop_was_called():
    loop = tuner(targets=POOL, strategy=Targeted("itl", noise_std=0.1), batch=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop.run(2)
        loop.step()
    assert "targets determine f" in str(said[0].message)
    assert [one.filename for one in said] == [__file__]


def test_a_matrix_weighs_the_features():
    least = torch.eye(8, dtype=torch.float64) * 1e-6
    least[0, 0] = 1.0
    strategy = Targeted("vtl", embedding=Weighted(LastLayer(), least), noise_std=0.1)
    picked = tuner(network(), strategy=strategy, candidates=None, batch=1).step().rows
    with torch.no_grad():
        feature = network().eval()[:-1](POOL)[:, 0].double()
    largest = (feature.square() / (feature.square() + 0.01)).argmax()  # all targets share it
    assert picked.tolist() == [int(largest)]


@pytest.mark.parametrize("embedding", [LastLayer(), LossGradients()], ids=str)
def test_a_laplace_covariance_is_fitted_to_what_was_trained_on(embedding):
    fitted = []

    @dataclass(frozen=True)
    class Spy:
        inner = LaplaceCovariance(prior_precision=1.0)

        def fit(self, model, data, labels, embedding, *, batch_size):
            fitted.append((data.rows.tolist(), labels.tolist()))
            return self.inner.fit(model, data, labels, embedding, batch_size=batch_size)

    loop = tuner(strategy=Targeted(embedding=embedding, covariance=Spy()), task=[0, 1, 2])
    loop.run(2)
    kept = loop.chosen[:5][LABELS[loop.chosen[:5]] < 3]
    assert fitted == [([], []), (kept.tolist(), LABELS[kept].tolist())]
    plain = tuner(strategy=Targeted(embedding=embedding), task=[0, 1, 2])
    plain.run(2)
    assert plain.chosen[:5].tolist() == loop.chosen[:5].tolist()
    assert plain.chosen[5:].tolist() != loop.chosen[5:].tolist()


# ---- whom it asks for labels, and what it trains on


def test_a_laplace_covariance_is_fitted_in_batches_of_the_size_asked_for():
    sizes = []
    model = network()
    model[0].register_forward_hook(lambda layer, inputs, outputs: sizes.append(len(inputs[0])))
    loop = tuner(
        model,
        strategy=Targeted(covariance=LaplaceCovariance(prior_precision=1.0)),
        train=Recorder(),
        batch_size=7,
        observed=range(20),
    )
    loop.step()
    assert max(sizes) == 7


def test_labels_are_asked_for_the_picks_alone():
    asked = []

    def oracle_of_labels(rows):
        asked.extend(rows.tolist())
        return LABELS[rows]

    loop = tuner(labels=oracle_of_labels)
    loop.run(2)
    assert asked == loop.chosen.tolist()
    np.testing.assert_array_equal(loop.history.labels, LABELS[loop.chosen])


@pytest.mark.parametrize("labels", [LABELS, LABELS.numpy(), LABELS.double(), LABELS.tolist()])
def test_labels_may_be_given_in_any_form(labels):
    first = tuner(labels=labels).step()
    np.testing.assert_array_equal(first.labels, LABELS[first.rows])


def test_a_dataset_brings_its_own_labels_and_the_trainer_gets_its_inputs():
    losses = []

    def by_loader(model, inputs, labels, round):
        loader = DataLoader(StackDataset(inputs, labels), batch_size=4)
        losses.append(sum(fit(model, x, y) for x, y in loader))

    dataset = TensorDataset(POOL, LABELS)
    loop = tuner(pool=dataset, labels=None, targets=dataset, train=by_loader, candidates=None)
    history = loop.run(2)
    np.testing.assert_array_equal(history.labels, LABELS[loop.chosen])
    assert len(losses) == 2 and history[0].metrics == {}


def test_items_that_are_mappings_become_keyword_arguments():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x, mask):
            return self.inner(x * mask[:, None])

    items = [
        {"x": POOL[i], "mask": torch.tensor(1.0), "labels": int(LABELS[i])}
        for i in range(len(POOL))
    ]
    recorder = Recorder()
    first = tuner(
        Named(), pool=items, labels=None, targets=items[:3], train=recorder, candidates=None
    ).step()
    np.testing.assert_array_equal(first.labels, LABELS[first.rows])
    assert set(recorder.calls[0][0][0]) == {"x", "mask"}


@pytest.mark.parametrize(
    ("train_on", "expected"),
    [
        ("all", lambda observed, old, new: [*observed, *old, *new]),
        ("chosen", lambda observed, old, new: [*old, *new]),
        ("new", lambda observed, old, new: new),
    ],
)
def test_the_trainer_is_given_what_train_on_says(train_on, expected):
    recorder = Recorder()
    loop = tuner(train=recorder, train_on=train_on, observed=[1, 2])
    old, new = loop.step().rows, loop.step().rows
    inputs, labels, number = recorder.calls[1]
    rows = expected([1, 2], old, new)
    assert torch.equal(inputs, POOL[rows]) and torch.equal(labels, LABELS[rows]) and number == 2


def test_picks_outside_the_task_cost_a_label_and_are_not_trained_on():
    recorder = Recorder()
    loop = tuner(train=recorder, task=(0, 2), strategy=Targeted("random"), batch=8)
    history = loop.run(3)
    kept = np.isin(LABELS[loop.chosen], (0, 2))
    assert recorder.calls[-1][1].tolist() == LABELS[loop.chosen[kept]].tolist()
    np.testing.assert_allclose(
        history.column("share"), [kept[:count].mean() for count in (8, 16, 24)]
    )
    assert history.column("labels").tolist() == [8, 16, 24]
    assert len(np.unique(loop.chosen)) == 24  # those outside are not picked again either


@dataclass(frozen=True)
class Witness:
    """Chooses the first candidates, and takes down which rows the round has as known."""

    name: ClassVar[str] = "witness"
    seen: list = field(default_factory=list)

    def choose(self, inputs, k):
        self.seen.append((inputs.observed.rows.tolist(), inputs.labelled.rows.tolist()))
        return np.arange(k)


def test_strategies_know_of_labels_outside_the_task_that_nothing_was_trained_on():
    witness = Witness()
    loop = tuner(task=[0], strategy=witness, candidates=None, observed=[59, 56])  # 59: class 3
    history = loop.run(3)
    bought, inside = history.rows[:10].tolist(), history.is_in_task[:10]
    assert witness.seen[0] == ([56], [59, 56])
    assert witness.seen[2] == ([56, *history.rows[:10][inside].tolist()], [59, 56, *bought])
    assert 0 < inside.sum() < 10


@pytest.mark.parametrize(("train_on", "observed"), [("all", [56]), ("chosen", []), ("new", [])])
def test_observed_rows_outside_the_task_are_not_trained_on(train_on, observed):
    recorder = Recorder()
    loop = tuner(train=recorder, task=[0], observed=[59, 56], train_on=train_on)
    done = loop.step()
    expected = POOL[[*observed, *done.rows[done.is_in_task]]]
    assert torch.equal(recorder.calls[0][0], expected)


def test_the_trainer_is_not_called_where_there_is_nothing_to_train_on():
    recorder = Recorder()
    history = tuner(train=recorder, task=[99]).run(2)
    assert recorder.calls == [] and history.column("trained_on").tolist() == [0, 0]


def test_domain_adaptation_conditions_on_the_source_and_never_picks_it():
    """Pool = source and target domain; the source lies near the targets, and is known."""
    source = np.flatnonzero(LABELS == 0)
    strategy = Targeted("vtl", observed=True, noise_ratio=0.01)
    aims = np.arange(len(POOL))
    known = tuner(targets=aims, observed=source, strategy=strategy, candidates=None).step()
    forgot = tuner(
        targets=aims, observed=source, strategy=Targeted("vtl", noise_ratio=0.01), candidates=None
    ).step()
    assert not np.isin(known.rows, source).any()
    assert not np.isin(forgot.rows, source).any()
    assert known.rows.tolist() != forgot.rows.tolist()


def test_the_default_conditions_on_what_was_observed_before():
    source = np.flatnonzero(LABELS == 0)

    def picks(**changes):
        given = {"targets": np.arange(len(POOL)), "candidates": None, "train": Recorder()}
        loop = tuner(**{**given, **changes})
        loop.run(2)
        return loop.chosen.tolist()

    unaware, aware = (
        Targeted("vtl", normalize="center+unit", observed=observed) for observed in (False, True)
    )
    assert picks(observed=source) == picks(observed=source, strategy=aware)
    assert picks(observed=source) != picks(observed=source, strategy=unaware)
    assert picks() == picks(strategy=unaware) != picks(strategy=aware)


def test_the_pool_ends():
    loop = tuner(batch=25)
    with pytest.raises(ValueError, match=r"60 are left. Run at most 3"):
        loop.run(4)
    assert [len(one.rows) for one in loop.run(3)] == [25, 25, 10]
    assert sorted(loop.chosen) == list(range(60)) and len(loop.open_rows) == 0
    with pytest.raises(ValueError, match="no row is left"):
        loop.step()


# ---- what it tells


def test_the_history_has_metrics_and_seconds_of_each_round():
    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        return {"accuracy": (model(POOL).argmax(1) == LABELS).float().mean()}

    model = network()
    loop = tuner(model, evaluate=evaluate)
    before = loop.history
    history = loop.run(3)
    assert len(before) == 0 and len(history) == 3 and model.training
    assert history.column("round").tolist() == [1, 2, 3]
    assert list(history.columns())[:4] == ["round", "labels", "loss", "accuracy"]
    for activity in ("embedding", "selecting", "training", "evaluating"):
        assert (history.column(f"{activity}_s") > 0).all()
    assert history.to_frame()["accuracy"].tolist() == history.column("accuracy").tolist()
    lines = str(history).splitlines()
    assert len(lines) == 4 and len({len(line) for line in lines}) == 1
    with pytest.raises(KeyError, match="no column 'precision'"):
        history.column("precision")


def test_progress_is_shown_when_asked_for(capsys):
    tuner(progress=True).run(2)
    assert "of 2 rounds" in capsys.readouterr().err
