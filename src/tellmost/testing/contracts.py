"""How a broken contract is found and reported."""

from typing import NoReturn

import torch
from torch import Tensor

from tellmost.numerics import TIE_TOLERANCE


def fail(subject: str, contract: str, found: str, meaning: str) -> NoReturn:
    raise AssertionError(f"{subject}: {contract}; {found}. {meaning}")


def gap(actual: Tensor, expected: Tensor) -> str | None:
    """Where two tensors differ by more than another order of the arithmetic explains."""
    difference = (actual - expected).abs()
    allowed = TIE_TOLERANCE * float(expected.abs().max())
    if bool((difference <= allowed).all()):
        return None
    worst = int(difference.argmax())
    at = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(worst), actual.shape))
    return f"got {actual.reshape(-1)[worst]:.6g} for {expected.reshape(-1)[worst]:.6g} at ({at})"


def require_methods(subject: object, methods: tuple[str, ...], kind: str) -> None:
    if isinstance(subject, type):
        fail(repr(subject), f"a {kind} is an instance", "got the class", "Write its name with ().")
    missing = [name for name in methods if not callable(getattr(subject, name, None))]
    if missing:
        fail(
            repr(subject),
            f"a {kind} has the methods {', '.join(methods)}",
            f"there is no {', '.join(missing)}",
            "select would refuse it.",
        )
