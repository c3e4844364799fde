"""A rule whose every gain is checked while it is used."""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from tellmost.posterior.problem import State
from tellmost.testing.cases import Case, copy_of, same_state, tensors_of
from tellmost.testing.contracts import fail, gap


@dataclass(frozen=True)
class ExaminedRule:
    """A rule whose every gain is checked for shape, dtype and side effects."""

    rule: Any

    def gain(self, state: State, case: Case) -> Tensor:
        """The gain of a state that has the fields named in ``needs`` and no other."""
        fields = {name: state.fields[name] for name in self.rule.needs}
        state = replace(state, fields=fields)
        given = copy_of(state)
        gains = self._ask(given, case)
        self._require_values(gains, given, case)
        if not same_state(given, state):
            self.fail(
                "gain must not change the state",
                f"it did, on {case.name}",
                "The state is the running memory of the posterior: every later gain would be "
                "wrong. Use operations without a trailing underscore, or clone first.",
            )
        if gap(self._ask(copy_of(state), case), gains) is not None:
            self.fail(
                "gain must be a function of the state alone",
                f"two calls differ on {case.name}",
                "Leaders are scored again before one is chosen. Draw random numbers from the "
                "rule's seed, state.rows and state.step.",
            )
        return gains

    def compare(
        self, actual: Tensor, expected: Tensor, contract: str, case: Case, meaning: str
    ) -> None:
        found = gap(actual, expected)
        if found is not None:
            self.fail(contract, f"{found} on {case.name}", meaning)

    def fail(self, contract: str, found: str, meaning: str) -> NoReturn:
        fail(f"rule {getattr(self.rule, 'name', self.rule)!r}", contract, found, meaning)

    def _ask(self, state: State, case: Case) -> Any:
        try:
            return self.rule.gain(state)
        except Exception as error:
            raise AssertionError(
                f"rule {self.rule.name!r}: gain must score every state that has the fields in its "
                f"needs ({', '.join(sorted(self.rule.needs)) or 'none'}); on {case.name} it "
                f"raised {type(error).__name__}: {error}"
            ) from error

    def _require_values(self, gains: Any, state: State, case: Case) -> None:
        shape = (len(state.rows),)
        if not isinstance(gains, Tensor) or gains.shape != shape or gains.dtype != torch.float64:
            came = (
                f"{gains.dtype} of shape {tuple(gains.shape)}"
                if isinstance(gains, Tensor)
                else type(gains).__name__
            )
            self.fail(
                f"gain must be a float64 tensor of shape {shape}, an entry per row",
                f"got {came} on {case.name}",
                "Candidates are ranked by it.",
            )
        if not bool(torch.isfinite(gains).all()):
            row = int((~torch.isfinite(gains)).nonzero()[0, 0])
            self.fail(
                "gain must be finite",
                f"got {float(gains[row])} for row {row} on {case.name}",
                "A NaN or an infinity would be picked first or never; guard the division or the "
                "logarithm.",
            )
        memory = {values.untyped_storage().data_ptr() for values in tensors_of(state)}
        if gains.untyped_storage().data_ptr() in memory:
            self.fail(
                "gain must be a tensor of its own",
                f"it is a view of the state on {case.name}",
                "Writing to gains would change the running memory of the posterior: return a "
                "clone.",
            )
