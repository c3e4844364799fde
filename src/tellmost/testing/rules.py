"""The contract of a rule."""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from tellmost.kernels import Linear, Precomputed
from tellmost.numerics import TIE_TOLERANCE
from tellmost.posterior.problem import FIXED_FIELDS, STATE_FIELDS, TARGET_FIELDS, State
from tellmost.posterior.weight_tracker import Tracker, track
from tellmost.rules import is_random
from tellmost.testing.cases import (
    ROWS,
    Case,
    cases,
    copy_of,
    fail,
    gap,
    require_methods,
    tensors_of,
)


def check_rule(rule: Any, *, seed: int = 0) -> None:
    """Check that a rule keeps the promises of ``tm.rules.Rule``, on small random problems.

    Linear and Gaussian kernels, both forms of the posterior, several observations, and select.
    What a rule says of itself is taken at its word and tested: ``needs``, ``is_signed``,
    ``gains_only_shrink``, ``weighs_targets``. A false claim about ``gains_only_shrink`` is found
    only if one of the problems shows it.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from tellmost.rules import Rule
    >>> @dataclass(frozen=True)
    ... class NoiselessVTL(Rule):
    ...     '''VTL as if the next observation had no noise.'''
    ...     name: ClassVar[str] = "noiseless-vtl"
    ...     unit: ClassVar[str] = "mean target variance"
    ...     needs: ClassVar[frozenset[str]] = frozenset({"variance", "squared_covariance"})
    ...     weighs_targets: ClassVar[bool] = True
    ...     def gain(self, state):
    ...         return state.squared_covariance / state.variance.clamp(min=1e-9)
    >>> check_rule(NoiselessVTL())
    """
    check_attributes(rule)
    for case in cases(rule, seed):
        examined = ExaminedRule(rule, case)
        for check in (
            check_gains,
            check_picks,
            check_forms,
            check_permutation,
            check_weights,
            check_row_of_zeros,
        ):
            check(examined)


ATTRIBUTES: dict[str, type] = {
    "name": str,
    "unit": str,
    "needs": frozenset,
    "needs_targets": bool,
    "weighs_targets": bool,
    "gains_only_shrink": bool,
    "is_signed": bool,
}


def check_attributes(rule: Any) -> None:
    """Check what a rule says of itself, before it is used."""
    require_methods(rule, ("gain",), "rule")
    subject = f"rule {getattr(rule, 'name', rule)!r}"
    for name, kind in ATTRIBUTES.items():
        value = getattr(rule, name, None)
        if not isinstance(value, kind):
            fail(
                subject,
                f"{name} must be a {kind.__name__}",
                f"got {value!r}" if hasattr(rule, name) else "there is none",
                "select reads it before the first gain; see tm.rules.Rule.",
            )
    unknown = rule.needs - STATE_FIELDS
    if unknown:
        fail(
            subject,
            f"needs must name fields of a State ({', '.join(sorted(STATE_FIELDS))})",
            f"got {', '.join(sorted(map(str, unknown)))}",
            "select would refuse the rule.",
        )
    if rule.needs & TARGET_FIELDS and not rule.needs_targets:
        fail(
            subject,
            "a rule that reads targets must say needs_targets = True",
            f"it needs {', '.join(sorted(rule.needs & TARGET_FIELDS))}",
            "Without targets these do not exist.",
        )


