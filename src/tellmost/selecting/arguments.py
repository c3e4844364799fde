"""Checks of the arguments: the rule, the pool, its candidates, the targets, what was observed.

Amounts are checked in ``limits``, and the memory budget in ``running.memory``.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import rules
from tellmost.kernels import Kernel
from tellmost.kernels.linear import check_kernel, feature_form, matrix_size
from tellmost.kernels.stationary import Gaussian
from tellmost.numerics import DEFAULT_NOISE_RATIO
from tellmost.posterior.nearness import targets_among_rows
from tellmost.posterior.problem import FIXED_FIELDS, STATE_FIELDS, TARGET_FIELDS, Problem
from tellmost.rows.checks import (
    check_distinct,
    check_features,
    check_indices,
    check_mask,
    check_matrix_rows,
    check_object,
    check_positive,
    check_positives,
    check_rows,
    check_shape,
    check_squares,
    check_vector,
    check_word,
    kind_of,
)
from tellmost.rows.pool import Pool
from tellmost.rows.sources import (
    HeldRows,
    Source,
    as_tensor,
    named_alike,
    open_source,
    read_array,
    read_rows,
)
from tellmost.rules import CTL, MMITL, VTL, Rule, is_random, targets_in_pool
from tellmost.running.memory import Sizes, check_memory, check_plan
from tellmost.running.processes import Group, Shard, agree
from tellmost.running.reading import reason_of
from tellmost.selecting.checkpoint import describe, digest
from tellmost.selecting.data import ANOTHER_POOL, Observed, SelectionData
from tellmost.selecting.limits import Stop
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int, Shaped
from tellmost.targets.examples import sampled_values

NORMALIZATIONS = (None, "unit", "center", "center+unit")

MEASURED = (VTL, CTL, MMITL)
"""Rules whose gain is a mean over targets, so that it is one over a distribution as well."""

LONGEST_NAME = 80
"""A target without an id is named by so many characters of its text."""

EXAMPLES_NOISE_RATIO = 0.1
"""The noise ratio of the call without options, for embeddings and tables; see docs/defaults.md."""


@dataclass(frozen=True)
class Meaning:
    """What rows, kernel and targets mean, where the call leaves it to us."""

    kernel: Kernel
    is_table: bool  # the kernel is to be fitted to the columns
    normalize: str | None
    targets_are: str  # "examples" or "all"
    usual_ratio: float  # of noise to prior variance, if no noise is given


def check_meaning(
    kernel: Any, normalize: Any, targets_are: Any, rule: Rule, *, has_targets: bool
) -> Meaning:
    """Resolve the kernel's name, normalize="auto" and targets_are=None.

    No kernel means embeddings: directed rules see centred rows of unit length, and take targets
    as examples if they are linear in the targets' distribution. Any kernel takes rows as given.
    """
    is_table = isinstance(kernel, str) and kernel == "gaussian"
    prior = Gaussian() if is_table else check_kernel(kernel)
    is_directed = rule.needs_targets and has_targets
    is_embedding = kernel is None and is_directed
    if isinstance(normalize, str) and normalize == "auto":
        normalize = "center+unit" if is_embedding else None
    check_word(targets_are, "targets_are", (None, "examples", "all"))
    if targets_are is None:
        is_linear = isinstance(rule, MEASURED)
        targets_are = "examples" if is_embedding and is_linear else "all"
    if targets_are == "examples":
        check_examples(rule, has_targets)
    ratio = EXAMPLES_NOISE_RATIO if is_embedding or is_table else DEFAULT_NOISE_RATIO
    return Meaning(prior, is_table, normalize, targets_are, ratio)


def check_examples(rule: Rule, has_targets: bool) -> None:
    """Refuse targets as examples where there are none, or where the rule does not average."""
    if not has_targets:
        raise ValueError(
            "targets_are='examples' needs targets; got none. Pass targets or drop it."
        )
    if not isinstance(rule, MEASURED):
        raise ValueError(
            f"targets_are='examples' has no meaning for rule {rule.name!r}, whose gain is no mean "
            f"over targets: information about all rows that stand for the targets would turn into "
            f"uncertainty sampling. Use vtl, ctl or mm-itl, or pass targets_are='all'."
        )


def check_data(
    pool: Any,
    targets: Any,
    meaning: Meaning,
    rule: Rule,
    *,
    k: int | None = None,
    observed: Any = None,
    candidates: Any = None,
    target_weights: Any = None,
    replace: bool = False,
    device: Any = None,
    memory: Any = None,
    group: Group | None = None,
) -> SelectionData:
    """Check what a selection with this meaning works on, before the pool's rows are read."""
    kernel, together = meaning.kernel, nullcontext if group is None else group.together
    with together():
        _check_normalize(meaning.normalize, kernel)
        wanted = None if device is None else check_device(device)
        budget = check_memory(memory)
        source = check_source(pool, kernel)
    n = source.shape[0]
    pool_shard = None if group is None else Shard.of(n, group)
    if group is not None:
        agree(group, {"number of features": list(source.shape[1:])})
    with together():
        where = source.device if wanted is None else wanted
        points = names = None
        if targets is not None:
            given = read_rows(named_alike(targets, source), "targets")
            points = check_points(given.held, "targets", source.shape, kernel).to(where)
            names = names_of(given, len(points))
        weights = check_weights(target_weights, rule, points, where)
        shape = (n if pool_shard is None else pool_shard.total, *source.shape[1:])
        seen = check_observed(observed, shape, kernel, where, replace)
        chosen = check_candidates(candidates, n, is_alone=group is None)
        picks = k if replace or k is None else min(k, shape[0])
        sizes = sizes_of(source, points, kernel, rule, picks, meaning.targets_are)
        is_here = source.held is not None and source.device == where
        processes = 1 if group is None else group.size
        plan = check_plan(budget, sizes, where, is_here=is_here, processes=processes)
    return SelectionData(
        pool=Pool(source, where, plan.block_bytes, most_threads=plan.threads),
        candidates=chosen,
        targets=points,
        target_names=names,
        target_weights=weights,
        is_weighted=target_weights is not None,
        observed=seen,
        plan=plan,
        pool_shard=pool_shard,
        shard=None if group is None else _shard_of_candidates(chosen, n, group),
        **vars(meaning),
    )


