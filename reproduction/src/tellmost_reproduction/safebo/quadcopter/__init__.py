"""A quadcopter whose feedback gains are to be tuned without a crash."""

from tellmost_reproduction.safebo.quadcopter.ilqr import Plan, plan_controls
from tellmost_reproduction.safebo.quadcopter.task import Quadcopter
from tellmost_reproduction.safebo.quadcopter.tuning import (
    BY_NAME,
    CODE,
    TEXT,
    Configuration,
    make_optimizer,
)

__all__ = [
    "BY_NAME",
    "CODE",
    "TEXT",
    "Configuration",
    "Plan",
    "Quadcopter",
    "make_optimizer",
    "plan_controls",
]
