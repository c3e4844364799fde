"""Picks as tasks of Label Studio, to be imported there."""

import json
import os
from pathlib import Path
from typing import Any

from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection


def write_label_studio(path: str | os.PathLike[str], chosen: Selection, records: Any) -> None:
    """Write a JSON list of tasks in the order of the picks, whole or not at all.

    ``records`` is a pool with ``ids`` for its rows. If ``text_field`` names texts,
    ``items(indices)`` gives those of some rows.

    A labelling configuration refers to the text as ``$text``. Without texts a task has only the id
    and the row number.
    """
    path, indices = Path(path), chosen.indices
    check_tasks_path(path)
    texts = None if records.text_field is None else records.items(indices)
    ids, tasks = records.ids[indices].tolist(), []
    for rank, (index, key) in enumerate(zip(indices.tolist(), ids, strict=True)):
        text = {} if texts is None else {"text": texts[rank]}
        meta = {"rank": rank + 1, "gain": float(chosen.gains[rank])}
        tasks.append({"data": {**text, "id": key, "index": index}, "meta": meta})
    with written_whole(path) as unfinished:
        written = json.dumps(tasks, ensure_ascii=False, indent=1, default=str)
        unfinished.write_text(written + "\n", encoding="utf-8", errors="replace")


def check_tasks_path(path: Path, argument: str = "output") -> None:
    """Check before long work that tasks can be written there."""
    if path.suffix != ".json":
        raise ValueError(f"{argument}: Label Studio reads .json files; got {path.name}.")
    check_writable(path, argument)
