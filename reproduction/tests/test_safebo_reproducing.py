"""Whole safe-optimization experiments at their smoke size."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from tellmost_reproduction.catalogue import CATALOGUE, Request
from tellmost_reproduction.frame.numbers import agrees_within_errors, read_expected
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN
from tellmost_reproduction.safebo import misspecified_page as misspecified
from tellmost_reproduction.safebo import runs
from tellmost_reproduction.safebo.claims import CLAIMS
from tellmost_reproduction.safebo.experiments import EXPERIMENTS, SMOKE_ROUNDS, SMOKE_SEEDS
from tellmost_reproduction.safebo.methods import BY_KEY
from tellmost_reproduction.safebo.misspecified import SETTINGS, SMOKE, make_jobs
from tellmost_reproduction.safebo.page import numbers_of
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.safebo.runs import Job, run

ROOT = Path(__file__).parents[2]
PICTURES = {"safebo-2d": "maps", "safebo-barriers": "picks"}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    return CATALOGUE["safebo"].run(Request(folder, is_smoke=True, progress=False))


def folder_of(outcome, name):
    return next(path for path in outcome.written if path.name == name)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_safe_experiment_writes_its_folder(outcome, name):
    folder = folder_of(outcome, name)
    files = {"README.md", "figure.svg", "figure.png", "picks.csv", "seeds.csv"}
    if name in PICTURES:
        files |= {f"{PICTURES[name]}.svg", f"{PICTURES[name]}.png"}
    assert {path.name for path in folder.iterdir()} == files
    page = (folder / "README.md").read_text()
    for word in ("**Claim.**", "**Command.**", "**Time.**", "**Result.**", "Smoke size"):
        assert word in page
    assert f"`tellmost reproduce {name} --smoke`" in page and "Nothing is compared" in page


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_method_and_seed_is_in_the_tables(outcome, name):
    with (folder_of(outcome, name) / "seeds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {(row["method"], row["seed"]) for row in rows}
    keys = [method.key for method in EXPERIMENTS[name].methods]
    assert found == {(key, str(seed)) for key in keys for seed in range(SMOKE_SEEDS)}
    assert {int(row["observations"]) for row in rows} == {SMOKE_ROUNDS}
    for method in EXPERIMENTS[name].methods:
        assert f"| {method.label} |" in (folder_of(outcome, name) / "README.md").read_text()


def test_every_safe_experiment_is_judged_and_nothing_is_compared(outcome):
    for name in EXPERIMENTS:
        page = (folder_of(outcome, name) / "README.md").read_text()
        said = re.findall(r"^\| [^|]+ \| \*\*(.+?)\*\* \| [^|]+ \|$", page, re.MULTILINE)
        assert len(said) == len(CLAIMS[name]) and set(said) <= {HOLDS, IN_PART, FAILS, OPEN}
    assert not outcome.differences


@pytest.mark.parametrize("key", ["vtl", "goose"])
def test_the_first_rounds_on_the_island_are_as_expected(key):
    expected = read_expected("safebo", "safebo-2d")
    experiment = replace(EXPERIMENTS["safebo-2d"], methods=(BY_KEY[key],), looked_at=(10,))
    task, seeds = experiment.make(), experiment.seeds
    runs = [run(Job(task, BY_KEY[key], seed, 10)) for seed in range(seeds)]
    found = numbers_of(Record(experiment, task, 10, seeds, tuple(runs)))
    assert found.observations == [10] == expected.observations[:1]
    for measure, series in found.methods[key].items():
        theirs = expected.methods[key][measure]
        assert theirs.standard_error is not None
        assert agrees_within_errors(series.mean[0], theirs.mean[0], theirs.standard_error[0]), (
            measure
        )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_safe_results_are_committed_whole(name):
    folder = ROOT / "results" / name
    assert json.loads((folder / "expected.json").read_text())["methods"]
    for file in ("README.md", "figure.svg", "figure.png", "picks.csv", "seeds.csv"):
        assert 500 < (folder / file).stat().st_size < 1_000_000, file
    page = (folder / "README.md").read_text()
    assert "Smoke size" not in page and page.count("`expected.json`: the expected numbers") == 1


def test_the_study_of_wrong_priors_has_a_row_for_every_run(outcome):
    folder = folder_of(outcome, misspecified.NAME)
    files = {"README.md", "figure.svg", "figure.png", "runs.csv"}
    assert {path.name for path in folder.iterdir()} == files
    page = (folder / "README.md").read_text()
    assert "Smoke size" in page and "`tellmost reproduce safebo-misspecified --smoke`" in page
    with (folder / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(make_jobs(SETTINGS, SMOKE)) == 4 * 3 * 2 * 2
    assert {(row["setting"], row["method"]) for row in rows} == {
        (setting.key, key) for setting in SETTINGS for key in SMOKE.keys
    }


def test_the_study_of_wrong_priors_is_committed_whole():
    kept = ROOT / "results" / misspecified.NAME
    assert json.loads((kept / "expected.json").read_text())["methods"]
    assert len((kept / "runs.csv").read_text().splitlines()) > 1_000
    rows = [line for line in (kept / "README.md").read_text().splitlines() if "**holds" in line]
    assert len(rows) > 3


def test_an_interrupted_experiment_goes_on_where_it_was(tmp_path, monkeypatch):
    request = Request(tmp_path, is_smoke=True, progress=False)
    done = []

    def stop(job):
        done.append(run(job))
        if len(done) == 3:
            raise KeyboardInterrupt
        return done[-1]

    monkeypatch.setattr(runs, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        CATALOGUE["safebo-barriers"].run(request)
    kept = tmp_path / "safebo-barriers" / "runs"
    assert len(list(kept.iterdir())) == 2  # the third ended with the interruption
    again = []
    monkeypatch.setattr(runs, "run", lambda job: again.append(job) or run(job))
    CATALOGUE["safebo-barriers"].run(request)
    experiment = EXPERIMENTS["safebo-barriers"]
    assert len(again) == SMOKE_SEEDS * len(experiment.methods) - 2 and not kept.exists()
