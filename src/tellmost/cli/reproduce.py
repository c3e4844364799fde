"""``tellmost reproduce`` runs the paper's experiments, which are another distribution."""

from difflib import get_close_matches
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
    entry = find_entry(experiments.CATALOGUE, given.name)
    rules = given.rule or []
    try:
        experiments.check_rules(rules)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from error
    check_data(entry, given.data, is_smoke=given.smoke)
    check_device(given.device)
    request = experiments.Request(
        given.out, given.smoke, tuple(rules), given.progress, given.data, given.device
    )
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


def find_entry(catalogue: dict[str, Any], name: str | None) -> Any:
    """The experiment of this name."""
    if name is None:
        raise UsageError(f"name an experiment: {', '.join(catalogue)}.")
    if name not in catalogue:
        close = get_close_matches(name, catalogue, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        names = ", ".join(catalogue)
        raise UsageError(f"there is no experiment {name!r}; there are {names}.{hint}")
    return catalogue[name]


def check_data(entry: Any, data: Path | None, *, is_smoke: bool) -> None:
    if data is not None and not data.is_dir():
        raise UsageError(f"--data must be a folder; {data} is none.")
    if entry.needs_data and data is None and not is_smoke:
        raise UsageError(
            f"{entry.name} needs --data, a folder with images and weights (docs/"
            f"network-experiments.md says which, and where they come from). --smoke runs without."
        )


def check_device(device: str) -> None:
    """Check that the device exists. torch is not loaded for the CPU."""
    if device == "cpu":
        return
    import torch

    if not device.startswith("cuda") or not torch.cuda.is_available():
        there = "cpu, cuda" if torch.cuda.is_available() else "cpu (torch sees no GPU here)"
        raise UsageError(f"--device must be one of {there}; got {device!r}.")
