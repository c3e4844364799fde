"""Parameter: what a machine lets you set, and how kernels see it."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from tellmost.shapes import Float

LONGEST_TEXT = 500
"""A choice or a unit has at most so many letters."""


@dataclass(frozen=True, repr=False)
class Parameter:
    """A number between two bounds, one of several choices, or a fixed value.

    ``Parameter(0, 10)`` takes all numbers, ``step`` those at equal distances from ``low``, and
    ``whole=True`` whole numbers. ``log=True`` is for what acts by its order of magnitude: kernels
    see the decimal logarithm. ``Parameter(choices=["argon", "helium"])`` is one of several, of
    which none is between others. ``Parameter(fixed=0.8)`` is written down and never changed.
    """

    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    step: float | None = None
    log: bool = False
    whole: bool = False
    choices: Sequence[Any] = ()  # kept as a tuple
    fixed: Any = None
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", check_choices(self.choices))
        is_number = self.low is not None or self.high is not None
        if is_number + bool(self.choices) + (self.fixed is not None) != 1:
            raise ValueError(
                f"Parameter must have low and high, or choices=[...], or fixed=...; got {self!r}."
            )
        if not isinstance(self.unit, str) or len(self.unit) > LONGEST_TEXT:
            raise ValueError(f"Parameter(unit) must be a short text; got {self.unit!r:.80}.")
        if self.fixed is not None:
            check_value(self.fixed, "Parameter(fixed)")
        if is_number:
            self._check_numbers()
        elif self.step is not None or self.log or self.whole:
            raise ValueError(f"step, log and whole belong to low and high; got {self!r}.")

    def _check_numbers(self) -> None:
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if value is None and name == "step":
                continue
            if not is_finite(value):
                raise ValueError(f"Parameter({name}) must be a finite number; got {value!r}.")
        assert self.low is not None and self.high is not None
        if self.whole and self.step is None:
            object.__setattr__(self, "step", 1)
        wrong = {
            "must have low < high": not self.low < self.high,
            "must have a positive low if log=True": self.log and not self.low > 0,
            "must have whole bounds and a whole step if whole=True": self.whole
            and any(float(one) % 1 for one in (self.low, self.high, self.step or 1)),
            "must have a positive step": self.step is not None and not self.step > 0,
            "takes log=True or a step, but not both": self.log
            and self.step is not None
            and not (self.whole and self.step == 1),
        }
        for rule, is_broken in wrong.items():
            if is_broken:
                raise ValueError(f"Parameter {rule}; got {self!r}.")
        if self.step is not None:
            steps = (self.high - self.low) / self.step
            if abs(steps - round(steps)) > 1e-9 * max(steps, 1.0):
                raise ValueError(
                    f"Parameter must reach high by whole steps; got {self!r}. Its last value is "
                    f"{self._round(self.low + int(steps) * self.step)!r}."
                )

    # ---- its values

    @property
    def count(self) -> int | None:
        """The number of values, or None if it takes all between its bounds."""
        if self.choices:
            return len(self.choices)
        if self.step is None:
            return None
        return round((self._high - self._low) / self.step) + 1

    @property
    def width(self) -> int:
        """The number of columns that kernels see."""
        return max(len(self.choices), 1)

    def columns(self, name: str) -> list[tuple[float, float, str]]:
        """The bounds and the name of each column."""
        if self.fixed is not None:
            return []
        if self.choices:
            return [(0.0, 1.0, f"{name}={choice}") for choice in self.choices]
        low, high = self._code(torch.tensor([self._low, self._high], dtype=torch.float64)).tolist()
        return [(low, high, name)]

    def spread(self, shares: Float[Tensor, " n"]) -> Float[Tensor, "n c"]:
        """The codes of values that fill the range as evenly as shares fill 0 to 1."""
        if self.count is None or self.log:
            low, high, _ = self.columns("")[0]
            return self.snap((low + shares * (high - low))[:, None])
        return self._codes_of((shares * self.count).floor().clamp(max=self.count - 1))

    def spread_all(self) -> Float[Tensor, "n c"]:
        """The codes of all values."""
        assert self.count is not None
        return self._codes_of(torch.arange(self.count, dtype=torch.float64))

    def snap(self, codes: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
        """The nearest codes of values, for codes between the bounds."""
        if self.count is None:
            return codes
        return self._codes_of(self._numbers_of(codes))

    def encode(self, value: Any, name: str) -> Float[Tensor, " c"]:
        """The code of a value. It is refused if it cannot be set."""
        if self.fixed is not None:
            if value != self.fixed:
                raise ValueError(f"{name!r} is fixed at {self.fixed!r}; got {value!r:.80}.")
            return torch.empty(0, dtype=torch.float64)
        if self.choices:
            found = [i for i, one in enumerate(self.choices) if _same(one, value)]
            if not found:
                raise ValueError(
                    f"{name!r} must be one of {list(self.choices)!r}; got {value!r:.80}."
                )
            return self._codes_of(torch.tensor([float(found[0])], dtype=torch.float64))[0]
        if not is_finite(value) or not self._low <= value <= self._high:
            raise ValueError(
                f"{name!r} must be a number from {self.low!r} to {self.high!r}"
                f"{self.unit and ' ' + self.unit}; got {value!r:.80}."
            )
        code = self._code(torch.tensor([float(value)], dtype=torch.float64))
        near = self.snap(code[:, None])[0]
        if abs(self.decode(near) - value) > 1e-9 * (self._high - self._low):
            raise ValueError(
                f"{name!r} must be {self.low!r} and whole steps of {self.step!r}; got {value!r}."
            )
        return near

    def decode(self, code: Float[Tensor, " c"]) -> Any:
        """The value of a code."""
        if self.choices:
            return self.choices[int(code.argmax())]
        if self.count is not None:
            value = self._low + float(self._numbers_of(code[None])[0]) * float(self.step or 1)
        else:
            value = float(f"{float(10**code):.15g}") if self.log else float(code)
            value = min(max(value, self._low), self._high)
        return self._round(value)

    # ---- inside

    @property
    def _low(self) -> float:
        assert self.low is not None
        return float(self.low)

    @property
    def _high(self) -> float:
        assert self.high is not None
        return float(self.high)

    def _round(self, value: float) -> Any:
        """Steps of 0.1 are written down with one digit."""
        if self.whole:
            return round(value)
        return value if self.step is None else float(f"{value:.12g}")

    def _code(self, values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return values.log10() if self.log else values

    def _codes_of(self, numbers: Float[Tensor, " n"]) -> Float[Tensor, "n c"]:
        """The codes of values by their numbers, from 0."""
        if self.choices:
            return torch.nn.functional.one_hot(numbers.long(), len(self.choices)).double()
        return self._code(self._low + numbers * float(self.step or 1))[:, None]

    def _numbers_of(self, codes: Float[Tensor, "n c"]) -> Float[Tensor, " n"]:
        """The numbers of the values whose codes are nearest."""
        if self.choices:
            return codes.argmax(dim=1).double()
        values = 10 ** codes[:, 0] if self.log else codes[:, 0]
        assert self.count is not None
        return ((values - self._low) / float(self.step or 1)).round().clamp(0, self.count - 1)

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "_"}
        low, high = given.pop("low"), given.pop("high")
        words = [] if low is None and high is None else [repr(low), repr(high)]
        words += [f"{name}={value!r}" for name, value in given.items() if value or value == 0]
        return f"Parameter({', '.join(word for word in words if not word.endswith('=False'))})"


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def check_value(value: Any, name: str) -> None:
    """Refuse what cannot be written down as it is."""
    is_text = isinstance(value, str) and len(value) <= LONGEST_TEXT
    if not (is_text or isinstance(value, bool) or is_finite(value)):
        raise ValueError(
            f"{name} must be a truth value, a finite number, or a text of at most {LONGEST_TEXT} "
            f"letters; got {value!r:.80}."
        )


def check_choices(choices: Any) -> tuple[Any, ...]:
    if isinstance(choices, str):
        raise TypeError(f"Parameter(choices) must be a list of values; got {choices!r:.80}.")
    found = tuple(choices)
    for one in found:
        check_value(one, "each of Parameter(choices)")
    if len(found) == 1 or len({(type(one), one) for one in found}) < len(found):
        raise ValueError(
            f"Parameter(choices) must be two different values or more; got {list(found)!r:.200}. "
            f"A single value is Parameter(fixed=...)."
        )
    return found


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other
