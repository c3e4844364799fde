"""The paper's baselines that are no part of the library, against the slow version of each."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracle_finetune_baselines as slow
import tellmost as tm
from baseline_contract import PROMISES
from networks import mlp, with_two_heads
from round_inputs import points_of, round_inputs, rows
from tellmost.finetune import LastLayer, LossGradients, Outputs
from tellmost.finetune.baselines import BADGE, entropy, lack_of_confidence, lack_of_margin
from tellmost_reproduction.networks.configurations import chosen, published, smaller, undirected
from tellmost_reproduction.networks.covering import (
    ProbCover,
    TypiClust,
    choose_typical,
    cluster,
    cover,
    draw_seeds,
    find_balls,
    pure_radius,
)
from tellmost_reproduction.networks.directed import EIG, InformationDensity, expected_information
from tellmost_reproduction.networks.naively import AmongTies, Naively, has_gradients, score
from tellmost_reproduction.networks.problems import MNIST, MNIST_FLOAT32, read_problem
from tellmost_reproduction.networks.runs import Bench

ALL = [EIG(), InformationDensity(), ProbCover(), TypiClust()]
EXAMPLES = 12

seeds = st.integers(0, 2**32 - 1)


def unit(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("keeps", PROMISES, ids=lambda promise: promise.__name__)
def test_a_baseline_keeps_what_all_promise(strategy, keeps):
    keeps(strategy)


def test_wrong_parameters_are_refused():
    for make, words in {
        lambda: InformationDensity(beta=0.0): r"InformationDensity\(beta\)",
        lambda: EIG(learning_rate=-1.0): r"EIG\(learning_rate\)",
        lambda: TypiClust(neighbors=0): r"TypiClust\(neighbors",
        lambda: ProbCover(purity=1.5): r"ProbCover\(purity\)",
        lambda: ProbCover(clusters=1): r"ProbCover\(clusters\)",
        lambda: ProbCover(radius=0.0): r"ProbCover\(radius\)",
    }.items():
        with pytest.raises(ValueError, match=words):
            make()


# ---- similarity


@pytest.mark.parametrize("beta", [1.0, 0.5, 2.0])
def test_information_density_is_entropy_times_a_power_of_the_similarity(beta):
    made = round_inputs(seed=6)
    points, targets = (points_of(made, part, LastLayer()) for part in ("candidates", "targets"))
    similarity = np.array([slow.mean_cosine(x, targets) for x in points])
    assert similarity.min() < 0 < similarity.max()
    doubts = np.array([slow.entropy(row) for row in points_of(made, "candidates", Outputs())])
    scores = doubts * np.sign(similarity) * np.abs(similarity) ** beta
    found = InformationDensity(beta=beta).choose(made, 30)
    assert found.tolist() == np.argsort(scores)[::-1].tolist()


# ---- gradients


@pytest.mark.parametrize("bias", [True, False])
@settings(max_examples=4, deadline=None)
@given(seed=seeds, rate=st.sampled_from([1e-3, 0.1, 10.0]))
def test_information_of_a_gradient_step_is_that_of_steps_taken(bias, seed, rate):
    torch.manual_seed(seed % 1000)
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3, bias=bias)).double()
    with torch.no_grad():
        model[2].weight *= 4  # some predictions are certain
    candidates, targets = rows(5, seed), rows(3, seed + 1)
    wanted = [slow.expected_information(model, "2", x, targets, rate) for x in candidates]
    with torch.no_grad():
        h, of_targets = (model[:2](x) for x in (candidates, targets))
        step = rate * (h @ of_targets.T + float(bias))
        found = expected_information(model(candidates).softmax(dim=1), model(targets), step)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-12)


def test_eig_takes_the_candidates_of_most_information_in_order():
    made = round_inputs(seed=2)
    data, targets = made.candidates.data, made.targets.data
    scores = [slow.expected_information(made.model, "2", x, targets, 0.05) for x in data]
    found = EIG(learning_rate=0.05).choose(made, 6)
    assert found.tolist() == np.argsort(scores)[::-1][:6].tolist()


def test_eig_takes_its_step_on_the_layer_that_is_named():
    model = with_two_heads()
    made = round_inputs(seed=2, model=model)
    data, targets = made.candidates.data, made.targets.data
    for layer, name in ((None, "2"), ("1", "1")):
        scores = [slow.expected_information(model, name, x, targets, 0.5) for x in data]
        found = EIG(learning_rate=0.5, layer=layer).choose(made, 30)
        assert found.tolist() == np.argsort(scores)[::-1].tolist()


def test_steps_that_are_far_too_long_leave_no_nan():
    p = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
    of_targets = torch.tensor([[900.0, 0.0, -900.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    for step in (-1e4, 1e4):
        found = expected_information(p, of_targets, torch.full((2, 2), step, dtype=torch.float64))
        assert torch.isfinite(found).all()


# ---- clusters and covers


def blobs(sizes: tuple[int, ...], seed: int, width: float = 0.03) -> torch.Tensor:
    """Groups of directions, well apart."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.eye(len(sizes), dtype=torch.float64)
    parts = [center.expand(size, -1) for center, size in zip(centers, sizes, strict=True)]
    points = torch.cat(parts)
    return points + width * torch.randn(points.shape, generator=generator, dtype=torch.float64)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds, n=st.integers(5, 30), count=st.integers(1, 5))
