"""Whether the targets are where a rule needs them."""

from tellmost.posterior.nearness import targets_among_rows
from tellmost.posterior.problem import Problem
from tellmost.rules import Rule
from tellmost.rules.rule import targets_in_pool


def check_placement(rule: Rule, problem: Problem) -> None:
    """Some rules make sense only where all, or some, of the targets are candidates."""
    wanted = targets_in_pool(rule)
    if wanted is None or problem.targets is None:
        return
    found = targets_among_rows(problem)
    missing = (~found).nonzero().flatten().tolist()
    if not missing or (wanted == "some" and len(missing) < len(found)):
        return
    needed = "every target" if wanted == "all" else "at least one target"
    which = "none is" if len(missing) == len(found) else f"target {missing[0]} is not"
    raise ValueError(
        f"rule {rule.name!r} needs {needed} to be a row that may be picked, as it has no meaning "
        f"for targets outside; {len(missing)} of the {len(found)} targets are no candidates "
        f"({which} among them). Add them to the pool or to candidates, or use rule='vtl', which "
        f"takes targets anywhere."
    )
