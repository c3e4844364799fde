"""What all strategies that others use with a network have in common, as functions of one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from networks import mlp, with_two_heads
from round_inputs import Asked, HalfPrecision, round_inputs, rows
from tellmost.finetune import LastLayer, LossGradients, Outputs
from tellmost.finetune.strategies import Strategy

RANDOM = {"random", "badge", "typiclust"}  # a draw of theirs is one of positions
BY_COUNTS = {"probcover"}  # many candidates tie
DIRECTED = {"information-density", "eig"}
COUNTING_LABELS = {"coreset", "typiclust", "probcover"}
CLASSIFYING = {"max-entropy", "margin", "least-confidence", "information-density", "eig"}
CLASSIFYING |= {"badge", "probcover"}


def chooses_different_candidates_and_the_same_again(strategy):
    picks = strategy.choose(round_inputs(seed=3, observed=rows(6, 9)), 8)
    assert isinstance(strategy, Strategy) and hash(strategy) == hash(type(strategy)())
    assert len(set(picks.tolist())) == 8 and set(picks.tolist()) <= set(range(30))
    again = strategy.choose(round_inputs(seed=3, observed=rows(6, 9)), 8)
    np.testing.assert_array_equal(picks, again)


def permutes_its_choice_with_the_candidates(strategy):
    if strategy.name in RANDOM | BY_COUNTS:
        pytest.skip("draws positions, or counts alike")
    candidates, order = rows(30, 5), torch.randperm(30, generator=torch.manual_seed(1))
    picks = strategy.choose(round_inputs(candidates=candidates), 6)
    permuted = strategy.choose(round_inputs(candidates=candidates[order]), 6)
    np.testing.assert_array_equal(order[permuted].numpy(), picks)


def takes_unusual_rounds(strategy):
    for kind in ("float16", "one target", "all candidates", "duplicates"):
        candidates, k = rows(14, 2), 14 if kind == "all candidates" else 5
        if kind == "duplicates":
            candidates = candidates[:1].repeat(14, 1)
        made = round_inputs(
            candidates=candidates,
            targets=rows(1 if kind == "one target" else 3, 8),
            **({"kind": HalfPrecision} if kind == "float16" else {}),
        )
        assert len(set(strategy.choose(made, k).tolist())) == k, kind


def looks_at_the_targets_as_documented(strategy):
    near, far = rows(3, 1) * 3, rows(3, 2) * 3
    choices = [
        strategy.choose(round_inputs(targets=targets), 5).tolist() for targets in (near, far)
    ]
    assert (choices[0] != choices[1]) == (strategy.name in DIRECTED)


def asks_for_targets_only_if_it_looks_at_them(strategy):
    made = replace(round_inputs(), targets=None)
    if strategy.name in DIRECTED:
        with pytest.raises(ValueError, match="targets"):
            strategy.choose(made, 3)
    else:
        assert len(strategy.choose(made, 3)) == 3


def reads_the_embedding_or_the_layer_asked_for(strategy):
    made = round_inputs(kind=Asked, model=with_two_heads(), observed=rows(6, 9))
    wanted: set = set()
    if hasattr(strategy, "embedding"):
        strategy, wanted = replace(strategy, embedding=LastLayer("0")), {LastLayer("0")}
    if hasattr(strategy, "layer"):
        strategy, wanted = replace(strategy, layer="1"), {LossGradients("1")}
    strategy.choose(made, 3)
    assert {embedding for _, embedding in made.asked} - {Outputs()} == wanted


def counts_labels_outside_the_task_as_documented(strategy):
    made = round_inputs(kind=Asked, observed=rows(2, 9), labelled=rows(6, 9))
    strategy.choose(made, 3)
    is_read = any(inputs is made.labelled for inputs, _ in made.asked)
    assert is_read == (strategy.name in COUNTING_LABELS)


def refuses_more_than_there_are_candidates(strategy):
    for k in (31, 0, -1, True):
        with pytest.raises((TypeError, ValueError), match=r"k, of the candidates .* at most 30"):
            strategy.choose(round_inputs(), k)


def knows_a_classifier(strategy):
    made = round_inputs(model=mlp(classes=1))
    if strategy.name in CLASSIFYING:
        with pytest.raises(ValueError, match="two classes or more"):
            strategy.choose(made, 3)
    else:
        assert len(strategy.choose(made, 3)) == 3


def chooses_the_same_on_a_gpu(strategy):
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    here, there = ({"seed": 3, "observed": rows(6, 9), "model": mlp()} for _ in range(2))
    there["model"].cuda()
    picks = strategy.choose(round_inputs(**there), 8)
    np.testing.assert_array_equal(picks, strategy.choose(round_inputs(**here), 8))


PROMISES = [
    chooses_different_candidates_and_the_same_again,
    permutes_its_choice_with_the_candidates,
    takes_unusual_rounds,
    looks_at_the_targets_as_documented,
    asks_for_targets_only_if_it_looks_at_them,
    reads_the_embedding_or_the_layer_asked_for,
    counts_labels_outside_the_task_as_documented,
    refuses_more_than_there_are_candidates,
    knows_a_classifier,
    chooses_the_same_on_a_gpu,
]