def test_clusters_are_those_of_their_own_means(seed, n, count):
    points = rows(n, seed)
    labels = cluster(points, count, seed % 100)
    numbers = labels.unique()
    means = torch.stack([points[labels == number].mean(dim=0) for number in numbers])
    nearest = torch.cdist(points, means).argmin(dim=1)
    assert torch.equal(numbers[nearest], labels) and len(numbers) == count


@pytest.mark.parametrize("seed", range(3))
def test_clusters_start_from_the_draws_of_k_means(seed):
    points = rows(40, seed)
    wanted = tm.select(points, k=15, rule=tm.rules.KMeansPlusPlus(seed)).indices
    np.testing.assert_array_equal(draw_seeds(points, 15, seed), wanted)


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_are_well_apart_are_the_clusters(seed):
    labels = cluster(blobs((9, 7, 5, 4), seed), 4, seed).tolist()
    groups = [labels[:9], labels[9:16], labels[16:21], labels[21:]]
    assert all(len(set(group)) == 1 for group in groups) and len(set(labels)) == 4


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds, share=st.sampled_from([0.5, 0.9, 0.95, 1.0]), count=st.integers(2, 4))
def test_the_radius_is_the_largest_at_which_the_balls_are_pure_enough(seed, share, count):
    points = torch.from_numpy(unit(rows(15, seed).numpy()))
    labels = cluster(points, count, 0)
    found = pure_radius(points, labels, share)
    wanted = slow.pure_radius(points.numpy(), labels.numpy(), share)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert slow.purity(points.numpy(), labels.numpy(), found * (1 - 1e-6)) >= share


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds, radius=st.sampled_from([0.2, 0.7, 1.3]), count=st.integers(0, 4))
def test_a_greedy_cover_is_that_of_the_oracle(seed, radius, count):
    points, known = unit(rows(14, seed).numpy()), unit(rows(count, seed + 1).numpy())
    apart = np.linalg.norm(points[:, None] - known, axis=2)
    is_covered = torch.from_numpy((apart < radius).any(axis=1))
    found = cover(find_balls(torch.from_numpy(points), radius), is_covered, 6)
    assert found.tolist() == slow.cover(points, known, radius, 6)


@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("seed", range(2))
def test_probcover_chooses_what_the_oracle_does(seed, classes):
    """Clusters as many as the model has outputs; balls of all that was labelled count."""
    labelled = rows(6, seed + 9)
    made = round_inputs(
        seed=seed, model=mlp(classes=classes), observed=labelled[:2], labelled=labelled
    )
    points, known = (
        unit(points_of(made, part, LastLayer())) for part in ("candidates", "labelled")
    )
    labels = cluster(torch.from_numpy(points), classes, seed).numpy()
    radius = slow.pure_radius(points, labels, 0.95)
    assert ProbCover().choose(made, 7).tolist() == slow.cover(points, known, radius, 7)


@pytest.mark.parametrize("seed", range(3))
def test_typiclust_chooses_what_the_oracle_does(seed):
    """Clusters as many as labels and picks, over candidates and all that was labelled."""
    labelled = rows(3, seed + 9)
    made = round_inputs(seed=seed, observed=labelled[:1], labelled=labelled)
    points, known = (
        unit(points_of(made, part, LastLayer())) for part in ("candidates", "labelled")
    )
    labels = cluster(torch.from_numpy(np.concatenate([points, known])), 3 + 4, seed).tolist()
    wanted = slow.typical(points, labels[:30], labels[30:], 4, 20)
    assert TypiClust().choose(made, 4).tolist() == wanted


