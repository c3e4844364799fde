"""Tellmost: choose the data that tells you most about what you want to know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellmost import kernels, rules, targets, theory
    from tellmost.learner import ActiveLearner
    from tellmost.posterior.gp import GP
    from tellmost.safebo import (
        Constraint,
        MiscalibratedModel,
        NoSafePoint,
        RKHSBound,
        SafeOptimizer,
    )
    from tellmost.selecting.select import select
    from tellmost.selecting.selection import Selection
    from tellmost.targets.box import Box

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
    "ActiveLearner": "tellmost.learner",
    "Box": "tellmost.targets.box",
    "Constraint": "tellmost.safebo",
    "GP": "tellmost.posterior.gp",
    "MiscalibratedModel": "tellmost.safebo",
    "NoSafePoint": "tellmost.safebo",
    "RKHSBound": "tellmost.safebo",
    "SafeOptimizer": "tellmost.safebo",
    "Selection": "tellmost.selecting.selection",
    "select": "tellmost.selecting.select",
}


def __getattr__(name: str) -> Any:
    """Public names load when they are first used: torch takes seconds, and --help needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'tellmost' has no attribute {name!r}")
    home = _HOMES.get(name)
    value = (
        import_module(f"tellmost.{name}") if home is None else getattr(import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
