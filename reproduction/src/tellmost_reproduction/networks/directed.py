r"""InformationDensity and EIG, the methods of others that look at the targets.

InformationDensity weighs how unsure a classifier is by the similarity to the targets. EIG is how
much surer of the targets a step of training makes the classifier. Both take the k best by
themselves, so that nothing keeps a batch apart.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tellmost import numerics
from tellmost.finetune import LastLayer, LossGradients
from tellmost.finetune.baselines import entropy, find_largest, read_logits
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Part, RoundInputs, check_count
from tellmost.kernels import Linear
from tellmost.posterior.problem import prior_correlation
from tellmost.rows.sources import spans
from tellmost.shapes import Float, Int


@dataclass(frozen=True)
class InformationDensity:
    r"""Prefer what the classifier is unsure of and what is similar to the targets.

    .. math:: H(p(x)) \cdot \angle(x, A)^\beta

    Settles and Craven 2008, where the similarity is to the whole pool. Here it is to the targets,
    as in Hübotter et al. 2024, App. "Baselines", which has :math:`\beta = 1`. A negative
    similarity keeps its sign, whatever the power, so what is opposite to the targets comes last.
    """

    beta: float = 1.0
    embedding: Embedding = field(default_factory=LastLayer)
    name: ClassVar[str] = "information-density"

    def __post_init__(self) -> None:
        if not 0 < self.beta < float("inf"):
            raise ValueError(
                f"InformationDensity(beta) must be a positive number; got {self.beta!r}. Without "
                f"similarity it is MaxEntropy()."
            )

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        unsure = entropy(read_logits(inputs, "candidates", "InformationDensity"))
        similarity = mean_cosine(inputs, self.embedding)
        return find_largest(unsure * similarity.sign() * similarity.abs() ** self.beta, k)


def mean_cosine(inputs: RoundInputs, embedding: Embedding) -> Float[Tensor, " n"]:
    """The mean cosine of each candidate with the targets; 0 with a point at the origin."""
    candidates, targets = (inputs.embed(part, embedding) for part in ("candidates", "targets"))
    x, a = (torch.as_tensor(one.points).to(torch.float64) for one in (candidates, targets))
    kernel = Linear() if candidates.kernel is None else candidates.kernel
    covariance = kernel.block(x, a)
    return prior_correlation(covariance, kernel.diagonal(x), kernel.diagonal(a)).mean(dim=1)


@dataclass(frozen=True)
class EIG:
    r"""Prefer the candidate whose gradient step makes the classifier surest of the targets.

    .. math::
        \frac1{|A|} \sum_{a \in A} \Big( H(p(a; \theta))
        - \sum_y p_y(x; \theta)\, H\big(p(a; \theta_{x, y})\big) \Big), \qquad
        \theta_{x, y} = \theta - \eta\, \nabla_{\theta'} \ell(f(x; \theta), y)

    Mehta et al. 2022; one gradient step on the last layer's parameters :math:`\theta'` for every
    label y, as in Hübotter et al. 2024, App. "Baselines". No step is ever taken. The gradient is
    :math:`(p(x) - e_y)\, \phi(x)^\top`, so that the targets' logits become

    .. math:: f(a) - \eta\, \phi(x)^\top \phi(a)\, (p(x) - e_y),

    in which the label adds a number to a single logit. By the chain rule of entropy, with q the
    probability of label y before, q' after, and h that of two outcomes,

    .. math:: H' = h(q') + \frac{1 - q'}{1 - q} \big( H - h(q) \big)

    and all labels together cost as much as one.
    The scores are signed, since a step may also leave
    the targets less certain. Each candidate is scored by itself, so nothing keeps a batch diverse.

    Args:
        learning_rate: the rate of a step of plain gradient descent; the default is that of the
            paper's training.
        layer: the name of the last layer; None: the one that is detected.
    """

    learning_rate: float = 1e-3
    layer: str | None = None
    name: ClassVar[str] = "eig"

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(
                f"EIG(learning_rate) must be a positive number; got {self.learning_rate!r}."
            )

    def choose(self, inputs: RoundInputs, k: int) -> Int[np.ndarray, " k"]:
        check_count(inputs, k)
        logits, of_targets = (
            read_logits(inputs, part, "EIG") for part in ("candidates", "targets")
        )
        step = self.learning_rate * (
            self._features(inputs, "candidates", logits.shape[1])
            @ self._features(inputs, "targets", logits.shape[1]).T
        )
        return find_largest(expected_information(logits.softmax(dim=1), of_targets, step), k)

    def _features(self, inputs: RoundInputs, part: Part, classes: int) -> Float[Tensor, "n d"]:
        """The inputs of the last layer, and a 1 for its bias: the other factor of a gradient."""
        points = inputs.embed(part, LossGradients(self.layer)).points
        return torch.as_tensor(points)[:, classes:].to(torch.float64)


def expected_information(
    probabilities: Float[Tensor, "n c"],
    of_targets: Float[Tensor, "m c"],
    step: Float[Tensor, "n m"],
) -> Float[Tensor, " n"]:
    """The information of each candidate, with these predictions, in nats per target.

    ``step`` is the learning rate times the inner products of features.
    """
    before = entropy(of_targets).mean()
    found = probabilities.new_empty(len(probabilities))
    for start, stop in spans(len(found), max(numerics.CHUNK_BYTES // (8 * of_targets.numel()), 1)):
        p, s = probabilities[start:stop, None, :], step[start:stop, :, None]
        after = entropy_of_raised(of_targets - s * p, s)
        found[start:stop] = before - (p * after).sum(dim=2).mean(dim=1)
    return found


def entropy_of_raised(
    logits: Float[Tensor, "b m c"], rise: Float[Tensor, "b m 1"]
) -> Float[Tensor, "b m c"]:
    """The entropy of the prediction after the logit of each class rises, one for each."""
    log_p, log_others = logits.log_softmax(dim=2), log_complement(logits)
    p, others = log_p.exp(), log_others.exp()
    rest = entropy(logits)[..., None] - two_way_entropy(p, others)
    among_others = torch.where(others > 0, rest / others.where(others > 0, 1.0), 0.0)
    odds = log_p - log_others + rise
    raised, left = odds.sigmoid(), (-odds).sigmoid()
    return two_way_entropy(raised, left) + left * among_others


def log_complement(logits: Float[Tensor, "b m c"]) -> Float[Tensor, "b m c"]:
    """log(1 - p) of each class; where p is near one it is made from the sum of the others."""
    log_p = logits.log_softmax(dim=2)
    likeliest = log_p.argmax(dim=2, keepdim=True)
    of_likeliest = log_p.scatter(2, likeliest, -torch.inf).logsumexp(dim=2, keepdim=True)
    return torch.log1p(-log_p.exp()).scatter(2, likeliest, of_likeliest)


def two_way_entropy(p: Tensor, others: Tensor) -> Tensor:
    """The entropy of an outcome of probability p against all others."""
    return torch.special.entr(p) + torch.special.entr(others)
