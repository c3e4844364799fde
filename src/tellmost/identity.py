"""What determines the picks of a run, in short: to know a run again, and to say what differs.

Not in it is what changes no next pick: k, least gains, device, progress, floor. What arrives here
by arithmetic is known by weighted sums, since another device rounds it differently; what arrives
as it was given is known by its bytes.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.eligibility import Limits
from tellmost.kernels.kernel import Points
from tellmost.rules import Rule
from tellmost.scene import Noise, Scene
from tellmost.shapes import Float, Int, Shaped

Identity = Mapping[str, Any]
"""Plain values that can be written as JSON, each under the words for what it is."""

FOLLOWS_FROM = {
    "targets": {"normalize"},
    "values of the kernel": {"pool", "kernel", "targets", "normalize"},
    "noise": {"pool", "kernel", "candidates", "normalize"},  # a ratio is relative to these
    "min_gain or min_gain_share": {"cost"},
}
"""What changes when something else does, and is then not worth naming."""


def identify(
    scene: Scene,
    rule: Rule,
    noise: Noise,
    limits: Limits,
    *,
    normalize: str | None,
    conditional: bool,
    least_gains: tuple[float | None, float | None],
) -> Identity:
    """Of a run; ``least_gains`` count only where costs rank, as a dearer row is then next."""
    ranks_per_cost = limits.cost is not None and limits.ranks_per_cost
    return {
        "pool": scene.known.fingerprint,
        "rule": f"{rule.name}: {describe(rule)}",
        "kernel": describe(scene.kernel),
        "values of the kernel": sums_of(kernel_values(scene)),
        "normalize": normalize,
        "targets": None if scene.targets is None else sums_of(scene.targets),
        "target_weights": None if scene.target_weights is None else sums_of(scene.target_weights),
        "noise": noise_of(scene, noise),
        "candidates": digest(scene.all_candidates()),
        "observed": [digest(scene.observed.indices), digest(scene.observed.points)],
        "cost": None if limits.cost is None else digest(scene.place.whole(limits.cost)),
        "budget": limits.budget,
        "groups": None if limits.group is None else digest(scene.place.whole(limits.group)),
        "max_per_group": limits.max_per_group,
        "replace": limits.replace,
        "conditional": conditional,
        "min_gain or min_gain_share": list(least_gains) if ranks_per_cost else None,
    }


def differences(stored: Identity, own: Identity) -> list[str]:
    """The words for what differs, without what only follows from something else that does."""
    names = [*own, *(name for name in stored if name not in own)]
    differ = [n for n in names if not same(stored.get(n), own.get(n))]
    return [name for name in differ if not FOLLOWS_FROM.get(name, set()) & set(differ)]


def same(stored: Any, own: Any) -> bool:
    """Whether two entries are; sums may differ by rounding."""
    if not isinstance(own, dict) or not isinstance(stored, dict):
        return bool(stored == own)
    if stored.keys() != own.keys() or stored["shape"] != own["shape"]:
        return False
    allowed = numerics.SAME_VALUES * max(stored["largest"], own["largest"])
    return all(abs(stored[name] - own[name]) <= allowed for name in ("sum", "largest"))


def describe(thing: object) -> str:
    """A rule's or a kernel's repr without addresses and devices; its attributes if it has none."""
    text = repr(thing)
    if type(thing).__repr__ is object.__repr__:
        text = f"{type(thing).__qualname__}({getattr(thing, '__dict__', {})})"
    return re.sub(r" at 0x[0-9a-fA-F]+|, device='[^']*'", "", text)


def noise_of(scene: Scene, noise: Noise) -> Any:
    if noise.scalar is not None:
        return number(noise.scalar)
    return digest(scene.pool_place.whole(noise.of_pool))


def kernel_values(scene: Scene) -> Float[Tensor, " v"]:
    """Covariances of some rows and all targets, with some of both."""
    place = scene.pool_place
    (some,) = place.collect(spaced(place.total), lambda own: (scene.pool.rows(own),))
    points: Points = some
    known: Points = some
    if scene.targets is not None:
        points = torch.cat([some, scene.targets])
        of_targets = spaced(len(scene.targets)).to(scene.targets.device)
        known = torch.cat([some, scene.targets[of_targets]])
    values = scene.kernel.diagonal(points), scene.kernel.block(points, known)
    return torch.cat([v.reshape(-1) for v in values])


def spaced(count: int) -> Int[Tensor, " p"]:
    """Some of so many numbers, evenly spaced."""
    return torch.arange(0, count, max(count // numerics.PROBES, 1))[: numerics.PROBES]


def sums_of(values: Tensor) -> dict[str, Any]:
    """What tells values apart up to rounding: their shape, a weighted sum, the largest."""
    flat = values.reshape(-1).to(device="cpu", dtype=torch.float64).numpy()
    weights = 1.0 + np.arange(len(flat)) * 0.6180339887498949 % 1.0  # no two alike
    largest = float(np.abs(flat).max(initial=0.0))
    return {"shape": list(values.shape), "sum": float(weights @ flat), "largest": largest}


def number(value: float) -> dict[str, Any]:
    """One number that arrives by arithmetic."""
    return {"shape": [], "sum": value, "largest": abs(value)}


def digest(values: Shaped[Tensor, "..."] | None) -> str | None:
    """A short name for values that arrive as they were given."""
    if values is None:
        return None
    array = np.ascontiguousarray(values.cpu().numpy())
    start = hashlib.blake2b(repr((array.shape, str(array.dtype))).encode(), digest_size=8)
    start.update(array.tobytes())
    return start.hexdigest()
