"""The examples run, and say what they promise."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.process
def test_the_laser_survives_its_story(tmp_path, capsys):
    pytest.importorskip("optuna")
    story = runpy.run_path(str(EXAMPLES / "laser.py"))
    study = story["main"](tmp_path / "laser.db")
    said = capsys.readouterr().out
    for words in (
        "known: 10 measurements",
        "waiting for the operator",
        "suspect: trial",
        "asked for again: True",
        "halted: a violation was told",
        "best for sure",
    ):
        assert words in said
    hurt = [one.user_attrs["lens"] for one in study.trials if one.user_attrs.get("lens", 0) > 80.5]
    assert len(hurt) == 1  # by the dirty lens alone
    assert len(list(story["field"].status(study)["pending"])) == 0