def _shard_of_candidates(candidates: Tensor | None, n: int, group: Group) -> Shard:
    shard = Shard.of(n if candidates is None else len(candidates), group)
    if shard.total == 0:
        raise ValueError("candidates must name at least one row; got none on any process.")
    return shard


def check_source(pool: Any, kernel: Kernel) -> Source:
    source = open_source(pool, "pool")
    if matrix_size(kernel) is None:
        check_shape(source.shape, "pool")
        return source
    return HeldRows(check_matrix_rows(source.read(0, source.shape[0]), "pool", kernel))


def sizes_of(
    source: Source,
    targets: Tensor | None,
    kernel: Kernel,
    rule: Rule,
    k: int | None,
    targets_are: str = "all",
) -> Sizes:
    m = 0 if targets is None else len(targets)
    n, d = source.shape[0], torch.Size(source.shape[1:]).numel()
    return Sizes(
        rows=n,
        features=d,
        targets=m,
        data_bytes=n * d * source.dtype.itemsize,
        picks=k or 0,
        has_weights=feature_form(kernel) is not None,
        sees_targets="variance_given_targets" in rule.needs,
        sampled=sampled_values(n, m) if m and targets_are == "examples" else 0,
    )


def _check_normalize(normalize: Any, kernel: Kernel) -> None:
    check_word(normalize, "normalize", ("auto", *NORMALIZATIONS))
    if normalize is not None and matrix_size(kernel) is not None:
        raise ValueError(
            f"normalize has no meaning with a Precomputed kernel, whose points are row numbers; "
            f"got {normalize!r}. Drop it."
        )


def names_of(rows: HeldRows, count: int) -> Shaped[np.ndarray, " m"] | None:
    """The ids of rows, else the beginnings of the texts behind them, if these differ."""
    if rows.ids is not None:
        return rows.ids(torch.arange(count))
    texts = [text[:LONGEST_NAME] for text in rows.texts or ()]
    return np.array(texts) if texts and len(set(texts)) == len(texts) else None


def check_points(points: Any, name: str, shape: tuple[int, ...], kernel: Kernel) -> Tensor:
    """Targets, or observations outside the pool, as float64 rows for a pool of this shape."""
    data = read_array(points, name)
    if matrix_size(kernel) is not None:
        return check_matrix_rows(data, name, kernel)
    if data.ndim == 1 and len(data):
        data = data[None]
    check_rows(data, name)
    check_features(data.shape, name, shape)
    return data.to(torch.float64)


