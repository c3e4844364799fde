"""The result of a comparison: its verdict, and how it prints, tabulates and shows in notebooks."""

import numpy as np
import pytest

from tellmost.evaluation.comparison import Comparison, Measurement


def of_targets(scores):
    """The same score for each of a hundred targets."""
    scores = np.asarray(scores)
    scores = scores[:, None] if scores.ndim == 1 else scores
    return np.repeat(scores[:, :, None], 100, axis=2)


def made_up(vtl, random):
    scores = {"vtl": of_targets(vtl), "random": of_targets(random)}
    measured = Measurement("accuracy", "points", 100.0, scores, "classes", 0, None)
    return Comparison(
        *("vtl", ("vtl", "random"), (10,), len(vtl), 100, 50, 20, 1.0, scores, measured, {})
    )


@pytest.mark.parametrize(
    ("vtl", "words"),
    [
        ([0.81, 0.79, 0.80], "vtl is better than random here by 30.0 ± 0.6 points"),
        ([0.21, 0.19, 0.20], "vtl is worse than random here by 30.0 ± 0.6 points"),
        ([0.60, 0.40, 0.51], "vtl is no better than random here: the difference, 0.3 ± 5.8"),
    ],
)
def test_the_verdict_says_better_worse_or_no_better(vtl, words):
    assert words in made_up(vtl, [0.5, 0.5, 0.5]).verdict


def test_targets_that_differ_widen_the_error_of_a_difference():
    """Runs that agree about the same few targets say little about others."""
    runs = np.zeros((6, 1, 4))
    runs[:, 0, :2] = 1.0  # the rule gets two targets of four, in every run
    scores = {"vtl": runs, "random": np.zeros((6, 1, 4))}
    measured = Measurement("accuracy", "points", 100.0, scores, "classes", 0, None)
    made = Comparison(*("vtl", ("vtl", "random"), (10,), 6, 4, 50, 20, 1.0, scores, measured, {}))
    gap = made.difference("random")
    assert gap.value == 0.5 and gap.count == 4
    assert gap.error == pytest.approx(np.std([1, 1, 0, 0], ddof=1) / 2)
    assert gap.sign == 0 and "may be chance" in made.verdict


def test_the_verdict_says_where_fewer_picks_tell_another_story():
    rule = np.array([[0.9, 0.8, 0.6], [0.9, 0.81, 0.4], [0.91, 0.8, 0.51]])
    scores = {"vtl": of_targets(rule), "random": of_targets(np.full((3, 3), 0.5))}
    measured = Measurement("accuracy", "points", 100.0, scores, "classes", 0, None)
    made = Comparison(
        *("vtl", ("vtl", "random"), (2, 5, 10), 3, 100, 50, 20, 1.0, scores, measured, {})
    )
    assert made.verdict.endswith("With fewer, it is better after 2 and 5 picks.")


@pytest.fixture
def labelled():
    rule = np.array([[0.9, 0.8], [0.7, 0.8]])
    scores = {"vtl": of_targets(rule), "<b>own</b>": of_targets(np.full((2, 2), 0.5))}
    measured = Measurement("accuracy", "points", 100.0, scores, "classes", 0, None)
    variance = {"vtl": np.array([[3.0, 1.0], [2.0, 1.0]]), "<b>own</b>": np.full((2, 2), 4.0)}
    return Comparison(
        *("vtl", ("vtl", "<b>own</b>"), (5, 10), 2, 100, 50, 20, 8.0, variance, measured, {})
    )


def test_it_prints_its_tables_and_verdict(labelled):
    assert str(labelled) == repr(labelled) == labelled.describe()
    assert "80.0 ± 10.0" in str(labelled)


def test_the_frame_has_a_row_per_method_and_budget(labelled):
    pytest.importorskip("pandas")
    frame = labelled.to_frame()
    assert frame["method"].tolist() == ["vtl", "vtl", "<b>own</b>", "<b>own</b>"]
    assert frame["picks"].tolist() == [5, 10, 5, 10]
    assert frame["score"].tolist() == pytest.approx([0.8, 0.8, 0.5, 0.5])
    assert frame["difference"].tolist() == pytest.approx([0.0, 0.0, 0.3, 0.3])
    assert frame["variance"].tolist() == [2.5, 1.0, 4.0, 4.0]
    assert frame["variance_error"].tolist() == [0.5, 0.0, 0.0, 0.0]


def test_the_frame_of_a_circular_comparison_has_no_scores():
    pytest.importorskip("pandas")
    variance = {"vtl": np.array([[3.0]]), "random": np.array([[4.0], [6.0]])}
    frame = Comparison(
        *("vtl", ("vtl", "random"), (5,), 2, 100, 100, 20, 8.0, variance, None, {})
    ).to_frame()
    assert frame["score"].isna().all() and frame["difference"].isna().all()
    assert frame["variance"].tolist() == [3.0, 5.0]
    assert np.isnan(frame["variance_error"][0]) and frame["variance_error"][1] == 1.0


def test_a_notebook_shows_an_escaped_table(labelled):
    shown = labelled._repr_html_()
    assert "<td>&lt;b&gt;own&lt;/b&gt;</td><td>50.0 ± 0.0</td>" in shown
    assert "<b>" not in shown and "vtl is" in shown
