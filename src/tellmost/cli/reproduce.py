"""``tellmost reproduce``: the paper's experiments, again."""

from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from tellmost.cli import options
from tellmost.cli.ending import DONE, FAILED, UsageError

INSTALL = (
    "the paper's experiments are a distribution of their own, which is not installed: pip install "
    "tellmost-reproduction, or in a clone of the repository pip install ./reproduction."
)

Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Which; --list names them.", show_default=False),
]
List = Annotated[
    bool, options.option("--list", panel=options.ESSENTIALS, help="Name all experiments.")
]
Smoke = Annotated[
    bool,
    options.option("--smoke", panel=options.RUNNING, help="A tiny size, to see that it runs."),
]
Out = Annotated[
    Path,
    options.option(
        "--out",
        "-o",
        panel=options.OUTPUT,
        help="Folder for the results: a folder of its name for each experiment.",
        show_default=True,
    ),
]
Rules = Annotated[
    list[str] | None,
    options.option(
        "--rule",
        panel=options.PICKS,
        metavar="PACKAGE.MODULE:RULE",
        help="A rule of yours to run beside the others; may be given again.",
    ),
]
Data = Annotated[
    Path | None,
    options.option(
        "--data",
        panel=options.ESSENTIALS,
        help="Folder with the files that an experiment reads; those with networks need it.",
    ),
]
Device = Annotated[
    str,
    options.option(
        "--device", panel=options.RUNNING, help="Where networks are trained: cpu, or cuda."
    ),
]


def reproduce(
    name: Name = None,
    list: List = False,
    smoke: Smoke = False,
    out: Out = Path("reproduced"),
    rule: Rules = None,
    data: Data = None,
    device: Device = "cpu",
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Run an experiment of the paper, judge its claims, and compare with the expected numbers.

    Writes a README with every verdict, per-seed results and the figure. Ends with exit code 1 if a
    number is not as expected.

        tellmost reproduce gp-fig3
        tellmost reproduce gp-fig3 --rule my_rules:MyRule
        tellmost reproduce nn-cifar100 --data folder --device cuda
    """
    experiments = find_experiments()
    if list:
        entries = experiments.CATALOGUE.values()
        print("\n".join(f"{entry.name:26}{entry.title}" for entry in entries))
        return DONE
    entry = find_entry(experiments.CATALOGUE, name)
    try:
        experiments.check_rules(rule or [])
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from error
    check_data(entry, data, is_smoke=smoke)
    check_device(device)
    outcome = entry.run(experiments.Request(out, smoke, tuple(rule or ()), progress, data, device))
    print(outcome.text)
    print(f"\nwritten: {', '.join(str(path) for path in outcome.written)}")
    if outcome.differences:
        print(f"\nnot as expected:\n{chr(10).join(outcome.differences)}")
        return FAILED
    return DONE


def find_experiments() -> Any:
    """The catalogue of experiments, which another distribution brings along."""
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
    """One that is there; torch is not loaded for the CPU."""
    if device == "cpu":
        return
    import torch

    if not device.startswith("cuda") or not torch.cuda.is_available():
        there = "cpu, cuda" if torch.cuda.is_available() else "cpu (torch sees no GPU here)"
        raise UsageError(f"--device must be one of {there}; got {device!r}.")
