"""The Banking77 experiments: at their smoke size on an excerpt of the data, and as committed."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

from banking_excerpt import COUNTING_WORDS, copy_excerpt

pytest.importorskip("matplotlib")

from tellmost.selecting.select import select
from tellmost_reproduction.banking77 import Queries

ROOT = Path(__file__).parents[2]
choosing = load_script("results/banking77/run.py")
tuning = load_script("results/banking77-fine-tuning/run.py")
FEW_SHOT = {
    "vtl": "by VTL, a probe each",
    "nearest": "nearest neighbours, a probe each",
    "vote": "nearest neighbours, a vote",
    "one_probe": "one probe, trained on all 10,003",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of results for each script."""
    folder = tmp_path_factory.mktemp("banking77")
    copy_excerpt(folder)
    common = ["--data", ".", "--embed", COUNTING_WORDS, "--smoke"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        choosing.main([*common, "--out", "choosing"])
        choosing.main([*common, "--out", "choosing", "--knobs"])
        tuning.main([*common, "--out", "tuning"])
    return {"choosing": folder / "choosing", "tuning": folder / "tuning"}


def scores_of(path):
    """What was measured, by the names of family, head (of tuning alone) and method."""
    families = json.loads(path.read_text())["families"]
    return {
        (family, *names): measured
        for family, methods in families.items()
        for names, measured in flat(methods)
    }


def flat(methods):
    for name, found in methods.items():
        if "accuracy" in found:
            yield (name,), found
        else:
            yield from (((name, *names), measured) for names, measured in flat(found))


def test_the_scripts_write_numbers_and_a_figure(results):
    files = {"choosing": {"summary.json", "knobs.json", "figure.png"}}
    files["tuning"] = {"summary.json", "figure.png"}
    for name, folder in results.items():
        assert {path.name for path in folder.iterdir()} == files[name]
        assert (folder / "figure.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", ["choosing", "tuning"])
def test_scores_are_shares_and_means_are_those_of_the_seeds(results, name):
    scores = scores_of(results[name] / "summary.json")
    expected = {
        "choosing": len(choosing.FAMILIES) * len(choosing.METHODS),
        "tuning": len(tuning.HEADS) * len(tuning.STRATEGIES),
    }
    assert len(scores) == expected[name]
    for measured in scores.values():
        for score in measured.values():
            values = np.array(score["per_seed"])
            assert values.shape == (2, 2) and ((values >= 0) & (values <= 1)).all()
            np.testing.assert_allclose(score["mean"], values.mean(axis=0))


@pytest.mark.parametrize("name", ["choosing", "tuning"])
def test_picks_for_targets_are_of_their_family_more_often_than_random_ones(results, name):
    scores = scores_of(results[name] / "summary.json")
    for *place, _ in scores:
        vtl, random = (scores[(*place, key)]["share"]["mean"] for key in ("vtl", "random"))
        assert np.mean(vtl) > np.mean(random)


def test_a_family_is_every_intent_with_the_word_in_its_name():
    names = ["top_up_failed", "topping_up_by_card", "card_arrival", "automatic_top_up"]
    members = choosing.find_members(names, choosing.FAMILIES["top up"])
    np.testing.assert_array_equal(members, [True, True, False, True])


def test_rounds_of_a_probe_are_one_selection_cut_in_pieces():
    """Its last layer sees the inputs themselves, which training leaves alone."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 8)).astype(np.float32)
    pool = Queries(rows[:40], rng.integers(0, 4, 40))
    test = Queries(rows[40:], rng.integers(0, 4, 20))
    exam = tuning.Exam.draw(test, np.ones(4, dtype=bool), seed=0)
    size = tuning.Size(batch=5, rounds=3, seeds=1)
    make_probe, vtl = tuning.HEADS["linear probe"], tuning.STRATEGIES["vtl"]
    history = tuning.tune(pool, exam, make_probe, vtl, 0, size)
    whole = select(pool.rows, exam.targets.numpy(), 15, kernel="linear")
    assert history.rows.tolist() == whole.indices.tolist()


def test_the_committed_results_are_whole():
    """All seeds, methods and families are there; the figures in the text come from these."""
    for name, count in (("summary.json", len(choosing.METHODS)), ("knobs.json", 6)):
        path = ROOT / "results" / "banking77" / name
        scores = scores_of(path)
        assert json.loads(path.read_text())["budgets"] == list(choosing.BUDGETS)
        assert len(scores) == len(choosing.FAMILIES) * count
        assert all(np.shape(one["accuracy"]["per_seed"]) == (10, 4) for one in scores.values())
    path = ROOT / "results" / "banking77-fine-tuning" / "summary.json"
    scores = scores_of(path)
    assert json.loads(path.read_text())["budgets"] == tuning.Size().budgets
    assert len(scores) == len(tuning.FAMILIES) * len(tuning.HEADS) * len(tuning.STRATEGIES)
    shape = (tuning.SEEDS, tuning.ROUNDS)
    assert all(np.shape(one["accuracy"]["per_seed"]) == shape for one in scores.values())


def cell(values):
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.3f} ± {error:.3f}".replace("0.", ".")


def test_accuracies_and_leads_in_the_text_are_those_of_the_answers():
    folder = ROOT / "results" / "banking77-few-shot"
    with (folder / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    intents = np.array([row["intent"] for row in rows])
    is_right = {
        name: (np.array([row[name] for row in rows]) == intents).astype(float) for name in FEW_SHOT
    }
    assert len(rows) == 3_080
    for text in ((folder / "README.md").read_text(), (ROOT / "docs" / "few-shot.md").read_text()):
        for name, title in FEW_SHOT.items():
            lead = "" if name == "vtl" else cell(is_right["vtl"] - is_right[name]) + " "
            assert f"| {title} | {cell(is_right[name])} | {lead}|" in text
