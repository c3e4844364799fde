"""Contract tests for a kernel or a rule of your own.

They need no test framework: a broken contract raises an AssertionError that says which one, on
what, and what would go wrong.

>>> import torch
>>> import sightline as sl
>>> from sightline.testing import check_kernel, check_rule
>>> check_kernel(sl.kernels.Gaussian(2.0), torch.randn(20, 3, dtype=torch.float64))
>>> check_rule(sl.rules.VTL())
"""

from sightline.testing.kernels import check_kernel
from sightline.testing.rules import check_rule

__all__ = ["check_kernel", "check_rule"]
