"""Boxes: their limits, their points, and what they refuse."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tellmost.rows.checks import LARGEST_SEED
from tellmost.targets.box import Box

limits = st.floats(-1e6, 1e6)
sides = st.tuples(limits, st.floats(1e-9, 1e6)).map(lambda side: (side[0], side[0] + side[1]))
corners = st.lists(sides.filter(lambda side: side[0] < side[1]), min_size=1, max_size=4).map(
    lambda box: tuple(zip(*box, strict=True))
)
refuses = pytest.mark.skipif(
    "config.getoption('--shapes', False)",
    reason="with shapes checked, annotations refuse bad input before the library does",
)


def test_limits_may_be_numbers_sequences_arrays_and_tensors():
    assert Box(0, 1) == Box([0.0], (1.0,))
    expected = Box([0.0, -1.0], [1.0, 2.0])
    assert Box(np.array([0, -1]), np.array([1, 2], dtype=np.float32)) == expected
    assert Box(torch.tensor([0, -1]), torch.tensor([1.0, 2.0])) == expected
    assert (expected.low, expected.high, expected.dimension) == ((0.0, -1.0), (1.0, 2.0), 2)


def test_a_number_beside_a_sequence_stands_for_all_dimensions():
    assert Box(0, [1, 2, 3]) == Box([0, 0, 0], [1, 2, 3])
    assert Box([-1, -2], 5) == Box([-1, -2], [5, 5])


def test_a_box_is_a_value():
    box = Box([0, 0], [1, 2], names=["x", "y"])
    assert box == Box((0, 0), (1, 2), names=("x", "y")) and box != Box([0, 0], [1, 2])
    assert len({box, Box([0, 0], [1, 2], names=["x", "y"])}) == 1
    with pytest.raises(FrozenInstanceError):
        box.low = (5.0,)


@pytest.mark.parametrize(
    "text",
    [
        "Box(0.0, 1.0)",
        "Box([0.0, -1.5], [1.0, 2.0])",
        "Box([0.0, -1.5], [1.0, 2.0], names=['gain', 'speed'])",
    ],
)
def test_a_box_prints_as_it_is_written(text):
    assert repr(eval(text)) == text


@given(corners=corners, count=st.integers(1, 70), seed=st.integers(0, LARGEST_SEED))
@settings(max_examples=30, deadline=None)
def test_sobol_points_lie_in_the_box(corners, count, seed):
    box = Box(*corners)
    points = box.sobol(count, seed)
    assert points.dtype == torch.float64 and points.shape == (count, box.dimension)
    assert bool(box.contains(points).all())


@given(corners=corners, seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_sobol_points_are_fixed_by_the_seed_and_leave_random_numbers_alone(corners, seed):
    box, before = Box(*corners), torch.get_rng_state()
    points = box.sobol(32, seed)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(box.sobol(32, seed), points)
    assert torch.equal(box.sobol(64, seed)[:32], points)
    assert not torch.equal(box.sobol(32, seed + 1), points)


def test_sobol_points_fill_the_box_evenly():
    """Each of 8 x 8 equal cells gets its share: 64 points are a net in base 2."""
    box = Box([-1, 0], [1, 10])
    points = box.sobol(64, 3)
    cells = ((points - box.corners()[0]) / box.width() * 8).long()
    columns = torch.bincount(cells[:, 0], minlength=8)
    rows = torch.bincount(cells[:, 1], minlength=8)
    assert columns.tolist() == rows.tolist() == [8] * 8


def test_a_box_contains_its_faces_and_nothing_beyond():
    box = Box([0, -1], [1, 1])
    X = [[0, -1], [1, 1], [0.5, 0], [1.1, 0], [0.5, -2], [np.nan, 0], [np.inf, 0]]
    expected = [True, True, True, False, False, False, False]
    assert box.contains(np.array(X)).tolist() == expected
    assert box.contains(torch.tensor(X)).tolist() == expected


@given(corners=corners, seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_clipping_moves_points_into_the_box_and_no_others(corners, seed):
    box = Box(*corners)
    inside = box.sobol(8, seed)
    away = inside + 3 * box.width() * (torch.arange(8) % 3 - 1)[:, None]
    clipped = box.clip(away)
    assert bool(box.contains(clipped).all())
    assert torch.equal(box.clip(inside), inside)
    is_inside = box.contains(away)
    assert torch.equal(clipped[is_inside], away[is_inside])


@pytest.mark.parametrize("X", [np.zeros(2), np.zeros((3, 3)), torch.zeros(1, 2, 2)])
def test_points_of_another_shape_are_refused(X):
    for method in (Box(0, [1, 1]).contains, Box(0, [1, 1]).clip):
        with pytest.raises(ValueError, match=r"rows of 2 numbers each; got shape .* one row"):
            method(X)


@refuses
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 1], [1, 2, 3]), ValueError, "same number of dimensions; got 2 and 3"),
        (([0, 1], [1]), ValueError, "same number of dimensions; got 2 and 1"),
        (([0, 2], [1, 2]), ValueError, "low < high .* got 2.0 and 2.0 in dimension 1"),
        ((1, 0), ValueError, "low < high .* got 1.0 and 0.0 in dimension 0"),
        (([0, 2], [1, 1], ["a", "b"]), ValueError, "got 2.0 and 1.0 in 'b'"),
        ((0, np.inf), ValueError, r"Box\(high\) must be a finite number.* no open sides"),
        (([0, np.nan], [1, 1]), ValueError, r"Box\(low\) must be a finite number"),
        ((-1e308, 1e308), ValueError, "a width that float64 can hold"),
        (([], []), ValueError, r"got an array of shape \(0,\)"),
        (([[0, 1]], [[1, 2]]), ValueError, r"got an array of shape \(1, 2\)"),
        (("0", 1), TypeError, r"Box\(low\) must be .* got '0'"),
        ((False, True), TypeError, r"Box\(low\) must be .* got False"),
        ((0, None), TypeError, r"Box\(high\) must be .* got None"),
        (([0, [1, 2]], 5), TypeError, r"Box\(low\) must be"),
        ((0, 1, "x"), TypeError, "must be a list of words, one per dimension; got 'x'"),
        ((0, 1, [1]), TypeError, r"must be a list of words, one per dimension; got \[1\]"),
        ((0, 1, ["a", "b"]), ValueError, "one name per dimension; got 2 for 1"),
        ((0, [1, 1], ["a", "a"]), ValueError, r"must differ from each other; got \['a', 'a'\]"),
    ],
)
def test_a_box_that_is_none_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Box(*arguments)


@refuses
@pytest.mark.parametrize(
    ("count", "seed", "message"),
    [
        (0, 0, r"sobol\(count\) must be .* at least 1 and at most 1073741824; got 0"),
        (2.5, 0, r"sobol\(count\) .* got 2.5"),
        (True, 0, r"sobol\(count\) .* got True"),
        (4, -1, r"sobol\(seed\) .* got -1"),
        (4, None, r"sobol\(seed\) .* got None"),
    ],
)
def test_a_sequence_that_is_none_is_refused(count, seed, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Box(0, 1).sobol(count, seed)
