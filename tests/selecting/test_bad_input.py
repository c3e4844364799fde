"""Bad input gets an error that names the argument, the rule, what came and the way out."""

import warnings

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost import kernels, rules

N, D, M = 12, 3, 2
POOL = np.random.default_rng(0).normal(size=(N, D))
TARGETS = np.random.default_rng(1).normal(size=(M, D))
ONES = np.ones(N)
MATRIX = kernels.Precomputed(torch.eye(4))

pytestmark = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)


def with_value(value, row, dtype=np.float64):
    """The pool with one bad entry."""
    pool = POOL.astype(dtype)
    pool[row, 1] = value
    return pool


def entry(value, at=N - 1):
    """Ones with one bad entry."""
    vector = np.ones(N)
    vector[at] = value
    return vector


def masked():
    return np.ma.masked_array(POOL, mask=POOL > 1.0)


SHAPES = {
    "1-d pool": ({"pool": POOL[:, 0]}, ValueError, ["pool", "two dimensions", "(12,)", "(n, 1)"]),
    "3-d pool": ({"pool": POOL[None]}, ValueError, ["pool", "two dimensions", "(1, 12, 3)"]),
    "0-d pool": ({"pool": 3.0}, ValueError, ["pool", "two dimensions", "()"]),
    "3-d targets": (
        {"targets": TARGETS[None]},
        ValueError,
        ["targets", "two dimensions", "(1, 2, 3)"],
    ),
    "dimensions that differ": (
        {"pool": POOL[:4], "targets": np.ones((2, 5))},
        ValueError,
        [
            "pool and targets must share their feature dimension; got pool (4, 3) and targets "
            "(2, 5)."
        ],
    ),
    "one target of another dimension": (
        {"targets": np.ones(5)},
        ValueError,
        ["share their feature dimension", "pool (12, 3)", "targets (1, 5)"],
    ),
    "no rows": ({"pool": np.empty((0, D))}, ValueError, ["pool must not be empty", "(0, 3)"]),
    "no features": ({"pool": np.empty((4, 0))}, ValueError, ["pool must not be empty", "(4, 0)"]),
    "empty list": ({"pool": []}, ValueError, ["pool must not be empty", "(0,)"]),
    "no targets in targets": (
        {"targets": np.empty((0, D))},
        ValueError,
        ["targets must not be empty", "(0, 3)"],
    ),
    "empty list of targets": ({"targets": []}, ValueError, ["targets must not be empty", "(0,)"]),
}

VALUES = {
    "NaN in pool": ({"pool": with_value(np.nan, 5)}, ValueError, ["pool", "finite", "row 5"]),
    "inf in pool": (
        {"pool": with_value(-np.inf, 7, np.float32)},
        ValueError,
        ["pool", "finite", "row 7", "repair"],
    ),
    "first of two bad rows": (
        {"pool": np.where(np.arange(N)[:, None] >= 4, np.nan, POOL)},
        ValueError,
        ["row 4 "],
    ),
    "NaN in targets": (
        {"targets": with_value(np.nan, 1)[:2]},
        ValueError,
        ["targets", "finite", "row 1"],
    ),
    "NaN in observed points": (
        {"observed": with_value(np.nan, 2)[:4]},
        ValueError,
        ["observed", "finite", "row 2"],
    ),
    "squares that overflow": (
        {"kernel": "linear", "pool": POOL * 1e200},
        ValueError,
        ["pool", "finite", "Scale"],
    ),
    "targets whose squares overflow": (
        {"kernel": "linear", "targets": TARGETS * 1e200},
        ValueError,
        ["targets", "finite", "Scale"],
    ),
}

