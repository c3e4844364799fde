"""Targets are points to learn about: fixed, drawn anew each round, or read off the posterior."""

from tellmost.targets.known import Known as Known
from tellmost.targets.known import NoTargetsLeft as NoTargetsLeft
from tellmost.targets.known import Region as Region
from tellmost.targets.known import Sampled as Sampled
from tellmost.targets.known import Targets as Targets
from tellmost.targets.potential import LevelSet as LevelSet
from tellmost.targets.potential import PotentialExpanders as PotentialExpanders
from tellmost.targets.potential import PotentialMaximizers as PotentialMaximizers
from tellmost.targets.potential import ProbableMaximizers as ProbableMaximizers
from tellmost.targets.potential import ThompsonMaximizers as ThompsonMaximizers
