"""Small models that learn labels from rows, to see what a choice of rows is worth."""

from tellmost.probes.logistic import Logistic, fit_logistic
from tellmost.probes.ridge import Ridge, fit_ridge

__all__ = ["Logistic", "Ridge", "fit_logistic", "fit_ridge"]
