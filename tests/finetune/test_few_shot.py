"""few_shot: a network of its own for every query."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from loops import Recorder, clusters, fit, network, train

import tellmost as tm
from tellmost.finetune import Outputs, Targeted, few_shot

POOL, LABELS = clusters()
QUERIES, ANSWERS = clusters(8, seed=2)


def test_each_query_is_answered_by_a_copy_trained_on_what_was_chosen_for_it():
    model = network(dropout=0.0)
    before = deepcopy(model.state_dict())
    made = few_shot(model, QUERIES, pool=POOL, labels=LABELS, train=train, k=6)
    with torch.no_grad():
        features = [model[:-1](x).numpy() for x in (POOL, QUERIES)]
    for number, query in enumerate(QUERIES):
        rows = tm.select(
            features[0], features[1][number], 6, normalize="center+unit", kernel="linear"
        ).indices
        assert made.rows[number].tolist() == rows.tolist()
        copy = deepcopy(model)
        fit(copy, POOL[rows], LABELS[rows])
        with torch.no_grad():
            torch.testing.assert_close(made.outputs[number], copy(query[None])[0])
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert set(made.seconds) == {"embedding", "selecting", "training"}


def test_a_few_chosen_examples_answer_better_than_the_network_itself():
    model = network()
    made = few_shot(model, QUERIES, pool=POOL, labels=LABELS, train=train, k=6)
    with torch.no_grad():
        before = model.eval()(QUERIES).argmax(dim=1)
    accuracy = (made.predictions == ANSWERS.numpy()).mean()
    assert accuracy > 0.8 > (before == ANSWERS).double().mean()


def test_the_pool_is_embedded_once():
    calls = []

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            calls.append(len(x))
            return self.inner(x)

    few_shot(Counting(), QUERIES, pool=POOL, labels=LABELS, train=Recorder(), k=2)
    assert sum(count == len(POOL) for count in calls) == 1


def test_candidates_are_drawn_once_and_the_seed_decides():
    def rows(seed):
        return few_shot(
            network(),
            QUERIES,
            pool=POOL,
            labels=LABELS,
            train=Recorder(),
            k=4,
            candidates=10,
            strategy=Targeted("random", embedding=Outputs()),
            seed=seed,
        ).rows

    assert len(np.unique(rows(0))) <= 10 and rows(0).shape == (8, 4)
    np.testing.assert_array_equal(rows(0), rows(0))
    assert (rows(0) != rows(1)).any() and (rows(0)[0] != rows(0)[1]).any()


def test_a_copy_whose_training_diverged_is_an_error_that_names_the_query():
    def diverging(model, inputs, labels, number):
        if number == 3:
            torch.nn.init.constant_(model[3].bias, torch.nan)

    with pytest.raises(ValueError, match=r"query 3, row 2 of queries, are not finite. \(a\)"):
        few_shot(network(), QUERIES, pool=POOL, labels=LABELS, train=diverging, k=2)


@pytest.mark.parametrize(
    ("queries", "changes", "error", "text"),
    [
        ([0, 1], {}, TypeError, "would be chosen for itself"),
        (None, {}, TypeError, "queries must be inputs"),
        ((QUERIES, ANSWERS), {}, TypeError, "queries must be one tensor"),
        (QUERIES.double(), {}, TypeError, "and queries of torch.float64"),
        (QUERIES, {"k": 61}, ValueError, "k, of the candidates, must .* at most 60; got 61"),
        (QUERIES, {"labels": None}, ValueError, "yields no labels"),
        (QUERIES, {"train": None}, TypeError, "train must be a function|parameter 'train'"),
        (QUERIES, {"pool": POOL[:0], "labels": []}, ValueError, "pool must have .* it is empty"),
        (QUERIES[:, :5], {}, ValueError, r"got pool \(60, 6\) and queries \(8, 5\)"),
    ],
)
def test_bad_arguments_are_errors_that_help(queries, changes, error, text):
    given = {"pool": POOL, "labels": LABELS, "train": train, "k": 2}
    with pytest.raises(error, match=text):
        few_shot(network(), queries, **{**given, **changes})
