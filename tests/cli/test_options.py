"""Options mirror the Python names, help reads well, and nothing heavy is loaded for it."""

import inspect
import subprocess
import sys

import pytest

import tellmost as tm
from conftest import environment

pytest.importorskip("typer")

from tellmost.cli.app import app
from tellmost.cli.commands import check, compare, demo, estimate, report, select
from tellmost.cli.ending import in_terms_of_options, run
from tellmost.cli.reproduce import reproduce
from tellmost.cli.retrieve import retrieve

COMMANDS = {
    "select": select,
    "retrieve": retrieve,
    "check": check,
    "estimate": estimate,
    "compare": compare,
    "report": report,
    "demo": demo,
    "reproduce": reproduce,
}


def names_of(function):
    return set(inspect.signature(function).parameters)


def test_every_argument_of_select_is_an_option():
    of_processes = {"group"}  # the processes of one run are started by torchrun, not from here
    assert names_of(tm.select) - of_processes - {"column", "text"} <= names_of(select)
    assert {"vector_column", "text_field"} <= names_of(select)  # are said as in other commands


def test_other_commands_share_the_names_of_their_functions():
    from tellmost.evaluation.comparing import compare as compare_methods
    from tellmost.evaluation.estimation import estimate as estimate_run
    from tellmost.evaluation.suitability import check as check_pool

    for command, function in (
        (compare, compare_methods),
        (check, check_pool),
        (estimate, estimate_run),
    ):
        assert names_of(function) <= names_of(command), command.__name__
    assert {"selection", "pool", "targets", "output"} <= names_of(report)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_its_help(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert run(app, [command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Usage: tellmost {command}" in text
    for name in names_of(COMMANDS[command]) - {"pool", "selection", "name"}:
        assert f"--{name.replace('_', '-')}" in text, name


def test_help_names_every_rule(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run(app, ["select", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in tm.rules.names():
        assert name in text, name


@pytest.mark.process
def test_without_a_command_there_is_help():
    done = subprocess.run(
        [sys.executable, "-m", "tellmost"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"│ {command} " in done.stdout


@pytest.mark.process
def test_the_version_is_told():
    command = [sys.executable, "-m", "tellmost", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.stdout == f"tellmost {tm.__version__}\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("noise_ratio must be positive", "--noise-ratio must be positive"),
        ("(min_gain_share) and min_gain 3", "(--min-gain-share) and --min-gain 3"),
        ("Pass replace=True to allow it", "Pass --replace to allow it"),
        ("give embed='all-minilm'.", "give --embed all-minilm."),
        ("the budget is spent", "the budget is spent"),
    ],
)
def test_errors_speak_of_options(message, expected):
    assert in_terms_of_options(message) == expected
