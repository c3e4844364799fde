"""The target nearest to each pick, of a selection that has just been made."""

from dataclasses import replace
from typing import Any

import torch

from tellmost import numerics
from tellmost.checking import check_points
from tellmost.kernels import Linear
from tellmost.neighbors import Nearest, find_nearest
from tellmost.rows.opening import open_source
from tellmost.rows.pool import Pool
from tellmost.rows.survey import normalization_of
from tellmost.running.processes import ALONE, Place
from tellmost.selection import Selection


def nearest_targets(chosen: Selection, pool: Any, targets: Any) -> Nearest | None:
    """For each pick, as the selection saw its rows: normalised as it was told to.

    ``pool`` and ``targets`` are those of the selection, which is not checked again; None without
    targets.
    """
    if targets is None:
        return None
    source = open_source(pool, "pool")
    try:
        given = Pool(source, source.device, numerics.BLOCK_BYTES)
        given.remember(torch.from_numpy(chosen.indices))
        place = Place.of(len(given), ALONE)
        given = replace(
            given, normalization=normalization_of(given, chosen.settings["normalize"], place)
        )
        points = check_points(targets, "targets", given.shape, Linear()).to(given.device)
        return find_nearest(given, given.normalization.apply(points), chosen.indices)
    finally:
        source.close()
