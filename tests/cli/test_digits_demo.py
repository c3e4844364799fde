"""The digits experiment, at its smoke size."""

import csv
import json

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from tellmost.cli import digits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "new" / "folder"
    digits.main(["--out", str(folder), "--smoke"])
    return folder


@pytest.fixture(scope="module")
def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_it_writes_picks_figure_report_and_summary(folder):
    names = {"picks.csv", "figure.png", "report.html", "summary.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert all(path.stat().st_size > 500 for path in folder.iterdir())


def test_the_picks_agree_with_the_summary(folder, summary):
    with (folder / "picks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["rank", "index", "gain", "uncertainty", "label"]
    assert [int(row["rank"]) for row in rows] == list(range(1, summary["budgets"][-1] + 1))
    assert [int(row["index"]) for row in rows] == summary["first_seed"]["indices"]
    is_right = np.isin([int(row["label"]) for row in rows], summary["classes"])
    share = summary["methods"]["vtl"]["share"]["per_seed"][0]
    assert [is_right[:budget].mean() for budget in summary["budgets"]] == pytest.approx(share)
    assert float(rows[-1]["uncertainty"]) == summary["first_seed"]["uncertainty"][1]
    left = [summary["first_seed"]["uncertainty"][0], *(float(row["uncertainty"]) for row in rows)]
    assert [float(row["gain"]) for row in rows] == pytest.approx(-np.diff(left))


def test_vtl_finds_the_right_classes_and_teaches_more_than_chance(summary):
    vtl, random = summary["methods"]["vtl"], summary["methods"]["random"]
    assert min(vtl["share"]["mean"]) > 2 * max(random["share"]["mean"])
    assert all(np.array(vtl["accuracy"]["mean"]) > random["accuracy"]["mean"])


def test_targets_pool_and_test_images_are_disjoint():
    split = digits.split_digits(0)
    images, labels = digits.load_images()
    assert len(split.pool) + len(split.targets) + len(split.test) == len(labels) == 1_797
    np.testing.assert_array_equal(images[split.numbers], split.pool)
    np.testing.assert_array_equal(labels[split.numbers], split.labels)
    assert set(split.test_labels.tolist()) == {3, 6, 9}
    assert len(split.targets) == 30


def test_the_printed_table_has_a_line_per_method_and_a_column_per_budget(tmp_path, capsys):
    digits.main(["--out", str(tmp_path), "--smoke"])
    printed = capsys.readouterr().out
    assert "Selection: 20 of 1,511 by vtl" in printed
    lines = [line for line in printed.splitlines() if line.startswith("  vtl")]
    assert len(lines) == 2 and all(line.count("±") == 2 for line in lines)
