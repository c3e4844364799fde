"""The file that describes a study: what can be set, what is believed, and what must hold."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from tellmost.cli.ending import UsageError
from tellmost.integrations.optuna import SafeSampler
from tellmost.kernels import Matern, Scaled
from tellmost.kernels.written import read_kernel
from tellmost.posterior.gp import GP
from tellmost.safebo import Constraint
from tellmost.safebo.arguments import check_values
from tellmost.safebo.outputs import OBJECTIVE
from tellmost.targets.box import Box
from tellmost.targets.parameter import Parameter

MOST_BYTES = 1_000_000
"""A file or a line of a person is not larger."""

PRIOR = {"lengthscale", "scale", "mean", "noise_std", "fit", "kernel", "unit"}
LIMITS = {"at_least", "at_most", "critical"}
SETTINGS = ("confidence", "horizon", "max_step", "seed", "deadline", "patience", "rule")
KNOWN = {"name", "direction", "parameters", "objective", "constraints", "seeds", "measurements"}


def read_study_file(path: Path) -> dict[str, Any]:
    """A TOML or JSON file as plain values."""
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{path} must have at most {MOST_BYTES:,} bytes.")
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".toml":
            import tomllib  # Python 3.11

            found = tomllib.loads(text)
        else:
            found = json.loads(text)
    except ImportError as error:
        raise UsageError("TOML needs Python 3.11; write the file as JSON.") from error
    except ValueError as error:
        raise UsageError(f"{path} is no TOML or JSON file: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} must be a table of names; got {type(found).__name__}.")
    return found


def check_keys(table: Any, known: Sequence[str], where: str) -> dict[str, Any]:
    """A table whose names are all known. What is not known is never passed over."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table; got {table!r:.80}.")
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise UsageError(
            f"{where} has {unknown[0]!r:.80}, which is not known; it may have "
            f"{', '.join(sorted(known))}."
        )
    return dict(table)


def read_box(table: Any) -> Box:
    names = [one.name for one in fields(Parameter) if one.name != "_"]
    parameters = check_keys(table, list(table) if isinstance(table, Mapping) else [], "parameters")
    made = {}
    for name, given in parameters.items():
        values = check_keys(given, names, f"parameters.{name}")
        try:
            made[name] = Parameter(values.pop("low", None), values.pop("high", None), **values)
        except (ValueError, TypeError) as error:
            raise UsageError(f"parameters.{name}: {error}") from error
    return Box(made)


def settle_priors(study: Mapping[str, Any]) -> dict[str, Any]:
    """The study with priors that are fitted written down, so that every process has the same."""
    box = read_box(study["parameters"])
    measured = [*study.get("seeds", []), *study.get("measurements", [])]
    tables = {OBJECTIVE: study["objective"], **study.get("constraints", {})}
    settled: dict[str, Any] = {}
    for name, table in tables.items():
        settled[name] = dict(table)
        if settled[name].pop("fit", False):
            settled[name] |= _fit(name, box, measured, table.get("noise_std"))
    objective = settled.pop(OBJECTIVE)
    return {**study, "objective": objective, "constraints": settled}


def _fit(name: str, box: Box, measured: Sequence[Any], noise_std: Any) -> dict[str, Any]:
    rows = [one for one in measured if name in one]
    if len(rows) < 2:
        raise UsageError(f"fit = true of {name!r} needs measurements of it; got {len(rows)}.")
    X = torch.stack([box.encode(setting_of(one, box), "measurement") for one in rows])
    gp = GP.fit(X.numpy(), [float(one[name]) for one in rows], noise_std=noise_std)
    return {"kernel": repr(gp.kernel), "mean": gp.mean, "noise_std": gp.noise_std}


def setting_of(measurement: Mapping[str, Any], box: Box) -> dict[str, Any]:
    """The parameters of a measurement, without what came out."""
    return {name: value for name, value in measurement.items() if name in (box.parameters or {})}


def read_prior(table: Mapping[str, Any], box: Box, where: str) -> GP:
    """A stated prior; or one that is not known, where the lengthscale is left out."""
    scale, noise, mean = (table.get(name) for name in ("scale", "noise_std", "mean"))
    if "kernel" in table:
        return GP(read_kernel(table["kernel"]), mean=mean or 0.0, noise_std=noise)  # type: ignore[arg-type]
    lengthscale = table.get("lengthscale")
    if lengthscale is None:
        if mean is not None:
            raise UsageError(f"{where} has a mean, but no lengthscale: state both, or neither.")
        return GP.unknown(scale=scale, noise_std=noise)
    if noise is None:
        raise UsageError(f"{where} must have noise_std: the deviation of a measurement.")
    each = box.lengthscales(lengthscale) if isinstance(lengthscale, Mapping) else lengthscale
    kernel = Scaled(Matern(2.5, lengthscale=each), float(scale or 1.0) ** 2)
    return GP(kernel, mean=mean or 0.0, noise_std=noise)


def make_sampler(study: Mapping[str, Any], changed: Sequence[str] = ()) -> SafeSampler:
    """The sampler that a file describes."""
    known = check_keys(study, [*KNOWN, *SETTINGS], "the file")
    for name in ("parameters", "objective"):
        if name not in known:
            raise UsageError(f"the file must have {name}.")
    box = read_box(known["parameters"])
    objective = check_keys(known["objective"], [*PRIOR], "objective")
    constraints = {}
    for name, given in known.get("constraints", {}).items():
        table = check_keys(given, [*PRIOR, *LIMITS], f"constraints.{name}")
        limits = {key: table[key] for key in LIMITS & set(table)}
        constraints[name] = Constraint(read_prior(table, box, f"constraints.{name}"), **limits)
    seeds = [setting_of(one, box) for one in known.get("seeds", [])]
    for one in (*known.get("seeds", []), *known.get("measurements", [])):
        check_keys(one, [*(box.parameters or {}), OBJECTIVE, *constraints], "a measurement")
    return SafeSampler(
        box,
        objective=read_prior(objective, box, "objective"),
        constraints=constraints,
        safe_seed=seeds or None,
        changed=changed,
        **{name: known[name] for name in SETTINGS if name in known},
    )


def measured_trials(study: Mapping[str, Any], sampler: SafeSampler) -> list[dict[str, Any]]:
    """The settings of a file that were measured already, with their values."""
    names = {OBJECTIVE, *sampler.constraints}
    found = []
    for one in (*study.get("seeds", []), *study.get("measurements", [])):
        values = {name: one[name] for name in names & set(one)}
        if values:
            limited = {name: y for name, y in values.items() if name != OBJECTIVE}
            check_values(values.get(OBJECTIVE), limited, sampler.constraints, False)
            point = sampler.box.encode(setting_of(one, sampler.box), "measurement")
            found.append({"setting": sampler.box.decode(point), "values": values})
    return found
