"""``tellmost reproduce``: the paper's experiments, again."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from tellmost.cli import options
from tellmost.cli.ending import DONE, FAILED, UsageError
from tellmost_reproduction.catalogue import CATALOGUE, Entry, Request

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
    if list:
        print("\n".join(f"{entry.name:26}{entry.title}" for entry in CATALOGUE.values()))
        return DONE
    entry = find_entry(name)
    check_rules(rule or [])
    check_data(entry, data, is_smoke=smoke)
    check_device(device)
    outcome = entry.run(Request(out, smoke, tuple(rule or ()), progress, data, device))
    print(outcome.text)
    print(f"\nwritten: {', '.join(str(path) for path in outcome.written)}")
    if outcome.differences:
        print(f"\nnot as expected:\n{chr(10).join(outcome.differences)}")
        return FAILED
    return DONE


def find_entry(name: str | None) -> Entry:
    if name is None:
        raise UsageError(f"name an experiment: {', '.join(CATALOGUE)}.")
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        names = ", ".join(CATALOGUE)
        raise UsageError(f"there is no experiment {name!r}; there are {names}.{hint}")
    return CATALOGUE[name]


def check_data(entry: Entry, data: Path | None, *, is_smoke: bool) -> None:
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


def check_rules(names: list[str]) -> None:
    """Whether they can be found and made; what is wrong with them is a matter of usage."""
    if not names:
        return
    from tellmost_reproduction.gp.own_rules import read_methods

    try:
        read_methods(names)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from error