TYPES = {
    "None": ({"pool": None}, TypeError, ["pool", "path", "None"]),
    "objects": ({"pool": POOL.astype(object)}, TypeError, ["pool", "numeric", "object", "astype"]),
    "strings": ({"pool": np.array([["a", "b"]])}, TypeError, ["pool", "numeric", "<U1"]),
    "times": ({"pool": np.zeros((4, 3), "M8[s]")}, TypeError, ["pool", "numeric", "datetime64"]),
    "complex array": ({"pool": POOL.astype(complex)}, TypeError, ["pool", "real", "complex128"]),
    "complex tensor": (
        {"targets": torch.ones(2, 3, dtype=torch.complex64)},
        TypeError,
        ["targets", "real", "complex64"],
    ),
    "sparse tensor": (
        {"pool": torch.ones(4, 3).to_sparse()},
        TypeError,
        ["pool", "dense", "sparse_coo", "Densify"],
    ),
    "ragged list": ({"pool": [[1.0, 2.0], [1.0]]}, ValueError, ["pool", "rectangular", "length"]),
    "masked entries": ({"pool": masked()}, TypeError, ["pool", "masked", "Fill"]),
    "a dictionary": ({"pool": {"a": 1}}, TypeError, ["pool", "numeric", "object"]),
}

AMOUNTS = {
    "k above the pool": ({"k": 13}, ValueError, ["k = 13", "12 candidates", "fewer", "replace"]),
    "k above the candidates": (
        {"k": 4, "candidates": [1, 2, 5]},
        ValueError,
        ["k = 4", "3 candidates"],
    ),
    "k above what is unobserved": (
        {"k": 11, "observed": [0, 1]},
        ValueError,
        ["k = 11", "10 candidates"],
    ),
    "k zero": ({"k": 0}, ValueError, ["k must be", "at least 1", "got 0"]),
    "k negative": ({"k": -2}, ValueError, ["k must be", "at least 1", "got -2"]),
    "k fractional": ({"k": 2.5}, ValueError, ["k must be", "whole number", "got 2.5"]),
    "k bool": ({"k": True}, TypeError, ["k must be", "whole number", "got True"]),
    "k numpy bool": ({"k": np.True_}, TypeError, ["k must be", "whole number", "True"]),
    "k string": ({"k": "3"}, TypeError, ["k must be", "whole number", "got '3'"]),
    "k word": ({"k": "all"}, TypeError, ["k must be", "whole number", "got 'all'"]),
    "k infinite": ({"k": float("inf")}, TypeError, ["k must be", "whole number", "got inf"]),
    "k NaN": ({"k": float("nan")}, TypeError, ["k must be", "whole number", "got nan"]),
    "k list": ({"k": [3]}, TypeError, ["k must be", "whole number", "got list"]),
    "nothing that ends it": (
        {"k": None},
        ValueError,
        ["k picks", "budget", "min_gain", "min_gain_share"],
    ),
    "min_gain zero": ({"min_gain": 0.0}, ValueError, ["min_gain", "positive", "got 0"]),
    "min_gain NaN": ({"min_gain": np.nan}, ValueError, ["min_gain", "positive", "nan"]),
    "min_gain string": ({"min_gain": "0.1"}, TypeError, ["min_gain", "number", "'0.1'"]),
    "min_gain with ctl": (
        {"min_gain": 0.1, "rule": "ctl"},
        ValueError,
        ["min_gain", "'ctl'", "Give k"],
    ),
    "min_gain with random": (
        {"min_gain": 0.1, "rule": "random"},
        ValueError,
        ["min_gain", "'random'", "Give k"],
    ),
    "min_gain_share with top-k": (
        {"min_gain_share": 0.1, "rule": "top-k"},
        ValueError,
        ["min_gain_share", "'top-k'"],
    ),
    "min_gain unconditional": (
        {"min_gain": 0.1, "conditional": False},
        ValueError,
        ["min_gain", "conditional=True", "conditional=False"],
    ),
    "min_gain_share above 1": (
        {"min_gain_share": 1.5},
        ValueError,
        ["min_gain_share", "at most 1", "got 1.5"],
    ),
    "a share alone with replace": (
        {"k": None, "min_gain_share": 0.1, "replace": True},
        ValueError,
        ["replace=True", "needs k", "min_gain_share"],
    ),
}

