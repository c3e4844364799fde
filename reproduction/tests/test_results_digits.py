"""The network that learns 3, 6 and 9, at its smoke size: the whole loop on real images."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scripts import load_script

digits_network = load_script("results/digits-network/run.py")

RESULTS = Path(__file__).parents[2] / "results" / "digits-network" / "summary.json"


@pytest.fixture(scope="module")
def printed_and_summary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits-network")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        digits_network.main(["--out", str(folder), "--smoke"])
    return printed.getvalue(), json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("rule", ["vtl", "itl-y"])
def test_directed_rules_find_the_digits_and_learn_more_than_chance(printed_and_summary, rule):
    _, summary = printed_and_summary
    chosen, random = summary["methods"][rule], summary["methods"]["random"]
    assert chosen["share"]["mean"][-1] > 1.5 * random["share"]["mean"][-1]
    assert chosen["accuracy"]["mean"][-1] > random["accuracy"]["mean"][-1]


def test_the_tables_have_standard_errors(printed_and_summary):
    printed, _ = printed_and_summary
    assert "mean ± standard error over 3 seeds" in printed
    lines = [line for line in printed.splitlines() if line.startswith("  random")]
    assert len(lines) == 2 and all(line.count("±") == 2 for line in lines)


def test_the_committed_results_show_directed_rules_above_chance():
    kept = json.loads(RESULTS.read_text())
    assert kept["seeds"] == digits_network.SEEDS and kept["labels"][-1] == 40
    methods = kept["methods"]
    assert set(methods) == set(digits_network.STRATEGIES)
    for name in ("vtl", "itl-y", "ctl"):
        for measure in ("accuracy", "share"):
            chosen, random = methods[name][measure], methods["random"][measure]
            errors = [one["standard_error"][-1] for one in (chosen, random)]
            assert chosen["mean"][-1] - random["mean"][-1] > 2 * np.hypot(*errors)
