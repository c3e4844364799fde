"""What all baselines that need a network have in common."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks import mlp, with_two_heads
from round_inputs import Asked, HalfPrecision, round_inputs, rows

from tellmost.finetune import LastLayer, LossGradients, Outputs, baselines
from tellmost.finetune.strategies import Strategy

ALL = [getattr(baselines, name)() for name in baselines.__all__]
RANDOM = {"random", "badge", "typiclust"}  # a draw of theirs is one of positions
BY_COUNTS = {"probcover"}  # many candidates tie
DIRECTED = {"information-density", "eig"}
contract = pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)


@contract
def test_a_strategy_chooses_different_candidates_and_the_same_again(strategy):
    picks = strategy.choose(round_inputs(seed=3, observed=rows(6, 9)), 8)
    assert isinstance(strategy, Strategy) and hash(strategy) == hash(type(strategy)())
    assert len(set(picks.tolist())) == 8 and set(picks.tolist()) <= set(range(30))
    again = strategy.choose(round_inputs(seed=3, observed=rows(6, 9)), 8)
    np.testing.assert_array_equal(picks, again)


@contract
def test_permuted_candidates_permute_the_choice(strategy):
    if strategy.name in RANDOM | BY_COUNTS:
        pytest.skip("draws positions, or counts alike")
    candidates, order = rows(30, 5), torch.randperm(30, generator=torch.manual_seed(1))
    picks = strategy.choose(round_inputs(candidates=candidates), 6)
    permuted = strategy.choose(round_inputs(candidates=candidates[order]), 6)
    np.testing.assert_array_equal(order[permuted].numpy(), picks)


@pytest.mark.parametrize("kind", ["float16", "one target", "all candidates", "duplicates"])
@contract
def test_unusual_rounds_are_fine(strategy, kind):
    candidates, k = rows(14, 2), 14 if kind == "all candidates" else 5
    if kind == "duplicates":
        candidates = candidates[:1].repeat(14, 1)
    made = round_inputs(
        candidates=candidates,
        targets=rows(1 if kind == "one target" else 3, 8),
        **({"kind": HalfPrecision} if kind == "float16" else {}),
    )
    assert len(set(strategy.choose(made, k).tolist())) == k


@contract
def test_whether_a_baseline_looks_at_the_targets_is_as_documented(strategy):
    near, far = rows(3, 1) * 3, rows(3, 2) * 3
    choices = [
        strategy.choose(round_inputs(targets=targets), 5).tolist() for targets in (near, far)
    ]
    assert (choices[0] != choices[1]) == (strategy.name in DIRECTED)


EMBEDDING = [one for one in ALL if hasattr(one, "embedding")]
BY_LAYER = [one for one in ALL if hasattr(one, "layer")]


@pytest.mark.parametrize("strategy", EMBEDDING, ids=lambda one: one.name)
def test_points_are_those_of_the_embedding_asked_for(strategy):
    made = round_inputs(kind=Asked, observed=rows(6, 9))
    replace(strategy, embedding=LastLayer("0")).choose(made, 3)
    asked = {embedding for _, embedding in made.asked} - {Outputs()}
    assert asked == {LastLayer("0")}


@pytest.mark.parametrize("strategy", BY_LAYER, ids=lambda one: one.name)
def test_gradients_are_those_of_the_layer_asked_for(strategy):
    made = round_inputs(kind=Asked, model=with_two_heads())
    replace(strategy, layer="1").choose(made, 3)
    asked = {embedding for _, embedding in made.asked} - {Outputs()}
    assert asked == {LossGradients("1")}


COUNTING_LABELS = {"coreset", "typiclust", "probcover"}


@contract
def test_what_cost_a_label_outside_the_task_counts_as_documented(strategy):
    made = round_inputs(kind=Asked, observed=rows(2, 9), labelled=rows(6, 9))
    strategy.choose(made, 3)
    is_read = any(inputs is made.labelled for inputs, _ in made.asked)
    assert is_read == (strategy.name in COUNTING_LABELS)


@contract
def test_more_than_there_are_candidates_is_refused(strategy):
    for k in (31, 0, -1, True):
        with pytest.raises(ValueError, match="k must be a whole number from 1 to 30, the number"):
            strategy.choose(round_inputs(), k)


CLASSIFYING = {"max-entropy", "margin", "least-confidence", "information-density", "eig"}
CLASSIFYING |= {"badge", "probcover"}


@contract
def test_a_network_of_one_output_is_no_classifier(strategy):
    made = round_inputs(model=mlp(classes=1))
    if strategy.name in CLASSIFYING:
        with pytest.raises(ValueError, match="two classes or more"):
            strategy.choose(made, 3)
    else:
        assert len(strategy.choose(made, 3)) == 3


def test_directed_baselines_ask_for_targets():
    made = replace(round_inputs(), targets=None)
    for strategy in ALL:
        if strategy.name in DIRECTED:
            with pytest.raises(ValueError, match="targets"):
                strategy.choose(made, 3)
        else:
            assert len(strategy.choose(made, 3)) == 3


def test_wrong_parameters_are_refused():
    for make, words in {
        lambda: baselines.InformationDensity(beta=0.0): r"InformationDensity\(beta\)",
        lambda: baselines.EIG(learning_rate=-1.0): r"EIG\(learning_rate\)",
        lambda: baselines.TypiClust(neighbors=0): r"TypiClust\(neighbors",
        lambda: baselines.ProbCover(purity=1.5): r"ProbCover\(purity\)",
        lambda: baselines.ProbCover(clusters=1): r"ProbCover\(clusters\)",
        lambda: baselines.ProbCover(radius=0.0): r"ProbCover\(radius\)",
    }.items():
        with pytest.raises(ValueError, match=words):
            make()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@contract
def test_a_gpu_chooses_what_the_cpu_does(strategy):
    here, there = ({"seed": 3, "observed": rows(6, 9), "model": mlp()} for _ in range(2))
    there["model"].cuda()
    picks = strategy.choose(round_inputs(**there), 8)
    np.testing.assert_array_equal(picks, strategy.choose(round_inputs(**here), 8))
