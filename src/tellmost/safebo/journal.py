"""The journal has all that an optimizer was told, in order. Everything else follows from it.

The next query is a function of the settings, the journal and what is pending, so a saved optimizer
is its settings and its journal. An entry is never changed: later entries retract, confirm or
discard what earlier ones told.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import Any, get_args

import numpy as np

from tellmost.kernels.written import is_written, read_kernel
from tellmost.posterior.gp import GP
from tellmost.safebo.outputs import Output
from tellmost.safebo.spaces import Space
from tellmost.safebo.trials import Query
from tellmost.shapes import Float


@dataclass(frozen=True, eq=False)
class ToldTrial:
    """A trial as it was told."""

    id: int
    x: Float[np.ndarray, " d"]  # with the context, if there is one
    values: Mapping[str, float]  # by every name of the outputs that were measured
    noise_std: Mapping[str, float]  # of the values whose noise is not the usual
    is_failed: bool = False
    query: str | None = None  # that was answered by it


@dataclass(frozen=True)
class Retracted:
    """A trial that was told wrongly does not count any more."""

    id: int


@dataclass(frozen=True)
class Judged:
    """The suspect values of a trial are right, or glitches. Its other values count."""

    id: int
    names: tuple[str, ...]
    is_right: bool


@dataclass(frozen=True)
class Acknowledged:
    """Asking goes on after a halt, or the system was brought to a point."""

    at: tuple[float, ...] | None


@dataclass(frozen=True)
class AskedQuery:
    """A query was given out that counts for the horizon, whether it is told or abandoned."""

    query: str  # as Query.to_json writes it
    key: str  # what it was chosen by: asked so again, it is the same


@dataclass(frozen=True)
class Refit:
    """New priors of all outputs, by their first names."""

    priors: Mapping[str, GP]


@dataclass(frozen=True)
class Changed:
    """Settings that differ from those under which the entries before were told."""

    texts: Mapping[str, str]  # by name


Entry = Changed | ToldTrial | Retracted | Judged | Acknowledged | AskedQuery | Refit
KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in get_args(Entry)}

# ---- in plain values


def write_entry(entry: Entry) -> dict[str, Any]:
    kind = type(entry).__name__.lower()
    if isinstance(entry, Refit):
        return {"kind": kind, "priors": {n: _write_prior(n, gp) for n, gp in entry.priors.items()}}
    if isinstance(entry, ToldTrial):
        return {"kind": kind, **vars(entry), "x": entry.x.tolist()}
    return {"kind": kind, **asdict(entry)}


def _write_prior(name: str, gp: GP) -> dict[str, Any]:
    if not is_written(gp.kernel):
        raise ValueError(
            f"the kernel to which {name!r} was fitted again cannot be written down: "
            f"{gp.kernel!r}. Keep history, or use kernels of tm.kernels."
        )
    return {"kernel": repr(gp.kernel), "noise_std": gp.noise_std}


def read_journal(state: Sequence[Any], outputs: Sequence[Output], width: int) -> list[Entry]:
    """The entries that ``write_entry`` wrote, if an optimizer of these outputs can have."""
    journal = [_read_entry(one, outputs) for one in state]
    names, ids = {name for output in outputs for name in output.names}, set()
    for one in journal:
        if isinstance(one, ToldTrial):
            _check_told(one, names, width)
            if one.id in ids:
                raise ValueError(f"the trials must have ids of their own; {one.id} comes twice")
            ids.add(one.id)
        elif isinstance(one, AskedQuery):
            Query.from_json(one.query)
        elif isinstance(one, Retracted | Judged) and one.id not in ids:
            raise ValueError(f"an entry is about trial {one.id!r}, which was not told before")
    return journal


def _read_entry(state: Mapping[str, Any], outputs: Sequence[Output]) -> Entry:
    kind, given = KINDS[state["kind"]], {k: v for k, v in state.items() if k != "kind"}
    if {one.name for one in fields(kind)} != given.keys():
        raise ValueError(f"an entry must have what write_entry wrote; got {dict(state)!r}")
    if kind is ToldTrial:
        return ToldTrial(**{**given, "x": np.array(given["x"], dtype=np.float64)})
    if kind is Refit:
        old, new = {output.names[0]: output.gp for output in outputs}, given["priors"]
        if new.keys() != old.keys():
            raise ValueError("a refit must have a prior for every output")
        kernels = {name: read_kernel(prior["kernel"]) for name, prior in new.items()}
        return Refit(
            {
                n: replace(old[n], kernel=k, noise_std=new[n]["noise_std"])
                for n, k in kernels.items()
            }
        )
    for name in {"names", "at"} & given.keys():
        given[name] = given[name] if given[name] is None else tuple(given[name])
    made: Entry = kind(**given)
    return made


def check_inside(journal: Sequence[Entry], space: Space) -> None:
    """Refuse points outside the domain, unless it was changed since. They are evidence then."""
    since = max(
        (i for i, one in enumerate(journal) if isinstance(one, Changed) and "domain" in one.texts),
        default=-1,
    )
    for one in journal[since + 1 :]:
        x = getattr(one, "x", getattr(one, "at", None))
        if x is not None and not space.has(np.array(x[: space.dimension], dtype=np.float64)):
            raise ValueError(f"a point must lie in the domain; got {one!r}")


def _check_told(told: ToldTrial, outputs: Collection[str], width: int) -> None:
    numbers = [*told.x.tolist(), *told.values.values(), *told.noise_std.values()]
    is_right = (
        told.x.shape == (width,)
        and isinstance(told.id, int)
        and isinstance(told.is_failed, bool)
        and isinstance(told.query, str | None)
        and told.is_failed == (not told.values)
        and all(type(one) in (int, float) and isfinite(one) for one in numbers)
        and all(std > 0 for std in told.noise_std.values())
        and {*told.values, *told.noise_std} <= set(outputs)
    )
    if not is_right:
        raise ValueError(f"a trial must be one that was told here; got {vars(told)!r}")
