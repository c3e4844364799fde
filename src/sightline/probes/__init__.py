"""Small models that learn labels from rows, to see what a choice of rows is worth."""

from sightline.probes.logistic import Logistic, fit_logistic
from sightline.probes.ridge import Ridge, fit_ridge

__all__ = ["Logistic", "Ridge", "fit_logistic", "fit_ridge"]
