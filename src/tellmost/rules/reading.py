"""Rules from the way they are printed, such as ``MMR(relevance=0.7)``."""

from tellmost import rules
from tellmost.kernels.written import read_object
from tellmost.rules.rule import Rule

WRITTEN = {name: getattr(rules, name) for name in rules.__all__ if name not in ("BY_NAME", "Rule")}


def read_rule(text: str) -> Rule:
    """The rule that prints as ``text``; nothing is evaluated."""
    try:
        made = read_object(text, WRITTEN)
    except TypeError as error:
        raise ValueError(f"{text!r} is no rule of tellmost.rules.") from error
    if not isinstance(made, Rule):
        raise ValueError(f"{text!r} is no rule of tellmost.rules.")
    return made
