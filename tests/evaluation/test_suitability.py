"""check: do embeddings carry the labels, and does the model know where it errs?"""

import doctest
import importlib
import json

import numpy as np
import pytest

import tellmost as tm
from tellmost.evaluation.evidence import folds_of
from tellmost.evaluation.suitability import WEAK_PROBE, check


def clusters(n=400, d=12, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((classes, d))[y] + 0.5 * rng.standard_normal((n, d)), y


def linear(n=500, d=20, noise_ratio=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = np.sqrt(noise_ratio * d) * rng.standard_normal(n)
    return X, X @ rng.standard_normal(d) + noise


def squeezed(text):
    return " ".join(text.split())


def test_clusters_carry_their_classes():
    X, y = clusters()
    result = check(X, labels=y)
    assert result.evidence.score.value > 0.8
    assert result.evidence.baseline == pytest.approx(np.bincount(y).max() / len(y))
    assert result.evidence.gain.sign == 1 and result.verdict != "unsuitable"
    assert "the embeddings carry the labels (accuracy " in squeezed(result.describe())
    assert "no recipe" in squeezed(result.describe())


def test_random_labels_are_unsuitable():
    X, _ = clusters()
    result = check(X, labels=np.random.default_rng(3).integers(3, size=len(X)))
    assert result.verdict == "unsuitable"
    assert "do not carry the labels" in result.reasons[0]


def test_labels_with_a_little_in_common_are_doubtful():
    X, y = linear(2_000, noise_ratio=10.0)
    result = check(X, labels=y)
    assert 0 < result.evidence.score.value < WEAK_PROBE
    assert result.verdict == "doubtful" and "only weakly" in result.reasons[0]


def test_a_kernel_finds_what_a_linear_probe_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = (np.linalg.norm(X, axis=1) < 0.7).astype(int)  # a disc: no line separates it
    linear = check(X, labels=y, kernel="linear")
    bent = check(X, labels=y, kernel=tm.kernels.Gaussian(0.5))
    assert linear.evidence.score.value < 0.7 and bent.evidence.score.value > 0.9
    assert "by a probe with Gaussian" in squeezed(bent.describe())
    assert "not of one length" in linear.describe()  # lengths say nothing about a Gaussian kernel
    assert "not of one length" not in bent.describe()


def test_targets_are_told_whether_they_predict_one_another():
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, 8))
    X = np.repeat(centres, 20, axis=0) + 0.3 * rng.standard_normal((400, 8))
    family = check(X, centres[0] + 0.3 * rng.standard_normal((10, 8)))
    assert family.aim.gain > 0.2 and 10 <= family.aim.region <= 60
    assert "they predict one another" in squeezed(family.describe())
    one_each = check(X, centres[:10] + 0.3 * rng.standard_normal((10, 8)))
    assert one_each.aim.gain < 0.2
    assert "they do not predict one another" in squeezed(one_each.describe())
    cosines = (X / np.linalg.norm(X, axis=1)[:, None]) @ centres[0] / np.linalg.norm(centres[0])
    one = check(X, centres[[0, 0]], kernel="linear")
    assert one.aim.least_similarity == pytest.approx(cosines.max())
    assert json.loads(json.dumps(one.to_dict()))["aim"]["targets"] == 2


def test_rows_are_looked_at_as_select_sees_them():
    X, y = clusters()
    default, paper = check(X + 3.0, labels=y), check(X + 3.0, labels=y, kernel="linear")
    assert default.health.normalize == "center+unit" and default.health.norms.spread < 1.01
    assert paper.health.normalize is None and "not centred" in paper.describe()
    chosen = tm.select(X, X[:5], 3)
    assert default.to_dict()["default_noise_ratio"] == pytest.approx(
        chosen.settings["noise_ratio"]
    )
    table = check(X, labels=y, kernel="gaussian")
    assert "by a probe with Gaussian" in squeezed(table.describe())


def test_accuracy_is_that_of_folds_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    X, y = clusters(120, 6)
    rng = np.random.default_rng(0)
    right = np.empty(len(X))
    for taught, asked in folds_of(len(X), 4, rng):
        mean = X[taught].mean(axis=0)
        scale = np.sqrt(np.mean(np.sum((X[taught] - mean) ** 2, axis=1)))
        probe = LogisticRegression(C=100, tol=1e-8, max_iter=10_000)
        probe.fit((X[taught] - mean) / scale, y[taught])
        right[asked] = probe.predict((X[asked] - mean) / scale) == y[asked]
    result = check(X, labels=y, folds=4, kernel="linear").evidence
    assert result.score.value == pytest.approx(right.mean())
    assert result.score.error == pytest.approx(right.std(ddof=1) / np.sqrt(len(X)))