def check_candidates(
    candidates: Any, n: int, *, is_alone: bool = True
) -> Int[Tensor, " c"] | None:
    """The rows that may be picked, ascending; None for all. A process may have none of them."""
    if candidates is None:
        return None
    values = as_tensor(candidates, "candidates").cpu()
    if values.numel() == 0 and not is_alone:
        return torch.empty(0, dtype=torch.int64)
    if values.numel() == 0:
        raise ValueError("candidates must name at least one row; got none. None allows all rows.")
    if values.dtype == torch.bool:
        check_mask(values, "candidates", n)
        indices = values.nonzero()[:, 0]
    else:
        indices = check_indices(values, "candidates", n)
        check_distinct(indices, "candidates", "Name each row once.")
        indices = indices.sort().values
    if len(indices) == n:
        return None
    if len(indices) == 0 and is_alone:
        raise ValueError("candidates must name at least one row; the mask is False everywhere.")
    return indices


def check_observed(
    observed: Any, shape: tuple[int, ...], kernel: Kernel, device: torch.device, replace: bool
) -> Observed:
    """Check what was observed in a pool of this shape, which counts the rows of all processes."""
    none = Observed(torch.empty(0, dtype=torch.int64))
    if observed is None:
        return none
    if isinstance(observed, Selection):
        return _observed_selection(observed, shape, kernel, device)
    values = read_array(observed, "observed")
    if values.numel() == 0:
        return none
    if values.ndim == 2:
        if matrix_size(kernel) is not None:
            raise ValueError(
                f"with a Precomputed kernel observed must be a vector of numbers of pool rows; "
                f"got {kind_of(values)}."
            )
        points = check_points(values, "observed", shape, kernel)
        return Observed(none.indices, points.cpu(), points.to(device))
    if values.ndim != 1 or values.is_floating_point() or values.dtype == torch.bool:
        raise TypeError(
            f"observed must be a vector of integers (numbers of pool rows), an (o, d) array of "
            f"points, or a Selection; got {kind_of(values)}. The rows of a mask are "
            f"np.flatnonzero(mask); a single point is point[None]."
        )
    indices = check_indices(values, "observed", shape[0])
    if not replace:
        check_distinct(indices, "observed", "Pass replace=True if it was observed repeatedly.")
    return Observed(indices)


def _observed_selection(
    earlier: Selection, shape: tuple[int, ...], kernel: Kernel, device: torch.device
) -> Observed:
    """Take what an earlier selection observed. ``read`` will compare the pool's fingerprint."""
    indices = torch.from_numpy(np.concatenate([earlier.observed_indices, earlier.indices]))
    if earlier.settings["rows"] != shape[0]:
        raise ValueError(ANOTHER_POOL)
    points = earlier.observed_points
    if points is None:
        return Observed(indices, fingerprint=earlier.fingerprint)
    kept = torch.from_numpy(points)
    features = check_points(kept, "observed", shape, kernel).to(device)
    return Observed(indices, kept, features, earlier.fingerprint)


def check_weights(
    weights: Any, rule: Rule, targets: Tensor | None, device: torch.device
) -> Float[Tensor, " m"] | None:
    if targets is None:
        if weights is not None:
            raise ValueError("target_weights needs targets; got none. Pass targets or drop it.")
        return None
    m = len(targets)
    if weights is None:
        return torch.full((m,), 1.0 / m, dtype=torch.float64, device=device)
    if not rule.weighs_targets:
        raise ValueError(
            f"target_weights has no meaning for rule {rule.name!r}, whose gain weighs no single "
            f"targets; use vtl, mm-itl, ctl or cosine, or drop it."
        )
    values = check_vector(weights, "target_weights", m, "target").to(device)
    least, largest = float(values.min()), float(values.max())
    if least < 0 or largest == 0:
        raise ValueError(
            f"target_weights must be non-negative with a positive sum; got values from {least:g} "
            f"to {largest:g}."
        )
    values = values / largest  # so that no sum overflows
    return values / values.sum()


