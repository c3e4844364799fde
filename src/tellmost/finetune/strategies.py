"""Strategies, which choose the inputs of a round; what they see of it; and Targeted, by a rule."""

import re
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.embedding import (
    Embedded,
    Embedding,
    check_embedding,
    check_inner_products,
    embed,
)
from tellmost.finetune.inputs import Inputs
from tellmost.finetune.laplace import LaplaceCovariance, LatentCovariance, Weigh
from tellmost.finetune.layers import LastLayer
from tellmost.kernels import Linear
from tellmost.learner.arguments import seeded
from tellmost.rows.checks import check_object, check_whole
from tellmost.rules import Rule
from tellmost.running.stopwatch import Stopwatch
from tellmost.selecting.arguments import check_rule
from tellmost.selecting.checkpoint import digest
from tellmost.selecting.data import ABOUT_DIRECTIONS
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Int

Part = Literal["candidates", "targets", "observed", "labelled"]


@dataclass(frozen=True, eq=False)
class RoundInputs:
    """The view that a strategy has of a round. Each embedding of each part is computed once."""

    model: nn.Module
    candidates: Inputs
    targets: Inputs | None  # of this round
    observed: Inputs  # what was labelled and trained on in earlier rounds; it may be empty
    observed_labels: Int[np.ndarray, " o"]
    labelled: Inputs  # what was observed, and what cost a label but is outside the task
    seed: int  # of this round; the same state gives the same number
    batch_size: int = 256
    watch: Stopwatch = field(default_factory=Stopwatch, repr=False)
    notes: list[str] = field(default_factory=list, repr=False)  # of strategies; the loop warns
    _made: dict[Any, Embedded] = field(default_factory=dict, repr=False)

    def embed(self, part: Part, embedding: Embedding) -> Embedded:
        """The points of one part of the round, kept for whoever asks again."""
        inputs: Inputs | None = getattr(self, part)
        if inputs is None:
            raise ValueError("this strategy chooses with regard to targets: give targets=.")
        key = inputs, embedding
        if key not in self._made:
            with self.watch.measure("embedding"):
                self._made[key] = embed(self.model, inputs, embedding, batch_size=self.batch_size)
        return self._made[key]

    @property
    def generator(self) -> np.random.Generator:
        """A generator for random choices of this round. It starts afresh each time."""
        return np.random.default_rng(self.seed)


@runtime_checkable
class Strategy(Protocol):
    """Chooses k candidates of a round."""

    @property
    def name(self) -> str: ...

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        """Positions among the candidates, each at most once, in the order chosen."""


def check_strategy(strategy: Any) -> Strategy:
    example = "an object such as Targeted('vtl'), or have a name and choose(inputs, k)"
    return check_object(strategy, "strategy", Strategy, example)


def check_count(inputs: RoundInputs, k: int) -> None:
    """k is a number of candidates that can be chosen."""
    check_whole(k, "k, of the candidates that were drawn,", most=len(inputs.candidates))


def check_choice(chosen: Any, n: int, k: int, strategy: Strategy) -> Int[np.ndarray, " k"]:
    """The positions that a strategy chose; the caller's own strategy may be wrong."""
    positions = np.asarray(chosen)
    is_vector = positions.shape == (k,) and np.issubdtype(positions.dtype, np.integer)
    is_right = is_vector and len(np.unique(positions)) == k
    if not is_right or positions.min() < 0 or positions.max() >= n:
        raise ValueError(
            f"strategy {strategy.name!r} must choose {k} different positions among {n} "
            f"candidates, as whole numbers of 0 to {n - 1}; it chose {chosen!r}."
        )
    return positions.astype(np.int64)


def describe(thing: Any) -> str:
    """Describe a strategy, or what draws candidates, by its class and options.

    The text is the same in every process: it has no addresses, and arrays appear by their digest.
    An object without a repr of its own is known by its class and its ``name`` alone.
    """
    if isinstance(thing, Tensor | np.ndarray):
        return f"tensor{tuple(thing.shape)}:{digest(torch.as_tensor(thing).detach().double())}"
    if isinstance(thing, list | tuple):
        return f"[{', '.join(map(describe, thing))}]"
    if is_dataclass(thing) and not isinstance(thing, type):
        options = [f"{f.name}={describe(getattr(thing, f.name))}" for f in fields(thing) if f.repr]
        return f"{type(thing).__qualname__}({', '.join(options)})"
    kind: Any = type(thing)
    if kind.__repr__ is object.__repr__:
        named = f" {thing.name!r}" if hasattr(thing, "name") else ""
        return f"{kind.__module__}.{kind.__qualname__}{named}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


