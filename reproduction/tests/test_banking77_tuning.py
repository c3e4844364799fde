"""The Banking77 fine-tuning experiment at its smoke size, on an excerpt of the data."""

import json
from pathlib import Path

import numpy as np
import pytest

from banking_excerpt import COUNTING_WORDS, copy_excerpt

pytest.importorskip("matplotlib")

from tellmost.selecting.select import select
from tellmost_reproduction import banking77_tuning as tuning
from tellmost_reproduction.banking77 import Queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banking77")
    copy_excerpt(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tuning.main(["--data", ".", "--out", "out", "--embed", COUNTING_WORDS, "--smoke"])
    return folder / "out"


def scores_of(path):
    """(family, head, strategy) and what was measured."""
    families = json.loads(path.read_text())["families"]
    return {
        (family, head, strategy): measured
        for family, heads in families.items()
        for head, strategies in heads.items()
        for strategy, measured in strategies.items()
    }


def test_it_writes_numbers_and_a_figure(folder):
    assert {path.name for path in folder.iterdir()} == {"summary.json", "figure.png"}
    assert (folder / "figure.png").stat().st_size > 5_000


def test_every_seed_of_every_head_and_strategy_is_written_down(folder):
    scores = scores_of(folder / "summary.json")
    assert len(scores) == len(tuning.HEADS) * len(tuning.STRATEGIES)
    for measured in scores.values():
        for score in measured.values():
            values = np.array(score["per_seed"])
            assert values.shape == (2, 2) and ((values >= 0) & (values <= 1)).all()
            np.testing.assert_allclose(score["mean"], values.mean(axis=0))


def test_picks_for_targets_are_of_their_family_more_often_than_random_ones(folder):
    scores = scores_of(folder / "summary.json")
    for family, head, _ in scores:
        shares = [scores[family, head, name]["share"]["mean"][-1] for name in ("vtl", "random")]
        assert shares[0] > shares[1]


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
    whole = select(pool.rows, exam.targets.numpy(), 15)
    assert history.rows.tolist() == whole.indices.tolist()


def test_the_committed_results_are_whole():
    """All seeds, strategies, heads and families; the figures in the text come from these."""
    path = Path(__file__).parents[2] / "results" / "banking77-fine-tuning" / "summary.json"
    scores = scores_of(path)
    assert json.loads(path.read_text())["budgets"] == tuning.Size().budgets
    assert len(scores) == len(tuning.FAMILIES) * len(tuning.HEADS) * len(tuning.STRATEGIES)
    for measured in scores.values():
        assert np.shape(measured["accuracy"]["per_seed"]) == (tuning.SEEDS, tuning.ROUNDS)
