"""States of affairs in which no point can be named; each says what happened and what to do."""

from collections.abc import Sequence


class NoSafePoint(Exception):  # noqa: N818 - a state of affairs, not a mistake
    """No point is known to be safe, and no seed is left to ask for."""


class Halted(Exception):  # noqa: N818
    """A violation was told, and has not been acknowledged yet."""


class MiscalibratedModel(Exception):  # noqa: N818
    """Confidence intervals of different rounds exclude each other: the model is wrong."""

    def __init__(
        self, name: str, point: Sequence[float], gap: float, *, has_slopes: bool = False
    ) -> None:
        where = ", ".join(f"{x:.4g}" for x in point)
        slopes = " (d) A Lipschitz constant is too small." if has_slopes else ""
        super().__init__(
            f"the interval of {name!r} at ({where}) is empty: the bounds of different rounds "
            f"exclude each other by {gap:.2g} prior standard deviations, which cannot be where "
            f"they hold. (a) beta is too small to hold in all rounds at once: raise it, or give "
            f"confidence=, which intersects nothing. (b) The kernel is wrong, most often its "
            f"lengthscale too long: look at calibration(), then refit(). (c) The noise is larger "
            f"than stated.{slopes}"
        )
        self.name, self.point, self.gap = name, tuple(point), gap