NOISE = {
    "zero": ({"noise_std": 0}, ValueError, ["noise_std", "positive", "got 0"]),
    "negative": ({"noise_std": -1.0}, ValueError, ["noise_std", "positive", "got -1.0"]),
    "NaN": ({"noise_std": np.nan}, ValueError, ["noise_std", "finite", "got nan"]),
    "infinite": ({"noise_std": np.inf}, ValueError, ["noise_std", "finite", "got inf"]),
    "word": ({"noise_std": "low"}, TypeError, ["noise_std", "number", "'low'"]),
    "number in a string": ({"noise_std": "0.5"}, TypeError, ["noise_std", "number", "'0.5'"]),
    "bool": ({"noise_std": True}, TypeError, ["noise_std", "number", "True"]),
    "variance overflows": ({"noise_std": 1e200}, ValueError, ["noise_std", "1e+200", "unit"]),
    "variance underflows": ({"noise_std": 1e-200}, ValueError, ["noise_std", "1e-200", "unit"]),
    "ratio zero": ({"noise_ratio": 0}, ValueError, ["noise_ratio", "positive", "got 0"]),
    "ratio negative": ({"noise_ratio": -2}, ValueError, ["noise_ratio", "positive", "got -2"]),
    "ratio NaN": ({"noise_ratio": np.nan}, ValueError, ["noise_ratio", "finite", "nan"]),
    "ratio string": ({"noise_ratio": "1"}, TypeError, ["noise_ratio", "number", "'1'"]),
    "ratio per point": ({"noise_ratio": ONES}, TypeError, ["noise_ratio", "number", "ndarray"]),
    "both": (
        {"noise_std": 1.0, "noise_ratio": 1.0},
        ValueError,
        ["noise_ratio", "noise_std", "not both"],
    ),
    "wrong length": (
        {"noise_std": np.ones(5)},
        ValueError,
        ["noise_std", "one entry per pool row", "(12,)", "(5,)"],
    ),
    "two dimensions": (
        {"noise_std": np.ones((N, 1))},
        ValueError,
        ["noise_std", "one entry per pool row", "(12, 1)"],
    ),
    "a zero entry": ({"noise_std": entry(0.0, at=3)}, ValueError, ["noise_std", "row 3 has 0"]),
    "a NaN entry": ({"noise_std": entry(np.nan)}, ValueError, ["noise_std", "entry 11 is nan"]),
    "an entry that underflows": (
        {"noise_std": entry(1e-200)},
        ValueError,
        ["noise_std", "1e-200"],
    ),
    "outside points, noise per row": (
        {"noise_std": ONES, "observed": np.ones((2, D))},
        ValueError,
        ["observed points outside the pool", "noise_std is per pool row", "Give one noise_std"],
    ),
    "itl-y, noise per row": (
        {"noise_std": ONES, "rule": rules.ITL(about="y")},
        ValueError,
        ["'itl-y'", "target_noise_std", "per point"],
    ),
}

COSTS = {
    "zero": ({"cost": entry(0.0), "budget": 3}, ValueError, ["cost", "positive", "row 11 has 0"]),
    "negative": ({"cost": entry(-1.0, at=2)}, ValueError, ["cost", "positive", "row 2 has -1"]),
    "NaN": ({"cost": entry(np.nan)}, ValueError, ["cost", "finite", "entry 11"]),
    "wrong length": ({"cost": np.ones(3)}, ValueError, ["cost", "(12,)", "(3,)"]),
    "one number": ({"cost": 1.0}, ValueError, ["cost", "one entry per pool row", "()"]),
    "budget without cost": (
        {"budget": 3.0},
        ValueError,
        ["budget needs cost", "per pool row", "3.0"],
    ),
    "budget negative": ({"budget": -3, "cost": ONES}, ValueError, ["budget", "positive", "-3"]),
    "budget NaN": ({"budget": np.nan, "cost": ONES}, ValueError, ["budget", "finite", "nan"]),
    "budget string": ({"budget": "3", "cost": ONES}, TypeError, ["budget", "number", "'3'"]),
    **{
        f"with {name}": (
            {"cost": ONES, "rule": name},
            ValueError,
            ["cost", f"'{name}'", "negative", "Use vtl"],
        )
        for name in ("ctl", "cosine", "top-k", "mmr")
    },
}

