"""What is left to learn, and what it would take."""

from dataclasses import dataclass

from tellmost.numerics import UNINFORMATIVE


@dataclass(frozen=True)
class Outlook:
    """A stop signal: how uncertain the targets are, and what more observations can do about it.

    ``observations`` is how many more, chosen as ``ask`` does, bring the uncertainty down to
    ``level``: posterior variances do not depend on what is measured, so under the given prior,
    with targets that stay the same, this is no estimate. None where that takes more than
    ``at_most``, or where no number of observations does.
    """

    uncertainty: float  # mean variance of the targets now
    floor: float  # what would be left of it if f were known at every candidate
    level: float | None = None
    observations: int | None = None
    at_most: int | None = None

    @property
    def reducible(self) -> float:
        """What more observations could remove: uncertainty less floor."""
        return max(self.uncertainty - self.floor, 0.0)

    @property
    def is_reachable(self) -> bool | None:
        """Whether any number of observations reaches the level; None without a level."""
        if self.level is None:
            return None
        return self.level > self.floor or self.uncertainty <= self.level

    @property
    def is_done(self) -> bool:
        """Whether the level is reached or, without one, nothing is left to reduce."""
        if self.level is not None:
            return self.uncertainty <= self.level
        return self.reducible <= UNINFORMATIVE * self.uncertainty

    def __str__(self) -> str:
        now = f"uncertainty {self.uncertainty:.4g}, of which {self.reducible:.4g} can be reduced"
        return now if self.level is None else f"{now}; {self._about_level()}"

    def _about_level(self) -> str:
        if self.observations is not None:
            more = f"{self.observations} more observations reach" if self.observations else "below"
            return f"{more} {self.level:.4g}"
        if not self.is_reachable:
            return f"{self.level:.4g} cannot be reached: the floor is {self.floor:.4g}"
        return f"{self.at_most} more observations do not reach {self.level:.4g}"
