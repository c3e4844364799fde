"""Rules of the user's as methods, each tried on a small problem before anything runs."""

from collections.abc import Sequence
from typing import Any

from tellmost.cli.models import find_by_name
from tellmost.kernels import Gaussian
from tellmost.rules import Rule, is_random
from tellmost.testing.cases import cases
from tellmost.testing.rules import ExaminedRule, check_attributes, check_gains
from tellmost_reproduction.gp.methods import METHODS, Method, has_seed


def read_methods(names: Sequence[str]) -> list[Method]:
    """Rules of the user's, each as ``package.module:MyRule``: a class or an instance."""
    found = [_read_method(name) for name in names]
    keys = [method.key for method in METHODS]
    for method in found:
        if method.key in keys:
            raise ValueError(
                f"--rule: there is a method {method.key!r} already; give the rule another name."
            )
        keys.append(method.key)
    return found


def _read_method(name: str) -> Method:
    if ":" not in name:
        raise ValueError(
            f"--rule must name a rule as package.module:MyRule, such as my_rules:Greedy; got "
            f"{name!r}."
        )
    _, found = find_by_name(name, "--rule", "a rule: a class, or an instance of one")
    made = _made(found, name)
    if not isinstance(made, Rule):
        raise TypeError(
            f"--rule: {name} must be a rule, with the attributes of tellmost.rules.Rule; it is "
            f"of type {type(made).__name__}."
        )
    try:
        check_promises(made)
    except (AssertionError, ValueError) as error:
        raise ValueError(f"--rule: {name}: {error}") from error
    return Method(made.name, made.name, made, is_extra=True, is_own=True)


def check_promises(rule: Rule) -> None:
    """What the experiments rely on; ``tellmost.testing.check_rule`` checks every promise."""
    examined = ExaminedRule(rule)
    check_attributes(examined)
    check_name(rule.name)
    check_seed(rule)
    small = next(case for case in cases(rule, 0) if isinstance(case.kernel, Gaussian))
    check_gains(examined, small)


def check_name(name: str) -> None:
    if not name.strip() or "|" in name or not name.isprintable():
        raise ValueError(
            f"name must be one line of text without a |, as it heads a row of tables; got "
            f"{name!r}."
        )


def check_seed(rule: Rule) -> None:
    if (is_random(rule) or hasattr(rule, "seed")) and not has_seed(rule):
        raise ValueError(
            "a rule that draws is run with every seed, so it must be a dataclass with a field "
            "seed: int = 0; this one has is_random or seed, and no such field."
        )


def _made(found: Any, name: str) -> Any:
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as error:
        raise TypeError(
            f"--rule: {name} cannot be made without arguments ({error}). Give them defaults, or "
            f"name an instance."
        ) from error
