"""The Banking77 experiment at its smoke size, on an excerpt of the data."""

import json
from pathlib import Path

import numpy as np
import pytest

from banking_excerpt import COUNTING_WORDS, copy_excerpt

pytest.importorskip("matplotlib")

from tellmost_reproduction import banking77


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banking77")
    copy_excerpt(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for more in ([], ["--knobs"]):
            banking77.main(
                [
                    "--data",
                    ".",
                    "--out",
                    "out",
                    "--embed",
                    COUNTING_WORDS,
                    "--smoke",
                    *more,
                ]
            )
    return folder / "out"


def test_it_writes_numbers_and_a_figure(folder):
    assert {path.name for path in folder.iterdir()} == {"summary.json", "knobs.json", "figure.png"}
    assert (folder / "figure.png").stat().st_size > 5_000


def test_scores_are_shares_and_means_are_those_of_the_seeds(folder):
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary["families"]) == list(banking77.FAMILIES)
    for methods in summary["families"].values():
        assert list(methods) == list(banking77.METHODS)
        for scores in methods.values():
            for score in scores.values():
                values = np.array(score["per_seed"])
                assert values.shape == (2, 2) and ((values >= 0) & (values <= 1)).all()
                np.testing.assert_allclose(score["mean"], values.mean(axis=0))


def test_picks_for_targets_are_of_their_family_more_often_than_random_ones(folder):
    summary = json.loads((folder / "summary.json").read_text())
    for methods in summary["families"].values():
        share = {name: np.mean(scores["share"]["mean"]) for name, scores in methods.items()}
        assert share["vtl"] > share["random"]


def test_a_family_is_every_intent_with_the_word_in_its_name():
    names = ["top_up_failed", "topping_up_by_card", "card_arrival", "automatic_top_up"]
    members = banking77.find_members(names, banking77.FAMILIES["top up"])
    np.testing.assert_array_equal(members, [True, True, False, True])


def test_the_committed_results_are_whole():
    """All seeds, methods and families at full size; the figures in the text come from these."""
    results = Path(__file__).parents[2] / "results" / "banking77"
    for name, count in (("summary.json", len(banking77.METHODS)), ("knobs.json", 6)):
        summary = json.loads((results / name).read_text())
        assert summary["budgets"] == list(banking77.BUDGETS)
        for family in banking77.FAMILIES:
            methods = summary["families"][family]
            assert len(methods) == count
            for scores in methods.values():
                assert np.shape(scores["accuracy"]["per_seed"]) == (10, 4)
