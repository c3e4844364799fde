"""What a decision rule is."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.shapes import Float


@runtime_checkable
class Rule(Protocol):
    """A gain for each candidate: larger teaches more.

    ``needs`` names the fields of the State that ``gain`` reads. A gain is a function of each row
    by itself: scoring some rows equals scoring all and taking some.
    ``tellmost.testing.check_rule`` checks a rule of your own. One that draws its gains, by
    ``state.rows`` and ``state.step``, has the attribute ``is_random = True`` as well. One that
    makes sense only where targets are candidates has ``targets_in_pool``: "all" or "some" of them.
    """

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str:
        """What one unit of gain is, in words."""

    @property
    def needs(self) -> frozenset[str]: ...

    @property
    def needs_targets(self) -> bool: ...

    @property
    def weighs_targets(self) -> bool:
        """Whether target_weights have a meaning."""

    @property
    def gains_only_shrink(self) -> bool:
        """Whether an observation can never raise the gain of another row: allows lazy scoring."""

    @property
    def is_signed(self) -> bool:
        """Whether a gain may be negative, so that gain per cost and a least gain mean nothing."""

    def gain(self, state: State) -> Float[Tensor, " n"]:
        """The gain of each row of the state."""


def is_random(rule: Rule) -> bool:
    """Whether a gain is a draw: no amount of anything, and not to be divided by a cost."""
    return bool(getattr(rule, "is_random", False))


def targets_in_pool(rule: Rule) -> str | None:
    """Whether "all" or "some" of the targets must be candidates for the rule to make sense."""
    wanted = getattr(rule, "targets_in_pool", None)
    if wanted not in (None, "all", "some"):
        raise ValueError(
            f"rule {rule.name!r} has targets_in_pool = {wanted!r}; it must be 'all', 'some' or "
            f"None."
        )
    return wanted
