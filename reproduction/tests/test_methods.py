"""Which methods run where."""

import numpy as np
import pytest
from densely import as_problem

import oracle
from tellmost.testing import check_rule
from tellmost_reproduction.gp.curves import pick
from tellmost_reproduction.gp.methods import METHODS, SquaredCTL, methods_for
from tellmost_reproduction.gp.settings import SMOKE, settings

SMALL = settings(SMOKE.side)


def test_the_papers_methods_are_all_there():
    paper = [method.label for method in METHODS if not method.is_extra]
    assert paper == ["ITL", "VTL", "CTL", "MM-ITL", "UnSa", "local UnSa", "TruVar", "Random"]


@pytest.mark.parametrize("name", SMALL)
def test_truvar_is_left_out_where_targets_are_outside(name):
    keys = [method.key for method in methods_for(SMALL[name])]
    assert ("truvar" in keys) == (not name.startswith("gp-extrapolation"))
    assert len(keys) == 10 - (name.startswith("gp-extrapolation"))


def test_squared_ctl_is_the_mean_of_squared_correlations():
    setting = settings(10)["gp-extrapolation"]
    problem = as_problem(setting)
    picks = pick(setting, SquaredCTL(), 6).tolist()
    for t in range(6):
        K = oracle.posterior(problem, picks[:t])
        sd = np.sqrt(np.diag(K))
        gains = ((K / np.outer(sd, sd))[: problem.n, problem.A] ** 2).mean(axis=1)
        assert gains[picks[t]] == pytest.approx(gains.max(), rel=1e-9)
    check_rule(SquaredCTL())
