"""Decision rules: a gain for each candidate, one rule per file."""

from collections.abc import Callable

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

BY_NAME: dict[str, Callable[[], Rule]] = {
    "vtl": VTL,
    "itl": ITL,
    "itl-y": lambda: ITL(about="y"),
    "mm-itl": MMITL,
    "ctl": CTL,
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
"""The rules that ``select(rule=...)`` knows by name."""

__all__ = [
    "BY_NAME",
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
]
