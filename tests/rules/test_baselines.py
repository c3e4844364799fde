"""MMR, k-centre, k-means++ and undirected VTL: what each of them promises beside its formula."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import tellmost as tm
from problems import KERNELS, clustered, make_case, picks_as_a_list, seeds, tensor
from tellmost.posterior.problem import State
from tellmost.rules import MMR, KCenter, KMeansPlusPlus

GAUSSIAN = tm.kernels.Gaussian(3.0)
refuses = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)


# ---- MMR


@given(seed=seeds, kernel=st.sampled_from(KERNELS), observed=st.sampled_from([0, 3]))
@settings(max_examples=15, deadline=None)
def test_mmr_that_looks_at_relevance_alone_picks_as_top_k_does(seed, kernel, observed):
    case = make_case(seed, kernel=kernel, observed=observed)
    own, top = case.select(9, MMR(relevance=1)), case.select(9, "top-k")
    np.testing.assert_array_equal(own.indices, top.indices)
    np.testing.assert_allclose(own.gains, top.gains, rtol=1e-12)


@pytest.mark.parametrize("relevance", [0.2, 0.9])
@given(seed=seeds, kernel=st.sampled_from(KERNELS), observed=st.sampled_from([0, 3]))
@settings(max_examples=10, deadline=None)
def test_mmr_weighs_relevance_as_it_is_told(relevance, seed, kernel, observed):
    case = make_case(seed, kernel=kernel, observed=observed)
    chosen = case.select(8, MMR(relevance))
    for t, (pick, gain) in enumerate(zip(chosen.indices, chosen.gains, strict=True)):
        gains = oracle.mmr(case.oracle, picks_as_a_list(chosen)[:t], relevance)
        assert gain == pytest.approx(gains[pick], abs=1e-12)
        gains[[*case.oracle.observed, *chosen.indices[:t]]] = -np.inf
        assert gain >= gains.max() - 1e-9


@refuses
@pytest.mark.parametrize("bad", [0, 0.0, -0.1, 1.01, float("nan"), "much", None])
def test_a_relevance_that_is_no_share_is_refused_with_the_way_out(bad):
    with pytest.raises(ValueError, match=r"MMR\(relevance\).* above 0 and at most 1; got .*top-k"):
        MMR(relevance=bad)


def test_the_first_choice_may_raise_a_gain_of_mmr_so_it_is_not_scored_lazily():
    pool = np.array([[1.0, 0.1], [-1.0, 1.0], [-1.0, -1.5]])
    targets = np.array([[1.0, 0.0]])
    first, second = tm.select(pool, targets, 2, rule="mmr", kernel="linear").indices
    alone = tm.select(pool, targets, 1, rule="mmr", candidates=[second], kernel="linear").gains[0]
    after = tm.select(
        pool, targets, 1, rule="mmr", candidates=[second], observed=[first], kernel="linear"
    ).gains[0]
    assert after > alone
    assert not MMR.gains_only_shrink


# ---- nearness to what was chosen


@pytest.mark.parametrize("kernel", [None, GAUSSIAN])
def test_rows_that_were_chosen_have_no_distance_left_to_the_last_digit(kernel):
    pool, targets = clustered(60, 7, 3)
    twins = np.concatenate([pool, pool[::-1]])
    chosen = tm.select(twins, targets, 120, rule="k-center", kernel=kernel)
    assert (chosen.gains[:60] > 0).all()
    np.testing.assert_array_equal(chosen.gains[60:], 0.0)
    assert (np.diff(chosen.gains[1:]) <= 1e-12).all()


@pytest.mark.parametrize("kernel", [None, GAUSSIAN])
def test_points_observed_outside_the_pool_count_as_chosen(kernel):
    pool, targets = clustered(80, 7, 3, dtype=np.float64)
    far = int(tm.select(pool, k=1, rule="k-center", kernel=kernel, observed=targets).indices[0])
    again = tm.select(pool, k=1, rule="k-center", kernel=kernel, observed=[*targets, pool[far]])
    assert again.indices[0] != far


@pytest.mark.parametrize("rule", ["mmr", "k-center"])
@pytest.mark.parametrize("kernel", [None, GAUSSIAN])
def test_top_b_ranks_by_the_first_score_and_reports_what_a_pick_adds(rule, kernel):
    case = make_case(7, kernel="linear" if kernel is None else "gaussian", observed=2)
    chosen = case.select(6, rule, conditional=False)
    scores = oracle.RULES[rule](case.oracle, [])
    scores[list(case.oracle.observed)] = -np.inf
    np.testing.assert_array_equal(chosen.indices, np.argsort(-scores)[:6])
    for t, pick in enumerate(chosen.indices):
        expected = oracle.RULES[rule](case.oracle, picks_as_a_list(chosen)[:t])[pick]
        assert chosen.gains[t] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_k_center_starts_with_the_row_farthest_from_the_origin():
    pool, _ = clustered(90, 5, 1)
    chosen = tm.select(pool, k=1, rule=KCenter(), kernel="linear")
    assert chosen.indices[0] == np.linalg.norm(pool, axis=1).argmax()
    assert chosen.gains[0] == pytest.approx(np.linalg.norm(pool, axis=1).max(), rel=1e-6)


def test_k_center_and_mmr_do_not_mind_the_noise():
    pool, targets = clustered(200, 6, 4)
    for rule in ("mmr", "k-center"):
        small, large = (
            tm.select(pool, targets, 30, rule=rule, noise_ratio=ratio, kernel="linear").indices
            for ratio in (1e-3, 10.0)
        )
        np.testing.assert_array_equal(small, large)


# ---- k-means++


def drawn(squared: np.ndarray, seed: int, step: int) -> int:
    """The row that k-means++ draws, given the squared distance of each."""
    distances = {"squared_distance_to_chosen": tensor(squared)}
    rows = torch.arange(len(squared))
    state = State(rows, step, torch.ones(len(rows), dtype=torch.float64), distances)
    return int(KMeansPlusPlus(seed).gain(state).argmax())


def pearson(counts: np.ndarray, expected: np.ndarray) -> float:
    return float((((counts - expected) ** 2) / expected).sum())


@pytest.mark.often
@pytest.mark.parametrize("varies", ["seed", "step"])
def test_k_means_draws_in_proportion_to_the_squared_distance(varies):
    """Pearson's statistic of 8,000 draws; its mean is 11, and above 40 is one in 30,000."""
    squared = np.random.default_rng(5).uniform(0.1, 3.0, size=12)
    numbers = [(i, 3) if varies == "seed" else (3, i) for i in range(8_000)]
    counts = np.bincount([drawn(squared, *number) for number in numbers], minlength=12)
    assert pearson(counts, 8_000 * squared / squared.sum()) < 40