@dataclass(frozen=True)
class ExaminedRule:
    """A rule on a small problem, whose every gain is checked for shape, dtype and side effects."""

    rule: Any
    case: Case

    def gain(self, state: State) -> Tensor:
        """The gain of a state that has the fields named in ``needs`` and no other."""
        state = replace(state, fields={name: state.fields[name] for name in self.rule.needs})
        given = copy_of(state)
        gains = self._ask(given)
        self._require_values(gains, given)
        pairs = zip(tensors_of(given), tensors_of(state), strict=True)
        if not all(torch.equal(a, b) for a, b in pairs):
            self.fail(
                "gain must not change the state",
                "it did",
                "The state is the running memory of the posterior: every later gain would be "
                "wrong. Use operations without a trailing underscore, or clone first.",
            )
        if gap(self._ask(copy_of(state)), gains) is not None:
            self.fail(
                "gain must be a function of the state alone",
                "two calls differ",
                "The best rows are scored again before one is chosen. Draw random numbers from "
                "the rule's seed, state.rows and state.step.",
            )
        return gains

    def gains_after(self, *observed: int) -> Tensor:
        tracker = self.tracker()
        for row in observed:
            tracker.observe(row)
        return self.gain(running_state(tracker))

    def tracker(self) -> Tracker:
        return track(self.case.problem(self.rule))

    def compare(self, actual: Tensor, expected: Tensor, contract: str, meaning: str) -> None:
        found = gap(actual, expected)
        if found is not None:
            self.fail(contract, found, meaning)

    def fail(self, contract: str, found: str, meaning: str) -> NoReturn:
        fail(f"rule {self.rule.name!r}", contract, f"{found} on {self.case.name}", meaning)

    def _ask(self, state: State) -> Any:
        try:
            return self.rule.gain(state)
        except Exception as error:
            raise AssertionError(
                f"rule {self.rule.name!r}: gain must score every state that has the fields in its "
                f"needs ({', '.join(sorted(self.rule.needs)) or 'none'}); on {self.case.name} it "
                f"raised {type(error).__name__}: {error}"
            ) from error

    def _require_values(self, gains: Any, state: State) -> None:
        shape = (len(state.rows),)
        if not isinstance(gains, Tensor) or gains.shape != shape or gains.dtype != torch.float64:
            came = type(gains).__name__
            if isinstance(gains, Tensor):
                came = f"{gains.dtype} of shape {tuple(gains.shape)}"
            self.fail(
                f"gain must be a float64 tensor of shape {shape}, an entry per row",
                f"got {came}",
                "Candidates are ranked by it.",
            )
        if not bool(torch.isfinite(gains).all()):
            row = int((~torch.isfinite(gains)).nonzero()[0, 0])
            self.fail(
                "gain must be finite",
                f"got {float(gains[row])} for row {row}",
                "A NaN or an infinity would be picked first or never; guard the division or the "
                "logarithm.",
            )
        memory = {values.untyped_storage().data_ptr() for values in tensors_of(state)}
        if gains.untyped_storage().data_ptr() in memory:
            self.fail(
                "gain must be a tensor of its own",
                "it is a view of the state",
                "Writing to gains would change the running memory of the posterior: return a "
                "clone.",
            )


def running_state(tracker: Tracker) -> State:
    """The state of all rows as a selection sees it: few rows come in one piece."""
    seen: list[State] = []

    def note(state: State) -> Tensor:
        seen.append(state)
        return torch.zeros_like(state.noise_variance)

    tracker.score(note)
    return seen[0]


