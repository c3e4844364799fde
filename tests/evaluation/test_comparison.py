"""The result of a comparison: its verdicts, and how it prints and shows in a notebook."""

import numpy as np
import pytest
from scipy import stats

from tellmost.evaluation.comparison import Comparison, Measurement, advise
from tellmost.evaluation.judging import LabelJudge

SETTINGS = {
    "rule": "vtl",
    "noise_ratio": 1.0,
    "kernel": "Linear()",
    "targets_are": "all",
    "note_kinds": [],
}


def of_targets(scores):
    """The same score for each of a hundred targets: (runs, budgets, targets)."""
    scores = np.asarray(scores)
    scores = scores[:, None] if scores.ndim == 1 else scores
    return np.repeat(scores[:, :, None], 100, axis=2)


def made_of(scores, budgets=(10,), trivial=0.1, measure="accuracy"):
    m = next(iter(scores.values())).shape[2]
    measured = Measurement("a linear probe", measure, scores, scores, np.full(m, trivial))
    runs = len(next(iter(scores.values())))
    return Comparison(
        *(tuple(scores), budgets, runs, 100, 50, m, (measured,), SETTINGS, "classes, as you say")
    )


def made_up(vtl, random):
    return made_of({"vtl": of_targets(vtl), "random": of_targets(random)})


@pytest.mark.parametrize(
    ("vtl", "words"),
    [
        ([0.81, 0.79, 0.80], "vtl is better than random (+30.0 ± 0.6)"),
        ([0.21, 0.19, 0.20], "vtl is worse than random (-30.0 ± 0.6)"),
        ([0.60, 0.40, 0.51], "vtl is no better than random (+0.3 ± 5.8)"),
    ],
)
def test_the_verdict_says_better_worse_or_no_better(vtl, words):
    assert words in made_up(vtl, [0.5, 0.5, 0.5]).verdict


def test_targets_that_differ_widen_the_error_of_a_difference():
    """Runs that agree about the same few targets say little about others."""
    runs = np.zeros((6, 1, 4))
    runs[:, 0, :2] = 1.0  # the rule gets two targets of four, in every run
    made = made_of({"vtl": runs, "random": np.zeros((6, 1, 4))})
    gap = made.difference("random")
    assert gap.value == 0.5 and gap.count == 4
    assert gap.error == pytest.approx(np.std([1, 1, 0, 0], ddof=1) / 2)
    assert gap.sign == 0


def test_every_number_of_picks_has_its_own_verdict():
    rule = np.array([[0.9, 0.8, 0.6], [0.9, 0.81, 0.4], [0.91, 0.8, 0.51]])
    scores = {"vtl": of_targets(rule), "random": of_targets(np.full((3, 3), 0.5))}
    made = made_of(scores, budgets=(2, 5, 10))
    assert [verdict.of("random") for verdict in made.verdicts] == ["better"] * 2 + ["no better"]
    for k in (2, 5, 10):
        assert f"After {k} picks vtl is" in made.verdict


def test_one_large_difference_of_many_methods_may_be_chance():
    """At 95% one of twenty useless differences counts by chance, so all are looked at together."""
    rng = np.random.default_rng(0)
    rule = rng.normal(0.5, 0.1, 6)
    gaps = {f"other {i}": rng.normal(0.0, 0.1, 6) for i in range(12)}
    scores = {"vtl": of_targets(rule)} | {n: of_targets(rule - gap) for n, gap in gaps.items()}
    made = made_of(scores)
    alone = [made.difference(name).sign for name in gaps]
    least = min(stats.ttest_1samp(gap, 0).pvalue for gap in gaps.values())
    assert any(alone) and least * 12 > 0.05
    assert made.verdicts[0].better == made.verdicts[0].worse == ()


def test_a_probe_that_learned_nothing_judges_nobody():
    scores = {name: of_targets([0.01, -0.02, 0.0]) for name in ("vtl", "random")}
    made = made_of(scores, trivial=0.0, measure="error removed")
    assert not made.verdicts[0].has_learned and made.verdicts[0].of("random") == ""
    assert "the probe learned nothing that shows" in made.verdict
    assert "no better than" not in made.verdict
    assert any("more picks" in advice for advice in made.advice)


def test_a_bad_verdict_names_what_to_try_and_a_good_one_nothing():
    better, worse = of_targets([0.8, 0.81, 0.8]), of_targets([0.4, 0.41, 0.4])
    assert made_of({"vtl": better, "random": worse}).advice == []
    made = made_of({"vtl": worse, "top-k": better})
    assert any("noise_ratio=10" in advice for advice in made.advice)
    made = made_of({"vtl": worse, "mmr": better})
    assert any("noise_ratio=0.1" in advice for advice in made.advice)
    assert any("targets_are='examples'" in advice for advice in made.advice)
    notes = SETTINGS | {"note_kinds": ["targets are all"]}  # they do not predict one another
    assert not any("targets_are" in advice for advice in advise(made.verdicts, made.others, notes))
    made = made_of({"vtl": better, "random": better})
    assert any("check(pool, targets, labels=labels)" in advice for advice in made.advice)
    made = made_of({"vtl": better, "random-in-region": better})
    assert "random choice in the targets' region" in made.advice[0]
    assert list(advise((), ("random",), SETTINGS))


def test_scores_are_of_the_half_that_did_not_steer():
    class Steered(LabelJudge):
        name, measure, trivial = "a linear probe", "accuracy", np.zeros(3)
        unit_of_error = None

        def __init__(self):
            """It judges nothing here."""

    scores = np.array([[[0.9, 0.7, 0.1]], [[0.2, 0.4, 1.0]]])  # (runs, budgets, targets)
    steers = np.array([[True, True, False], [False, False, True]])
    made = Measurement.of(Steered(), {"vtl": scores}, steers)
    assert made.score("vtl", 0).value == pytest.approx((0.1 + 0.3) / 2)
    np.testing.assert_array_equal(made.steering["vtl"][0, 0], [0.9, 0.7, np.nan])


@pytest.fixture
def labelled():
    rule = np.array([[0.9, 0.8], [0.7, 0.8]])
    return made_of(
        {"vtl": of_targets(rule), "<b>own</b>": of_targets(np.full((2, 2), 0.5))}, budgets=(5, 10)
    )


def test_it_prints_its_tables_and_verdict(labelled):
    assert str(labelled) == repr(labelled) == labelled.describe()
    assert "80.0 ± 10.0" in str(labelled)
    assert "flatter" in str(labelled)


def test_the_frame_has_a_row_per_method_and_budget(labelled):
    pytest.importorskip("pandas")
    frame = labelled.to_frame()
    assert frame["method"].tolist() == ["vtl", "vtl", "<b>own</b>", "<b>own</b>"]
    assert frame["picks"].tolist() == [5, 10, 5, 10]
    assert frame["score"].tolist() == pytest.approx([0.8, 0.8, 0.5, 0.5])
    assert frame["difference"].tolist() == pytest.approx([0.0, 0.0, 0.3, 0.3])
    assert frame["score_error"].tolist() == pytest.approx([0.1, 0.0, 0.0, 0.0])
    assert frame["verdict"].tolist() == ["", "", "no better", "better"]


def test_a_notebook_shows_an_escaped_table(labelled):
    shown = labelled._repr_html_()
    assert "<td>&lt;b&gt;own&lt;/b&gt;</td><td>50.0 ± 0.0</td>" in shown
    assert "<b>" not in shown and "vtl is" in shown
