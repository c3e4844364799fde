"""The contract of a rule.

A rule whose every gain is checked while it is used.
"""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from tellmost.kernels import Linear, Precomputed
from tellmost.numerics import TIE_TOLERANCE
from tellmost.posterior.problem import FIXED_FIELDS, STATE_FIELDS, TARGET_FIELDS, State
from tellmost.posterior.weight_tracker import track
from tellmost.rules import is_random
from tellmost.testing.cases import (
    ROWS,
    Case,
    cases,
    copy_of,
    fail,
    gap,
    require_methods,
    same_state,
    tensors_of,
)


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


def check_rule(rule: object, *, seed: int = 0) -> None:
    """Check that a rule keeps the promises of ``tm.rules.Rule``, on small random problems.

    Linear and Gaussian kernels, both forms of the posterior, several observations, and select.
    What a rule says of itself is taken at its word and tested: ``needs``, ``is_signed``,
    ``gains_only_shrink``, ``weighs_targets``. A false claim about ``gains_only_shrink`` is found
    only if one of the problems shows it.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> @dataclass(frozen=True)
    ... class NoiselessVTL:
    ...     '''VTL as if the next observation had no noise.'''
    ...     name: ClassVar[str] = "noiseless-vtl"
    ...     unit: ClassVar[str] = "mean target variance"
    ...     needs: ClassVar[frozenset[str]] = frozenset({"variance", "squared_covariance"})
    ...     needs_targets: ClassVar[bool] = True
    ...     weighs_targets: ClassVar[bool] = True
    ...     gains_only_shrink: ClassVar[bool] = False
    ...     is_signed: ClassVar[bool] = False
    ...     def gain(self, state):
    ...         return state.squared_covariance / state.variance.clamp(min=1e-9)
    >>> check_rule(NoiselessVTL())
    """
    examined = ExaminedRule(rule)
    check_attributes(examined)
    for case in cases(examined.rule, seed):
        check_gains(examined, case)
        check_picks(examined, case)
        check_forms(examined, case)
        check_permutation(examined, case)
        check_weights(examined, case)
        check_row_of_zeros(examined, case)


ATTRIBUTES: dict[str, type] = {
    "name": str,
    "unit": str,
    "needs": frozenset,
    "needs_targets": bool,
    "weighs_targets": bool,
    "gains_only_shrink": bool,
    "is_signed": bool,
}


def check_attributes(examined: ExaminedRule) -> None:
    rule = examined.rule
    require_methods(rule, ("gain",), "rule")
    for name, kind in ATTRIBUTES.items():
        value = getattr(rule, name, None)
        if not isinstance(value, kind):
            examined.fail(
                f"{name} must be a {kind.__name__}",
                f"got {value!r}" if hasattr(rule, name) else "there is none",
                "select reads it before the first gain; see tm.rules.Rule.",
            )
    unknown = rule.needs - STATE_FIELDS
    if unknown:
        examined.fail(
            f"needs must name fields of a State ({', '.join(sorted(STATE_FIELDS))})",
            f"got {', '.join(sorted(map(str, unknown)))}",
            "select would refuse the rule.",
        )
    if rule.needs & TARGET_FIELDS and not rule.needs_targets:
        examined.fail(
            "a rule that reads targets must say needs_targets = True",
            f"it needs {', '.join(sorted(rule.needs & TARGET_FIELDS))}",
            "Without targets these do not exist.",
        )


def check_gains(examined: ExaminedRule, case: Case) -> None:
    """Before and after some observations."""
    tracker, rows = track(case.problem(examined.rule)), torch.arange(ROWS)
    before: Tensor | None = None
    for row in (None, 3, 11, 3, 17):
        if row is not None:
            tracker.observe(row)
        state = next(tracker.states())[2]
        gains = examined.gain(state, case)
        examined.compare(
            examined.gain(tracker.state(rows), case),
            gains,
            "running and fresh states must give the same gain",
            case,
            "Leaders are scored afresh before one is chosen.",
        )
        check_some(examined, state, gains, case)
        check_sign(examined, gains, case)
        check_shrinking(examined, before, gains, row, case)
        before = gains


