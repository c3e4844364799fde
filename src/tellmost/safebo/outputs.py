"""The unknown functions, each in units of its prior standard deviation.

So the gains of outputs of different units can be added: VTL's are variances, and count in shares
of the prior variance; those of ITL, MM-ITL and CTL do not depend on the unit anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from tellmost.kernels import Kernel, Scaled
from tellmost.kernels.kernel import Points, are_same
from tellmost.posterior.gp import GP
from tellmost.safebo.constraints import Constraint, Side
from tellmost.shapes import Float

OBJECTIVE = "objective"


@dataclass(frozen=True)
class Output:
    """A function that is observed: the objective, a constraint, or both."""

    names: tuple[str, ...]  # OBJECTIVE and the constraints that it serves
    gp: GP
    scale: float  # the prior standard deviation, as the root of the mean variance over the domain
    kernel: Kernel  # of f / scale

    @classmethod
    def of(cls, names: tuple[str, ...], gp: GP, points: Points) -> "Output":
        check_fit(names[0], gp, points)
        variance = float(gp.kernel.diagonal(points).mean())
        if not variance > 0:
            raise ValueError(
                f"the prior of {names[0]!r} has no variance anywhere in the domain, so nothing "
                f"can be learned about it: {gp}."
            )
        kernel = gp.kernel if variance == 1.0 else Scaled(gp.kernel, 1.0 / variance)
        return cls(names, gp, variance**0.5, kernel)

    def mean_of(self, points: Points) -> Float[Tensor, " n"]:
        """The prior mean of f / scale."""
        return self.gp.mean_of(points) / self.scale


def check_fit(name: str, gp: GP, points: Points) -> None:
    """A kernel and data that do not suit the points would fail later, and less clearly."""
    d = points.shape[1]
    try:
        gp.kernel.block(points[:1], points[:1])
    except (IndexError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"the kernel of {name!r} does not take points of {d} numbers, parameters and contexts "
            f"together: {gp.kernel!r}; {error}"
        ) from error
    if gp.data is not None and gp.data.points.shape[1] != d:
        raise ValueError(
            f"the data of {name!r} must be points of {d} numbers, parameters and contexts "
            f"together; got {gp.data.points.shape[1]}."
        )


def gather_outputs(
    objective: GP, constraints: Mapping[str, Constraint], points: Points
) -> list[Output]:
    """One for each prior that is not the same object as another; the objective's comes first."""
    served: dict[int, tuple[GP, list[str]]] = {id(objective): (objective, [OBJECTIVE])}
    for name, constraint in constraints.items():
        served.setdefault(id(constraint.gp), (constraint.gp, []))[1].append(name)
    outputs = [Output.of(tuple(names), gp, points) for gp, names in served.values()]
    return [replace(one, kernel=_first_same(one.kernel, outputs)) for one in outputs]


def _first_same(kernel: Kernel, outputs: list[Output]) -> Kernel:
    """One object for all kernels that are the same: what is made of it serves all of them."""
    return next(one.kernel for one in outputs if are_same(one.kernel, kernel))


def gather_sides(outputs: list[Output], constraints: Mapping[str, Constraint]) -> list[Side]:
    """All limits, in the units of their outputs."""
    sides = []
    for name, constraint in constraints.items():
        number = next(i for i, output in enumerate(outputs) if name in output.names)
        scale = outputs[number].scale
        if constraint.at_least is not None:
            sides.append(Side(name, number, True, constraint.at_least / scale))
        if constraint.at_most is not None:
            sides.append(Side(name, number, False, constraint.at_most / scale))
    for number, output in enumerate(outputs):
        check_room([side for side in sides if side.output == number], output)
    return sides


def find_output(outputs: Sequence[Output], name: str) -> int:
    """The number of the one that serves a name."""
    for number, output in enumerate(outputs):
        if name in output.names:
            return number
    names = ", ".join(repr(one) for output in outputs for one in output.names)
    raise ValueError(f"there is no output {name!r}; there are {names}.")


def check_room(sides: list[Side], output: Output) -> None:
    """Constraints that share a function must not contradict each other."""
    lowest = max((side.limit for side in sides if side.is_lower), default=float("-inf"))
    highest = min((side.limit for side in sides if not side.is_lower), default=float("inf"))
    if not lowest < highest:
        names = ", ".join(repr(side.name) for side in sides)
        raise ValueError(
            f"constraints {names} share one function, and nothing satisfies both: it is to be at "
            f"least {lowest * output.scale:g} and at most {highest * output.scale:g}."
        )
