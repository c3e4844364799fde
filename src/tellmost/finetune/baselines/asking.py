"""What baselines ask of a scene: logits, points, directions."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tellmost.finetune.activations import Outputs
from tellmost.finetune.embedding import Embedding
from tellmost.finetune.strategies import Part, Scene
from tellmost.kernels import Kernel, Linear
from tellmost.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Points:
    """In float64, on the model's device, with the kernel that compares them."""

    rows: Float[Tensor, "n p"]
    kernel: Kernel


def check_count(scene: Scene, k: int) -> None:
    """k candidates can be chosen."""
    n = len(scene.candidates)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise ValueError(
            f"k must be a whole number from 1 to {n}, the number of candidates; got {k!r}. Draw "
            f"more candidates, or choose fewer."
        )


def read_logits(scene: Scene, part: Part, name: str) -> Float[Tensor, "n c"]:
    """The outputs of a classifier, for a baseline of this name."""
    logits = torch.as_tensor(scene.embed(part, Outputs()).points).to(torch.float64)
    if logits.shape[1] < 2:
        raise ValueError(
            f"{name} needs a classifier with an output for each of two classes or more; the model "
            f"has {logits.shape[1]}. Of one output z make two, 0 and z."
        )
    return logits


def read_points(scene: Scene, part: Part, embedding: Embedding) -> Points:
    embedded = scene.embed(part, embedding)
    rows = torch.as_tensor(embedded.points).to(torch.float64)
    return Points(rows, Linear() if embedded.kernel is None else embedded.kernel)


def read_directions(
    scene: Scene, part: Part, embedding: Embedding, name: str
) -> Float[Tensor, "n p"]:
    """Points at unit length, where a baseline is about Euclidean distances; zeros stay zeros."""
    embedded = scene.embed(part, embedding)
    if embedded.kernel is not None:
        raise ValueError(
            f"{name} needs points that are compared by inner products; those of {embedding!r} "
            f"have a kernel of their own. Materialise or project them: "
            f"LossGradients(materialize=True), Projected(...)."
        )
    rows = torch.as_tensor(embedded.points).to(torch.float64)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length.where(length > 0, 1.0)


def find_largest(scores: Float[Tensor, " n"], k: int) -> Int[np.ndarray, " k"]:
    """Positions of the k largest scores, the best first; the lowest position of equals."""
    return scores.sort(descending=True, stable=True).indices[:k].cpu().numpy()


def has_labelled(scene: Scene) -> bool:
    """Whether anything was labelled before, inside the task or outside."""
    return len(scene.labelled) > 0