OBSERVED = {
    "repeated": ({"observed": [1, 4, 1]}, ValueError, ["observed", "row 1 more than once", "rep"]),
    "above": ({"observed": [1, 12]}, ValueError, ["observed", "0 to 11", "got 12"]),
    "negative": ({"observed": [-1]}, ValueError, ["observed", "0 to 11", "got -1"]),
    "floats": ({"observed": [1.0, 2.0]}, TypeError, ["observed", "integers", "float64", "(2,)"]),
    "mask": (
        {"observed": ONES.astype(bool)},
        TypeError,
        ["observed", "integers", "bool", "flatnonzero"],
    ),
    "one number": ({"observed": 3}, TypeError, ["observed", "vector of integers", "shape ()"]),
    "3-d": ({"observed": np.ones((1, 2, 3))}, TypeError, ["observed", "(o, d)", "(1, 2, 3)"]),
    "words": ({"observed": ["a", "b"]}, TypeError, ["observed", "numeric", "<U1"]),
    "another dimension": (
        {"observed": np.ones((2, 5))},
        ValueError,
        ["pool and observed must share", "pool (12, 3)", "observed (2, 5)"],
    ),
    "a missing file": ({"observed": "gone.npy"}, FileNotFoundError, ["observed", "gone.npy"]),
}

CANDIDATES = {
    "short mask": (
        {"candidates": np.ones(5, bool)},
        ValueError,
        ["candidates", "mask", "(12,)", "(5,)"],
    ),
    "repeated": ({"candidates": [1, 3, 3]}, ValueError, ["candidates", "row 3 more than once"]),
    "above": ({"candidates": [0, 12]}, ValueError, ["candidates", "0 to 11", "got 12"]),
    "negative": ({"candidates": [-1]}, ValueError, ["candidates", "0 to 11", "got -1"]),
    "floats": ({"candidates": [1.0]}, TypeError, ["candidates", "integers", "float64"]),
    "2-d": ({"candidates": [[1, 2]]}, TypeError, ["candidates", "vector", "(1, 2)"]),
    "empty": ({"candidates": []}, ValueError, ["candidates", "at least one row"]),
    "mask of nothing": (
        {"candidates": np.zeros(N, bool)},
        ValueError,
        ["candidates", "at least one row", "mask"],
    ),
}

CHOICES = {
    "unknown rule": ({"rule": "nope"}, ValueError, ["rule 'nope'", *rules.names()]),
    "rule class": ({"rule": rules.VTL}, TypeError, ["rule", "instance", "VTL()"]),
    "any object as rule": ({"rule": 3}, TypeError, ["rule", "tm.rules.VTL()", "got 3"]),
    "no rule": ({"rule": None}, TypeError, ["rule", "name", "got None"]),
    "kernel class": ({"kernel": kernels.Gaussian}, TypeError, ["kernel", "Gaussian(...)"]),
    "any object as kernel": ({"kernel": object()}, TypeError, ["kernel", "tm.kernels", "object"]),
    "name as kernel": ({"kernel": "rbf"}, TypeError, ["kernel", "tm.kernels", "got 'rbf'"]),
    "unknown normalize": (
        {"normalize": "l2"},
        ValueError,
        ["normalize", "'unit'", "'center'", "'center+unit'", "'l2'"],
    ),
    "normalize=True": ({"normalize": True}, ValueError, ["normalize", "'unit'", "got True"]),
    "unknown device": ({"device": "gpu"}, ValueError, ["device", "'cpu'", "got 'gpu'"]),
    "rule without its targets": (
        {"targets": None},
        ValueError,
        ["'vtl' needs targets", "uncertainty", "undirected-itl", "random"],
    ),
    "floor without targets": (
        {"targets": None, "rule": "uncertainty", "floor": True},
        ValueError,
        ["floor=True", "targets"],
    ),
    "replace with cosine": (
        {"replace": True, "rule": "cosine"},
        ValueError,
        ["replace=True", "'cosine'", "every time"],
    ),
    "replace with top-k": (
        {"replace": True, "rule": "top-k"},
        ValueError,
        ["replace=True", "'top-k'", "every time"],
    ),
    "replace unconditionally": (
        {"replace": True, "conditional": False},
        ValueError,
        ["replace=True", "conditional=False", "every time"],
    ),
}

