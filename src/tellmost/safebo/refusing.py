"""What would open the safe set, where nothing is known to be safe."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import floor, log1p, log10

import torch
from torch import Tensor

from tellmost.numerics import MOST_REPEATS
from tellmost.safebo.failing import NoSafePoint
from tellmost.safebo.stages import Stage
from tellmost.shapes import Bool, Float


def nothing_safe(
    stage: Stage, is_reachable: Bool[Tensor, " n"], *, has_seeds: bool = False
) -> NoSafePoint:
    """How many repeats of a measurement, or which beta, would open the set."""
    seeds = "ask() repeats a declared seed" if has_seeds else "no declared seed is left"
    start = f"no point is known to be safe by the bounds, and {seeds}. "
    rows = is_reachable.nonzero()[:, 0]
    if not len(rows):
        return NoSafePoint(
            "no point can be reached from the last one: every one is farther than max_step. Move "
            "the system, then acknowledge(at=...) where it stands."
        )
    margins, std = expected_margins(stage, rows)
    z = (margins / std).amin(dim=0)
    best = int(z.argmax())
    where = ", ".join(f"{x:.4g}" for x in stage.points[rows[best]].tolist())
    if float(z[best]) <= 0:
        return NoSafePoint(
            f"{start}Even the most promising one, ({where}), is expected to violate a constraint: "
            f"declare points that are safe as safe_seed, or tell measurements of such points."
        )
    repeats = needed_repeats(stage, int(rows[best]), margins[:, best])
    return NoSafePoint(
        f"{start}The most promising one is ({where}): a beta of {rounded_down(float(z[best]))} "
        f"would open it (now {max(stage.betas):.3g}), or {repeats} there that come out as "
        f"expected. Declare it as safe_seed if it is safe, or tell such measurements."
    )


def out_of_reach(apart: Sequence[float], names: Sequence[str]) -> NoSafePoint:
    """Safe points there are, but none within a step of where the system stands."""
    moves = ", ".join(f"{name} by {x:.4g}" for name, x in zip(names, apart, strict=True))
    return NoSafePoint(
        f"every point that is known to be safe is farther than max_step from the last one; the "
        f"nearest needs a move of {moves}. Move the system back to restore_point, then "
        f"acknowledge(at=...) where it stands, or tell a measurement there."
    )


def rounded_down(beta: float) -> str:
    """Three digits, and not more than it is: a larger beta would not open the set."""
    shift = 2 - floor(log10(beta))
    return f"{floor(beta * 10**shift) / 10**shift:.3g}"


def expected_margins(
    stage: Stage, rows: Tensor
) -> tuple[Float[Tensor, "s b"], Float[Tensor, "s b"]]:
    """Of each limit at some rows: the mean of its margin and the standard deviation."""
    sides = stage.model.sides
    margins = [
        (stage.mean[side.output, rows] - side.limit) * (1.0 if side.is_lower else -1.0)
        for side in sides
    ]
    return torch.stack(margins), torch.stack([stage.std[side.output, rows] for side in sides])


def needed_repeats(stage: Stage, row: int, margins: Float[Tensor, " s"]) -> str:
    """Measurements after which mean - beta sd reaches every limit, if the means stay."""
    most = 1
    while not is_opened(stage, row, margins, most):
        most *= 2
        if most > MOST_REPEATS:
            return f"more than {MOST_REPEATS:,} measurements"
    counts = range(1, most + 1)
    enough = bisect_left(counts, True, key=lambda k: is_opened(stage, row, margins, k))
    return f"{counts[enough]} measurement{'s' if counts[enough] > 1 else ''}"


def is_opened(stage: Stage, row: int, margins: Float[Tensor, " s"], count: int) -> bool:
    """Whether a row is safe for sure after so many measurements that come out as expected.

    Each tells something, so that a beta that grows with what is known grows too.
    """
    learned, std = [], []
    for view, sd in zip(stage.views, stage.std[:, row].tolist(), strict=True):
        growth = count * sd**2 / view.noise_of(row)
        now = view.learned
        more = now.information + 0.5 * log1p(growth)
        learned.append(replace(now, observations=now.observations + count, information=more))
        std.append(sd / (1 + growth) ** 0.5)
    betas = stage.model.confidence.betas(learned, len(stage.model.sides))
    parts = zip(stage.model.sides, margins.tolist(), strict=True)
    return all(margin >= betas[side.output] * std[side.output] for side, margin in parts)
