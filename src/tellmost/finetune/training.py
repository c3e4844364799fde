"""The caller's trainer and evaluation: what they are given, and what is checked around them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune.embedding import evaluating
from tellmost.finetune.history import COLUMNS, SECONDS
from tellmost.finetune.inputs import Inputs, device_of
from tellmost.shapes import Int

Trainer = Callable[[nn.Module, Any, Tensor, int], Mapping[str, float] | None]
"""``train(model, inputs, labels, round)``, which may return metrics."""

Evaluation = Callable[[nn.Module], Mapping[str, float]]


def check_trainer(train: Any) -> Trainer:
    if isinstance(train, type) or not callable(train):
        raise TypeError(
            f"train must be a function train(model, inputs, labels, round) that trains the model "
            f"in place; got {train!r}."
        )
    return train


def loader_of(train: Trainer) -> Callable[[Any], None]:
    """The method of the trainer that takes a saved state."""
    load = getattr(train, "load_state_dict", None)
    if load is None:
        raise TypeError(
            f"the state has one of the trainer, and train must take it by load_state_dict(state); "
            f"{type(train).__name__} has none, and nothing was loaded. Give train a "
            f"load_state_dict, or leave out the state's 'train'."
        )
    return load


def run_trainer(
    train: Trainer,
    model: nn.Module,
    inputs: Inputs,
    labels: Int[np.ndarray, " k"],
    number: int,
    *,
    seed: int,
) -> Any:
    """Train the model in place, and return what the trainer returned, which is not checked yet.

    The trainer is given a tensor on the model's device if the pool is a tensor, else a dataset.
    """
    device = device_of(model)
    with torch_seeded(seed, device):
        is_tensor = isinstance(inputs.data, Tensor)
        examples = inputs.batch(np.arange(len(inputs)), device) if is_tensor else inputs
        return train(model, examples, torch.from_numpy(labels).to(device), number)


def run_evaluation(evaluate: Evaluation, model: nn.Module, *, seed: int) -> dict[str, float]:
    """The metrics of the model in eval mode, without gradients."""
    with torch_seeded(seed, device_of(model)), evaluating(model), torch.no_grad():
        return check_metrics(evaluate(model), "evaluate")


@contextmanager
def torch_seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's generators of the CPU and of this device, and puts them back afterwards."""
    is_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_cuda else []):
        torch.default_generator.manual_seed(seed)
        if is_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def devices_of(model: nn.Module) -> set[torch.device]:
    return {tensor.device for tensor in (*model.parameters(), *model.buffers())}


def check_devices(model: nn.Module, devices: set[torch.device], when: str) -> None:
    """The model is still where it was when it was given."""
    if devices_of(model) != devices:
        was, now = (" and ".join(sorted(map(str, d))) for d in (devices, devices_of(model)))
        raise ValueError(
            f"the model must stay on its device; it was given on {was}, and {when} it is on "
            f"{now}. Move the model before it is given, and move batches to it in train and "
            f"evaluate."
        )


def check_metrics(made: Any, name: str) -> dict[str, float]:
    """Numbers by name, for the history. A trainer may also return None."""
    if made is None and name == "train":
        return {}
    if not isinstance(made, Mapping):
        raise TypeError(
            f"{name} must return metrics, a mapping such as {{'accuracy': 0.9}}; got "
            f"{type(made).__name__}."
        )
    taken = {*COLUMNS, *(f"{activity}_s" for activity in SECONDS)}
    for metric in made:
        if not isinstance(metric, str) or metric in taken:
            raise ValueError(
                f"{name} must name its metrics by texts other than those of the history's "
                f"columns ({', '.join(sorted(taken))}); got {metric!r}."
            )
    metrics = {}
    for metric, value in made.items():
        try:
            metrics[metric] = float(value.detach() if isinstance(value, Tensor) else value)
        except (TypeError, ValueError, RuntimeError) as error:
            kind = type(value).__name__
            raise TypeError(f"{name}'s {metric} must be a number; got {kind}.") from error
    return metrics