@pytest.mark.often
def test_with_nothing_chosen_k_means_draws_any_row():
    counts = np.bincount([drawn(np.full(12, np.inf), seed, 0) for seed in range(8_000)])
    assert pearson(counts, np.full(12, 8_000 / 12)) < 40


@pytest.mark.often
def test_later_draws_of_k_means_are_independent_of_the_first():
    """Given the first pick, the second follows D^2, through select from end to end."""
    pool = np.array([[0.0], [1.0], [3.0]])
    pairs = np.zeros((3, 3))
    for seed in range(300):
        first, second = tm.select(pool, k=2, rule=KMeansPlusPlus(seed), kernel="linear").indices
        pairs[first, second] += 1
    squared = (pool - pool.T) ** 2
    expected = pairs.sum(axis=1, keepdims=True) * squared / squared.sum(axis=1, keepdims=True)
    off = ~np.eye(3, dtype=bool)
    assert pearson(pairs[off], expected[off]) < 20  # mean 3
    assert pearson(pairs.sum(axis=1), np.full(3, 100.0)) < 20  # mean 2
    assert pairs.diagonal().sum() == 0


@refuses
@pytest.mark.parametrize("bad", [-1, 2**62, 0.5, "one"])
def test_a_seed_is_a_whole_number(bad):
    with pytest.raises((TypeError, ValueError), match=r"KMeansPlusPlus\(seed\) must be a whole"):
        KMeansPlusPlus(bad)


def test_foreseen_draws_save_most_passes():
    pool, targets = clustered(4_000, 64, 30)
    chosen = tm.select(pool, targets, 200, rule="k-means++", columns_ahead=16, kernel="linear")
    assert chosen.settings["passes"] <= 200 / 3


def test_a_draw_costs_no_less_for_a_dear_row_but_has_to_fit():
    pool, _ = clustered(50, 4, 1)
    cost = np.linspace(1, 2, 50)
    chosen = tm.select(pool, rule="k-means++", cost=cost, budget=9.0, kernel="linear")
    free = tm.select(pool, k=4, rule="k-means++", kernel="linear")
    np.testing.assert_array_equal(chosen.indices[:4], free.indices)
    assert cost[chosen.indices].sum() <= 9.0
    with pytest.raises(ValueError, match="min_gain has no meaning for rule 'k-means\\+\\+'"):
        tm.select(pool, rule="k-means++", min_gain=0.1, kernel="linear")


