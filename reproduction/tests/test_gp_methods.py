"""Which methods run where."""

import numpy as np
import pytest
from densely import as_problem

import oracle
from tellmost.testing import check_rule
from tellmost_reproduction.catalogue import CATALOGUE, Request
from tellmost_reproduction.gp.curves import pick, trace_curves
from tellmost_reproduction.gp.methods import METHODS, SquaredCTL, methods_for, read_methods
from tellmost_reproduction.gp.settings import SMOKE, Size, settings

SMALL = settings(SMOKE.side)


def test_the_papers_methods_are_all_there():
    paper = [method.label for method in METHODS if not method.is_extra]
    assert paper == [
        "ITL",
        "VTL",
        "CTL",
        "MM-ITL",
        "UnSa",
        "local UnSa",
        "TruVar",
        "Random",
        "CTL as published",
    ]


@pytest.mark.parametrize("name", SMALL)
def test_truvar_is_left_out_where_targets_are_outside(name):
    keys = [method.key for method in methods_for(SMALL[name])]
    assert ("truvar" in keys) == (not name.startswith("gp-extrapolation"))
    assert len(keys) == 12 - (name.startswith("gp-extrapolation"))


@pytest.mark.parametrize("about", ["f", "y"])
def test_squared_ctl_is_the_mean_of_squared_correlations(about):
    setting = settings(10)["gp-extrapolation"]
    problem = as_problem(setting)
    picks = pick(setting, SquaredCTL(about), 6).tolist()
    for t in range(6):
        K = oracle.posterior(problem, picks[:t])
        v = np.diag(K)
        own = v[: problem.n] + (problem.noise if about == "y" else 0.0)
        squared = K[: problem.n, problem.A] ** 2 / np.outer(own, v[problem.A])
        gains = squared.mean(axis=1)
        assert gains[picks[t]] == pytest.approx(gains.max(), rel=1e-9)
    check_rule(SquaredCTL(about))


RULES = """
from dataclasses import dataclass

import tellmost as tm
from tellmost.rules.random import draw

class Mine(tm.rules.VTL):
    name = "mine"

class Greedy(tm.rules.VTL):
    pass

class Needy(tm.rules.VTL):
    name = "needy"
    def __init__(self, strength): ...

class Blind(tm.rules.VTL):
    name = "blind"
    needs = frozenset({"the future"})

class Numbered(tm.rules.VTL):
    name = 3

class Piped(tm.rules.VTL):
    name = "a|b"

class Broken(tm.rules.VTL):
    name = "two\\nlines"

class Undefined(tm.rules.VTL):
    name = "undefined"
    def gain(self, state):
        return super().gain(state) * float("nan")

class Short(tm.rules.VTL):
    name = "short"
    def gain(self, state):
        return super().gain(state)[:3]

class Raising(tm.rules.VTL):
    name = "raising"
    def gain(self, state):
        return state.variance @ state.rows

class Late(tm.rules.VTL):
    name = "late"
    def gain(self, state):
        return super().gain(state) * (1.0 if state.step < 6 else float("nan"))

class Unseeded(tm.rules.VTL):
    name = "unseeded"
    is_random = True

class Fixed(tm.rules.VTL):
    name = "fixed"
    seed = 0

@dataclass(frozen=True)
class Drawn(tm.rules.VTL):
    seed: int = 0
    name = "drawn"
    def gain(self, state):
        return super().gain(state) * draw(self.seed, state)

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
        (["rules_of_a_user:Blind"], ValueError, "'blind': needs must name .* got the future"),
        (["rules_of_a_user:Numbered"], ValueError, "name must be a str; got 3"),
        (["rules_of_a_user:Piped"], ValueError, "name must be one line .* got 'a|b'"),
        (["rules_of_a_user:Broken"], ValueError, "name must be one line .* got 'two"),
        (["rules_of_a_user:Undefined"], ValueError, "'undefined': gain must be finite; got nan"),
        (["rules_of_a_user:Short"], ValueError, r"shape \(20,\), .* got .* shape \(3,\)"),
        (["rules_of_a_user:Raising"], ValueError, "'raising': gain must score .* RuntimeError"),
        (["rules_of_a_user:Unseeded"], ValueError, "must be a dataclass with a field seed"),
        (["rules_of_a_user:Fixed"], ValueError, "must be a dataclass with a field seed"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(rules, names, error, words):
    with pytest.raises(error, match=words) as caught:
        read_methods(names)
    assert "\n" not in str(caught.value) and "noise" not in str(caught.value)


def test_a_rule_with_a_seed_is_run_with_every_seed(rules):
    own = read_methods(["rules_of_a_user:Drawn"])
    curves = trace_curves(settings(10)["gp-fig3"], Size(10, 5, 3), own, only=["vtl", "drawn"])
    assert [run.seed for run in curves.of("drawn")] == [0, 1, 2]
    assert len({tuple(run.picks) for run in curves.of("drawn")}) > 1
    assert curves.error("mean_sd", "drawn") is not None


def test_a_rule_that_fails_on_the_way_is_named_and_leaves_no_folder(rules, tmp_path):
    request = Request(tmp_path / "out", is_smoke=True, rules=("rules_of_a_user:Late",))
    with pytest.raises(RuntimeError, match="'late' failed in gp-fig3; a gain was NaN or infinite"):
        CATALOGUE["gp-fig2"].run(request)
    assert not (tmp_path / "out").exists()
