"""What the page computes, against the slow and obvious way."""

import json

import numpy as np
import pytest

import tellmost as tm
from tellmost.evaluation import check
from tellmost.evaluation.runs import nearest_similarity
from tellmost.report import curves as curves_of_report
from tellmost.report.curves import follow, follow_curves
from tellmost.report.levels import with_levels
from tellmost.report.markup import write_payload
from tellmost.report.page import measure_overlap
from tellmost.report.page_items import PageItems
from tellmost.report.panels import describe_targets, draw_map, find_served
from tellmost.selecting.replay import recall

generator = np.random.default_rng(3)
POOL, TARGETS = generator.standard_normal((200, 6)), generator.standard_normal((7, 6))
WEIGHTS = np.array([1.0, 2.0, 0.0, 4.0, 1.0, 1.0, 1.0])


def variances_after(chosen, indices):
    """(k + 1, m) target variances of a linear kernel, each from all observations so far."""
    noise, before = chosen.settings["noise_variance"], (TARGETS**2).sum(axis=1)
    rows = [before]
    for t in range(1, len(indices) + 1):
        seen = POOL[indices[:t]]
        solved = np.linalg.solve(seen @ seen.T + noise * np.eye(t), seen @ TARGETS.T)
        rows.append(before - ((TARGETS @ seen.T) * solved.T).sum(axis=1))
    return np.array(rows)


@pytest.mark.parametrize("targets_at_once", [None, 2])
def test_curves_of_any_picks_are_those_of_the_posterior(targets_at_once, monkeypatch):
    chosen = tm.select(POOL, TARGETS, 10, target_weights=WEIGHTS, kernel="linear")
    if targets_at_once:
        monkeypatch.setattr(curves_of_report, "RETRACE_BYTES", 8 * 10 * targets_at_once)
    picks = np.array([5, 3, 100, 3, 7, 8, 1, 199, 0, 55])
    course = follow(recall(chosen, POOL, TARGETS), picks)
    expected = variances_after(chosen, picks)
    np.testing.assert_allclose(course.mean, expected @ WEIGHTS / WEIGHTS.sum())
    np.testing.assert_allclose(course.worst, expected[:, WEIGHTS > 0].max(axis=1))


def test_the_curve_of_the_selection_is_its_own_and_the_others_are_those_of_other_rules():
    chosen = tm.select(
        POOL, TARGETS, 12, noise_ratio=0.5, candidates=np.arange(150), kernel="linear"
    )
    recalled = recall(chosen, POOL, TARGETS)
    curves = follow_curves(recalled)
    np.testing.assert_allclose(follow(recalled, chosen.indices).mean, chosen.uncertainty)
    np.testing.assert_array_equal(curves.own, chosen.uncertainty)
    assert curves.worst[-1] == pytest.approx(chosen.target_variance[1].max())
    for name in ("top-k", "mmr"):
        other = tm.select(
            POOL,
            TARGETS,
            12,
            rule=name,
            noise_ratio=0.5,
            candidates=np.arange(150),
            kernel="linear",
        )
        np.testing.assert_allclose(curves.others[name].mean, other.uncertainty)
    assert len(curves.random) == 10
    assert len({course.mean[-1] for course in curves.random}) == 10


def test_repeated_picks_do_not_make_the_others_repeat_theirs():
    chosen = tm.select(POOL[:20], TARGETS, 30, replace=True, kernel="linear")
    curves = follow_curves(recall(chosen, POOL[:20], TARGETS))
    assert len(chosen) == 30
    assert {len(course.mean) for course in curves.others.values()} == {21}


def test_a_singular_covariance_is_named_as_the_reason():
    pool = np.repeat(POOL[:5], 8, axis=0)
    chosen = tm.select(pool, TARGETS, 20, rule=tm.rules.Random(0), noise_std=1e-9, kernel="linear")
    assert "singular" in follow_curves(recall(chosen, pool, TARGETS)).obstacle


