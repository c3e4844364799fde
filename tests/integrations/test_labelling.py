"""Picks for Label Studio and for Argilla are JSON lists that they can import."""

import json

import numpy as np
import pytest

import tellmost as tm
from files_of_points import IDS, ROWS, TEXTS, write_jsonl, write_npy
from tellmost.integrations.labelling import write_tasks
from tellmost.rows.record_files import Wanted, read_records

CHOSEN = tm.select(ROWS, np.ones((1, 3)), 3, kernel="linear")


def test_a_task_has_the_text_the_id_and_why_it_was_picked(tmp_path):
    records = read_records(write_jsonl(tmp_path, text=TEXTS), wanted=Wanted(text_field="text"))
    write_tasks(tmp_path / "tasks.json", "label-studio", CHOSEN, records)
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    for rank, (task, index) in enumerate(zip(tasks, CHOSEN.indices.tolist(), strict=True)):
        assert task["data"] == {"text": TEXTS[index], "pool_id": IDS[index], "index": index}
        assert task["meta"] == {"rank": rank + 1, "gain": CHOSEN.gains[rank]}


def test_rows_without_texts_are_tasks_of_their_ids(tmp_path):
    write_tasks(tmp_path / "tasks.json", "label-studio", CHOSEN, read_records(write_npy(tmp_path)))
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"] for task in tasks] == [
        {"pool_id": index, "index": index} for index in CHOSEN.indices.tolist()
    ]


def test_tasks_are_a_json_file(tmp_path):
    with pytest.raises(ValueError, match=r"read \.json files; got tasks\.csv"):
        write_tasks(tmp_path / "tasks.csv", "argilla", CHOSEN, read_records(write_npy(tmp_path)))
    assert not (tmp_path / "tasks.csv").exists()
