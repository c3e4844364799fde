"""Comparing methods: honest where it can be, and saying so where it cannot."""

import doctest
import importlib
import json

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.evaluation.comparing import METHODS, compare
from tellmost.evaluation.probes import fit_ridge, kernel_features
from tellmost.evaluation.runs import IN_REGION, RunData, draw_runs
from tellmost.selecting.arguments import check_data, check_meaning

WITHOUT_SHAPES = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, calls go through the checker",
)

BASIC = ("random", "top-k", "cosine")


def clusters(n=240, d=12, classes=8, seed=0, m=30):
    """Classes around centres; the targets are of the first two."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, d))
    y, t = rng.integers(classes, size=n), rng.integers(2, size=m)
    spread = 0.8
    pool = centres[y] + spread * rng.standard_normal((n, d))
    targets = centres[t] + spread * rng.standard_normal((m, d))
    return pool.astype(np.float32), y, targets.astype(np.float32), t


def squeezed(text):
    return " ".join(text.split())


def test_with_labels_a_directed_rule_beats_random_on_clusters():
    pool, y, targets, t = clusters()
    result = compare(
        pool, targets, 16, labels=y, target_labels=t, methods=["random"], seeds=8, budgets=[8]
    )
    assert result.difference("random").sign == 1
    assert result.verdicts[-1].better == ("random",)
    assert "After 16 picks vtl is better than random (+" in squeezed(result.describe())
    assert not result.is_circular and "CIRCULAR" not in result.describe()
    assert "random half of the pool (120 or more of 240" in squeezed(repr(result))
    assert "6 classes of the pool are of no target" in squeezed(result.describe())


def test_where_labels_are_chance_the_probe_says_that_it_learned_nothing():
    pool, _, targets, _ = clusters()
    rng = np.random.default_rng(5)
    y, t = rng.integers(2, size=len(pool)), rng.integers(2, size=len(targets))
    result = compare(
        pool, targets, 16, labels=y, target_labels=t, methods=BASIC, seeds=6, budgets=[]
    )
    assert not result.verdicts[0].has_learned
    assert "the probe learned nothing that shows" in squeezed(result.describe())
    assert "no better than" not in result.verdict


def smooth_world(seed=0):
    """Values that bend over the square, of which a linear probe knows next to nothing."""
    rng = np.random.default_rng(seed)
    X, T = rng.uniform(-1, 1, (400, 2)), rng.uniform(-0.4, 0.4, (30, 2))
    kernel = tm.kernels.Matern(2.5, 0.3)
    points = torch.from_numpy(np.concatenate([X, T]))
    L = np.linalg.cholesky(kernel.block(points, points).numpy() + 1e-9 * np.eye(430))
    f = L @ rng.standard_normal(430)
    return X, T, f[:400], f[400:], kernel


def test_a_kernel_that_chooses_is_judged_by_a_probe_with_this_kernel():
    X, T, y, t, kernel = smooth_world()
    options = {"methods": ["random"], "seeds": 6, "budgets": []}
    options |= {"labels": y, "target_labels": t, "kernel": kernel, "noise_std": 0.1}
    result = compare(X, T, 24, **options)
    assert result.judge.judge == f"a probe with {kernel!r}"
    assert result.verdicts[-1].better == ("random",)
    assert result.score("vtl", 24).value > 0.6
    beside = result.measured[1]
    assert beside.judge == "a linear probe" and beside.score("vtl", 0).value < 0.1
    assert "Beside it: Share of the mean error" in squeezed(repr(result))


def test_the_probe_with_a_kernel_is_kernel_ridge_regression():
    from sklearn.gaussian_process.kernels import Matern

    X, T, y, t, kernel = smooth_world()
    options = {"methods": ["random"], "seeds": 2, "budgets": []}
    result = compare(X, T, 12, labels=y, target_labels=t, kernel=kernel, noise_std=0.1, **options)
    run = runs_of(X, T, 12, seeds=2, kernel=kernel)[1]
    chosen = tm.select(
        X, T[run.steers], 12, candidates=run.candidates, kernel=kernel, noise_std=0.1
    )
    picks = chosen.indices
    taught = kernel_features(kernel, *map(torch.from_numpy, (X[picks], T)))
    ratio = fit_ridge(
        taught[0] - taught[0].mean(0), torch.from_numpy(y[picks] - y[picks].mean())[:, None]
    )
    # centred features are a kernel without its mean; the ridge is the noise that fits best
    K = Matern(0.3, nu=2.5)(np.concatenate([X[picks], T]))
    C = K - K[:12].mean(0) - K[:, :12].mean(1)[:, None] + K[:12, :12].mean()
    lam = ratio.noise_ratio * np.trace(C[:12, :12]) / 12
    solved = np.linalg.solve(C[:12, :12] + lam * np.eye(12), y[picks] - y[picks].mean())
    guessed = C[12:, :12] @ solved + y[picks].mean()
    median = np.sort(t)[(len(t) - 1) // 2]
    expected = 1 - np.abs(guessed - t) / np.abs(t - median).mean()
    held_out = ~run.steers
    np.testing.assert_allclose(
        result.judge.scores["vtl"][1, 0, held_out], expected[held_out], rtol=1e-4, atol=1e-6
    )


def test_without_labels_the_text_says_that_it_is_circular():
    pool, _, targets, _ = clusters()
    result = compare(pool, targets, 16, methods=BASIC, seeds=2)
    assert result.is_circular
    text = squeezed(result.describe())
    assert text.startswith("CIRCULAR") and "by construction" in text
    assert "cannot be told without labels" in result.verdict
    assert result.advice == []


def test_without_labels_the_share_is_that_of_the_posterior():
    pool, _, targets, _ = clusters()
    options = {"methods": ["top-k"], "seeds": 2, "budgets": [5], "kernel": "linear"}
    result = compare(pool, targets, 12, noise_std=0.7, **options)
    run = runs_of(pool, targets, 12, seeds=2)[1]
    chosen = tm.select(
        pool,
        targets[run.steers],
        12,
        candidates=run.candidates,
        noise_std=0.7,
        kernel="linear",
    )
    X, A = (rows.astype(np.float64) for rows in (pool, targets))
    for at, k in enumerate((5, 12)):
        Z = X[chosen.indices[:k]]
        fall = np.linalg.solve(Z @ Z.T + 0.49 * np.eye(k), Z @ A.T) * (Z @ A.T)
        share = fall.sum(axis=0) / np.mean(np.sum(A**2, axis=1))
        held_out = ~run.steers
        assert result.judge.scores["vtl"][1, at, held_out] == pytest.approx(share[held_out])


def run_data(pool, targets, k, **options):
    """What the runs of a comparison have in common."""
    given = {"kernel": None, "normalize": "auto", "targets_are": None} | options
    meaning = check_meaning(*given.values(), tm.rules.VTL(), has_targets=True)
    data = check_data(pool, targets, meaning, tm.rules.VTL(), k=k)
    return RunData(data.read(), pool, data.targets, k, given)


def runs_of(pool, targets, k, *, seeds, classes=None, **options):
    """The runs of a comparison."""
    return draw_runs(run_data(pool, targets, k, **options), seeds, classes)


def test_halves_of_the_targets_steer_and_the_others_judge():
    pool, _, targets, t = clusters()
    runs = runs_of(pool, targets, 4, seeds=3, classes=t)
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert (first.steers ^ second.steers).all()
        assert sorted([*first.candidates, *second.candidates]) == list(range(240))
        for number in (0, 1):  # half of each class
            sizes = [int((t[run.steers] == number).sum()) for run in (first, second)]
            assert abs(sizes[0] - sizes[1]) <= 1


def test_equal_targets_steer_together_and_no_held_out_target_can_be_picked():
    pool, _, _, _ = clusters()
    targets = np.concatenate([pool[:10], pool[:10]])
    for run in runs_of(pool, targets, 4, seeds=4):
        np.testing.assert_array_equal(run.steers[:10], run.steers[10:])
        assert not set(run.candidates) & set(np.flatnonzero(~run.steers[:10]))
    assert any(set(run.candidates) & set(range(10)) for run in runs_of(pool, targets, 4, seeds=4))
    with pytest.raises(ValueError, match="two different points"):
        compare(pool, pool[[0, 0]], 4, seeds=2)


def test_scores_are_those_of_probes_on_held_out_targets():
    pool, y, targets, t = clusters()
    result = compare(
        *(pool, targets, 20), labels=y, target_labels=t, methods=["top-k"], seeds=2, budgets=[4]
    )
    run = runs_of(pool, targets, 20, seeds=2, classes=t)[1]
    chosen = tm.select(pool, targets[run.steers], 20, candidates=run.candidates)
    mean = pool.astype(np.float64).mean(axis=0)
    scale = np.sqrt(np.mean(np.sum((pool - mean) ** 2, axis=1)))
    from sklearn.linear_model import LogisticRegression

    for column, k in enumerate((4, 20)):
        picks, held_out = chosen.indices[:k], ~run.steers
        probe = LogisticRegression(C=100, tol=1e-8, max_iter=10_000)
        probe.fit((pool[picks] - mean) / scale, y[picks])
        right = probe.predict((targets[held_out] - mean) / scale) == t[held_out]
        assert result.judge.scores["vtl"][1, column, held_out] == pytest.approx(right * 1.0)


def test_a_file_that_is_streamed_gives_the_same_scores(tmp_path):
    pool, y, targets, t = clusters(2_000)
    np.save(tmp_path / "pool.npy", pool)
    options = {"labels": y, "target_labels": t, "seeds": 2, "kernel": "linear"}
    held = compare(pool, targets, 8, methods=["random"], **options)
    more = {"memory": "1.6MB", "methods": ["random", "flqmi"]}
    streamed = compare(tmp_path / "pool.npy", targets, 8, **more, **options)
    assert held.to_dict()["measured"] == streamed.to_dict()["measured"]
    assert "flqmi is left out: the similarities of all rows" in " ".join(streamed.notes)


def test_random_in_region_draws_where_the_targets_are_likelier_than_the_pool():
    pool, _, targets, t = clusters(600)
    result = compare(pool, targets, 12, methods=[IN_REGION], seeds=2, kernel="linear")
    assert any("The targets' region: " in note for note in result.notes)
    setting = run_data(pool, targets, 12, kernel="linear")
    run = draw_runs(setting, 1, t)[0]
    picks, _ = setting.pick(IN_REGION, run, is_other=True)
    assert len(set(picks)) == 12 and set(picks) <= set(run.candidates)
    A = targets[run.steers].astype(np.float64)
    points = np.concatenate([pool.astype(np.float64), A])
    square = setting.density(run.steers).bandwidth ** 2
    like = np.exp(-((points[:, None] - A) ** 2).sum(axis=2) / (2 * square))
    p = (like / like.sum(axis=0)).mean(axis=1)
    assert (p[picks] * len(points) > 1).all()


def test_targets_that_do_not_predict_one_another_show_no_region():
    rng = np.random.default_rng(0)
    pool, targets = rng.standard_normal((300, 30)), rng.standard_normal((10, 30))
    result = compare(pool, targets, 8, methods=["random", IN_REGION], seeds=2)
    assert result.methods == ("vtl", "random")
    assert "random-in-region is left out: the targets do not predict" in " ".join(result.notes)
    with pytest.raises(ValueError, match="nothing to compare with"):
        compare(pool, targets, 8, methods=[IN_REGION], seeds=2)


def test_other_methods_see_rows_as_they_are_given():
    """The rows are far from the origin, where cosines are all near 1."""
    pool, _, targets, _ = clusters()
    pool, targets = pool + 3.0, targets + 3.0
    setting = run_data(pool, targets, 6)
    run = draw_runs(setting, 1, None)[0]
    steering = targets[run.steers]
    for name in ("top-k", "mmr"):
        picks, _ = setting.pick(tm.rules.get(name), run, is_other=True)
        expected = tm.select(
            pool, steering, 6, rule=name, candidates=run.candidates, kernel="linear"
        )
        np.testing.assert_array_equal(picks, expected.indices)
    picks, settings = setting.pick(tm.rules.VTL(), run, is_other=False)
    assert settings["normalize"] == "center+unit"  # the default call, as the user has it
    expected = tm.select(pool, steering, 6, candidates=run.candidates)
    np.testing.assert_array_equal(picks, expected.indices)


def test_names_are_classes_and_floats_are_numbers():
    pool, y, targets, t = clusters()
    names = np.array([f"class {i}" for i in range(8)])
    of_names = compare(
        *(pool, targets, 8), labels=list(names[y]), target_labels=names[t], methods=BASIC, seeds=2
    )
    of_numbers = compare(
        *(pool, targets, 8), labels=torch.from_numpy(y), target_labels=t, methods=BASIC, seeds=2
    )
    assert scores_of(of_names) == scores_of(of_numbers)
    w = np.random.default_rng(0).standard_normal(pool.shape[1])
    regression = compare(
        *(pool, targets, 16),
        labels=pool @ w,
        target_labels=targets @ w,
        methods=BASIC,
        seeds=3,
    )
    assert regression.judge.measure == "error removed"
    assert regression.score("vtl", 16).value > 0.99
    assert "Root mean squared errors" in regression.describe()
    as_classes = compare(
        *(pool, targets, 8),
        labels=y.astype(float),
        target_labels=t.astype(float),
        kind="classes",
        methods=BASIC,
        seeds=2,
    )
    assert scores_of(as_classes) == scores_of(of_numbers)


def scores_of(result):
    return [record["score"] for record in result.to_dict()["measured"]]


def test_default_methods_are_all_there_and_repeat_exactly():
    pool, y, targets, t = clusters()
    first, second = (
        compare(pool, targets, 6, labels=y, target_labels=t, seeds=2).to_dict() for _ in range(2)
    )
    assert json.loads(json.dumps(first)) == second
    assert second["methods"] == ["vtl", *METHODS]


@WITHOUT_SHAPES
def test_notes_on_the_rule_are_warned_of_once_where_compare_was_called():
    pool, y, targets, t = clusters()
    with pytest.warns(UserWarning, match="effective rank") as said:
        result = compare(
            *(pool, targets, 60), noise_ratio=0.01, labels=y, target_labels=t, seeds=2
        )
    assert [str(one.message) for one in said] == result.settings["notes"]
    assert all(one.filename == __file__ for one in said)


def test_progress_counts_every_selection(capsys, monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("tellmost.running.progress.time.monotonic", lambda: float(next(now)))
    pool, _, targets, _ = clusters()
    compare(pool, targets, 4, methods=BASIC, seeds=3, progress=True)
    said = capsys.readouterr().err
    for done in range(1, 25):
        assert f"{done} of 24 selections" in said


def test_lines_fit_on_a_terminal():
    pool, y, targets, t = clusters()
    options = {"methods": BASIC, "seeds": 2, "budgets": [1, 2, 3, 4, 5, 6]}
    for more in ({}, {"labels": y, "target_labels": t}):
        text = compare(pool, targets, 16, **options, **more).describe()
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.often
def test_pure_noise_is_hardly_ever_taken_for_a_difference():
    """Random rows and labels, on which the spread over runs alone would find differences."""
    claims = 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        pool, targets = rng.standard_normal((200, 8)), rng.standard_normal((30, 8))
        y, t = rng.integers(2, size=200), rng.integers(2, size=30)
        options = {"methods": ("random",), "seeds": 5, "budgets": [20]}
        result = compare(pool, targets, 20, labels=y, target_labels=t, **options)
        claims += result.difference("random").sign != 0
    assert claims <= 2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"target_labels": None}, ValueError, "go together"),
        ({"labels": None}, ValueError, "go together"),
        ({"labels": np.zeros(5)}, ValueError, r"one entry per pool row, \(240,\)"),
        ({"labels": np.full(240, np.nan)}, ValueError, "row 0 has nan"),
        ({"labels": ["a"] * 240}, TypeError, "of one kind"),
        ({"labels": [None] * 240}, ValueError, "row 0 has none"),
        ({"kind": "words"}, ValueError, "kind must be"),
        ({"k": 121}, ValueError, "at most half of the pool, here 120 of 240"),
        ({"seeds": 1}, ValueError, "at least 2"),
        ({"budgets": [99]}, ValueError, "each of budgets, up to k, must be .* at most 4"),
        ({"methods": ["vtl"]}, ValueError, "other than 'vtl'"),
        ({"methods": ["top-k", "top-k"]}, ValueError, "more than once"),
        ({"methods": "top-k"}, TypeError, "list of names"),
        ({"methods": ["nonsense"]}, ValueError, "unknown rule 'nonsense'"),
        ({"targets": None}, ValueError, "needs targets"),
    ],
)
def test_wrong_arguments_are_named(change, error, words):
    pool, y, targets, t = clusters()
    arguments = {"targets": targets, "k": 4, "labels": y, "target_labels": t, "methods": BASIC}
    with pytest.raises(error, match=words):
        compare(pool, **(arguments | change))


def test_the_example_runs():
    tried = doctest.testmod(importlib.import_module("tellmost.evaluation.comparing"))
    assert tried.attempted and not tried.failed


def test_equal_numbers_of_targets_cannot_be_explained():
    pool, _, targets, _ = clusters()
    with pytest.raises(ValueError, match="all equal"):
        compare(
            *(pool, targets, 4),
            labels=pool[:, 0],
            target_labels=np.ones(len(targets), np.float32),
            methods=BASIC,
        )


def test_a_matrix_of_a_kernel_is_judged_by_a_probe_with_this_kernel():
    X, T, y, t, kernel = smooth_world()
    points = torch.from_numpy(np.concatenate([X[:60], T]))
    matrix = tm.kernels.Precomputed(kernel.block(points, points))
    options = {"methods": ["random", "flqmi"], "seeds": 2, "noise_std": 0.1}
    options |= {"labels": y[:60], "target_labels": t}
    of_matrix = compare(np.arange(60), np.arange(60, 90), 6, kernel=matrix, **options)
    of_rows = compare(X[:60], T, 6, kernel=kernel, **options)
    assert len(of_matrix.measured) == 1
    for name in of_rows.methods:
        np.testing.assert_allclose(
            of_matrix.judge.scores[name].mean(), of_rows.judge.scores[name].mean(), rtol=1e-6
        )
