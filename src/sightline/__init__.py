"""Sightline: choose the data that tells you most about what you want to know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline import kernels, rules, targets, theory
    from sightline.domains import Box
    from sightline.gp import GP
    from sightline.learner import ActiveLearner
    from sightline.safebo import (
        Constraint,
        MiscalibratedModel,
        NoSafePoint,
        RKHSBound,
        SafeOptimizer,
    )
    from sightline.selecting import select
    from sightline.selection import Selection

__version__ = "0.1.0"

__all__ = [
    "GP",
    "ActiveLearner",
    "Box",
    "Constraint",
    "MiscalibratedModel",
    "NoSafePoint",
    "RKHSBound",
    "SafeOptimizer",
    "Selection",
    "__version__",
    "kernels",
    "rules",
    "select",
    "targets",
    "theory",
]

_HOMES = {
    "ActiveLearner": "sightline.learner",
    "Box": "sightline.domains",
    "Constraint": "sightline.safebo",
    "GP": "sightline.gp",
    "MiscalibratedModel": "sightline.safebo",
    "NoSafePoint": "sightline.safebo",
    "RKHSBound": "sightline.safebo",
    "SafeOptimizer": "sightline.safebo",
    "Selection": "sightline.selection",
    "select": "sightline.selecting",
}


def __getattr__(name: str) -> Any:
    """Public names load when they are first used: torch takes seconds, and --help needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    home = _HOMES.get(name)
    value = (
        import_module(f"sightline.{name}") if home is None else getattr(import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
