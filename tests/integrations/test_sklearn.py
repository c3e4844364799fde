"""TargetedSubset is an estimator like others, and fits to what it selects."""

import numpy as np
import pytest

import tellmost as tm

pytest.importorskip("sklearn")

import sklearn
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tellmost.integrations.sklearn import TargetedSubset

ESTIMATORS = [
    TargetedSubset(500, LogisticRegression()),
    TargetedSubset(500, Ridge()),
    TargetedSubset(5),
]


@parametrize_with_checks(ESTIMATORS)
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    wanted = np.flatnonzero(np.isin(y, [3, 6, 9]))
    aims, test = wanted[:20], wanted[200:]
    pool = np.setdiff1d(np.arange(len(y)), [*aims, *test])
    return X[pool], y[pool], X[aims], X[test], y[test]


def test_it_learns_from_the_picks_of_select(digits):
    X, y, targets, test, labels = digits
    subset = TargetedSubset(40, LogisticRegression(max_iter=500)).fit(X, y, targets=targets)
    np.testing.assert_array_equal(subset.indices_, tm.select(X, targets, 40).indices)
    assert subset.get_support().sum() == 40 and subset.get_support()[subset.indices_].all()
    alone = LogisticRegression(max_iter=500).fit(X[subset.indices_], y[subset.indices_])
    np.testing.assert_array_equal(subset.predict(test), alone.predict(test))
    undirected = TargetedSubset(40, LogisticRegression(max_iter=500)).fit(X, y)
    assert undirected.selection_.settings["rule"] == "undirected-vtl"
    assert subset.score(test, labels) > undirected.score(test, labels)


def test_a_pipeline_passes_targets_by_name_or_by_routing_them(digits):
    X, y, targets, test, _ = digits
    steps = [("scale", StandardScaler()), ("subset", TargetedSubset(30, LogisticRegression()))]
    scale = StandardScaler().fit(X)
    expected = tm.select(scale.transform(X), scale.transform(targets), 30).indices
    named = make_pipeline(*(step for _, step in steps))
    named.fit(X, y, targetedsubset__targets=scale.transform(targets))
    np.testing.assert_array_equal(named[-1].indices_, expected)
    with sklearn.config_context(enable_metadata_routing=True):
        steps[1][1].set_fit_request(targets=True)
        routed = Pipeline(steps, transform_input=["targets"]).fit(X, y, targets=targets)
        np.testing.assert_array_equal(routed[-1].indices_, expected)
        assert routed.predict(test).shape == (len(test),)
