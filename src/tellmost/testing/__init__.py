"""Contract tests for a kernel or a rule of your own.

They need no test framework. A broken contract raises an AssertionError, which says which contract
it is, where it broke, and what would go wrong.

>>> import torch
>>> import tellmost as tm
>>> from tellmost.testing import check_kernel, check_rule
>>> check_kernel(tm.kernels.Gaussian(2.0), torch.randn(20, 3, dtype=torch.float64))
>>> check_rule(tm.rules.VTL())
"""

from tellmost.testing.kernels import check_kernel as check_kernel
from tellmost.testing.rules import check_rule as check_rule
