"""f given what was observed: in weight space for inner products, else in function space."""

from sightline.posterior.floor import Floor, compute_floor
from sightline.posterior.problem import STATE_FIELDS, TARGET_FIELDS, Observation, Problem, State
from sightline.posterior.reach import shortlist_length
from sightline.posterior.tracking import Tracker, track

__all__ = [
    "STATE_FIELDS",
    "TARGET_FIELDS",
    "Floor",
    "Observation",
    "Problem",
    "State",
    "Tracker",
    "compute_floor",
    "shortlist_length",
    "track",
]
