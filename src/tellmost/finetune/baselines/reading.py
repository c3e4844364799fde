"""What baselines read of a round: the classifier's logits, and points of candidates or targets."""

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.embedding import Embedding
from tellmost.finetune.layers import Outputs
from tellmost.finetune.strategies import Part, RoundInputs
from tellmost.shapes import Float, Int


def check_count(inputs: RoundInputs, k: int) -> None:
    """k is a number of candidates that can be chosen."""
    n = len(inputs.candidates)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise ValueError(
            f"k must be a whole number from 1 to {n}, the number of candidates; got {k!r}. Draw "
            f"more candidates, or choose fewer."
        )


def read_logits(inputs: RoundInputs, part: Part, name: str) -> Float[Tensor, "n c"]:
    """The outputs of a classifier; ``name`` is the baseline, for errors."""
    logits = torch.as_tensor(inputs.embed(part, Outputs()).points).to(torch.float64)
    if logits.shape[1] < 2:
        raise ValueError(
            f"{name} needs a classifier with an output for each of two classes or more; the model "
            f"has {logits.shape[1]}. Make two outputs, 0 and z, of one output z."
        )
    return logits


def read_directions(
    inputs: RoundInputs, embedding: Embedding, name: str
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "l p"]]:
    """Candidates and what was labelled, at unit length; points that are zero stay zero."""
    found: list[Tensor] = []
    for part in ("candidates", "labelled") if len(inputs.labelled) else ("candidates",):
        embedded = inputs.embed(part, embedding)
        if embedded.kernel is not None:
            raise ValueError(
                f"{name} needs points that are compared by inner products; those of {embedding!r} "
                f"have a kernel of their own. Materialise or project them: "
                f"LossGradients(materialize=True), Projected(...)."
            )
        rows = torch.as_tensor(embedded.points).to(torch.float64)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        found.append(rows / length.where(length > 0, 1.0))
    return found[0], found[1] if len(found) == 2 else found[0][:0]


def find_largest(scores: Float[Tensor, " n"], k: int) -> Int[np.ndarray, " k"]:
    """The positions of the k largest scores, the best first. Of equals the lowest is first."""
    return scores.sort(descending=True, stable=True).indices[:k].cpu().numpy()