WEIGHTS = {
    "negative": (
        {"target_weights": [1.0, -1.0]},
        ValueError,
        ["target_weights", "non-negative", "-1 to 1"],
    ),
    "all zero": (
        {"target_weights": [0.0, 0.0]},
        ValueError,
        ["target_weights", "positive sum", "0 to 0"],
    ),
    "NaN": ({"target_weights": [1.0, np.nan]}, ValueError, ["target_weights", "entry 1 is nan"]),
    "wrong length": (
        {"target_weights": [1.0, 1.0, 1.0]},
        ValueError,
        ["target_weights", "one entry per target", "(2,)", "(3,)"],
    ),
    **{
        f"with {name}": (
            {"target_weights": [1.0, 1.0], "rule": name},
            ValueError,
            ["target_weights", f"'{name}'", "vtl", "drop"],
        )
        for name in rules.names()
        if not rules.get(name).weighs_targets
    },
    "without targets": (
        {"target_weights": [1.0], "targets": None, "rule": "uncertainty"},
        ValueError,
        ["target_weights needs targets"],
    ),
}

GROUPS = {
    "alone": ({"groups": np.zeros(N)}, ValueError, ["groups", "max_per_group", "only groups"]),
    "missing": ({"max_per_group": 2}, ValueError, ["groups", "only max_per_group"]),
    "wrong length": (
        {"groups": np.zeros(5), "max_per_group": 1},
        ValueError,
        ["groups", "one label per pool row", "(12,)", "(5,)"],
    ),
    "a string": (
        {"groups": "abc", "max_per_group": 1},
        ValueError,
        ["groups", "one label per pool row", "()"],
    ),
    "a mixture": (
        {"groups": ["a", None] * 6, "max_per_group": 1},
        TypeError,
        ["groups", "one kind"],
    ),
    "at most none": (
        {"groups": np.zeros(N), "max_per_group": 0},
        ValueError,
        ["max_per_group", "at least 1", "got 0"],
    ),
    "at most one and a half": (
        {"groups": np.zeros(N), "max_per_group": 1.5},
        ValueError,
        ["max_per_group", "whole number", "1.5"],
    ),
}

PRECOMPUTED = {
    "float pool": (
        {"pool": [0.0, 1.0]},
        ValueError,
        ["Precomputed", "pool", "row numbers", "float64"],
    ),
    "2-d pool": ({"pool": [[0, 1]]}, ValueError, ["Precomputed", "pool", "vector", "(1, 2)"]),
    "empty pool": ({"pool": np.empty(0, int)}, ValueError, ["pool must not be empty", "(0,)"]),
    "above": ({"pool": [0, 4]}, ValueError, ["pool", "matrix", "0 to 3", "got 4"]),
    "negative": ({"pool": [0, -1]}, ValueError, ["pool", "matrix", "0 to 3", "got -1"]),
    "target above": ({"targets": [5]}, ValueError, ["targets", "matrix", "0 to 3", "got 5"]),
    "float targets": ({"targets": [1.5]}, ValueError, ["targets", "row numbers", "float64"]),
    "normalize": ({"normalize": "unit"}, ValueError, ["normalize", "Precomputed", "'unit'"]),
    "observed points": (
        {"observed": np.ones((1, 2))},
        ValueError,
        ["Precomputed", "observed", "(1, 2)"],
    ),
}


class UntouchedKernel:
    """Fails the test when it is used: bad input is refused before any kernel is evaluated."""

    def block(self, x, z):
        raise AssertionError("the kernel was evaluated before the input was refused")

    def column(self, x, z):
        raise AssertionError("the kernel was evaluated before the input was refused")

    def diagonal(self, x):
        raise AssertionError("the kernel was evaluated before the input was refused")


def table(*groups):
    """A pytest parameter per entry of the tables."""
    return [pytest.param(*case, id=name) for group in groups for name, case in group.items()]


def check_message(message, fragments):
    assert not [text for text in fragments if text not in message], message
    assert message.endswith(".") and not message.endswith("..")
    assert "\n" not in message and "0x" not in message


