"""Picks go to a tool for labelling, and what people labelled there comes back.

A task of Label Studio holds a row in ``data`` and its labels in ``annotations``; a record of
Argilla holds it in ``fields`` and ``metadata``, and its labels in ``responses``.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection

POOL_ID = "pool_id"
"""The id of a row in a task. Flat exports of Label Studio use ``id`` for the task itself."""

NO_ANSWER = ("discarded", "draft")


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
        tasks.append({"data": {**text, POOL_ID: key, "index": index}, "meta": meta})
    with written_whole(path) as unfinished:
        written = json.dumps(tasks, ensure_ascii=False, indent=1, default=str)
        unfinished.write_text(written + "\n", encoding="utf-8", errors="replace")


def check_tasks_path(path: Path, argument: str = "output") -> None:
    """Check before long work that tasks can be written there."""
    if path.suffix != ".json":
        raise ValueError(f"{argument}: Label Studio reads .json files; got {path.name}.")
    check_writable(path, argument)


def read_answers(records: Sequence[Any]) -> tuple[list[dict[str, Any]], int]:
    """The labelled ones of exported records as flat records with a label, and how many are not.

    Records of no such tool are given back as they are. A record without a place for answers, which
    has not been in the tool, counts as labelled.
    """
    flat = [_flat(record) for record in records]
    kept = [record for record in flat if record is not None]
    return kept, len(flat) - len(kept)


def _flat(record: dict[str, Any]) -> dict[str, Any] | None:
    """A record with its label. None where nobody has answered."""
    if isinstance(record.get("data"), dict):
        row, given = record["data"], record.get("annotations")
        answers = [some for some in given or () if not some.get("was_cancelled")]
        results = [result for some in answers for result in some.get("result", ())]
        labels = [_first(result.get("value")) for result in results]
    elif isinstance(record.get("fields"), dict):
        row, given = record["fields"] | record.get("metadata", {}), record.get("responses")
        row = row | ({} if record.get("id") is None else {"id": record["id"]})
        listed = [some for of_question in (given or {}).values() for some in of_question]
        answers = [some for some in listed if some.get("status") not in NO_ANSWER]
        labels = [some.get("value") for some in answers]
    else:
        return record
    if given is not None and not answers:
        return None
    return row | {"label": labels[0]} if labels else row


def _first(value: Any) -> Any:
    """What a result of Label Studio says, such as the first of {"choices": ["spam"]}."""
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value
