"""What the kernels rank rows by: the gain of a rule, or something that grows with it."""

import triton
import triton.language as tl

ITL, VTL, UNCERTAINTY, UNDIRECTED_ITL = range(4)


@triton.jit
def rank(variance, second, noise, RULE: tl.constexpr):
    """A value that orders rows as the gain does; ``gain`` turns it into one."""
    if RULE == 0:  # ITL; second: the variance given the targets
        return tl.maximum(variance - second, 0.0) / (second + noise)
    elif RULE == 1:  # VTL; second: the squared covariance
        return second / (variance + noise)
    elif RULE == 2:
        return variance
    else:
        return variance / noise


@triton.jit
def gain(value, RULE: tl.constexpr):
    if (RULE == 0) or (RULE == 3):
        return 0.5 * log1p(value)
    else:
        return value


@triton.jit
def log1p(x):
    """log(1 + x) to the last digits, for x >= 0: what rounding takes from 1 + x is put back."""
    w = 1.0 + x
    rest = tl.where(w == 1.0, 1.0, w - 1.0)
    return tl.where(w == 1.0, x, tl.log(w) * (x / rest))


@triton.jit
def update(variance, second, c, b, RULE: tl.constexpr):
    """Take in an observation, by its scaled products with the row; both cut at zero."""
    variance = tl.maximum(variance - c * c, 0.0)
    if RULE == 0:
        second = tl.maximum(second - b * b, 0.0)
    elif RULE == 1:
        second = tl.maximum(second - c * b, 0.0)
    return variance, second
