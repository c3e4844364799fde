"""Rule, kernel, device and checkpoint, and which options go together."""

import os
from pathlib import Path
from typing import Any

import torch

from tellmost.kernels import Kernel, Linear
from tellmost.posterior.problem import FIXED_FIELDS, STATE_FIELDS, TARGET_FIELDS
from tellmost.rules import BY_NAME, Rule
from tellmost.rules.rule import is_random


def check_rule(rule: str | Rule) -> Rule:
    if isinstance(rule, str):
        if rule not in BY_NAME:
            raise ValueError(
                f"unknown rule {rule!r}; the rules are {', '.join(BY_NAME)}, or an object with "
                f"the attributes of tellmost.rules.Rule."
            )
        return BY_NAME[rule]()
    if isinstance(rule, type) or not isinstance(rule, Rule):
        raise TypeError(
            f"rule must be a name or an instance of a rule, such as tm.rules.VTL(); got {rule!r}."
        )
    unknown = rule.needs - STATE_FIELDS
    if unknown:
        raise ValueError(
            f"rule {rule.name!r} needs {', '.join(sorted(unknown))}, which a State does not have; "
            f"it has {', '.join(sorted(STATE_FIELDS))}."
        )
    if rule.needs & TARGET_FIELDS and not rule.needs_targets:
        raise ValueError(f"rule {rule.name!r} reads targets but says needs_targets = False.")
    return rule


def check_kernel(kernel: Any) -> Kernel:
    if kernel is None:
        return Linear()
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel must be an instance, such as {kernel.__name__}(...); got the class itself."
        )
    if isinstance(kernel, Kernel):
        return kernel
    if type(kernel).__module__.startswith("gpytorch") or hasattr(kernel, "covar_dist"):
        from tellmost.integrations.gpytorch import GPyTorchKernel

        return GPyTorchKernel(kernel)
    raise TypeError(
        f"kernel must come from tm.kernels, be a gpytorch kernel, or have the methods block, "
        f"column and diagonal; got {type(kernel).__name__}."
    )


def check_device(device: Any) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (TypeError, RuntimeError, AssertionError) as error:  # unknown, or not on this machine
        raise ValueError(
            f"device must be one that torch can use here, such as 'cpu'; got {device!r}: "
            f"{str(error).splitlines()[0].rstrip('.')}."
        ) from error


def check_checkpoint(path: Any) -> Path | None:
    """Where a checkpoint is, or may be written."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"checkpoint must be the path of a file; got {type(path).__name__}.")
    checked = Path(path)
    if checked.exists() and not checked.is_file():
        kind = "folder" if checked.is_dir() else "device or pipe"
        raise ValueError(
            f"checkpoint must be the path of a file; {str(checked)!r} is a {kind}. Name a file in "
            f"a folder that exists."
        )
    if not checked.parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint must be a file in a folder that exists; there is no folder "
            f"{str(checked.parent)!r}. Make it first."
        )
    return checked


def check_combination(
    rule: Rule, has_targets: bool, replace: bool, conditional: bool, floor: bool
) -> None:
    """Options that have no meaning together."""
    if rule.needs_targets and not has_targets:
        free = [name for name, make in BY_NAME.items() if not make().needs_targets]
        raise ValueError(
            f"rule {rule.name!r} needs targets; the rules without are {', '.join(free)}."
        )
    is_blind = not rule.needs - FIXED_FIELDS and not is_random(rule)
    if replace and (is_blind or not conditional):
        which = f"rule {rule.name!r}" if is_blind else "conditional=False"
        raise ValueError(
            f"replace=True has no meaning with {which}: the best point would be picked every time."
        )
    if floor and not has_targets:
        raise ValueError("floor=True needs targets; got none. Pass targets or drop it.")
