"""Small random problems, and how a broken contract is found and reported."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor

from tellmost.kernels import Gaussian, Kernel, Linear
from tellmost.numerics import TIE_TOLERANCE
from tellmost.posterior.problem import Problem, State
from tellmost.rules import Rule, targets_in_pool
from tellmost.selecting.arguments import check_data, check_meaning
from tellmost.selecting.data import resolve_noise
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection

PROBLEMS, ROWS, FEATURES, TARGETS = 6, 20, 4, 3
PICKS = 5
NOISE_RATIO = 1.0
INSIDE = {None: 0, "some": TARGETS - 1, "all": TARGETS}  # targets that are rows of the pool
FIRST_INSIDE = 3


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Kernel
    pool: Tensor
    targets: Tensor | None
    weights: Tensor | None

    def problem(self, rule: Rule) -> Problem:
        """The problem in the form that ``select`` solves."""
        weights = self._weights_for(rule)
        meaning = check_meaning(self.kernel, None, "all", rule, has_targets=True)
        data = check_data(self.pool, self.targets, meaning, rule, target_weights=weights)
        data = data.read()
        return data.problem(rule, resolve_noise(data, NOISE_RATIO, None))

    def select(self, rule: Rule) -> Selection:
        return select_quietly(
            self.pool,
            self.targets,
            PICKS,
            rule=rule,
            kernel=self.kernel,
            noise_ratio=NOISE_RATIO,
            target_weights=self._weights_for(rule),
            progress=False,
        )

    def _weights_for(self, rule: Rule) -> Tensor | None:
        return self.weights if rule.weighs_targets else None


def cases(rule: Rule, seed: int) -> Iterator[Case]:
    for number in range(PROBLEMS):
        generator = torch.Generator().manual_seed(PROBLEMS * seed + number)
        points = torch.randn(ROWS + TARGETS, FEATURES, dtype=torch.float64, generator=generator)
        weights = torch.rand(TARGETS, dtype=torch.float64, generator=generator) + 0.1
        if not rule.weighs_targets:
            weights = torch.ones(TARGETS, dtype=torch.float64)
        # the first of the targets are rows of the pool, one of which the checks observe
        inside = INSIDE[targets_in_pool(rule)]
        among = points[FIRST_INSIDE : FIRST_INSIDE + inside]
        targets = torch.cat([among, points[ROWS + inside :]])
        for kernel in (Linear(), Gaussian(FEATURES**0.5)):
            name = f"problem {number} with {type(kernel).__name__} kernel"
            yield Case(name, kernel, points[:ROWS], targets, weights / weights.sum())
            if not rule.needs_targets:
                yield Case(f"{name} and no targets", kernel, points[:ROWS], None, None)


def copy_of(state: State) -> State:
    """A copy with memory of its own, even if the original is an expanded view."""
    same = deepcopy(state)
    return replace(same, noise_variance=same.noise_variance.contiguous())


def tensors_of(state: State) -> list[Tensor]:
    tensors = [state.rows, state.noise_variance, *state.fields.values()]
    if state.targets is not None:
        tensors += [state.targets.variance, state.targets.prior_variance, state.targets.weights]
    return tensors


def fail(subject: str, contract: str, found: str, meaning: str) -> NoReturn:
    raise AssertionError(f"{subject}: {contract}; {found}. {meaning}")


def gap(actual: Tensor, expected: Tensor) -> str | None:
    """The place where two tensors differ by more than the order of the arithmetic explains."""
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
