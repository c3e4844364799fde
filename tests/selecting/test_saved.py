"""A saved Selection is believed only if all that it claims agrees."""

import io
import json
import zipfile

import numpy as np
import pytest

import tellmost as tm

RNG = np.random.default_rng(0)
POOL, TARGETS = RNG.normal(size=(60, 6)), RNG.normal(size=(4, 6))
CHOSEN = tm.select(
    POOL,
    TARGETS,
    5,
    noise_std=RNG.uniform(0.5, 2, 60),
    candidates=np.arange(2, 60),
    observed=[0, 1],
    target_weights=[1, 2, 3, 4],
    floor=True,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "picks.tellmost"


def rewrite(path, changed=None, settings=None, about=None):
    """The file of CHOSEN with other contents, a consistent archive nevertheless."""
    CHOSEN.save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    words = json.loads(str(arrays["about"]))
    words["settings"] |= settings or {}
    arrays = arrays | {"about": np.array(json.dumps(words | (about or {})))} | (changed or {})
    with path.open("wb") as file:
        np.savez_compressed(file, **{n: a for n, a in arrays.items() if a is not None})


def put(name, place, value):
    array = getattr(CHOSEN, name).copy()
    array[place] = value
    return {name: array}


I64 = np.int64
CLAIMS = {
    "a negative row": (put("indices", 2, -1), "indices must name rows of the pool, 0 to 59; got"),
    "a row beyond": (put("indices", 2, 60), "indices must name rows of the pool"),
    "a huge row": (put("indices", 2, 2**62), "indices must name rows of the pool"),
    "half a row": ({"indices": CHOSEN.indices + 0.5}, "indices must be int64; got float64"),
    "a row twice": (put("indices", 2, CHOSEN.indices[0]), "indices, .* has row .* more than once"),
    "an observed row": (
        put("indices", 2, 1),
        "indices, with what was observed before, has row 1 more than once",
    ),
    "more picks than gains": ({"indices": CHOSEN.indices[:4]}, r"gains must have shape \(4,\)"),
    "no uncertainty before": ({"uncertainty": np.ones(5)}, r"uncertainty must have shape \(6,\)"),
    "a gain that is NaN": (put("gains", 1, np.nan), "gains must be finite; got"),
    "a negative uncertainty": (put("uncertainty", 1, -5.0), "uncertainty must not be negative"),
    "a rising uncertainty": (put("uncertainty", 2, 1e9), "uncertainty must not rise"),
    "a negative gain": (put("gains", 1, -0.5), "gains must not be negative"),
    "a lone index": ({"indices": np.array(3)}, r"gains must have shape \(3,\)|indices must have"),
    "an infinite variance": (put("target_variance", (0, 1), np.inf), "target_variance must be"),
    "other targets": ({"target_variance": np.ones((2, 3))}, r"must have shape \(2, 4\)"),
    "a NaN in the floor": (put("floor", 1, np.nan), "floor must be finite"),
    "a whole pool of three": ({"whole_pool": np.ones(3)}, "whole_pool must have shape"),
    "noise 0": (put("noise_variance", 5, 0.0), "noise_variance must be positive"),
    "noise of other rows": ({"noise_variance": np.ones(61)}, "noise_variance must have shape"),
    "observed elsewhere": (
        {"observed_indices": np.array([70])},
        "observed_indices must name rows",
    ),
    "observed in a table": (
        {"observed_indices": np.zeros((1, 2), I64)},
        r"must have shape \(1,\)",
    ),
    "observed points of NaN": ({"observed_points": np.full((1, 6), np.nan)}, "must be finite"),
    "observed points of other features": (
        {"observed_points": np.ones((1, 7))},
        r"observed_points must have shape \(1, 6\)",
    ),
    "no candidate": (put("candidate_indices", CHOSEN.indices[0] - 2, 1), "must ascend"),
    "a pick that is no candidate": (
        {"candidate_indices": np.setdiff1d(np.arange(60), [0, CHOSEN.indices[0]])},
        "indices must be candidates",
    ),
    "no candidates": ({"candidate_indices": None}, "candidates must be among the 60 rows; got 58"),
    "no indices": ({"indices": None}, "it has no 'indices'"),
    "objects": ({"gains": np.array([None] * 5)}, "gains must be floats; got object"),
    "zeros without end": (
        {"noise_variance": np.zeros(3_000_000)},
        r"noise_variance must have shape \(60,\); got \(3000000,\)",
    ),
    "words without end": ({"about": np.array(" " * 4_300_000)}, "a text of at most"),
    "nested words": ({"about": np.array("[" * 10**6)}, "recursion|damaged"),
}
WORDS = {
    "rows in words": ({"rows": "60"}, "rows must be int; got 60"),
    "fewer rows": ({"rows": 30}, "candidates must be among the 30 rows"),
    "a truth value": ({"replace": 1}, "replace must be bool"),
    "noise NaN": ({"noise_variance": float("nan")}, "noise_variance must be finite"),
    "weights of three": ({"target_weights": [1, 2, 3]}, "target_weights must have a number per"),
    "a negative weight": (
        {"target_weights": [1.0, 2.0, 3.0, -4.0]},
        "target_weights must not be negative",
    ),
    "weights of nothing": ({"target_weights": [0.0] * 4}, "target_weights must sum to 1"),
    "passes in words": ({"passes": "many"}, "passes must be int"),
    "notes": ({"notes": [1]}, "notes must be texts"),
    "a device": ({"device": "toaster"}, "toaster"),
}


@pytest.mark.parametrize(("changed", "match"), CLAIMS.values(), ids=CLAIMS)
def test_arrays_that_do_not_agree_are_refused_with_the_reason(changed, match, path):
    rewrite(path, changed)
    with pytest.raises(ValueError, match=rf"^picks\.tellmost is not a saved Selection.*{match}"):
        tm.Selection.load(path)


@pytest.mark.parametrize(("settings", "match"), WORDS.values(), ids=WORDS)
def test_settings_that_cannot_be_are_refused_with_the_reason(settings, match, path):
    rewrite(path, settings=settings)
    with pytest.raises(ValueError, match=rf"^picks\.tellmost is not a saved Selection.*{match}"):
        tm.Selection.load(path)


def test_no_other_field_can_be_smuggled_in(path):
    rewrite(path, about={"kernel": 5})
    with pytest.raises(ValueError, match="it must have stop_reason, settings, fingerprint; got"):
        tm.Selection.load(path)


def test_what_agrees_is_read(path):
    rewrite(path)
    again = tm.Selection.load(path)
    for name in ("indices", "gains", "floor", "noise_variance", "candidate_indices"):
        np.testing.assert_array_equal(getattr(again, name), getattr(CHOSEN, name))
    for chosen in (CHOSEN[:2], CHOSEN[:0], tm.select(POOL, k=70, rule="random", replace=True)):
        chosen.save(path)
        np.testing.assert_array_equal(tm.Selection.load(path).indices, chosen.indices)


def test_no_room_is_made_for_an_array_that_is_not_there(path):
    CHOSEN.save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = io.BytesIO()
    claim = {"descr": "<i8", "fortran_order": False, "shape": (8 * 10**9,)}
    np.lib.format.write_array_header_1_0(header, claim)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (entries | {"observed_indices.npy": header.getvalue()}).items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"must have the 64,000,000,128 bytes .* it has 128"):
        tm.Selection.load(path)
