"""Adaptive rounds: ask where to measure next, tell what came out, predict."""

from sightline.learner.learner import ActiveLearner
from sightline.learner.outlook import Outlook

__all__ = ["ActiveLearner", "Outlook"]
