"""Adaptive rounds: ask where to measure next, tell what came out, predict."""

from tellmost.learner.learner import ActiveLearner
from tellmost.learner.record import Outlook

__all__ = ["ActiveLearner", "Outlook"]