def check_some(examined: ExaminedRule, state: State, gains: Tensor, case: Case) -> None:
    for some in (torch.tensor([ROWS - 1, 0, ROWS // 2]), torch.tensor([5])):
        examined.compare(
            examined.gain(state.restrict(some), case),
            gains[some],
            "scoring some rows must equal scoring all and taking some",
            case,
            "A gain depends on its own row only; a rule that looks across rows (a mean, a rank, a "
            "maximum) gives other picks for other blocks.",
        )


def check_sign(examined: ExaminedRule, gains: Tensor, case: Case) -> None:
    if not examined.rule.is_signed and bool((gains < 0).any()):
        examined.fail(
            "gains must not be negative unless is_signed is True",
            f"row {int(gains.argmin())} has {float(gains.min()):.3g} on {case.name}",
            "Gain per cost and min_gain would mislead: declare is_signed = True, or repair it.",
        )


def check_shrinking(
    examined: ExaminedRule, before: Tensor | None, gains: Tensor, row: int | None, case: Case
) -> None:
    if before is None or not examined.rule.gains_only_shrink:
        return
    rise = gains - before
    if bool((rise > TIE_TOLERANCE * before.abs().max()).any()):
        worst = int(rise.argmax())
        examined.fail(
            "gains_only_shrink is declared, so no observation may raise a gain",
            f"row {worst} rose from {float(before[worst]):.6g} to {float(gains[worst]):.6g} when "
            f"row {row} was observed, on {case.name}",
            "Lazy scoring would miss such rows: declare gains_only_shrink = False.",
        )


def check_picks(examined: ExaminedRule, case: Case) -> None:
    """Each pick of select has the largest gain of what was left, and reports it."""
    try:
        chosen = case.select(examined.rule)
    except Exception as error:
        raise AssertionError(
            f"rule {examined.rule.name!r}: select must accept it; on {case.name} it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    tracker = track(case.problem(examined.rule))
    left = torch.ones(ROWS, dtype=torch.bool)
    for pick, gain in zip(chosen.indices.tolist(), chosen.gains.tolist(), strict=True):
        gains = examined.gain(tracker.state(torch.arange(ROWS)), case)
        slack = TIE_TOLERANCE * float(gains.abs().max())
        best = float(gains[left].max())
        if not left[pick] or gains[pick] < best - slack or abs(gain - gains[pick]) > slack:
            examined.fail(
                "select must pick the largest gain that is left, and report it",
                f"it picked row {pick} of gain {float(gains[pick]):.6g} as {gain:.6g}, where the "
                f"best is {best:.6g}, on {case.name}",
                "Either gains_only_shrink is false, or gain reads what is not in the state.",
            )
        left[pick] = False
        if examined.rule.needs - FIXED_FIELDS:  # else select scores once
            tracker.observe(pick)


def check_forms(examined: ExaminedRule, case: Case) -> None:
    """The linear kernel as features and as a matrix: weight space and function space."""
    if not isinstance(case.kernel, Linear):
        return
    points = case.pool if case.targets is None else torch.cat([case.pool, case.targets])
    numbers = torch.arange(len(points))
    as_matrix = replace(
        case,
        kernel=Precomputed(points @ points.T),
        pool=numbers[:ROWS],
        targets=None if case.targets is None else numbers[ROWS:],
    )
    examined.compare(
        gains_after(examined, as_matrix, (2, 13)),
        gains_after(examined, case, (2, 13)),
        "weight space and function space must give the same gains",
        case,
        "The same kernel would pick differently as features and as a matrix.",
    )


def check_permutation(examined: ExaminedRule, case: Case) -> None:
    if not examined.rule.needs or is_random(examined.rule):  # it reads row numbers
        return
    order = torch.arange(ROWS).flip(0)
    permuted = replace(case, pool=case.pool[order])
    examined.compare(
        gains_after(examined, permuted, (ROWS - 1 - 2, ROWS - 1 - 13)),
        gains_after(examined, case, (2, 13))[order],
        "permuting the pool must permute the gains",
        case,
        "Picks would depend on the order of the rows: read the fields, not state.rows.",
    )


def check_weights(examined: ExaminedRule, case: Case) -> None:
    if not examined.rule.weighs_targets or case.weights is None:
        return
    other = replace(case, weights=case.weights.flip(0))
    if gap(gains_after(examined, other, ()), gains_after(examined, case, ())) is None:
        examined.fail(
            "weighs_targets is declared, so target_weights must have an effect",
            f"other weights give the same gains on {case.name}",
            "select(target_weights=...) would be ignored: declare weighs_targets = False, or use "
            "state.target_weights.",
        )


def check_row_of_zeros(examined: ExaminedRule, case: Case) -> None:
    """Under a linear kernel f is known at 0, so its observation is noise."""
    rule = examined.rule
    if not isinstance(case.kernel, Linear) or rule.is_signed or "variance" not in rule.needs:
        return
    pool = case.pool.clone()
    pool[4] = 0.0
    gains = gains_after(examined, replace(case, pool=pool), (2, 13))
    if float(gains[4]) > TIE_TOLERANCE * float(gains.max()):
        examined.fail(
            "a row that is known already must have gain 0",
            f"a row of zeros has {float(gains[4]):.3g} on {case.name}",
            "Zero means that a pick teaches nothing: min_gain would never stop.",
        )


def gains_after(examined: ExaminedRule, case: Case, observed: tuple[int, ...]) -> Tensor:
    tracker = track(case.problem(examined.rule))
    for row in observed:
        tracker.observe(row)
    return examined.gain(next(tracker.states())[2], case)
