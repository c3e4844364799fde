"""Whole experiments at their smoke size, and what is committed of the full ones."""

import csv
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from tellmost_reproduction.catalogue import CATALOGUE, Request
from tellmost_reproduction.frame.numbers import find_differences, read_expected
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART
from tellmost_reproduction.gp.curves import trace_curves
from tellmost_reproduction.gp.first_picks import make_first_picks
from tellmost_reproduction.gp.first_picks import numbers_of as numbers_of_first_picks
from tellmost_reproduction.gp.methods import METHODS
from tellmost_reproduction.gp.page import numbers_of
from tellmost_reproduction.gp.reproducing import NAMES
from tellmost_reproduction.gp.settings import FULL, SIDE, Size, settings

ROOT = Path(__file__).parents[2]
MINE = """
import tellmost as tm

class Mine(tm.rules.VTL):
    name = "mine"
    targets_in_pool = "all"
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """All of part 1 with a rule of the user's."""
    folder = tmp_path_factory.mktemp("reproduced")
    (folder / "rules_for_all.py").write_text(MINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        rules = ("rules_for_all:Mine",)
        return CATALOGUE["gp"].run(Request(folder, is_smoke=True, rules=rules, progress=False))


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_writes_its_folder(outcome, name):
    folder = next(path for path in outcome.written if path.name == name)
    files = {"README.md", "figure.svg", "figure.png", "picks.csv"}
    files |= set() if name == "gp-fig2" else {"seeds.csv"}
    assert {path.name for path in folder.iterdir()} == files
    page = (folder / "README.md").read_text()
    for word in ("**Claim.**", "**Command.**", "**Time.**", "**Result.**", "Smoke size"):
        assert word in page
    assert f"tellmost reproduce {name} --smoke --rule rules_for_all:Mine" in page
    assert "Nothing is compared" in page and "expected.json" not in page
    assert outcome.text.count(f"{name}: ") >= 1


def test_the_users_rule_is_in_tables_figure_and_files(outcome):
    folder = next(path for path in outcome.written if path.name == "gp-fig3")
    page = (folder / "README.md").read_text()
    assert (
        "| mine |" in page
        and "CTL about y, which the paper does not have, are in the tables" in page
    )
    assert "<!-- mine -->" in (folder / "figure.svg").read_text()
    assert any(line.startswith("mine ") for line in outcome.text.splitlines())
    picks = {row["method"]: row["picks"] for row in read_table(folder / "picks.csv")}
    assert picks["mine"] == picks["vtl"] != picks["itl"]


def test_a_rule_that_is_not_defined_somewhere_is_left_out_there(outcome):
    folder = next(path for path in outcome.written if path.name == "gp-extrapolation")
    assert "mine" not in {row["method"] for row in read_table(folder / "picks.csv")}
    assert "mine is not defined in gp-extrapolation\n" in outcome.text


def test_seeds_differ_for_random_and_for_errors_alone(outcome):
    folder = next(path for path in outcome.written if path.name == "gp-laplace")
    rows = [row for row in read_table(folder / "seeds.csv") if row["observations"] == "25"]
    seeds = {key: [row for row in rows if row["method"] == key] for key in ("itl", "random")}
    assert len({row["mean_sd"] for row in seeds["itl"]}) == 1
    assert len({row["rmse"] for row in seeds["itl"]}) == 2
    assert len({row["mean_sd"] for row in seeds["random"]}) == 2
    page = (folder / "README.md").read_text()
    assert "every seed gives the same picks" in page and "± 0 " not in page
    assert "**Not judged here.** That ITL and VTL beat local UnSa" in page


def test_every_setting_gets_its_verdicts(outcome):
    for folder in outcome.written:
        page = (folder / "README.md").read_text()
        assert re.search(
            rf"^\| [^|]+ \| \*\*({HOLDS}|{IN_PART}|{FAILS})\*\* \|", page, re.MULTILINE
        )
    assert not outcome.differences  # nothing is compared at this size


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ---- what is expected


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_first_rounds_at_full_size_are_as_expected(name):
    """Every method that no seed changes, until 25 observations."""
    keys = [method.key for method in METHODS if not method.is_random]
    curves = trace_curves(settings(SIDE)[name], Size(SIDE, 25, 1), only=keys)
    found, expected = numbers_of(curves), read_expected("gp", name)
    assert found.observations == [10, 25] == expected.observations[:2]
    for key, measured in found.methods.items():
        for measure in ("information", "mean_sd", "max_sd"):
            theirs = expected.methods[key][measure]
            assert theirs.standard_error is None
            assert measured[measure].mean == pytest.approx(theirs.mean[:2], rel=1e-3), key


def test_the_first_picks_at_full_size_are_as_expected():
    found = numbers_of_first_picks(make_first_picks(FULL))
    assert find_differences(found, read_expected("gp", "gp-fig2")) == []


@pytest.mark.parametrize("name", NAMES[1:])
def test_random_has_standard_errors_and_the_others_none(name):
    for key, measured in read_expected("gp", name).methods.items():
        errors = {measure: series.standard_error for measure, series in measured.items()}
        assert errors.pop("rmse") is not None
        assert all((error is None) == (key != "random") for error in errors.values())


@pytest.mark.parametrize("name", NAMES)
def test_results_are_committed_whole(name):
    folder = ROOT / "results" / name
    assert json.loads((folder / "expected.json").read_text())["methods"]
    for file in ("README.md", "figure.svg", "figure.png", "picks.csv"):
        size = (folder / file).stat().st_size
        assert 500 < size < 500_000, file
    page = (folder / "README.md").read_text()
    assert "Smoke size" not in page and page.count("`expected.json`: the expected numbers") == 1
