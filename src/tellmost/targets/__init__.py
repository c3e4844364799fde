"""Which points we want to know about: fixed, drawn anew each round, or read off the posterior."""

from tellmost.targets.expanders import PotentialExpanders
from tellmost.targets.known import Known, NoTargetsLeft, Targets
from tellmost.targets.level_set import LevelSet
from tellmost.targets.maximizers import PotentialMaximizers, ThompsonMaximizers
from tellmost.targets.region import Region
from tellmost.targets.sampled import Sampled

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
