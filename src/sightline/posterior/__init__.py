"""f given what was observed: in weight space for inner products, else in function space."""

from sightline.posterior.belief import Belief
from sightline.posterior.dense import Dense
from sightline.posterior.few_rows import FewRows
from sightline.posterior.floor import Floor, can_compute_floor, compute_floor
from sightline.posterior.function_tracker import FunctionTracker
from sightline.posterior.nearness import targets_among_rows
from sightline.posterior.problem import (
    FIXED_FIELDS,
    STATE_FIELDS,
    TARGET_FIELDS,
    Observation,
    Problem,
    State,
    TargetState,
)
from sightline.posterior.reach import shortlist_length
from sightline.posterior.retracing import retrace
from sightline.posterior.sketch import SKETCHED, Features, Moments, Sketch
from sightline.posterior.tracking import Tracker, track

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
