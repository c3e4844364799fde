"""A Selection in a file: written whole, and believed only if all that it claims agrees."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.kernels.written import read_kernel
from tellmost.numerics import SAME_VALUES
from tellmost.rows.checks import check_distinct, check_range
from tellmost.rules import Rule, read_rule
from tellmost.running.reading import StoredArray, open_archive, refusing_damage
from tellmost.running.writing import written_whole

FORMAT = 1
WORDS = ("stop_reason", "settings", "fingerprint")
ARRAYS: Mapping[str, tuple[str, ...]] = {
    "indices": ("k",),
    "gains": ("k",),
    "uncertainty": ("k + 1",),
    "target_variance": ("2", "m"),
    "observed_indices": ("o",),
    "observed_points": ("o", "d"),
    "candidate_indices": ("c",),
    "noise_variance": ("n",),
    **dict.fromkeys(("ids", "nearest_target", "nearest_target_name", "similarity"), ("k",)),
    **dict.fromkeys(("floor", "whole_pool"), ("m",)),
}
"""The arrays with their shapes, for k picks of c candidates of n rows of d features, m targets,
and any number o of what was observed."""

ALWAYS = ("indices", "gains", "uncertainty", "target_variance", "observed_indices")
ROWS = ("indices", "observed_indices", "candidate_indices")
NUMBERS = (*ROWS, "nearest_target")
NAMES = ("ids", "nearest_target_name")
SIGNED = ("observed_points", "similarity")
KINDS = {"i": "int64", "iuU": "whole numbers or texts", "f": "floats"}

LONGEST_TEXT = 2**22  # characters of settings, beside those of target weights
LONGEST_WEIGHT = 32  # characters; a float and a comma take at most 26

SETTINGS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("rows", "features", "candidates", "targets", "passes"), (int,)),
    **dict.fromkeys(("rule", "rule_in_full", "unit", "kernel", "device"), (str,)),
    **dict.fromkeys(("replace", "conditional"), (bool,)),
    **dict.fromkeys(("limits", "notes"), (list,)),
    "noise_variance": (float, str),
    "noise_ratio": (float, type(None)),
    "normalize": (str, type(None)),
    "targets_are": (str,),
    "examples": (dict, type(None)),
    "target_weights": (list, type(None)),
    "floor_is_exact": (bool, type(None)),
}
"""The settings that the library reads, with their types."""


def write_fields(fields: Mapping[str, Any], path: Path) -> None:
    """Write the fields of a Selection to an .npz file, whole or not at all."""
    arrays = {name: fields[name] for name in ARRAYS if fields[name] is not None}
    about = {"format": FORMAT, **{name: fields[name] for name in WORDS}}
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


def read_fields(path: Path) -> dict[str, Any]:
    """The fields of the Selection that ``write_fields`` wrote."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    what = f"{path.name} is not a saved Selection, or is damaged"
    with refusing_damage(what, "Selection.save writes one."), open_archive(path) as stored:
        about = read_about(stored)
        version = about.pop("format")
        if version == FORMAT:
            check_words(about)
            settings = about["settings"]
            check_shapes({name: stored[name] for name in ARRAYS if name in stored}, settings)
            arrays = {name: stored[name].read() for name in ARRAYS if name in stored}
            used = objects_of(settings)
            check_values(arrays, settings, used.get("rule"))
            return {"floor": None, "whole_pool": None, **used, **arrays, **about}
    raise ValueError(
        f"{path.name} was saved by another version of Tellmost (format {version}, this one "
        f"reads {FORMAT})."
    )


def read_about(stored: Mapping[str, StoredArray]) -> dict[str, Any]:
    """Read what the file holds in words."""
    text = stored["about"]
    shape, dtype, _ = text.header
    targets = stored["target_variance"].header[0][-1] if "target_variance" in stored else 0
    most = LONGEST_TEXT + LONGEST_WEIGHT * targets
    is_right = shape == () and dtype.kind == "U" and dtype.itemsize <= 4 * most
    require(is_right, f"its settings must be a text of at most {most:,} characters", dtype)
    about = json.loads(str(text.read()))
    require(isinstance(about, dict), "its settings must have names", type(about).__name__)
    return about