def test_each_row_is_held_out_once():
    parts = folds_of(23, 5, np.random.default_rng(0))
    assert sorted(int(i) for _, asked in parts for i in asked) == list(range(23))
    for taught, asked in parts:
        assert sorted([*taught.tolist(), *asked.tolist()]) == list(range(23))


@pytest.mark.parametrize("ratio", [0.05, 0.5])
def test_the_noise_of_a_linear_world_is_found(ratio):
    X, y = linear(3_000, 20, ratio)
    evidence = check(X, labels=y, kernel="linear").evidence
    assert evidence.likeliest_noise_ratio == pytest.approx(ratio, rel=0.5)  # one draw of weights
    assert evidence.score.value == pytest.approx(1 / (1 + ratio), abs=0.1)
    assert evidence.rmse == pytest.approx(np.sqrt(ratio * 20), rel=0.1)


def test_predicted_variance_goes_with_the_error_where_rows_differ_in_what_is_known():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, 30)) * rng.uniform(0.1, 3, (1_000, 1))
    result = check(X, labels=X @ rng.standard_normal(30), kernel="linear")
    assert result.evidence.rank_correlation.value > 0.3
    assert result.verdict == "suitable"
    assert "predicted variance goes with the error" in squeezed(result.describe())


def test_predicted_variance_that_says_nothing_is_doubtful():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = X[:, 0] + rng.standard_normal(600) * rng.choice([0.1, 1.0], 600)
    result = check(X / np.linalg.norm(X, axis=1, keepdims=True), labels=y, kernel="linear")
    assert result.evidence.rank_correlation.sign == 0
    assert result.verdict == "doubtful"
    assert "says nothing about the error" in squeezed(result.describe())


def test_without_labels_there_is_health_and_what_labels_would_add():
    X, _ = clusters()
    result = check(X)
    assert result.verdict == "unknown" and result.evidence is None
    assert result.health.rows == len(X)
    assert "would add" in squeezed(result.describe())


def test_large_pools_are_sampled_and_it_is_said(monkeypatch):
    X, y = clusters(300)
    monkeypatch.setattr("tellmost.evaluation.suitability.CHECKED_ROWS", 100)
    result = check(X, labels=y)
    assert result.evidence.rows == 100
    assert "of 100 random rows" in squeezed(result.describe())
    assert check(X, labels=y).to_dict() == result.to_dict() != check(X, labels=y, seed=1).to_dict()


def test_a_file_and_names_give_what_arrays_and_numbers_give(tmp_path):
    X, y = clusters()
    np.save(tmp_path / "pool.npy", X)
    names = [f"class {i}" for i in y]
    one, other = (
        check(X, labels=y).to_dict(),
        check(tmp_path / "pool.npy", labels=names).to_dict(),
    )
    assert one["evidence"]["score"] == other["evidence"]["score"]
    assert json.loads(json.dumps(one)) == one


@pytest.mark.parametrize("y", [np.arange(12) % 2, np.linspace(0, 1, 12), ["a"] * 11 + ["b"]])
@pytest.mark.parametrize("normalize", [None, "center+unit"])
def test_small_pools_are_answered_in_short_lines(y, normalize):
    X = np.random.default_rng(0).standard_normal((12, 3))
    text = check(X, labels=y, normalize=normalize).describe()
    assert max(map(len, text.splitlines())) <= 80
    assert "nan" not in text


def test_it_prints_tabulates_and_shows_in_notebooks():
    pytest.importorskip("pandas")
    X, y = clusters()
    result = check(X, labels=y)
    assert str(result) == result.describe() and str(result.health) == result.health.describe()
    frame = result.to_frame().set_index("name")
    assert frame["value"]["health.rows"] == 400
    assert frame["value"]["evidence.score"] == result.evidence.score.value
    assert frame["error"]["evidence.score"] == result.evidence.score.error
    assert "<td>held-out accuracy</td>" in result._repr_html_()
    assert result.reasons[0] in result._repr_html_()
    assert check(X).to_frame()["name"].str.startswith("health.").all()


def test_the_example_runs():
    tried = doctest.testmod(importlib.import_module("tellmost.evaluation.suitability"))
    assert tried.attempted and not tried.failed


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"labels": np.ones(400, int)}, ValueError, "all equal"),
        ({"labels": np.ones(3)}, ValueError, "one entry per pool row"),
        ({"folds": 1}, ValueError, "folds, .* must be a whole number of at least 2"),
        ({"folds": 401}, ValueError, "each with a row or more, .* at most 400; got 401"),
        ({"noise_ratio": -1}, ValueError, "noise_ratio must be"),
        ({"kind": "numbers", "labels": ["a", "b"] * 200}, TypeError, "must be numbers"),
        ({"normalize": "l2"}, ValueError, "normalize must be"),
    ],
)
def test_wrong_arguments_are_named(change, error, words):
    X, y = clusters()
    with pytest.raises(error, match=words):
        check(X, **({"labels": y} | change))
