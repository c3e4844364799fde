"""Arguments of select, checked before any long work: each error says what came and the way out."""

from tellmost.checking.amounts import (
    Bounds,
    check_bounds,
    check_columns_ahead,
    check_enough,
    check_limits,
    check_noise,
)
from tellmost.checking.choices import check_checkpoint, check_combination, check_kernel, check_rule
from tellmost.checking.group import check_agreement, check_floor, check_group
from tellmost.checking.memory import check_memory
from tellmost.checking.placement import check_placement
from tellmost.checking.points import NORMALIZATIONS, check_points, check_scene
from tellmost.rows.opening import check_positive, check_whole, read_array

__all__ = [
    "NORMALIZATIONS",
    "Bounds",
    "check_agreement",
    "check_bounds",
    "check_checkpoint",
    "check_columns_ahead",
    "check_combination",
    "check_enough",
    "check_floor",
    "check_group",
    "check_kernel",
    "check_limits",
    "check_memory",
    "check_noise",
    "check_placement",
    "check_points",
    "check_positive",
    "check_rule",
    "check_scene",
    "check_whole",
    "read_array",
]