EARLY = table(
    SHAPES,
    VALUES,
    TYPES,
    AMOUNTS,
    NOISE,
    COSTS,
    OBSERVED,
    CANDIDATES,
    CHOICES,
    WEIGHTS,
    GROUPS,
)


@pytest.mark.parametrize(("changes", "kind", "fragments"), EARLY)
def test_a_bad_argument_is_named_with_what_came_and_the_way_out(changes, kind, fragments):
    arguments = {"pool": POOL, "targets": TARGETS, "k": 2, **changes}
    with pytest.raises((ValueError, TypeError, FileNotFoundError)) as caught:
        tm.select(**arguments)
    assert caught.type is kind
    check_message(str(caught.value), fragments)


NEEDS_KERNEL = ("squares that overflow", "targets whose squares overflow", "itl-y, noise per row")
NO_LONG_WORK = [
    case for case in EARLY if case.id not in NEEDS_KERNEL and "kernel" not in case.values[0]
]


@pytest.mark.parametrize(("changes", "kind", "fragments"), NO_LONG_WORK)
def test_a_bad_argument_is_refused_before_the_kernel_is_evaluated(changes, kind, fragments):
    arguments = {"pool": POOL, "targets": TARGETS, "k": 2, "kernel": UntouchedKernel(), **changes}
    with pytest.raises(kind):
        tm.select(**arguments)


@pytest.mark.parametrize(("changes", "kind", "fragments"), table(PRECOMPUTED))
def test_a_precomputed_kernel_takes_row_numbers_of_its_matrix_only(changes, kind, fragments):
    arguments = {"pool": [0, 1], "targets": [2], "k": 1, "kernel": MATRIX, **changes}
    with pytest.raises(kind) as caught:
        tm.select(**arguments)
    check_message(str(caught.value), fragments)


def test_a_selection_from_another_pool_is_refused():
    earlier = tm.select(POOL + 1.0, TARGETS, k=2)
    with pytest.raises(ValueError, match="another pool") as caught:
        tm.select(POOL, TARGETS, k=2, observed=earlier)
    check_message(str(caught.value), ["observed", "Selection", "same pool", "(o, d)"])


def test_a_selection_from_a_longer_pool_with_the_same_rows_is_refused():
    earlier = tm.select(np.concatenate([POOL, POOL]), TARGETS, k=2)
    with pytest.raises(ValueError, match="another pool"):
        tm.select(POOL, TARGETS, k=2, observed=earlier)


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates them
        return torch.quantize_per_tensor(torch.eye(3, 4), 0.1, 0, torch.qint8)


UNLIKE_DENSE = {
    "a meta one": torch.empty(3, 4, device="meta"),
    "a sparse_coo one": torch.eye(3, 4).to_sparse(),
    "a quantised one": quantised(),
}


@pytest.mark.parametrize(("what", "array"), UNLIKE_DENSE.items(), ids=UNLIKE_DENSE)
def test_arrays_that_are_not_dense_are_refused_by_name(what, array):
    for name, pool, targets in (("pool", array, np.eye(2, 4)), ("targets", np.eye(5, 4), array)):
        with pytest.raises(TypeError, match=f"^{name} must be a dense .*; got {what}"):
            tm.select(pool, targets, 2)


