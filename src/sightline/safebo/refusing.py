"""What would open the safe set, where nothing is known to be safe."""

from math import ceil

import torch
from torch import Tensor

from sightline.safebo.failing import NoSafePoint
from sightline.safebo.stages import Stage
from sightline.shapes import Bool, Float


def nothing_safe(stage: Stage, is_reachable: Bool[Tensor, " n"]) -> NoSafePoint:
    """How many repeats of a measurement, or which beta, would open the set."""
    start = "no point is known to be safe, and no declared seed is left. "
    rows = is_reachable.nonzero()[:, 0]
    if not len(rows):
        return NoSafePoint(
            "no point can be reached from the last one: every one is farther than max_step."
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
        f"{start}The most promising one is ({where}): a beta of {float(z[best]):.3g} would open "
        f"it (now {max(stage.betas):.3g}), or about {repeats} measurements there that come out as "
        f"expected. Declare it as safe_seed if it is safe, or tell such measurements."
    )


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


def needed_repeats(stage: Stage, row: int, margins: Float[Tensor, " s"]) -> int:
    """Measurements after which mean - beta sd reaches every limit, if the means stay."""
    needed = 1
    for side, margin in zip(stage.model.sides, margins.tolist(), strict=True):
        view, beta = stage.views[side.output], stage.betas[side.output]
        variance = float(stage.std[side.output, row]) ** 2
        count = view.noise_of(row) * ((beta / margin) ** 2 - 1 / variance)
        needed = max(needed, ceil(count))
    return needed
