"""The frame of all experiments: verdicts, comparisons, numbers, folders, documents."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tellmost_reproduction.catalogue import CATALOGUE, Request
from tellmost_reproduction.frame.answering import (
    APPENDIX,
    GPS,
    MAIN,
    OURS,
    PACKAGE,
    PAGE,
    PLACES,
    THOMPSON,
    WEIGHTS,
    place_of,
    read_rows,
    write_answer,
)
from tellmost_reproduction.frame.comparing import compare_scores, t_quantile
from tellmost_reproduction.frame.drawing import push_apart
from tellmost_reproduction.frame.folders import made
from tellmost_reproduction.frame.numbers import (
    Numbers,
    Series,
    agrees_within_errors,
    find_differences,
    read_expected,
)
from tellmost_reproduction.frame.pages import fill
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN, conclude
from tellmost_reproduction.gp.reproducing import GP
from tellmost_reproduction.networks.reproducing import NETWORKS
from tellmost_reproduction.safebo.reproducing import SAFEBO

SUBJECTS = (GP, NETWORKS, SAFEBO)
ROOT = Path(__file__).parents[2]


def test_the_catalogue_has_every_experiment_and_every_experiment_has_expected_numbers():
    names = [name for one in SUBJECTS for name in (one.everything, *one.names)]
    assert set(CATALOGUE) == set(names) and len(names) == len(set(names))
    for one in SUBJECTS:
        assert all(read_expected(one.folder, name).methods for name in one.names)


@pytest.mark.parametrize("name", ["safebo-1d", "safebo-misspecified", "nn-mnist"])
def test_a_rule_of_the_users_is_for_gaussian_processes_alone(name, tmp_path):
    with pytest.raises(ValueError, match="--rule is for the Gaussian-process experiments"):
        CATALOGUE[name].run(Request(tmp_path, is_smoke=True, rules=("a:B",)))


def test_a_claim_holds_in_part_if_some_of_it_does_and_what_is_not_told_counts_for_nothing():
    assert conclude([True, True]) == HOLDS and conclude([False, False]) == FAILS
    assert conclude([True, False]) == conclude([True, None]) == IN_PART
    assert conclude([False, None]) == FAILS
    assert conclude([None, None]) == conclude([]) == OPEN


def test_a_comparison_has_the_interval_of_student():
    first, second = np.array([0.5, 0.6, 0.7]), np.full(3, 0.4)
    one = compare_scores(("one", "other"), first, second, rises=True)
    half = 4.303 * 0.1 / 3**0.5
    assert one.interval == pytest.approx((0.2 - half, 0.2 + half), abs=1e-4)
    assert one.sign == 0 and one.means == pytest.approx((0.6, 0.4))


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 30, 31, 1_000])
def test_quantiles_are_those_of_student(freedom):
    stats = pytest.importorskip("scipy.stats")
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-6)


@pytest.mark.parametrize("rises", [True, False])
def test_a_single_score_is_clear_only_where_it_stands_for_all_seeds(rises):
    more, less = np.array([0.2]), np.array([0.1])
    one = compare_scores(("one", "other"), more, less, rises=rises, is_exact=True)
    assert (one.is_better, one.is_worse) == (rises, not rises)
    assert compare_scores(("", ""), more, less, rises=rises).sign == 0
    near = compare_scores(("", ""), more, more * (1 + 1e-12), rises=rises, is_exact=True)
    assert near.sign == 0


def test_a_number_that_is_off_is_named():
    expected = read_expected("gp", "gp-sparse")
    assert GP.uncompared and find_differences(expected, expected) == []
    series = expected.methods["vtl"]["mean_sd"]
    off = Series([1.002 * value for value in series.mean], None)
    methods = expected.methods | {"vtl": expected.methods["vtl"] | {"mean_sd": off}}
    got = replace(expected, methods=methods)
    found = find_differences(got, expected)
    assert len(found) == len(series.mean) and found[0].startswith("vtl, mean_sd after 10")
    for uncompared in ("vtl", "mean_sd"):
        assert find_differences(got, expected, uncompared=(uncompared,)) == []
    without = {key: value for key, value in expected.methods.items() if key != "vtl"}
    missing = find_differences(replace(expected, methods=without), expected)
    assert "vtl, mean_sd: missing" in missing


def test_a_mean_agrees_within_three_standard_errors():
    expected = Numbers([10], {"vtl": {"regret": Series([1.0], [0.1])}})

    def differ(value):
        got = replace(expected, methods={"vtl": {"regret": Series([value], [0.0])}})
        return find_differences(got, expected, agrees=agrees_within_errors)

    assert differ(1.29) == [] and len(differ(1.31)) == 1
    assert agrees_within_errors(0.0, 0.0, 0.0) and not agrees_within_errors(1.0, 0.0, 0.0)


def test_an_interrupted_run_leaves_no_empty_folder(tmp_path):
    (tmp_path / "kept").mkdir()
    for folder in (tmp_path / "kept", tmp_path / "new" / "gp-fig3"):
        with pytest.raises(KeyboardInterrupt), made(folder):
            raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "kept" / "picks.csv").touch()
    with pytest.raises(KeyboardInterrupt), made(tmp_path / "kept"):
        raise KeyboardInterrupt
    assert (tmp_path / "kept" / "picks.csv").exists()


def test_labels_keep_their_order_and_their_distance():
    apart = push_apart([0.5, 0.51, 0.1, 0.5], 0.1)
    assert sorted(range(4), key=lambda i: apart[i]) == [2, 0, 3, 1]
    places = sorted(apart)
    assert all(b - a >= 0.1 - 1e-12 for a, b in pairwise(places))
    assert min(push_apart([0.0, 0.0], 0.1)) >= 0.0 and max(push_apart([1.0, 1.0], 0.1)) <= 1.0


def test_the_page_of_all_claims_is_what_the_expected_numbers_say():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == write_answer(ROOT / PACKAGE)
    rows = list(read_rows(ROOT / PACKAGE))
    assert len(rows) > 100 and {row.place[0] for row in rows} == set(WEIGHTS)
    assert all(row.verdict.seeds and row.verdict.configuration for row in rows)
    assert set(PLACES) == {row.experiment for row in rows}
    weights = [row.place[0] for row in rows if row.verdict.claim in page]
    assert len(weights) == len(rows)


def test_a_claim_stands_where_the_paper_has_it():
    assert place_of("gp-sparse", "The advantage over UnSa grows") == (MAIN, GPS)
    assert place_of("gp-sparse", "VTL is best")[0] == place_of("nn-rho", "Where")[0] == APPENDIX
    assert place_of("nn-rho", "Ours to show: x")[0] == OURS
    assert place_of("safebo-process", "GoOSE fails")[0] == OURS
    assert place_of("safebo-2d", "GoOSE fails") == (APPENDIX, THOMPSON)


def test_a_document_without_marks_is_not_filled():
    text = "<!-- a -->old<!-- end of a -->"
    assert fill(text, {"a": "new"}) == "<!-- a -->\nnew\n<!-- end of a -->"
    with pytest.raises(ValueError, match="no marks <!-- b -->"):
        fill(text, {"b": "new"})
