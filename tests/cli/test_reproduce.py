"""``tellmost reproduce`` as a shell calls it."""

import pytest

pytest.importorskip("typer")

from tellmost.cli.app import app
from tellmost.cli.ending import run as run_here
from tellmost_reproduction.catalogue import CATALOGUE, Entry, Outcome

RULE = """
import tellmost as tm

class Mine(tm.rules.VTL):
    name = "mine"
"""


def test_an_experiment_runs_at_its_smoke_size(tmp_path, run):
    pytest.importorskip("matplotlib")
    (tmp_path / "my_rules.py").write_text(RULE)
    done = run("reproduce", "gp-extrapolation", "--smoke", "--rule", "my_rules:Mine")
    assert (tmp_path / "reproduced" / "gp-extrapolation" / "README.md").exists()
    assert "smoke size" in done.stdout and "\nmine " in done.stdout
    assert "written: reproduced/gp-extrapolation\n" in done.stdout
    assert done.stderr == ""


def call(capsys, *arguments):
    code = run_here(app, ["reproduce", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_experiments_are_listed(capsys):
    code, out, _ = call(capsys, "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(CATALOGUE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name an experiment: gp, gp-fig2"),
        (["gp-fig33"], "there is no experiment 'gp-fig33'"),
        (["gp-fig33"], "Did you mean gp-fig3?"),
        (["gp-fig3", "--rule", "vtl"], "must name a rule as package.module:MyRule"),
        (["gp-fig3", "--rule", "nowhere:Rule"], "there is no module 'nowhere'"),
        (["gp-fig3", "--rule", "tellmost:nothing"], "has no 'nothing'"),
        (["gp-fig3", "--rule", "tellmost.rules:VTL"], "there is a method 'vtl' already"),
        (["nn-mnist"], "nn-mnist needs --data, a folder"),
        (["nn-mnist", "--data", "nowhere"], "--data must be a folder; nowhere is none"),
        (["nn-mnist", "--smoke", "--device", "gpu"], "--device must be one of cpu"),
    ],
)
def test_bad_usage_is_named_before_anything_runs(capsys, arguments, words):
    code, out, err = call(capsys, *arguments)
    assert code == 2 and words in err and out == ""


def reproduce(name, request):
    """An experiment that is interrupted, or whose numbers are not as expected."""
    if name == "long":
        raise KeyboardInterrupt
    return Outcome("a table", (f"{name}: 2, expected 3",), (request.out,))


def test_numbers_that_are_not_as_expected_end_in_failure(capsys, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "odd", Entry("odd", "of this test", __name__))
    code, out, _ = call(capsys, "odd")
    assert code == 1
    assert "a table" in out and "not as expected:\nodd: 2, expected 3" in out


def test_an_interrupted_experiment_says_so(capsys, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "long", Entry("long", "of this test", __name__))
    code, out, err = call(capsys, "long")
    assert code == 130 and out == "" and err.strip() == "tellmost: interrupted"


def test_without_their_distribution_the_command_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setattr("tellmost.cli.reproduce.entry_points", lambda group: [])
    code, _, err = call(capsys, "gp-fig3")
    assert code == 2 and "pip install tellmost-reproduction" in err