def check_noise(
    noise_ratio: Any,
    noise_std: Any,
    data: SelectionData,
) -> tuple[float | None, float | Tensor | None]:
    """Either (ratio, None) or (None, standard deviation: a float or a vector)."""
    if noise_ratio is not None and noise_std is not None:
        raise ValueError(
            "give noise_ratio (noise variance / mean prior variance) or noise_std (in the unit of "
            "y), not both."
        )
    if noise_std is None:
        ratio = data.usual_ratio if noise_ratio is None else noise_ratio
        return check_positive(ratio, "noise_ratio"), None
    if np.ndim(noise_std) == 0:
        number = check_positive(noise_std, "noise_std")
        check_squares(torch.tensor([number], dtype=torch.float64))
        return None, number
    vector = check_positives(noise_std, "noise_std", len(data.pool), "pool row")
    check_squares(vector)
    if data.observed.features is not None:
        raise ValueError(
            "observed points outside the pool take the scalar noise; noise_std is per pool "
            "row here. Give one noise_std, or put the points into the pool."
        )
    return None, vector


def check_rule(rule: str | Rule) -> Rule:
    if isinstance(rule, str):
        return rules.get(rule)
    check_object(rule, "rule", Rule, "a name or an instance of a rule, such as tm.rules.VTL()")
    unknown = rule.needs - STATE_FIELDS
    if unknown:
        raise ValueError(
            f"rule {rule.name!r} needs {', '.join(sorted(unknown))}, which a State does not have; "
            f"it has {', '.join(sorted(STATE_FIELDS))}."
        )
    if rule.needs & TARGET_FIELDS and not rule.needs_targets:
        raise ValueError(f"rule {rule.name!r} reads targets but says needs_targets = False.")
    return rule


def check_device(device: Any) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (TypeError, RuntimeError, AssertionError) as error:  # unknown, or not on this machine
        raise ValueError(
            f"device must be one that torch can use here, such as 'cpu'; got {device!r}: "
            f"{reason_of(error)}."
        ) from error


def check_combination(
    rule: Rule, has_targets: bool, replace: bool, conditional: bool, floor: bool
) -> None:
    """Refuse options that have no meaning together."""
    if rule.needs_targets and not has_targets:
        free = [name for name in rules.names() if not rules.get(name).needs_targets]
        raise ValueError(
            f"rule {rule.name!r} needs targets, the cases that you care about; the rules without "
            f"are {', '.join(free)}."
        )
    is_blind = not rule.needs - FIXED_FIELDS and not is_random(rule)
    if replace and (is_blind or not conditional):
        which = f"rule {rule.name!r}" if is_blind else "conditional=False"
        raise ValueError(
            f"replace=True has no meaning with {which}: the best point would be picked every time."
        )
    if floor and not has_targets:
        raise ValueError("floor=True needs targets; got none. Pass targets or drop it.")


def check_agreement(
    data: SelectionData, rule: Rule, stop: Stop, group: Group, settings: Mapping[str, Any]
) -> None:
    """Refuse arguments that are not the same on all processes, apart from their rows."""
    facts = {
        "rule": describe(rule),
        "kernel": describe(data.kernel),
        "targets": digest(data.targets),
        "target_weights": digest(data.target_weights),
        "observed": [digest(data.observed.indices), digest(data.observed.points)],
        "k": stop.picks,
        "min_gain": stop.min_gain,
        "min_gain_share": stop.min_gain_share,
        "kind of device": data.pool.device.type,
    }
    given = {name: in_short(value) for name, value in settings.items()}
    agree(group, facts | given)


def in_short(value: Any) -> str | None:
    """A number or a word as it is. Of a list it is only said that it was given."""
    if value is None:
        return None
    return repr(value) if np.ndim(value) == 0 else "an entry per row"


def check_placement(rule: Rule, problem: Problem) -> None:
    """Refuse targets outside for a rule that needs all, or some, of them among the candidates."""
    wanted = targets_in_pool(rule)
    if wanted is None or problem.targets is None:
        return
    found = targets_among_rows(problem)
    missing = (~found).nonzero().flatten().tolist()
    if not missing or (wanted == "some" and len(missing) < len(found)):
        return
    needed = "every target" if wanted == "all" else "at least one target"
    which = "none is" if len(missing) == len(found) else f"target {missing[0]} is not"
    raise ValueError(
        f"rule {rule.name!r} needs {needed} to be a row that may be picked, as it has no meaning "
        f"for targets outside; {len(missing)} of the {len(found)} targets are no candidates "
        f"({which} among them). Add them to the pool or to candidates, or use rule='vtl', which "
        f"takes targets anywhere."
    )