def test_a_bad_choice_is_refused_before_the_pools_file_is_opened():
    with pytest.raises(ValueError, match="normalize"):
        tm.select("gone.npy", TARGETS, k=2, normalize="l2")
    with pytest.raises(ValueError, match="device"):
        tm.select("gone.npy", TARGETS, k=2, device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_not_there_is_said_to_be_missing():
    with pytest.raises(
        ValueError, match=r"device must be one that torch can use.*got 'cuda'.*CUDA"
    ):
        tm.select(POOL, TARGETS, k=2, device="cuda")
    with pytest.raises(ValueError, match="unknown rule"):
        tm.select("gone.npy", TARGETS, k=2, rule="nope")
    with pytest.raises(ValueError, match="k must be"):
        tm.select("gone.npy", TARGETS, k=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_finite_rows_whose_sum_overflows_are_not_refused(dtype):
    large = np.full((4, 3), np.finfo(dtype).max, dtype)
    large[2] = [1.0, 2.0, 3.0]
    with np.errstate(over="ignore"):
        assert not np.isfinite(large.sum(axis=1)).all()
    assert len(tm.select(large, TARGETS, k=3)) == 3


def test_a_bad_row_behind_rows_whose_sum_overflows_is_still_named():
    large = np.full((6, 3), np.finfo(np.float32).max, np.float32)
    large[4, 0] = np.inf
    with pytest.raises(ValueError, match="row 4 has a NaN or an infinity"):
        tm.select(large, TARGETS, k=1)


def test_a_bad_row_in_a_later_block_is_named_by_its_number_in_the_pool():
    long = np.ones((300_000, 5), np.float32)
    long[280_001, 4] = np.nan
    with pytest.raises(ValueError, match="row 280001 "):
        tm.select(long, np.ones(5), k=1)


def test_opposite_infinities_in_a_row_are_found():
    pool = POOL.copy()
    pool[6, :2] = [np.inf, -np.inf]
    with pytest.raises(ValueError, match="row 6 "):
        tm.select(pool, TARGETS, k=1)


def test_a_kernel_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="prior variances of pool must be finite") as caught:
        tm.select(POOL, TARGETS, k=1, kernel=kernels.FeatureMap(lambda x: x * float("nan")))
    assert "FeatureMap" in str(caught.value)


class OwnRule:
    """A rule as a user might write it, with one mistake."""

    name, unit = "own", "nothing"
    weighs_targets = gains_only_shrink = is_signed = False

    def __init__(self, needs, needs_targets):
        self.needs, self.needs_targets = frozenset(needs), needs_targets

    def gain(self, state):
        raise AssertionError("a rule that cannot be was asked for gains")


def test_a_rule_that_needs_what_no_state_has_is_refused():
    with pytest.raises(ValueError, match="'own' needs entropy") as caught:
        tm.select(POOL, TARGETS, k=1, rule=OwnRule({"entropy", "variance"}, True))
    check_message(str(caught.value), ["State", "covariance", "variance_given_targets"])


def test_a_rule_that_reads_targets_has_to_say_so():
    with pytest.raises(ValueError, match="needs_targets = False") as caught:
        tm.select(POOL, TARGETS, k=1, rule=OwnRule({"covariance"}, False))
    check_message(str(caught.value), ["'own'", "reads targets"])


WRONG_FEATURES = {
    "a vector": lambda x: x[:, 0],
    "too few rows": lambda x: x[:1],
    "an array": lambda x: x.numpy(),
}


@pytest.mark.parametrize("fn", WRONG_FEATURES.values(), ids=WRONG_FEATURES)
def test_a_feature_map_of_the_wrong_shape_is_refused(fn):
    with pytest.raises(ValueError, match="fn must turn") as caught:
        tm.select(POOL, TARGETS, k=1, kernel=kernels.FeatureMap(fn))
    check_message(str(caught.value), ["FeatureMap(fn)", "(n, D)", "got", "(12, 3)"])


@pytest.mark.parametrize(
    "make", [kernels.Gaussian, kernels.Laplace, lambda s: kernels.Matern(1.5, s)]
)
def test_a_lengthscale_per_dimension_must_match_the_features(make):
    with pytest.raises(ValueError, match="lengthscale must be") as caught:
        tm.select(POOL, TARGETS, k=1, kernel=make([1.0, 2.0]))
    check_message(str(caught.value), ["lengthscale", "one per dimension", "2 for 3"])


def test_a_latent_covariance_must_match_the_features():
    with pytest.raises(ValueError, match="covariance") as caught:
        tm.select(POOL, TARGETS, k=1, kernel=kernels.Linear(torch.eye(2)))
    check_message(str(caught.value), ["Linear(covariance)", "(2, 2)", "3 features"])


CONSTRUCTORS = {
    "ITL about z": (lambda: rules.ITL(about="z"), ["ITL(about)", "'f' or 'y'", "'z'"]),
    "ITL noise about f": (lambda: rules.ITL(target_noise_std=1.0), ["target_noise_std", '"y"']),
    "ITL noise negative": (
        lambda: rules.ITL(about="y", target_noise_std=-1.0),
        ["ITL(target_noise_std)", "positive", "-1"],
    ),
    "ITL noise NaN": (
        lambda: rules.ITL(about="y", target_noise_std=float("nan")),
        ["ITL(target_noise_std)", "positive", "nan"],
    ),
    "Matern of whole nu": (lambda: kernels.Matern(1.0), ["Matern(nu)", "half-integer", "1.0"]),
    "Matern of negative nu": (lambda: kernels.Matern(-0.5), ["Matern(nu)", "0.5", "-0.5"]),
    "negative lengthscale": (lambda: kernels.Gaussian(-1.0), ["lengthscale", "positive", "-1"]),
    "zero lengthscale": (lambda: kernels.Laplace([1.0, 0.0]), ["lengthscale", "positive", "0"]),
    "NaN lengthscale": (lambda: kernels.Matern(0.5, float("nan")), ["lengthscale", "nan"]),
    "infinite lengthscale": (lambda: kernels.Gaussian(float("inf")), ["lengthscale", "inf"]),
    "asymmetric matrix": (
        lambda: kernels.Precomputed([[1.0, 2.0], [0.0, 1.0]]),
        ["Precomputed(matrix)", "symmetric"],
    ),
    "oblong matrix": (lambda: kernels.Precomputed(np.ones((2, 3))), ["square", "(2, 3)"]),
    "matrix of integers": (lambda: kernels.Precomputed([[1, 0], [0, 1]]), ["floating-point"]),
    "negative variance": (lambda: kernels.Precomputed([[-1.0]]), ["non-negative diagonal"]),
    "indefinite covariance": (
        lambda: kernels.Linear([[1.0, 2.0], [2.0, 1.0]]),
        ["Linear(covariance)", "positive semi-definite", "-1"],
    ),
    "oblong covariance": (lambda: kernels.Linear(np.ones((2, 3))), ["square", "(2, 3)"]),
    "asymmetric covariance": (lambda: kernels.Linear([[1.0, 2.0], [0.0, 1.0]]), ["symmetric"]),
    "negative factor": (
        lambda: kernels.Scaled(kernels.Linear(), -1.0),
        ["Scaled(factor)", "positive", "-1"],
    ),
    "factor zero": (lambda: kernels.Scaled(kernels.Linear(), 0.0), ["Scaled(factor)", "positive"]),
}


@pytest.mark.parametrize(("make", "fragments"), CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_a_rule_or_kernel_that_cannot_be_is_refused_when_it_is_made(make, fragments):
    with pytest.raises(ValueError, match=r"\w") as caught:
        make()
    check_message(str(caught.value), fragments)


def test_itl_about_y_works_with_noise_per_row_once_the_targets_noise_is_given():
    rule = rules.ITL(about="y", target_noise_std=0.5)
    assert len(tm.select(POOL, TARGETS, k=3, rule=rule, noise_std=ONES)) == 3


def test_repeated_observations_are_allowed_with_replace():
    chosen = tm.select(POOL, TARGETS, k=2, observed=[1, 1], replace=True)
    assert chosen.observed_indices.tolist() == [1, 1]


def test_weights_near_the_largest_number_do_not_overflow():
    large = tm.select(POOL, TARGETS, k=3, target_weights=[1.7e308, 1.7e308])
    plain = tm.select(POOL, TARGETS, k=3)
    np.testing.assert_array_equal(large.indices, plain.indices)
    np.testing.assert_allclose(large.uncertainty, plain.uncertainty, rtol=1e-12)


EMPTY = {"list": [], "array": np.empty(0, np.int64), "points": np.empty((0, D))}


@pytest.mark.parametrize("observed", EMPTY.values(), ids=EMPTY)
def test_nothing_observed_is_the_same_as_none(observed):
    expected = tm.select(POOL, TARGETS, k=3)
    got = tm.select(POOL, TARGETS, k=3, observed=observed)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.uncertainty, expected.uncertainty)