def objects_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel and the rule that were used, where they can be written down."""
    found: dict[str, Any] = {}
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "kernel": (settings["kernel"], read_kernel),
        "rule": (settings["rule_in_full"], read_rule),
    }
    for name, (text, read) in readers.items():
        with suppress(ValueError):
            found[name] = read(text)
    return found


# ---- what the file claims


def check_words(about: Mapping[str, Any]) -> None:
    require(set(about) == set(WORDS), f"it must have {', '.join(WORDS)}", ", ".join(about))
    settings = about["settings"]
    for name in ("stop_reason", "fingerprint"):
        require(isinstance(about[name], str), f"{name} must be a text", about[name])
    for name, kinds in SETTINGS.items():
        value = settings[name]
        names = " or ".join(kind.__name__ for kind in kinds)
        require(type(value) in kinds, f"{name} must be {names}", value)
        if type(value) in (int, float):
            require(0 <= value < float("inf"), f"{name} must be finite and not negative", value)
    examples = settings["examples"]
    if examples is not None:
        wanted = {"bandwidth": float, "gain": float, "rows": int}
        is_right = {name: type(value) for name, value in examples.items()} == wanted
        require(is_right, "examples must have a bandwidth, a gain and a number of rows", examples)
        check_numbers(np.array(list(examples.values()), dtype=np.float64), "examples")
    weights = settings["target_weights"]
    if weights is not None:
        is_right = len(weights) == settings["targets"] and all(type(w) is float for w in weights)
        require(
            is_right, "target_weights must have a number per target", f"{len(weights)} entries"
        )
        check_numbers(np.array(weights), "target_weights")
        require(bool(np.isclose(sum(weights), 1)), "target_weights must sum to 1", sum(weights))
    for name in ("limits", "notes"):
        are_texts = all(isinstance(one, str) for one in settings[name])
        require(are_texts, f"{name} must be texts", settings[name])
    torch.device(settings["device"])


def check_shapes(stored: Mapping[str, StoredArray], settings: Mapping[str, Any]) -> None:
    """Each array has the shape that the others and the settings give it. None is read yet."""
    k, n, m = prod(stored["indices"].header[0]), settings["rows"], settings["targets"]
    candidates = settings["candidates"]
    are_named = "candidate_indices" in stored or settings.get("processes", 1) > 1
    are_rows = candidates <= n if are_named else candidates == n
    require(are_rows, f"candidates must be among the {n} rows", candidates)
    is_possible = settings["replace"] or k <= candidates
    require(is_possible, f"without replace there are at most {candidates} picks", k)
    d = settings["features"]
    sizes = {"2": 2, "k": k, "k + 1": k + 1, "c": candidates, "n": n, "d": d, "m": m}
    for name in ALWAYS:
        stored[name]  # a KeyError says which one is missing
    for name, array in stored.items():
        shape, dtype, _ = array.header
        kinds = "i" if name in NUMBERS else "iuU" if name in NAMES else "f"
        is_right = dtype.kind in kinds and (name not in NUMBERS or dtype == np.int64)
        require(is_right, f"{name} must be {KINDS[kinds]}", dtype)
        expected = tuple(sizes.get(size, prod(shape[:1])) for size in ARRAYS[name])
        require(shape == expected, f"{name} must have shape {expected}", shape)


def check_values(
    arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any], rule: Rule | None
) -> None:
    """Rows are different rows of the pool, and numbers are such as a selection makes."""
    arrays = {name: array for name, array in arrays.items() if name not in NAMES}
    given = {name: torch.from_numpy(array) for name, array in arrays.items()}
    picks, allowed = given["indices"], given.get("candidate_indices")
    for name in ROWS:
        if name in given:
            check_range(given[name], settings["rows"], name, "rows of the pool")
    if not settings["replace"]:
        taken = torch.cat([picks, torch.unique(given["observed_indices"])])
        check_distinct(taken, "indices, with what was observed before,", "Each can be but once.")
    if allowed is not None:
        require(bool((allowed.diff() > 0).all()), "candidate_indices must ascend", "others")
        require(bool(torch.isin(picks, allowed).all()), "indices must be candidates", "others")
    if "nearest_target" in given:
        targets = given["nearest_target"]
        check_range(targets, settings["targets"], "nearest_target", "targets of the selection")
    for name in arrays.keys() - set(NUMBERS):
        values = arrays[name]
        if name == "target_variance" and "prefix_of" in settings and np.isnan(values[1]).all():
            values = values[:1]  # that of a prefix was not kept
        is_signed = name == "gains" and (rule is None or rule.is_signed)
        check_numbers(values, name, is_signed=is_signed or name in SIGNED)
    for name in ("uncertainty", "target_variance"):  # one more observation raises no variance
        rises = np.diff(arrays[name], axis=0)
        bad = rises[rises > SAME_VALUES * arrays[name].max(initial=0.0)]
        require(not len(bad), f"{name} must not rise from pick to pick", f"{bad[:1]} more")


def check_numbers(values: np.ndarray, name: str, *, is_signed: bool = False) -> None:
    """Numbers are finite, and at least 0 up to rounding unless signed. Noise is more."""
    bad = values[~np.isfinite(values)]
    require(not len(bad), f"{name} must be finite", bad[:1])
    rule, is_right = "not be negative", values >= -SAME_VALUES * np.abs(values).max(initial=0.0)
    if name == "noise_variance":
        rule, is_right = "be positive", values > 0
    require(is_signed or bool(is_right.all()), f"{name} must {rule}", values[~is_right][:1])


def require(is_right: bool, rule: str, came: object) -> None:
    if not is_right:
        raise ValueError(f"{rule}; got {came}")
