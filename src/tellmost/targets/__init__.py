"""Targets are points to learn about: fixed, drawn anew each round, or read off the posterior."""

from tellmost.targets.known import Known, NoTargetsLeft, Region, Sampled, Targets
from tellmost.targets.potential import (
    LevelSet,
    PotentialExpanders,
    PotentialMaximizers,
    ThompsonMaximizers,
)

__all__ = [
    "Known",
    "LevelSet",
    "NoTargetsLeft",
    "PotentialExpanders",
    "PotentialMaximizers",
    "Region",
    "Sampled",
    "Targets",
    "ThompsonMaximizers",
]
