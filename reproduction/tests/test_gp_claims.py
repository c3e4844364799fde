"""Verdicts on curves that are known: what holds, what holds in part, what does not."""

import numpy as np
import pytest

from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART
from tellmost_reproduction.gp.claims import (
    CLAIMS,
    UNCLAIMED,
    all_alike,
    divide_the_work,
    grow,
    lead,
    outperform,
    perform_alike,
)
from tellmost_reproduction.gp.curves import Curves, Run
from tellmost_reproduction.gp.measures import Knowledge
from tellmost_reproduction.gp.methods import METHODS
from tellmost_reproduction.gp.settings import Size, settings

SETTING = settings(10)["gp-fig3"]
METHOD = {method.key: method for method in METHODS}


def flat(**levels):
    """Curves that stay at (entropy of f, entropy of y, sd), by key."""
    runs = []
    for key, (of_f, of_y, sd) in levels.items():
        f, y, s = (np.full(5, float(value)) for value in (of_f, of_y, sd))
        known = Knowledge(f, y, s, s**2, s, s[None])
        method = METHOD[key.replace("_", "-")]
        runs.append(Run(method, None, np.arange(4), known, 0.0))
    methods = tuple(run.method for run in runs)
    return Curves(SETTING, Size(10, 4, 1), methods, tuple(runs), 1)


@pytest.mark.parametrize("claim", [divide_the_work, lead])
@pytest.mark.parametrize(
    ("itl", "vtl", "verdict"),
    [
        ((60, 30, 0.2), (50, 20, 0.1), HOLDS),
        ((60, 30, 0.2), (50, 33, 0.1), IN_PART),
        ((40, 30, 0.1), (50, 33, 0.2), FAILS),
    ],
)
def test_an_order_in_entropy_holds_if_it_does_for_that_of_y_too(claim, itl, vtl, verdict):
    curves = flat(itl=itl, vtl=vtl, random=(1, 1, 1))
    found = claim(curves, curves)
    assert found.holds == verdict
    assert ("depends on the entropy" in found.finding) == (verdict == IN_PART)
    for number in (itl[0], vtl[0], itl[1], vtl[1]):
        assert f" {number}" in found.finding


def test_beating_the_others_counts_the_entropy_of_y():
    rivals = dict.fromkeys(("uncertainty", "local_uncertainty", "random"), (40, 20, 0.3))
    curves = flat(itl=(60, 30, 0.2), vtl=(50, 25, 0.1), **rivals)
    assert outperform(curves, curves).holds == HOLDS
    curves = flat(itl=(60, 10, 0.2), vtl=(50, 25, 0.1), **rivals)
    found = outperform(curves, curves)
    assert found.holds == IN_PART and "Not: ITL 10 against UnSa 20" in found.finding


def test_an_advantage_grows_in_both_entropies_or_in_part():
    dense = flat(itl=(60, 30, 0.2), vtl=(60, 30, 0.2), uncertainty=(50, 20, 0.3))
    sparse = flat(itl=(60, 30, 0.2), vtl=(60, 30, 0.2), uncertainty=(30, 10, 0.6))
    assert grow(sparse, dense).holds == HOLDS
    assert grow(dense, sparse).holds == FAILS
    mixed = flat(itl=(60, 30, 0.2), vtl=(60, 30, 0.2), uncertainty=(30, 25, 0.6))
    assert grow(mixed, dense).holds == IN_PART


@pytest.mark.parametrize(
    ("published", "other", "verdict"),
    [
        ((49, 20, 0.102), (30, 10, 0.3), HOLDS),
        ((30, 20, 0.1), (49, 20, 0.1), FAILS),
        ((49, 18, 0.1), (49, 20, 0.1), FAILS),
        ((49, 20, 0.12), (49, 20, 0.1), FAILS),
    ],
)
def test_ctl_is_alike_or_not_by_the_rule_that_was_published(published, other, verdict):
    same = dict.fromkeys(("itl", "vtl", "mm_itl", "local_uncertainty", "truvar"), (50, 20, 0.1))
    others = dict.fromkeys(("uncertainty", "random"), (5, 2, 0.5))
    forms = dict.fromkeys(("ctl", "ctl_squared", "ctl_y"), other)
    curves = flat(**same, **others, **forms, ctl_published=published)
    for claim in (perform_alike, all_alike):
        found = claim(curves, curves)
        assert found.holds == verdict
        assert "without it 0%" in found.finding


def test_what_is_not_judged_somewhere_is_explained():
    for claim in (divide_the_work, lead):
        missing = {name for name, claims in CLAIMS.items() if claim not in claims}
        assert missing == set(UNCLAIMED)
    assert all(perform_alike in claims for claims in CLAIMS.values())
