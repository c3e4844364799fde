"""Sightline: choose the data that tells you most about what you want to know."""

from sightline import kernels, rules
from sightline.selecting import select
from sightline.selection import Selection

__version__ = "0.1.0"

__all__ = ["Selection", "__version__", "kernels", "rules", "select"]
