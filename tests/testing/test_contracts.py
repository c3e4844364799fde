"""One list of contracts for every kernel and every rule; and broken ones are told so."""

import doctest
import importlib
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

import oracle
import tellmost as tm
from problems import make_case
from tellmost import rules
from tellmost.kernels import (
    FeatureMap,
    Gaussian,
    Kronecker,
    Laplace,
    Linear,
    Matern,
    Outer,
    Precomputed,
    Product,
    Scaled,
    Sum,
)
from tellmost.posterior.problem import State
from tellmost.rules import VTL, UncertaintySampling
from tellmost.testing import check_kernel, check_rule

# ---- kernels

POINTS = torch.from_numpy(np.random.default_rng(0).standard_normal((14, 3)))
ROOT = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 3)))
FEATURES = FeatureMap(lambda x: torch.cat([x, x.square(), x.sin()], dim=1))
ROUGHNESS = (0.5, 1.5, 2.5, 3.5)
SCALES = {"": 1.3, "-per-dimension": [0.7, 1.0, 2.0]}

KERNELS = {
    "linear": Linear(),
    "linear-with-covariance": Linear(ROOT @ ROOT.T),
    "linear-with-singular-covariance": Linear(ROOT[:, :1] @ ROOT[:, :1].T),
    **{f"gaussian{name}": Gaussian(scale) for name, scale in SCALES.items()},
    **{f"laplace{name}": Laplace(scale) for name, scale in SCALES.items()},
    **{f"matern-{nu}{name}": Matern(nu, s) for nu in ROUGHNESS for name, s in SCALES.items()},
    "feature-map": FEATURES,
    "scaled": Scaled(Gaussian(), 7.0),
    "scaled-linear": Scaled(Linear(ROOT @ ROOT.T), 1e-6),
    "scaled-feature-map": Scaled(FEATURES, 3.0),
    "sum": Sum(Linear(), Laplace()),
    "product": Product(Gaussian(2.0), Matern(1.5)),
    "outer": Outer(1),
    "kronecker": Kronecker(torch.tensor([[1.0, 0.2]])),
    "kronecker-of-zeros": Kronecker(torch.tensor([[1.0, 0.0]])),
    "nested": Sum(Scaled(Product(Linear(), Gaussian()), 0.3), Scaled(Scaled(FEATURES, 2.0), 0.1)),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_kernel_keeps_the_contract(kernel):
    assert check_kernel(kernel, POINTS) is None


@pytest.mark.parametrize("numbers", [torch.arange(14), torch.tensor([9, 2, 2, 13, 0])])
def test_a_precomputed_kernel_keeps_the_contract_on_row_numbers(numbers):
    assert check_kernel(Precomputed(Gaussian().block(POINTS, POINTS)), numbers) is None


@dataclass(frozen=True)
class Broken:
    """A Gaussian kernel, until one of its methods is replaced."""

    inner: object = field(default_factory=Gaussian)

    def block(self, x, z):
        return self.inner.block(x, z)

    def column(self, x, z):
        return self.inner.column(x, z)

    def diagonal(self, x):
        return self.inner.diagonal(x)


class Skewed(Broken):
    def block(self, x, z):
        return self.inner.block(x, z) * (1.0 + 0.1 * x[:, :1])


class SymmetricOnlyOnEqualPoints(Broken):
    def block(self, x, z):
        K = self.inner.block(x, z)
        return K if x.shape == z.shape else K * (1.0 + 0.1 * x[:, :1])


class WrongDiagonal(Broken):
    def diagonal(self, x):
        return 1.001 * self.inner.diagonal(x)


class WrongColumn(Broken):
    def column(self, x, z):
        return self.inner.column(x, z) ** 2


class Indefinite(Broken):
    def block(self, x, z):
        return self.inner.block(x, z) - 0.5

    def column(self, x, z):
        return self.block(x, z)[:, 0]

    def diagonal(self, x):
        return self.inner.diagonal(x) - 0.5


class DependsOnTheBlock(Broken):
    """Right for the whole, for columns and for single rows; wrong for a few rows at once."""

    def block(self, x, z):
        K = self.inner.block(x, z)
        return K * 1.01 if 1 < len(x) < len(z) - 6 else K


class ChangesItsInputs(Broken):
    def block(self, x, z):
        return self.inner.block(x.sub_(1.0), z.sub_(1.0))


class SinglePrecision(Broken):
    def block(self, x, z):
        return self.inner.block(x, z).float()


class WrongShape(Broken):
    def diagonal(self, x):
        return self.inner.diagonal(x)[:, None]


class NotANumber(Broken):
    def diagonal(self, x):
        return self.inner.diagonal(x) / 0.0


class TakesAPoint(Broken):
    def column(self, x, z):
        if z.ndim != 1:
            raise ValueError("z has to be a vector")
        return self.inner.column(x, z)


class NeverTheSame(Broken):
    def block(self, x, z):
        return self.inner.block(x, z) * torch.rand(()).double()


@dataclass(frozen=True)
class WrongFeatures(Broken):
    inner: object = field(default_factory=Linear)

    def features(self, x):
        return 2.0 * x

    def weight_covariance(self, dimension):
        return None


class OneFeature(WrongFeatures):
    def features(self, x):
        return x[:, 0]


BROKEN_KERNELS = {
    Skewed: "block(x, x) must be symmetric",
    SymmetricOnlyOnEqualPoints: "must be the transpose of block(z, x)",
    WrongDiagonal: "diagonal(x) must be the diagonal of block(x, x)",
    WrongColumn: "must be column 0 of block(x, x)",
    DependsOnTheBlock: "block of some rows must be some rows of block",
    Indefinite: "positive semi-definite; its eigenvalues go from -",
    ChangesItsInputs: "must not change its inputs",
    SinglePrecision: "finite float64; got torch.float32",
    WrongShape: "must be a tensor of shape (14,) for (14, 3); got (14, 1)",
    NotANumber: "finite float64; got torch.float64 with 14 not finite",
    TakesAPoint: "raised ValueError: z has to be a vector. A single point comes as a single row",
    NeverTheSame: "must give the same answer twice",
    WrongFeatures: "must give block(x, x) as phi C phi'",
    OneFeature: "features(x) must be float64 rows",
}


@pytest.mark.parametrize(
    ("kernel", "message"), BROKEN_KERNELS.items(), ids=[k.__name__ for k in BROKEN_KERNELS]
)
def test_a_broken_kernel_is_told_what_is_broken(kernel, message):
    with pytest.raises(AssertionError) as caught:
        check_kernel(kernel(), POINTS)
    assert message in str(caught.value)
    assert kernel.__name__ in str(caught.value)


def test_a_broken_kernel_inside_another_is_found():
    with pytest.raises(AssertionError, match="diagonal"):
        check_kernel(Sum(Linear(), Scaled(WrongDiagonal(), 2.0)), POINTS)


@pytest.mark.parametrize(
    ("kernel", "message"), [(Gaussian, "got the class"), (object(), "there is no block, column")]
)
def test_what_is_no_kernel_is_told_so(kernel, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(kernel, POINTS)


@pytest.mark.parametrize(
    "points", [POINTS.float(), POINTS[:3], POINTS[:, 0], torch.zeros(5, 1, 1)]
)
def test_points_to_check_a_kernel_on_are_named_if_they_are_wrong(points):
    with pytest.raises(ValueError, match="points must be at least 4 float64 rows"):
        check_kernel(Gaussian(), points)


# ---- rules


@pytest.mark.parametrize("name", rules.names())
def test_every_rule_keeps_the_contract(name):
    assert check_rule(rules.get(name), seed=1) is None


def test_a_rule_with_options_keeps_the_contract():
    assert check_rule(tm.rules.ITL(about="y", target_noise_std=0.3)) is None
    assert check_rule(tm.rules.Random(seed=5)) is None


@dataclass(frozen=True)
class Own:
    """A rule of a user, by default VTL written out, with every claim open to change."""

    name: str = "own"
    unit: str = "mean target variance"
    needs: frozenset[str] = frozenset({"variance", "covariance"})
    needs_targets: bool = True
    weighs_targets: bool = True
    gains_only_shrink: bool = False
    is_signed: bool = False

    def gain(self, state: State) -> torch.Tensor:
        total = state.covariance.square() @ state.target_weights
        return total / (state.variance + state.noise_variance)


class LooksAcrossRows(Own):
    def gain(self, state):
        gains = super().gain(state)
        return gains - gains.mean()


class RanksRows(Own):
    def gain(self, state):
        return super().gain(state).argsort().argsort().double()


class Negative(Own):
    def gain(self, state):
        return super().gain(state) - 1.0


class ChangesTheState(Own):
    def gain(self, state):
        return super().gain(replace(state, noise_variance=state.noise_variance.add_(0.1)))


class ChangesTheTargets(Own):
    def gain(self, state):
        gains = super().gain(state)
        state.target_weights.mul_(0.5)
        return gains


class ReturnsTheState(Own):
    def gain(self, state):
        return state.variance


class SinglePrecisionGain(Own):
    def gain(self, state):
        return super().gain(state).float()


class OneGain(Own):
    def gain(self, state):
        return super().gain(state).sum()


class InfiniteGain(Own):
    def gain(self, state):
        return super().gain(state) / (state.rows != 7)


class NeverTheSameGain(Own):
    def gain(self, state):
        return super().gain(state) * torch.rand(len(state.rows), dtype=torch.float64)


class ReadsRowNumbers(Own):
    def gain(self, state):
        return super().gain(state) * (1.0 + state.rows)


class IgnoresWeights(Own):
    def gain(self, state):
        return state.covariance.square().sum(dim=1) / (state.variance + state.noise_variance)


class RewardsKnownRows(Own):
    def gain(self, state):
        return super().gain(state) + 0.1


class ReadsTheTargets(Own):
    def gain(self, state):
        return state.variance * state.target_weights.sum()


SOME_MUST_EQUAL_ALL = "scoring some rows must equal scoring all"
BROKEN_RULES = {
    "looks across rows": (LooksAcrossRows(is_signed=True), SOME_MUST_EQUAL_ALL),
    "ranks rows": (RanksRows(), SOME_MUST_EQUAL_ALL),
    "negative": (Negative(), "must not be negative unless is_signed is True"),
    "changes the state": (ChangesTheState(), "must not change the state"),
    "changes the targets": (ChangesTheTargets(), "must not change the state"),
    "returns the state": (ReturnsTheState(), "must be a tensor of its own"),
    "float32": (SinglePrecisionGain(), "float64 tensor of shape (20,), an entry per row"),
    "one gain": (OneGain(), "got torch.float64 of shape ()"),
    "infinite": (InfiniteGain(), "must be finite; got inf for row 7"),
    "random": (NeverTheSameGain(), "must be a function of the state alone"),
    "row numbers": (ReadsRowNumbers(), "permuting the pool must permute the gains"),
    "ignores weights": (IgnoresWeights(), "target_weights must have an effect"),
    "rewards known rows": (RewardsKnownRows(), "known already must have gain 0"),
    "grows": (Own(gains_only_shrink=True), "no observation may raise a gain; row "),
    "needs too little": (Own(needs=frozenset({"covariance"})), "has no variance"),
    "needs nothing": (Own(needs=frozenset()), "has no covariance"),
    "unknown need": (Own(needs=frozenset({"entropy"})), "needs must name fields of a State"),
    "needs a list": (Own(needs=["variance"]), "needs must be a frozenset; got ['variance']"),
    "hidden targets": (Own(needs_targets=False), "must say needs_targets = True"),
    "targets not asked for": (
        ReadsTheTargets(needs=frozenset({"variance"}), needs_targets=False, weighs_targets=False),
        "this state has no targets",
    ),
    "no truth value": (Own(is_signed=None), "is_signed must be a bool; got None"),
    "no name": (Own(name=None), "name must be a str; got None"),
}


@pytest.mark.parametrize(("rule", "message"), BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_a_broken_rule_is_told_what_is_broken(rule, message):
    with pytest.raises(AssertionError) as caught:
        check_rule(rule)
    assert message in str(caught.value)
    assert repr(rule.name) in str(caught.value)


@dataclass(frozen=True)
class GrowingVTL(VTL):
    gains_only_shrink: bool = True


@pytest.mark.parametrize("seed", range(5))
def test_vtl_is_caught_if_it_says_that_its_gains_only_shrink(seed):
    with pytest.raises(AssertionError, match=r"row .* rose from .* when row .* was observed"):
        check_rule(GrowingVTL(), seed=seed)


def test_a_missing_attribute_is_named():
    class Unfinished:
        name = "unfinished"

        def gain(self, state):
            return state.variance.clone()

    with pytest.raises(AssertionError, match="unit must be a str; there is none"):
        check_rule(Unfinished())


@pytest.mark.parametrize(
    ("rule", "message"), [(VTL, "got the class"), ("vtl", "a rule has the methods gain")]
)
def test_what_is_no_rule_is_told_so(rule, message):
    with pytest.raises(AssertionError, match=message):
        check_rule(rule)


# ---- rules of one's own, through select


@dataclass(frozen=True)
class TripleVTL(Own):
    """Three times VTL: the same picks."""

    def gain(self, state):
        return 3.0 * super().gain(state)


@dataclass(frozen=True)
class SurpriseTimesRelevance(Own):
    """Variance of the pick times its squared covariance with the targets."""

    unit: str = "variance cubed"

    def gain(self, state):
        return state.variance * (state.covariance.square() @ state.target_weights)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_a_scaled_rule_of_ones_own_picks_as_the_rule_it_scales(kernel):
    case = make_case(3, kernel=kernel, weighted=True, observed=2)
    own, vtl = case.select(8, TripleVTL()), case.select(8, "vtl")
    assert check_rule(TripleVTL()) is None
    np.testing.assert_array_equal(own.indices, vtl.indices)
    np.testing.assert_allclose(own.gains, 3.0 * vtl.gains, rtol=1e-9)
    assert own.settings["rule"] == "own"


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_a_new_rule_of_ones_own_picks_by_its_formula(kernel):
    case = make_case(4, kernel=kernel)
    chosen = case.select(6, SurpriseTimesRelevance())
    assert check_rule(SurpriseTimesRelevance()) is None
    picks: list[int] = []
    problem = case.oracle
    for pick, gain in zip(chosen.indices, chosen.gains, strict=True):
        K = oracle.posterior(problem, picks)
        gains = np.diag(K)[: problem.n] * (K[: problem.n, problem.A] ** 2 @ problem.w)
        assert gain == pytest.approx(gains[pick], rel=1e-9)
        gains[picks] = -np.inf
        assert pick == gains.argmax()
        picks.append(int(pick))


@dataclass(frozen=True)
class LeftByTheTargets(Own):
    """What is uncertain even to one who knows the targets: such gains only shrink."""

    needs: frozenset[str] = frozenset({"variance_given_targets"})
    weighs_targets: bool = False
    gains_only_shrink: bool = True

    def gain(self, state):
        return state.variance_given_targets.clone()


def test_a_rule_whose_gains_shrink_and_that_reads_more_than_the_variance_keeps_the_contract():
    assert check_rule(LeftByTheTargets()) is None


def test_an_undirected_rule_of_ones_own_works_with_and_without_targets():
    @dataclass(frozen=True)
    class Deviation(UncertaintySampling):
        def gain(self, state):
            return state.variance.sqrt()

    case = make_case(6)
    assert check_rule(Deviation()) is None
    for targets in (None, case.targets):
        own, named = (
            tm.select(case.pool, targets, 7, rule=rule, noise_std=0.5, kernel="linear")
            for rule in (Deviation(), "uncertainty")
        )
        np.testing.assert_array_equal(own.indices, named.indices)
        np.testing.assert_allclose(own.gains**2, named.gains, rtol=1e-9)


@pytest.mark.parametrize("name", ["", ".kernels", ".rules"])
def test_the_examples_in_the_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(f"tellmost.testing{name}"))
    assert result.attempted > 0
    assert result.failed == 0
