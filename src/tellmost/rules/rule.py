"""A Rule says how much each candidate would teach."""

from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.shapes import Float


@runtime_checkable
class Rule(Protocol):
    """A gain for each candidate: a larger gain teaches more.

    ``needs`` names the fields of the State that ``gain`` reads. The gain of a row depends on that
    row alone: scoring some rows equals scoring all and taking some.
    ``tellmost.testing.check_rule`` checks a rule of your own. A rule that is a subclass says only
    where it differs from the values here.

    Two attributes are optional. A rule that draws its gains, by ``state.rows`` and
    ``state.step``, has ``is_random = True``. A rule that makes sense only where targets are
    candidates has ``targets_in_pool``: "all" or "some" of them.
    """

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str:
        """It says in words what one unit of gain is."""

    @property
    def needs(self) -> frozenset[str]: ...

    needs_targets: ClassVar[bool] = True
    weighs_targets: ClassVar[bool] = False
    """If true, target_weights have a meaning."""
    gains_only_shrink: ClassVar[bool] = False
    """If true, no observation can raise the gain of another row."""
    is_signed: ClassVar[bool] = False
    """If true, a gain may be negative, so gain per cost and a least gain mean nothing."""

    def gain(self, state: State) -> Float[Tensor, " n"]:
        """The gain of each row of the state."""
