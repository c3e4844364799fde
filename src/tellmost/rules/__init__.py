"""Decision rules: a gain for each candidate, one rule per file."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from tellmost.kernels.written import read_object
from tellmost.rows.checks import check_word
from tellmost.rules.cosine import CosineSimilarity
from tellmost.rules.ctl import CTL
from tellmost.rules.itl import ITL
from tellmost.rules.k_center import KCenter
from tellmost.rules.k_means import KMeansPlusPlus
from tellmost.rules.local_uncertainty import LocalUncertainty
from tellmost.rules.mm_itl import MMITL
from tellmost.rules.mmr import MMR
from tellmost.rules.random import Random
from tellmost.rules.rule import Rule
from tellmost.rules.top_k import TopK
from tellmost.rules.truvar import TruVar
from tellmost.rules.uncertainty import UncertaintySampling
from tellmost.rules.undirected_itl import UndirectedITL
from tellmost.rules.undirected_vtl import UndirectedVTL
from tellmost.rules.vtl import VTL

__all__ = [
    "CTL",
    "ITL",
    "MMITL",
    "MMR",
    "VTL",
    "CosineSimilarity",
    "KCenter",
    "KMeansPlusPlus",
    "LocalUncertainty",
    "Random",
    "Rule",
    "TopK",
    "TruVar",
    "UncertaintySampling",
    "UndirectedITL",
    "UndirectedVTL",
    "get",
]


_BY_NAME: Mapping[str, Callable[[], Rule]] = {
    "vtl": VTL,
    "itl": ITL,
    "itl-y": lambda: ITL(about="y"),
    "mm-itl": MMITL,
    "ctl": CTL,
    "ctl-y": lambda: CTL(about="y"),
    "truvar": TruVar,
    "local-uncertainty": LocalUncertainty,
    "uncertainty": UncertaintySampling,
    "undirected-itl": UndirectedITL,
    "undirected-vtl": UndirectedVTL,
    "random": Random,
    "cosine": CosineSimilarity,
    "top-k": TopK,
    "mmr": MMR,
    "k-center": KCenter,
    "k-means++": KMeansPlusPlus,
}


def get(name: str) -> Rule:
    """The rule that ``select(rule=name)`` uses, with its default parameters."""
    if name in _BY_NAME:
        return _BY_NAME[name]()
    close = get_close_matches(name, _BY_NAME, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(f"unknown rule {name!r}; the rules are {', '.join(names())}.{hint}")


def names() -> list[str]:
    """The names that ``get`` knows."""
    return list(_BY_NAME)


def is_random(rule: Rule) -> bool:
    """Say whether a gain is a random draw. Then it has no unit, and a cost cannot divide it."""
    return bool(getattr(rule, "is_random", False))


def noise_of_targets(rule: Rule, noise_variance: float | None) -> float:
    """The noise with which a rule about y_A sees the targets; 0 for a rule that sees f."""
    of = getattr(rule, "target_noise_variance", None)
    return 0.0 if of is None else float(of(noise_variance))


def targets_in_pool(rule: Rule) -> str | None:
    """Say whether "all" or "some" targets must be candidates for the rule to make sense."""
    wanted = getattr(rule, "targets_in_pool", None)
    check_word(wanted, f"targets_in_pool of rule {rule.name!r}", ("all", "some", None))
    return wanted


def read_rule(text: str) -> Rule:
    """The rule that prints as ``text``, such as ``MMR(relevance=0.7)``; nothing is evaluated."""
    kinds = {name: globals()[name] for name in __all__ if name not in ("Rule", "get")}
    made: Rule = read_object(text, kinds, Rule, f"{text!r} is no rule of tellmost.rules.")
    return made
