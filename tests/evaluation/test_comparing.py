"""Comparing methods: honest where it can be, and saying so where it cannot."""

import doctest
import importlib
import json

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.evaluation.comparing import compare

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
        pool, targets, 16, labels=y, target_labels=t, methods=BASIC, seeds=4, budgets=[8]
    )
    assert result.difference("random").sign == 1
    assert "vtl is better than random here by" in squeezed(result.describe())
    assert not result.is_circular and "CIRCULAR" not in result.describe()
    assert "random half of the pool (120 of 240 rows)" in squeezed(result.describe())
    assert "6 classes of the pool are of no target" in squeezed(result.describe())


def test_labels_that_rows_do_not_carry_are_no_better_than_random():
    pool, _, targets, _ = clusters()
    rng = np.random.default_rng(5)
    y, t = rng.integers(2, size=len(pool)), rng.integers(2, size=len(targets))
    result = compare(
        pool, targets, 16, labels=y, target_labels=t, methods=BASIC, seeds=6, budgets=[]
    )
    assert result.difference("random").sign == 0
    assert "vtl is no better than random here" in squeezed(result.describe())


def test_without_labels_the_text_says_that_it_is_circular():
    pool, _, targets, _ = clusters()
    result = compare(pool, targets, 16, methods=BASIC, seeds=3)
    assert result.is_circular
    text = squeezed(result.describe())
    assert text.startswith("CIRCULAR") and "by construction" in text
    assert "cannot be told without labels" in result.verdict
    with pytest.raises(ValueError, match="without labels"):
        result.difference("random")


def test_variances_are_those_of_the_selections():
    pool, _, targets, _ = clusters()
    result = compare(pool, targets, 12, methods=BASIC, seeds=3, budgets=[1, 5], noise_ratio=0.3)
    assert result.budgets == (1, 5, 12)
    for name in ("vtl", "top-k", "cosine"):
        chosen = tm.select(pool, targets, 12, rule=name, noise_ratio=0.3)
        np.testing.assert_array_equal(result.variance[name], chosen.uncertainty[[[1, 5, 12]]])
    of_random = [
        tm.select(pool, targets, 12, rule=tm.rules.Random(seed), noise_ratio=0.3).uncertainty[-1]
        for seed in range(3)
    ]
    np.testing.assert_array_equal(result.variance["random"][:, -1], of_random)


def test_scores_are_those_of_probes_on_halves_of_the_pool():
    pool, y, targets, t = clusters()
    result = compare(
        *(pool, targets, 20), labels=y, target_labels=t, methods=["top-k"], seeds=2, budgets=[4]
    )
    half = np.sort(np.random.default_rng(1).choice(240, 120, replace=False))
    chosen = tm.select(pool, targets, 20, candidates=half)
    mean = pool.astype(np.float64).mean(axis=0)
    scale = np.sqrt(np.mean(np.sum((pool - mean) ** 2, axis=1)))
    from sklearn.linear_model import LogisticRegression

    for column, k in enumerate((4, 20)):
        picks = chosen.indices[:k]
        probe = LogisticRegression(C=100, tol=1e-8, max_iter=10_000)
        probe.fit((pool[picks] - mean) / scale, y[picks])
        accuracy = probe.score((targets - mean) / scale, t)
        assert result.measured.scores["vtl"][1, column].mean() == pytest.approx(accuracy)


def test_a_file_that_is_streamed_gives_the_same_scores(tmp_path):
    pool, y, targets, t = clusters(2_000)
    np.save(tmp_path / "pool.npy", pool)
    options = {"labels": y, "target_labels": t, "methods": ["random"], "seeds": 2}
    held = compare(pool, targets, 8, **options)
    streamed = compare(tmp_path / "pool.npy", targets, 8, memory="1.6MB", **options)
    assert held.to_dict()["measured"] == streamed.to_dict()["measured"]


def test_names_are_classes_and_floats_are_numbers():
    pool, y, targets, t = clusters()
    names = np.array([f"class {i}" for i in range(8)])
    of_names = compare(
        *(pool, targets, 8), labels=list(names[y]), target_labels=names[t], methods=BASIC, seeds=2
    )
    of_numbers = compare(
        *(pool, targets, 8), labels=torch.from_numpy(y), target_labels=t, methods=BASIC, seeds=2
    )
    assert of_names.to_dict()["measured"]["scores"] == of_numbers.to_dict()["measured"]["scores"]
    w = np.random.default_rng(0).standard_normal(pool.shape[1])
    regression = compare(
        *(pool, targets, 16),
        labels=pool @ w,
        target_labels=targets @ w,
        methods=BASIC,
        seeds=3,
    )
    assert regression.measured.measure == "R²"
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
    assert as_classes.to_dict()["measured"]["scores"] == of_numbers.to_dict()["measured"]["scores"]


def test_default_methods_are_all_there_and_repeat_exactly():
    pool, y, targets, t = clusters()
    first, second = (
        compare(pool, targets, 6, labels=y, target_labels=t, seeds=2).to_dict() for _ in range(2)
    )
    assert json.loads(json.dumps(first)) == second
    assert second["methods"] == ["vtl", "random", "top-k", "mmr", "k-center", "cosine"]


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
    for done in range(1, 7):
        assert f"{done} of 6 selections" in said


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
        ({"k": 121}, ValueError, "at most half of the pool"),
        ({"seeds": 1}, ValueError, "at least 2"),
        ({"budgets": [99]}, ValueError, "at most k = 4"),
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


def test_labels_need_features():
    K = np.eye(20)
    kernel = tm.kernels.Precomputed(K)
    options = {"kernel": kernel, "methods": ["random"], "seeds": 2}
    assert compare(np.arange(10), np.arange(10, 20), 3, **options).is_circular
    with pytest.raises(ValueError, match="needs features"):
        compare(
            *(np.arange(10), np.arange(10, 20), 3),
            labels=np.arange(10),
            target_labels=np.arange(10),
            **options,
        )
