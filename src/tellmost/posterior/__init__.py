"""f given what was observed: in weight space for inner products, else in function space."""

from tellmost.posterior.belief import Belief
from tellmost.posterior.dense import Dense
from tellmost.posterior.few_rows import FewRows
from tellmost.posterior.floor import Floor, can_compute_floor, compute_floor
from tellmost.posterior.function_tracker import FunctionTracker
from tellmost.posterior.nearness import targets_among_rows
from tellmost.posterior.problem import (
    FIXED_FIELDS,
    STATE_FIELDS,
    TARGET_FIELDS,
    Observation,
    Problem,
    State,
    TargetState,
)
from tellmost.posterior.reach import shortlist_length
from tellmost.posterior.retracing import retrace
from tellmost.posterior.sketch import SKETCHED, Features, Moments, Sketch
from tellmost.posterior.tracking import Tracker, track

__all__ = [
    "FIXED_FIELDS",
    "SKETCHED",
    "STATE_FIELDS",
    "TARGET_FIELDS",
    "Belief",
    "Dense",
    "Features",
    "FewRows",
    "Floor",
    "FunctionTracker",
    "Moments",
    "Observation",
    "Problem",
    "Sketch",
    "State",
    "TargetState",
    "Tracker",
    "can_compute_floor",
    "compute_floor",
    "retrace",
    "shortlist_length",
    "targets_among_rows",
    "track",
]