# ---- undirected VTL


@pytest.mark.parametrize("kernel", [None, GAUSSIAN])
def test_gains_of_undirected_vtl_add_up_to_what_the_candidates_lose(kernel):
    pool, _ = clustered(120, 9, 1)
    chosen = tm.select(
        pool, k=20, rule="undirected-vtl", kernel=kernel, candidates=np.arange(10, 90)
    )
    np.testing.assert_allclose(chosen.gains, -np.diff(chosen.uncertainty), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", GAUSSIAN])
def test_undirected_vtl_is_vtl_with_the_candidates_as_targets(kernel):
    pool, targets = clustered(150, 9, 4)
    own = tm.select(pool, targets, 25, rule="undirected-vtl", kernel=kernel, observed=[3])
    vtl = tm.select(pool, pool, 25, rule="vtl", kernel=kernel, observed=[3])
    np.testing.assert_array_equal(own.indices, vtl.indices)
    np.testing.assert_allclose(own.gains, vtl.gains, rtol=1e-8)
    assert own.target_variance.shape == (2, 4)  # the targets are reported on


def test_pairs_that_do_not_fit_are_refused_with_sizes_and_the_way_out():
    pool, targets = clustered(3_000, 6, 4)
    arguments = {"k": 3, "rule": "undirected-vtl", "memory": "40MB"}
    with pytest.raises(ValueError, match=r"3,000 candidates .* 72.1 MB.*candidates=.*FeatureMap"):
        tm.select(pool, targets, kernel=GAUSSIAN, **arguments)
    some = tm.select(pool, targets, kernel=GAUSSIAN, candidates=np.arange(900), **arguments)
    assert len(some) == 3
    assert len(tm.select(pool, targets, **arguments)) == 3  # inner products keep no pairs


def test_a_rule_may_read_both_squared_covariances_and_both_kinds_of_nearness():
    class Everything(tm.rules.VTL):
        needs = tm.rules.VTL.needs | {
            "squared_covariance_with_candidates",
            "similarity_to_chosen",
            "squared_distance_to_chosen",
        }

        def gain(self, state):
            spread = state.squared_distance_to_chosen.clamp(max=1e3)
            known = (1.0 - state.similarity_to_chosen.clamp(min=-1.0)).clamp(min=0.0)
            squares = state.squared_covariance_with_candidates + state.squared_covariance
            return squares * spread * known / (state.variance + state.noise_variance)

    pool, targets = clustered(100, 8, 3, dtype=np.float64)
    both = tensor(np.concatenate([pool, targets]))
    features = tm.select(pool, targets, 9, rule=Everything(), noise_std=0.7, kernel="linear")
    matrix = tm.select(
        np.arange(100),
        np.arange(100, 103),
        9,
        rule=Everything(),
        noise_std=0.7,
        kernel=tm.kernels.Precomputed(both @ both.T),
    )
    np.testing.assert_array_equal(features.indices, matrix.indices)
    np.testing.assert_allclose(features.gains, matrix.gains, rtol=1e-8)


@pytest.mark.parametrize("rule", ["undirected-vtl", "mmr", "k-center", "k-means++"])
def test_streamed_rows_are_picked_from_like_held_ones(rule, tmp_path, monkeypatch):
    pool, targets = clustered(3_000, 16, 5)
    np.save(tmp_path / "pool.npy", pool)
    monkeypatch.setattr("tellmost.running.memory.HELD_SHARE", 0.0)
    streamed = tm.select(tmp_path / "pool.npy", targets, 40, rule=rule, kernel="linear")
    held = tm.select(torch.from_numpy(pool), targets, 40, rule=rule, kernel="linear")
    assert streamed.settings["pool"] == "streamed"
    assert streamed.settings["passes"] <= 20
    np.testing.assert_array_equal(streamed.indices, held.indices)


def test_mmr_takes_gains_that_cancel_for_ties():
    """In one dimension all similarities are 1: what is left of their difference is rounding."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        pool = np.abs(generator.standard_normal((30, 1))) + 0.1
        targets = np.abs(generator.standard_normal((3, 1))) + 0.1
        chosen = tm.select(pool, targets, 10, rule="mmr", normalize="unit", kernel="linear")
        np.testing.assert_array_equal(chosen.indices, np.arange(10))
