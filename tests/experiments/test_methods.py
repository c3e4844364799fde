"""Which methods run where, and rules of the user's beside them."""

import numpy as np
import pytest
from densely import as_problem

import oracle
from sightline.experiments.gp.methods import METHODS, SquaredCTL, methods_for, read_methods
from sightline.experiments.gp.picking import pick
from sightline.experiments.gp.settings import SMOKE, settings
from sightline.testing import check_rule

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


RULES = """
import sightline as sl

class Mine(sl.rules.VTL):
    name = "mine"

class Greedy(sl.rules.VTL):
    pass

class Needy(sl.rules.VTL):
    name = "needy"
    def __init__(self, strength): ...

class Blind(sl.rules.VTL):
    name = "blind"
    needs = frozenset({"the future"})

made = Mine()
number = 3
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    (tmp_path / "rules_of_a_user.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("what", ["Mine", "made"])
def test_a_rule_of_the_users_is_a_class_or_an_instance(rules, what):
    (method,) = read_methods([f"rules_of_a_user:{what}"])
    assert method.key == "mine" and method.is_own and method.is_extra


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (["rules_of_a_user"], ValueError, "must name a rule as package.module:MyRule"),
        (["no_such_module:Rule"], ImportError, "there is no module 'no_such_module'"),
        (["rules_of_a_user:Nothing"], AttributeError, "has no 'Nothing'. Name a rule"),
        (["rules_of_a_user:number"], TypeError, "must be a rule, with .* type int"),
        (["rules_of_a_user:Needy"], TypeError, "cannot be made without arguments"),
        (["rules_of_a_user:Greedy"], ValueError, "there is a method 'vtl' already"),
        (["rules_of_a_user:Mine"] * 2, ValueError, "there is a method 'mine' already"),
        (["rules_of_a_user:Blind"], ValueError, "needs the future"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(rules, names, error, words):
    with pytest.raises(error, match=words):
        read_methods(names)
