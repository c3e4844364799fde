"""The demo, at a smaller size than people see."""

import csv
import json
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")
pytest.importorskip("PIL")
pytest.importorskip("plotly")

from tellmost.cli import demo, ending
from tellmost.cli.app import app


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the command prints, and the folder that it writes."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(demo, "run_demo", partial(demo.run_demo, budgets=(10, 20), seeds=2))
        assert ending.run(app, ["demo", "--out", str(folder)]) == 0
    return printed.getvalue(), folder


@pytest.fixture(scope="module")
def summary(shown):
    return json.loads((shown[1] / "summary.json").read_text())


def test_it_writes_picks_images_a_page_and_a_summary(shown):
    _, folder = shown
    names = {"picks.csv", "report.html", "summary.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert all(path.stat().st_size > 500 for path in folder.iterdir())
    assert (folder / "report.html").read_text().count("data:image/jpeg") >= 40


def test_the_picks_agree_with_the_summary(shown, summary):
    with (shown[1] / "picks.csv").open(newline="") as file:
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


def test_pool_targets_and_test_share_out_all_images():
    from sklearn.datasets import load_digits

    images, _ = load_digits(return_X_y=True)
    split = demo.split_digits(0)
    rows = np.concatenate([split.pool, split.targets, split.test]) * 16
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, images.tolist()))
    assert set(split.test_labels.tolist()) == {3, 6, 9}
    assert len(split.targets) == 30 and len(split.pool) == len(split.labels)


def test_the_printed_table_has_a_line_per_method_and_a_column_per_budget(shown):
    printed, folder = shown
    assert f"\nwritten to {folder}: " in printed
    assert "Selection: 20 of 1,511 by vtl" in printed
    lines = [line for line in printed.splitlines() if line.startswith("  VTL")]
    assert len(lines) == 2 and all(line.count("±") == 2 for line in lines)
