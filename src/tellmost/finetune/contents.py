"""What inputs hold, in short: to tell one pool, or one set of targets, from another."""

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from tellmost import numerics
from tellmost.finetune.inputs import Inputs
from tellmost.rows.pool import Fingerprint
from tellmost.rows.sources import spans


def name_of(inputs: Inputs) -> str:
    """How many there are, and of tensors a checksum of all values, the same on every device.

    Items of other datasets are not read, since reading them may be slow, or random.
    """
    held = held_by(inputs)
    count = f"{len(inputs)} inputs"
    return count if held is None else f"{count} of content {checksum(held, inputs)}"


def held_by(inputs: Inputs) -> Tensor | None:
    """The tensor that the inputs are rows of, if there is one."""
    data = inputs.data
    if isinstance(data, TensorDataset):
        return data.tensors[0]
    return data if isinstance(data, Tensor) else None


def checksum(held: Tensor, inputs: Inputs) -> str:
    """Of the rows that are meant, in their order, block by block."""
    rows = torch.from_numpy(inputs.rows).to(held.device)
    width = max(held[:1].numel(), 1)
    made = Fingerprint(held.device)
    for start, stop in spans(len(rows), max(numerics.CHUNK_BYTES // (8 * width), 1)):
        made.add(start, held[rows[start:stop]].detach().reshape(stop - start, -1))
    return made.name((len(rows), *held.shape[1:]))
