"""``sightline reproduce``: the paper's experiments, again."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from sightline.cli import options
from sightline.cli.ending import DONE, FAILED, UsageError
from sightline.experiments.catalogue import CATALOGUE, Entry, Request

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


def reproduce(
    name: Name = None,
    list: List = False,
    smoke: Smoke = False,
    out: Out = Path("reproduced"),
    rule: Rules = None,
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Run an experiment of the paper, judge its claims, and compare with the expected numbers.

    Writes a README with every verdict, per-seed results and the figure. Ends with exit code 1 if a
    number is not as expected.

        sightline reproduce gp-fig3
        sightline reproduce gp-fig3 --rule my_rules:MyRule
    """
    if list:
        print("\n".join(f"{entry.name:26}{entry.title}" for entry in CATALOGUE.values()))
        return DONE
    entry = find_entry(name)
    check_rules(rule or [])
    outcome = entry.run(Request(out, smoke, tuple(rule or ()), progress))
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


def check_rules(names: list[str]) -> None:
    """Whether they can be found and made; what is wrong with them is a matter of usage."""
    if not names:
        return
    from sightline.experiments.gp.own_rules import read_methods

    try:
        read_methods(names)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from error