def round_of_blobs(sizes, *, known: int | None = None, seed: int = 0):
    """Directions as inputs, seen by the last layer as they are."""
    points = blobs(sizes, seed)
    model = nn.Sequential(nn.Linear(len(sizes), len(sizes), bias=False)).double()
    observed = None if known is None else blobs(sizes, seed + 1)[known : known + 1]
    observed = points[:0] if observed is None else observed
    return round_inputs(
        candidates=points, targets=points[:1], observed=observed, model=model, seed=seed
    )


@pytest.mark.parametrize("strategy", [ProbCover(), TypiClust()], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_groups_come_first_and_labelled_ones_last(strategy, seed):
    sizes = (7, 9, 12)
    group = np.repeat([0, 1, 2], sizes)
    made = round_of_blobs(sizes, seed=seed)
    assert group[strategy.choose(made, 3)].tolist() == [2, 1, 0]
    order = torch.randperm(28, generator=torch.manual_seed(seed))
    permuted = round_inputs(
        candidates=made.candidates.data[order], model=made.model, targets=made.targets.data
    )
    assert group[order[strategy.choose(permuted, 3)]].tolist() == [2, 1, 0]
    labelled = round_of_blobs(sizes, known=27, seed=seed)
    assert group[strategy.choose(labelled, 2)].tolist() == [1, 0]


@pytest.mark.parametrize("strategy", [ProbCover(), TypiClust()], ids=repr)
def test_lengths_of_points_do_not_matter_to_clusters_and_covers(strategy):
    made = round_of_blobs((7, 9, 12))
    longer = made.candidates.data * (1 + torch.arange(28, dtype=torch.float64) % 5)[:, None]
    stretched = round_inputs(candidates=longer, model=made.model, targets=made.targets.data)
    np.testing.assert_array_equal(strategy.choose(made, 5), strategy.choose(stretched, 5))


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize("seed", range(3))
def test_typical_points_are_those_of_the_oracle(seed, count):
    points, known = unit(rows(30, seed).numpy()), unit(rows(count, seed + 1).numpy())
    both = torch.from_numpy(np.concatenate([points, known]))
    labels = cluster(both, 5, seed)
    of_points, of_known = labels[:30].tolist(), labels[30:].tolist()
    for k in (12, 30):
        found = choose_typical(both[:30], labels, k, 3)
        assert found.tolist() == slow.typical(points, of_points, of_known, k, 3)


def test_small_clusters_have_no_turn_before_the_large_ones_are_empty():
    group = np.repeat([0, 1, 2, 3], (10, 8, 3, 2))
    found = choose_typical(
        torch.from_numpy(unit(rows(23, 0).numpy())), torch.from_numpy(group), 20, 20
    )
    assert group[found[:4]].tolist() == [0, 1, 0, 1]
    assert group[found].tolist() == [0, 1] * 8 + [0, 0] + [2, 3]


def test_points_with_a_kernel_of_their_own_are_not_clustered():
    for strategy in (
        TypiClust(embedding=LossGradients()),
        ProbCover(embedding=LossGradients()),
    ):
        with pytest.raises(ValueError, match="compared by inner products"):
            strategy.choose(round_inputs(), 3)


def test_naive_scores_rank_as_exact_ones_and_tie_where_float32_ends():
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    exact = {
        "entropy": entropy(logits.double()),
        "margin": lack_of_margin(logits.double()),
        "confidence": lack_of_confidence(logits.double()),
    }
    for doubt, scores in exact.items():
        naive = score(logits.softmax(dim=1), doubt)
        assert naive.argsort().tolist() == scores.argsort().tolist()
        sure = score((200.0 * torch.eye(3)).softmax(dim=1), doubt)
        assert len(set(sure.tolist())) == 1
    assert len(set(lack_of_margin(torch.tensor([[90.0, 0, 0], [80, 0, 0]]).double()))) == 2


def test_the_published_configurations_of_mnist_draw_among_ties():
    problem = read_problem(MNIST_FLOAT32, None, torch.device("cpu"), is_smoke=True)
    margin = next(one for one in undirected(MNIST) if one.name == "mnist/margin")
    one = smaller(published(margin))
    assert one.strategy == Naively("margin") and one.dataset == MNIST_FLOAT32
    run = Bench(problem, capacity=3).run(one, 0, 3)
    assert len(set(run.picks)) == 3
    kept = published(chosen(MNIST, "itl")[0])
    assert kept.strategy == chosen(MNIST, "itl")[0].strategy
    badge = published(chosen(MNIST, "badge")[0])
    assert badge.strategy == AmongTies(BADGE()) and badge.strategy.name == "badge"
    assert not has_gradients(torch.tensor([[200.0, 0, 0], [0, 90, 0]]))
    assert has_gradients(torch.tensor([[200.0, 0, 0], [0, 9, 0]]))
