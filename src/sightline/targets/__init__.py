"""Which points we want to know about: fixed, drawn anew each round, or read off the posterior."""

from sightline.targets.expanders import PotentialExpanders
from sightline.targets.known import Known, NoTargetsLeft, Targets
from sightline.targets.level_set import LevelSet
from sightline.targets.maximizers import PotentialMaximizers, ThompsonMaximizers
from sightline.targets.region import Region
from sightline.targets.sampled import Sampled

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
