"""TargetedSampler: chosen batches for a training loop of one's own."""

import json

import numpy as np
import pytest
import torch
from loops import clusters, fit, network, targets_of_class_0
from torch.utils.data import DataLoader, TensorDataset

from tellmost.finetune import LaplaceCovariance, Targeted, TargetedSampler, Uniform

POOL, LABELS = clusters()
DATASET = TensorDataset(POOL, LABELS)


def sampler(model=None, **changes):
    given = {"pool": DATASET, "targets": targets_of_class_0(), "batch": 8, "batches": 5}
    return TargetedSampler(model or network(), **{**given, **changes})


def test_a_loader_trains_on_the_batches_chosen_by_the_network_of_now():
    model = network(dropout=0.0)
    batches = sampler(model, strategy=Targeted(observed=True), candidates=None)
    loader = DataLoader(DATASET, batch_sampler=batches)
    given: list[int] = []
    for inputs, labels in loader:
        expected = Targeted(observed=True).choose(round_by_hand(model, given), 8)
        rows = np.setdiff1d(np.arange(len(POOL)), given)[expected]
        assert torch.equal(inputs, POOL[rows]) and torch.equal(labels, LABELS[rows])
        given += rows.tolist()
        fit(model, inputs, labels)
    assert len(given) == len(set(given)) == 40 and len(loader) == 5


def round_by_hand(model, given):
    from tellmost.finetune import Inputs, RoundInputs

    pool = Inputs.of(POOL, "pool")
    return RoundInputs(
        model=model,
        candidates=pool.subset(np.setdiff1d(np.arange(len(POOL)), given)),
        targets=Inputs.of(targets_of_class_0(), "targets"),
        observed=pool.subset(np.array(given, dtype=np.int64)),
        observed_labels=np.full(len(given), -1),
        labelled=pool.subset(np.array(given, dtype=np.int64)),
        seed=0,
    )


def test_an_epoch_has_every_row_once_and_the_next_one_again():
    batches = sampler(batches=None, batch=25, refresh=2)
    for _ in range(2):
        rows = [row for batch in batches for row in batch]
        assert sorted(rows) == list(range(60))
    assert [len(batch) for batch in batches] == [25, 25, 10] and len(batches) == 3


def test_refresh_chooses_so_many_batches_together():
    asked = []

    class Spy:
        name = "spy"

        def choose(self, inputs, k):
            asked.append((k, len(inputs.observed)))
            return np.arange(k)

    list(sampler(strategy=Spy(), refresh=2))
    assert asked == [(16, 0), (16, 16), (8, 32)]


def test_together_chosen_batches_are_one_selection():
    apart = next(iter(sampler(batch=16, batches=1, candidates=None)))
    together = iter(sampler(batch=8, refresh=2, candidates=None))
    assert [*next(together), *next(together)] == apart


def test_an_epoch_goes_on_in_its_middle():
    whole = list(sampler(refresh=2, candidates=30)), list(sampler(refresh=2, candidates=30))
    assert whole[0] == whole[1]
    first = sampler(refresh=2, candidates=30)
    iterator = iter(first)
    begun = [next(iterator) for _ in range(3)]
    second = sampler(refresh=2, candidates=30)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert begun + list(second) == whole[0]
    assert list(second) != whole[0]  # the next epoch draws other candidates
    again = list(iter(first))  # without a state an iteration starts an epoch
    assert len(again) == 5


def test_a_state_at_the_end_of_an_epoch_starts_the_next():
    first = sampler(candidates=30)
    list(first)
    second = sampler(candidates=30)
    second.load_state_dict(first.state_dict())
    assert list(second) == list(first) and second.state_dict()["epoch"] == 1


def test_strategies_see_labels_where_they_are_given():
    seen = []

    class Spy:
        name = "spy"

        def choose(self, inputs, k):
            seen.append(inputs.observed_labels)
            return np.arange(k)

    list(sampler(strategy=Spy(), batches=2, labels=LABELS, candidates=None))
    list(sampler(strategy=Spy(), batches=2, candidates=None))
    assert seen[1].tolist() == LABELS[:8].tolist() and seen[3].tolist() == [-1] * 8


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"batches": 9}, "batches of an epoch, .* at most 8; got 9"),
        ({"refresh": 0}, "refresh must be a whole number"),
        ({"pool": POOL[:0]}, "pool must have at least one input .* it is empty"),
        ({"labels": LABELS - 1}, "labels must be class numbers from 0"),
        ({"candidates": Uniform(5)}, "at least the 8 rows that are chosen together"),
        ({"candidates": 39, "refresh": 5}, r"at least the 40 rows .* drew 39 of 60"),
    ],
)
def test_bad_arguments_are_errors_that_help(changes, text):
    with pytest.raises(ValueError, match=text):
        list(sampler(**changes))


def test_a_loader_with_workers_is_given_the_same_batches():
    made = [
        [labels.tolist() for _, labels in DataLoader(DATASET, batch_sampler=sampler(), **workers)]
        for workers in ({}, {"num_workers": 1})
    ]
    assert made[0] == made[1]


def test_the_state_of_another_sampler_is_refused():
    with pytest.raises(ValueError, match="of another sampler: its refresh is 1"):
        sampler(refresh=2).load_state_dict(sampler().state_dict())


def test_the_state_of_other_inputs_is_refused():
    other = TensorDataset(POOL.flip(0), LABELS.flip(0))
    with pytest.raises(ValueError, match="of another sampler: its pool is '60 inputs of content"):
        sampler(pool=other).load_state_dict(sampler().state_dict())


@pytest.mark.parametrize("given", ["x", [[0, 0]], [[0], [60]], [[-1]], [[0.5]]], ids=repr)
def test_a_damaged_state_is_refused_whole(given):
    batches = sampler()
    with pytest.raises(ValueError, match="damaged, and nothing of it was taken over"):
        batches.load_state_dict({**batches.state_dict(), "epoch": 3, "given": given})
    assert batches.state_dict() == sampler().state_dict()


def test_a_covariance_that_is_fitted_needs_labels():
    with pytest.raises(ValueError, match="Give labels= to the sampler"):
        list(sampler(strategy=Targeted(covariance=LaplaceCovariance())))
    assert (
        len(list(sampler(strategy=Targeted(covariance=LaplaceCovariance()), labels=LABELS))) == 5
    )
