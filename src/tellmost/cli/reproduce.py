"""``tellmost reproduce`` runs the paper's experiments, which are another distribution."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tellmost.cli.ending import DONE, FAILED, UsageError
from tellmost.cli.options import ESSENTIALS, OUTPUT, PICKS, RUNNING, Option, OptionValues, command

INSTALL = (
    "the paper's experiments are a distribution of their own, which is not installed: pip install "
    "tellmost-reproduction, or in a clone of the repository pip install ./reproduction."
)


@command(
    Option("name", str, None, "NAME").says("Which experiment; --list names them."),
    Option("list", bool, ESSENTIALS, default=False).says("Name all experiments."),
    Option("smoke", bool, RUNNING, default=False).says("A tiny size, to see that it runs."),
    Option("out", Path, OUTPUT, default=Path("reproduced"), flags=("--out", "-o")).says(
        "Folder for the results: a folder of its name for each experiment."
    ),
    Option("rule", list[str], PICKS, "PACKAGE.MODULE:RULE").says(
        "A rule of yours to run beside the others. May be given again."
    ),
    Option("data", Path, ESSENTIALS).says(
        "Folder with the files that an experiment reads; those with networks need it."
    ),
    Option("device", str, RUNNING, default="cpu").says(
        "Where networks are trained: cpu, or cuda."
    ),
    "progress",
)
def reproduce(given: OptionValues) -> int:
    """Run an experiment of the paper, judge its claims, and compare with the expected numbers.

    Writes a README with every verdict, per-seed results and the figure. Ends with exit code 1 if a
    number is not as expected.

        tellmost reproduce gp-fig3
        tellmost reproduce gp-fig3 --rule my_rules:MyRule
        tellmost reproduce nn-cifar100 --data folder --device cuda
    """
    experiments = find_experiments()
    if given.list:
        entries = experiments.CATALOGUE.values()
        print("\n".join(f"{entry.name:26}{entry.title}" for entry in entries))
        return DONE
    request = experiments.Request(
        given.out, given.smoke, tuple(given.rule or ()), given.progress, given.data, given.device
    )
    try:
        entry = experiments.find(given.name, request)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from error
    outcome = entry.run(request)
    print(outcome.text)
    print(f"\nwritten: {', '.join(str(path) for path in outcome.written)}")
    if outcome.differences:
        print(f"\nnot as expected:\n{chr(10).join(outcome.differences)}")
        return FAILED
    return DONE


def find_experiments() -> Any:
    """The catalogue of experiments. Another distribution announces it by an entry point."""
    for found in entry_points(group="tellmost.experiments"):
        return found.load()
    raise UsageError(INSTALL)