def test_the_targets_served_most_are_those_whose_variance_falls_most(monkeypatch):
    chosen = tm.select(POOL, TARGETS, 9, kernel="linear")
    falls = -np.diff(variances_after(chosen, chosen.indices), axis=0)
    expected = np.argsort(-falls, axis=1)[:, :3].tolist()
    recalled = recall(chosen, POOL, TARGETS)
    assert find_served(recalled, chosen.indices) == expected
    monkeypatch.setattr(curves_of_report, "RETRACE_BYTES", 8 * 9 * 2)
    assert find_served(recalled, chosen.indices) == expected


def test_a_target_is_as_close_as_its_nearest_row():
    chosen = tm.select(POOL, TARGETS, 3, normalize="center", kernel="linear")
    centre = POOL.mean(axis=0)
    rows, aims = POOL - centre, TARGETS - centre
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    aims /= np.linalg.norm(aims, axis=1)[:, None]
    recalled = recall(chosen, POOL, TARGETS)
    np.testing.assert_allclose(
        nearest_similarity(recalled.pool, recalled.targets), (aims @ rows.T).max(axis=1)
    )
    bars, _ = describe_targets(recalled, PageItems())
    assert np.all(np.diff(bars.after) <= 0)
    np.testing.assert_allclose(bars.closeness, (aims @ rows.T).max(axis=1)[bars.numbers])


def test_the_whole_pool_is_found_though_nobody_asked():
    plain = tm.select(POOL, TARGETS, 5, observed=[4, 9], target_weights=WEIGHTS, kernel="linear")
    asked = tm.select(
        POOL, TARGETS, 5, observed=[4, 9], target_weights=WEIGHTS, floor=True, kernel="linear"
    )
    found = with_levels(recall(plain, POOL, TARGETS))
    np.testing.assert_allclose(found.whole_pool, asked.whole_pool)
    np.testing.assert_allclose(found.floor, asked.floor)
    np.testing.assert_array_equal(found.indices, plain.indices)


def test_the_overlap_is_with_the_picks_at_other_noise():
    chosen = tm.select(POOL, TARGETS, 20, kernel="linear")
    shares, _ = measure_overlap(recall(chosen, POOL, TARGETS))
    for factor in (0.1, 10.0):
        other = tm.select(POOL, TARGETS, 20, noise_ratio=factor, kernel="linear")
        assert shares[factor] == len(set(other.indices) & set(chosen.indices)) / 20


def test_a_rule_that_does_not_see_the_noise_is_not_compared():
    chosen = tm.select(POOL, TARGETS, 5, rule="top-k", kernel="linear")
    reason = "the picks of top-k do not depend on the noise"
    assert measure_overlap(recall(chosen, POOL, TARGETS)) == ({}, reason)


def test_the_map_shows_rows_where_their_principal_components_are():
    pool = POOL * np.array([9.0, 4.0, 1.0, 1.0, 0.5, 0.5])
    chosen = tm.select(pool, TARGETS, 5, kernel="linear")
    map = draw_map(
        recall(chosen, pool, TARGETS),
        check(pool, kernel="linear").health,
        PageItems(),
        PageItems(),
    )
    _, _, axes = np.linalg.svd(pool - pool.mean(axis=0), full_matrices=False)
    expected = np.abs((pool - pool.mean(axis=0)) @ axes[:2].T)
    dots, picks = map["pool"], map["picks"]
    places = np.stack([dots["x"], dots["y"]], axis=1)
    np.testing.assert_allclose(np.abs(places), expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(np.stack([picks["x"], picks["y"]], 1), places[chosen.indices])
    assert picks["numbers"] == chosen.indices.tolist()


def test_a_payload_has_no_markup_and_reads_back():
    value = {"text": "</script><!-- & \u2028\u2029 'q' \"q\" \\ é"}
    text = write_payload(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value
