"""What others do with a network, against the slow version of each."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import oracle_finetune_baselines as slow
import tellmost as tm
from baseline_contract import PROMISES
from networks import mlp
from round_inputs import points_of, round_inputs, rows
from tellmost.finetune import LastLayer, Outputs, Targeted, baselines
from tellmost.finetune.baselines import entropy, lack_of_confidence, lack_of_margin

ALL = [getattr(baselines, name)() for name in baselines.__all__]
EXAMPLES = 12

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("keeps", PROMISES, ids=lambda promise: promise.__name__)
def test_a_baseline_keeps_what_all_promise(strategy, keeps):
    keeps(strategy)


# ---- how unsure a classifier is


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds, scale=st.sampled_from([0.1, 3.0, 30.0]), classes=st.integers(2, 5))
def test_doubts_of_a_classifier_are_those_of_the_definitions(seed, scale, classes):
    logits = np.random.default_rng(seed).normal(size=(6, classes)) * scale
    for fast, by_hand in [
        (entropy, slow.entropy),
        (lack_of_margin, slow.lack_of_margin),
        (lack_of_confidence, slow.lack_of_confidence),
    ]:
        wanted = [by_hand(row) for row in logits]
        np.testing.assert_allclose(fast(torch.from_numpy(logits)), wanted, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("strategy", "score"),
    [
        (baselines.MaxEntropy(), slow.entropy),
        (baselines.Margin(), slow.lack_of_margin),
        (baselines.LeastConfidence(), slow.lack_of_confidence),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_doubting_strategy_takes_the_largest_doubts_in_order(strategy, score):
    made = round_inputs(seed=4)
    scores = [score(row) for row in points_of(made, "candidates", Outputs())]
    assert strategy.choose(made, 7).tolist() == np.argsort(scores)[::-1][:7].tolist()


def test_confident_predictions_are_still_told_apart():
    gaps = torch.tensor([50.0, 60.0, 40.0, 70.0], dtype=torch.float64)
    logits = torch.stack([gaps, torch.zeros(4, dtype=torch.float64)], dim=1)
    for doubt in (entropy, lack_of_margin, lack_of_confidence):
        assert doubt(logits).argsort(descending=True).tolist() == [2, 0, 1, 3]


# ---- similarity


def test_cosine_similarity_takes_the_most_similar_in_order():
    made = round_inputs(seed=6)
    points, targets = (points_of(made, part, LastLayer()) for part in ("candidates", "targets"))
    scores = [slow.mean_cosine(x, targets) for x in points]
    found = Targeted("cosine").choose(made, 9)
    assert found.tolist() == np.argsort(scores)[::-1][:9].tolist()


# ---- gradients


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_badge_draws_seeds_of_k_means_among_the_gradients_by_autograd(seed, bias):
    model = mlp(bias=bias)
    made = round_inputs(seed=seed, model=model)
    gradients = np.stack([slow.loss_gradient(model, model[2], x) for x in made.candidates.data])
    wanted = tm.select(
        gradients, k=8, rule=tm.rules.KMeansPlusPlus(made.seed), kernel="linear"
    ).indices
    np.testing.assert_array_equal(baselines.BADGE().choose(made, 8), wanted)


# ---- linear models


def problem_of(made, embedding, noise_std: float) -> oracle.Problem:
    """The candidates and, behind them, what was observed."""
    points = points_of(made, "candidates", embedding)
    known = points_of(made, "observed", embedding) if len(made.observed) else points[:0]
    both = np.concatenate([points, known])
    return oracle.Problem(
        K=both @ both.T,
        n=len(points),
        m=0,
        noise=np.full(len(points), noise_std**2),
        outside_noise=noise_std**2,
        observed=tuple(range(len(points), len(both))),
    )


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize(
    ("strategy", "score"),
    [
        (baselines.BAIT, oracle.undirected_vtl),
        (partial(Targeted, "undirected-itl"), oracle.undirected_itl),
    ],
)
def test_undirected_rules_choose_what_the_oracle_does(strategy, score, observed):
    made = round_inputs(seed=7, observed=rows(5, 3))
    problem = problem_of(made, LastLayer(), 0.5)
    if not observed:
        problem = problem_of(round_inputs(seed=7), LastLayer(), 0.5)
    picks: list[int] = []
    for _ in range(6):
        picks.append(slow.best_of(list(score(problem, picks)), picks))
    assert strategy(noise_std=0.5, observed=observed).choose(made, 6).tolist() == picks


def test_uncertainty_sampling_takes_the_longest_points_each_by_itself():
    made = round_inputs(seed=7)
    lengths = np.linalg.norm(points_of(made, "candidates", LastLayer()), axis=1)
    found = Targeted("uncertainty", conditional=False).choose(made, 9).tolist()
    assert found == np.argsort(lengths)[::-1][:9].tolist()
    assert found != Targeted("undirected-itl").choose(made, 9).tolist()
    assert found[0] == Targeted("undirected-itl").choose(made, 1)[0]


@pytest.mark.parametrize("count", [0, 5])
def test_coreset_chooses_what_the_oracle_does(count):
    made = round_inputs(seed=8, observed=rows(count, 3)[:2], labelled=rows(count, 3))
    points = points_of(made, "candidates", LastLayer())
    known = points_of(made, "labelled", LastLayer()) if count else points[:0]
    wanted = slow.k_center(points, known, 7)
    assert baselines.CoreSet().choose(made, 7).tolist() == wanted
    alone = baselines.CoreSet(observed=False).choose(made, 7).tolist()
    assert alone == slow.k_center(points, points[:0], 7)