@dataclass(frozen=True)
class Targeted:
    """Prefers what tells most about the targets: ``tm.select`` on embeddings of the network.

    Hübotter et al. 2024, Sec. 4 and Alg. 1: f is taken to be linear in the embedding, with
    Gaussian weights. The model guides the choice, and is used for nothing else. The paper's ITL
    for networks is about noisy targets: ``Targeted("itl-y")``, with a small ``noise_std``. The
    default here is the ``noise_ratio`` 1 of ``tm.select``, which is far too large where
    activations share a large mean, as behind a ReLU: give ``noise_std``, or take the mean away
    with ``normalize="center+unit"`` (results/digits-network). Loops do that where no strategy is
    given; ``Targeted()`` itself takes nothing away.
    """

    rule: str | Rule = "vtl"
    _: KW_ONLY
    embedding: Embedding = field(default_factory=LastLayer)
    covariance: Any = None  # a LatentCovariance, such as LaplaceCovariance(); None: identity
    noise_ratio: float | None = None
    noise_std: float | None = None
    normalize: str | None = None
    conditional: bool = True  # False: the k best by their first score, top-b in the paper
    observed: bool = False  # True: the choice is conditioned on what earlier rounds trained on

    def __post_init__(self) -> None:
        check_rule(self.rule)
        check_embedding(self.embedding, "Targeted(embedding)")
        if self.covariance is not None:
            self._check_covariance()

    def _check_covariance(self) -> None:
        if isinstance(self.covariance, type) or not isinstance(self.covariance, LatentCovariance):
            raise TypeError(
                f"Targeted(covariance) must be fitted to what was observed, such as "
                f"LaplaceCovariance(); got {type(self.covariance).__name__}. A matrix goes into "
                f"embedding=Weighted(embedding, matrix)."
            )
        if self.observed:
            raise ValueError(
                "Targeted(covariance) is that of the weights given what was observed already: "
                "with observed=True it would be counted twice. Give one of them."
            )
        if self.normalize is not None:
            raise ValueError(
                f"Targeted(covariance) is that of the weights of features as the network has "
                f"them, which normalize={self.normalize!r} would change. Leave normalize out, and "
                f"where features share a large mean give a small noise_std; or leave covariance "
                f"out."
            )
        if isinstance(self.covariance, LaplaceCovariance):
            self.covariance.check_embedding(self.embedding)

    @property
    def name(self) -> str:
        return check_rule(self.rule).name

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        rule = seeded(check_rule(self.rule), self.rule, inputs.seed)
        made = inputs.embed("candidates", self.embedding)
        weigh = self._weigh(inputs)
        candidates = weigh(made)
        if self.normalize is not None and not isinstance(candidates.kernel, Linear):
            user = f"Targeted(normalize={self.normalize!r}), which may be left out,"
            check_inner_products(user, self.embedding, candidates.kernel)
        targets = None
        if rule.needs_targets or inputs.targets is not None:  # ``select`` says so if it needs them
            targets = weigh(inputs.embed("targets", self.embedding))
        observed = None
        if self.observed and len(inputs.observed):
            observed = weigh(inputs.embed("observed", self.embedding)).points
        chosen = select_quietly(
            candidates.points,
            None if targets is None else targets.points,
            k,
            rule=rule,
            kernel="linear" if candidates.kernel is None else candidates.kernel,
            noise_ratio=self.noise_ratio,
            noise_std=self.noise_std,
            normalize=self.normalize,
            observed=observed,
            conditional=self.conditional,
            progress=False,
        )
        notes = zip(chosen.settings["note_kinds"], chosen.settings["notes"], strict=True)
        # activations are nearly of rank one, so notes on directions would always come
        inputs.notes.extend(note for kind, note in notes if kind not in ABOUT_DIRECTIONS)
        return chosen.indices

    def _weigh(self, inputs: RoundInputs) -> Weigh:
        """The function that gives points the kernel of this round."""
        if self.covariance is None:
            return lambda embedded: embedded
        labels = inputs.observed_labels
        if (labels < 0).any():
            raise ValueError(
                f"Targeted(covariance) is fitted to what was observed, and needs its labels; "
                f"label {int(labels.min())} is no class number. Give labels= to the sampler."
            )
        with inputs.watch.measure("embedding"):
            if len(labels) == 0 and isinstance(self.covariance, LaplaceCovariance):
                # an error of a later fit comes before labels are bought
                self.covariance.check_network(inputs.model, inputs.candidates, self.embedding)
            return self.covariance.fit(
                inputs.model, inputs.observed, labels, self.embedding, batch_size=inputs.batch_size
            )


BY_VTL = Targeted(normalize="center+unit")
"""The default strategy of loops: VTL without the mean that activations share."""
