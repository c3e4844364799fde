"""The commands. Nothing here loads torch, so that help comes at once."""

from typing import Annotated

import typer

import tellmost
from tellmost.cli.commands import check, compare, demo, doctor, estimate, report, select
from tellmost.cli.reproduce import reproduce
from tellmost.cli.retrieve import retrieve
from tellmost.cli.study import study_app

app = typer.Typer(
    name="tellmost",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done · 1 failed · 2 bad usage · 3 stopped early, nothing more to gain · "
    "130 interrupted.",
)
for command in (select, retrieve, check, estimate, compare, report, demo, doctor, reproduce):
    app.command()(command)
app.add_typer(study_app, name="study")


def _print_version(is_asked: bool) -> bool:
    if is_asked:
        print(f"tellmost {tellmost.__version__}")
        raise typer.Exit
    return is_asked


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Choose the data that tells you most about what you want to know.

    You have a **pool** of rows that you may label, measure or train on, and a few **targets** that
    you want to predict well. Tellmost picks, one after the other, the rows whose observation most
    reduces the uncertainty about the targets (Hübotter et al., NeurIPS 2024).

    A first try, with embeddings in two files:

        tellmost select pool.npy --targets val.npy -k 100 -o picks.csv --report report.html

    or, with data that comes along: `tellmost demo`.
    """
