"""The rows behind a selection: the same pool and targets again."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sightline import numerics
from sightline.checking import check_points, read_array
from sightline.exchange import ALONE, Place
from sightline.kernels import Linear
from sightline.pools import Pool
from sightline.selection import Selection
from sightline.sources import open_source
from sightline.survey import normalization_of


def check_same_pool(chosen: Selection, pool: Any) -> Pool:
    """The pool that the selection came from, normalised as it was then."""
    source = open_source(pool, "pool")
    given = Pool(source, source.device, numerics.BLOCK_BYTES)
    given.remember(torch.from_numpy(chosen.indices))
    is_same = len(source.shape) in (1, 2) and source.shape[0] > 0
    if not is_same or given.fingerprint() != chosen.fingerprint.split("+")[0]:
        raise ValueError(
            f"pool is not the one that this selection was made from: its fingerprint differs; got "
            f"shape {source.shape}, the selection had {chosen.settings['rows']:,} rows. Row "
            f"numbers would mean other points; pass the same rows in the same order."
        )
    normalization = normalization_of(
        given, chosen.settings["normalize"], Place.of(len(given), ALONE)
    )
    return replace(given, normalization=normalization)


def check_same_targets(chosen: Selection, targets: Any, pool: Pool) -> Tensor | None:
    """The selection's targets, as rows normalised as the pool is; None if it had none."""
    expected = chosen.settings["targets"]
    if targets is None:
        if expected:
            raise ValueError(f"the selection had {expected} targets; got None. Pass them again.")
        return None
    is_rows = len(pool.shape) == 2  # a vector holds row numbers of a Precomputed kernel
    points = (
        pool.normalization.apply(
            check_points(targets, "targets", pool.shape, Linear()).to(pool.device)
        )
        if is_rows
        else read_array(targets, "targets")
    )
    if len(points) != expected:
        raise ValueError(
            f"targets must be those of the selection, {expected} of them; got {len(points)}."
        )
    return points


def check_items(items: Any, n: int) -> None:
    if items is not None and len(items) != n:
        raise ValueError(
            f"items must have one entry per pool row, {n}; got {len(items)}. An entry may be None."
        )


def take_item(items: Any, index: int) -> Any:
    """By position, also from a pandas Series with an index of its own."""
    return getattr(items, "iloc", items)[index]
