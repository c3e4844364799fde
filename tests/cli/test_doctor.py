"""The doctor: what it says about this machine, and that its check can fail."""

import re

import numpy as np
import pytest

from tellmost import __version__

pytest.importorskip("typer")
from tellmost.cli import app, doctor, ending


def test_it_says_versions_devices_and_extras_and_finds_nothing_wrong(capsys):
    assert ending.run(app.app, ["doctor"]) == 0
    said = capsys.readouterr().out
    assert f"tellmost {__version__}" in said and "processors" in said and "numpy" in said
    assert re.search(r"^cli +installed: typer \d", said, re.MULTILINE)
    assert said.count("\nok ") >= 2 and "WRONG" not in said


def test_other_picks_are_called_wrong_and_end_with_an_exit_code(monkeypatch, capsys):
    picks = doctor.chosen_picks
    monkeypatch.setattr(doctor, "chosen_picks", lambda *given: np.sort(picks(*given)))
    assert ending.run(app.app, ["doctor"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_an_extra_that_is_missing_comes_with_its_command(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: "1.0" if name == "tellmost" else "-")
    assert 'cli       pip install "tellmost[cli]": typer -' in doctor.extras()


def test_without_an_installed_package_extras_are_not_known(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: "-")
    assert len(doctor.extras()) == 1 and "not known" in doctor.extras()[0]