def check_gains(examined: ExaminedRule) -> None:
    tracker, rows = examined.tracker(), torch.arange(ROWS)
    before: Tensor | None = None
    for row in (None, 3, 11, 3, 17):
        if row is not None:
            tracker.observe(row)
        state = running_state(tracker)
        gains = examined.gain(state)
        examined.compare(
            examined.gain(tracker.state(rows)),
            gains,
            "running and fresh states must give the same gain",
            "The best rows are scored afresh before one is chosen.",
        )
        for some in (torch.tensor([ROWS - 1, 0, ROWS // 2]), torch.tensor([5])):
            examined.compare(
                examined.gain(state.restrict(some)),
                gains[some],
                "scoring some rows must equal scoring all and taking some",
                "A gain depends on its own row only; a rule that looks across rows (a mean, a "
                "rank, a maximum) gives other picks for other blocks.",
            )
        if not examined.rule.is_signed and bool((gains < 0).any()):
            examined.fail(
                "gains must not be negative unless is_signed is True",
                f"row {int(gains.argmin())} has {float(gains.min()):.3g}",
                "Gain per cost and min_gain would mislead: declare is_signed = True, or mend it.",
            )
        if before is not None and examined.rule.gains_only_shrink:
            check_shrinking(examined, before, gains, row)
        before = gains


def check_shrinking(
    examined: ExaminedRule, before: Tensor, gains: Tensor, row: int | None
) -> None:
    rise = gains - before
    if bool((rise > TIE_TOLERANCE * before.abs().max()).any()):
        worst = int(rise.argmax())
        examined.fail(
            "gains_only_shrink is declared, so no observation may raise a gain",
            f"row {worst} rose from {float(before[worst]):.6g} to {float(gains[worst]):.6g} when "
            f"row {row} was observed,",
            "Whoever scores only rows that may be the best would miss them: declare "
            "gains_only_shrink = False.",
        )


def check_picks(examined: ExaminedRule) -> None:
    """Check that each pick of select has the largest gain of what was left, and reports it."""
    rule, case = examined.rule, examined.case
    try:
        chosen = case.select(rule)
    except Exception as error:
        raise AssertionError(
            f"rule {rule.name!r}: select must accept it; on {case.name} it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    tracker = examined.tracker()
    left = torch.ones(ROWS, dtype=torch.bool)
    for pick, gain in zip(chosen.indices.tolist(), chosen.gains.tolist(), strict=True):
        gains = examined.gain(tracker.state(torch.arange(ROWS)))
        slack = TIE_TOLERANCE * float(gains.abs().max())
        best = float(gains[left].max())
        if not left[pick] or gains[pick] < best - slack or abs(gain - gains[pick]) > slack:
            examined.fail(
                "select must pick the largest gain that is left, and report it",
                f"it picked row {pick} of gain {float(gains[pick]):.6g} as {gain:.6g}, where the "
                f"best is {best:.6g},",
                "Either gains_only_shrink is false, or gain reads what is not in the state.",
            )
        left[pick] = False
        if rule.needs - FIXED_FIELDS:  # else select scores once
            tracker.observe(pick)


def check_forms(examined: ExaminedRule) -> None:
    """Check that a linear kernel gives the same gains as features and as a matrix."""
    case = examined.case
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
        replace(examined, case=as_matrix).gains_after(2, 13),
        examined.gains_after(2, 13),
        "weight space and function space must give the same gains",
        "The same kernel would pick differently as features and as a matrix.",
    )


def check_permutation(examined: ExaminedRule) -> None:
    if not examined.rule.needs or is_random(examined.rule):  # it reads row numbers
        return
    order = torch.arange(ROWS).flip(0)
    permuted = replace(examined.case, pool=examined.case.pool[order])
    examined.compare(
        replace(examined, case=permuted).gains_after(ROWS - 1 - 2, ROWS - 1 - 13),
        examined.gains_after(2, 13)[order],
        "permuting the pool must permute the gains",
        "Picks would depend on the order of the rows: read the fields, not state.rows.",
    )


def check_weights(examined: ExaminedRule) -> None:
    case = examined.case
    if not examined.rule.weighs_targets or case.weights is None:
        return
    other = replace(examined, case=replace(case, weights=case.weights.flip(0)))
    if gap(other.gains_after(), examined.gains_after()) is None:
        examined.fail(
            "weighs_targets is declared, so target_weights must have an effect",
            "other weights give the same gains",
            "select(target_weights=...) would be ignored: declare weighs_targets = False, or use "
            "state.target_weights.",
        )


def check_row_of_zeros(examined: ExaminedRule) -> None:
    """Check that nothing is gained at 0, where f is known under a linear kernel."""
    rule, case = examined.rule, examined.case
    if not isinstance(case.kernel, Linear) or rule.is_signed or "variance" not in rule.needs:
        return
    pool = case.pool.clone()
    pool[4] = 0.0
    gains = replace(examined, case=replace(case, pool=pool)).gains_after(2, 13)
    if float(gains[4]) > TIE_TOLERANCE * float(gains.max()):
        examined.fail(
            "a row that is known already must have gain 0",
            f"a row of zeros has {float(gains[4]):.3g}",
            "Zero means that a pick teaches nothing: min_gain would never stop.",
        )
