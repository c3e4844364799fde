"""Tellmost: choose the data that tells you most about what you want to know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellmost import (
        cluster,
        evaluation,
        finetune,
        integrations,
        kernels,
        rules,
        safebo,
        targets,
        testing,
        theory,
    )
    from tellmost.evaluation import check as check
    from tellmost.evaluation import compare as compare
    from tellmost.finetune import ActiveFineTuner
    from tellmost.learner import ActiveLearner
    from tellmost.posterior.gp import GP
    from tellmost.retrieval import Retriever
    from tellmost.rows.nearby import near
    from tellmost.rows.text_embeddings import embed
    from tellmost.safebo import Constraint, Query, SafeOptimizer
    from tellmost.selecting.select import select
    from tellmost.selecting.selection import Selection
    from tellmost.targets.box import Box
    from tellmost.targets.parameter import Parameter

__version__ = "0.1.0"

__all__ = [
    "GP",
    "ActiveFineTuner",
    "ActiveLearner",
    "Box",
    "Constraint",
    "Parameter",
    "Query",
    "Retriever",
    "SafeOptimizer",
    "Selection",
    "check",
    "cluster",
    "compare",
    "embed",
    "evaluation",
    "finetune",
    "integrations",
    "kernels",
    "near",
    "rules",
    "safebo",
    "select",
    "targets",
    "testing",
    "theory",
]

_HOMES = {
    "ActiveFineTuner": "tellmost.finetune",
    "ActiveLearner": "tellmost.learner",
    "Box": "tellmost.targets.box",
    "Constraint": "tellmost.safebo",
    "GP": "tellmost.posterior.gp",
    "Parameter": "tellmost.targets.parameter",
    "Query": "tellmost.safebo",
    "Retriever": "tellmost.retrieval",
    "SafeOptimizer": "tellmost.safebo",
    "Selection": "tellmost.selecting.selection",
    "check": "tellmost.evaluation",
    "compare": "tellmost.evaluation",
    "embed": "tellmost.rows.text_embeddings",
    "near": "tellmost.rows.nearby",
    "select": "tellmost.selecting.select",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: torch takes seconds, and --help needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'tellmost' has no attribute {name!r}")
    home = _HOMES.get(name)
    value = (
        import_module(f"tellmost.{name}") if home is None else getattr(import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
