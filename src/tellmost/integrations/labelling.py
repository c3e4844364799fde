"""Picks go to a tool for labelling, and what people labelled there comes back.

A task of Label Studio holds a row in ``data`` and its labels in ``annotations``; a record of
Argilla holds it in ``fields`` and ``metadata``, and its labels in ``responses``.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection

POOL_ID = "pool_id"
"""The id of a row in a task. Flat exports of Label Studio use ``id`` for the task itself."""

NO_ANSWER = ("discarded", "draft", "pending")
NO_LABEL = ("", "[]", "[None]")  # how a table writes that there is none
STATES = {*NO_ANSWER, "submitted", "completed"}
RESPONSES = ".responses"
ANNOTATION = "annotation_id"
"""Flat exports of Label Studio (JSON-MIN, CSV) have it for every task, and empty for open ones."""


def write_tasks(path: str | os.PathLike[str], tool: str, chosen: Selection, records: Any) -> None:
    """Write the picks in their order as a JSON list for a tool, whole or not at all.

    ``records`` is a pool with ``ids`` for its rows. If ``text_field`` names texts,
    ``items(indices)`` gives those of some rows.
    """
    path, indices = Path(path), chosen.indices
    check_tasks_path(path)
    texts = [None] * len(chosen) if records.text_field is None else records.items(indices)
    picks = zip(indices.tolist(), records.ids[indices].tolist(), texts, strict=True)
    gains = chosen.gains.tolist()
    tasks = [TOOLS[tool](rank, *pick, gains[rank]) for rank, pick in enumerate(picks)]
    with written_whole(path) as unfinished:
        written = json.dumps(tasks, ensure_ascii=False, indent=1, default=str)
        unfinished.write_text(written + "\n", encoding="utf-8", errors="replace")


def _as_task(rank: int, index: int, key: Any, text: Any, gain: float) -> dict[str, Any]:
    """A task of Label Studio. A labelling configuration refers to the text as ``$text``."""
    shown = {} if text is None else {"text": text}
    meta = {"rank": rank + 1, "gain": gain}
    return {"data": {**shown, POOL_ID: key, "index": index}, "meta": meta}


def _as_record(rank: int, index: int, key: Any, text: Any, gain: float) -> dict[str, Any]:
    """A record of Argilla for a dataset with the field ``text``, whatever else it has."""
    return {"id": str(key), "fields": {"text": str(key if text is None else text)}}


TOOLS = {"label-studio": _as_task, "argilla": _as_record}


def check_tasks_path(path: Path, argument: str = "output") -> None:
    """Check before long work that tasks can be written there."""
    if path.suffix != ".json":
        raise ValueError(f"{argument}: tools for labelling read .json files; got {path.name}.")
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
        row, given = record["fields"] | (record.get("metadata") or {}), record.get("responses")
        row = row | ({} if record.get("id") is None else {"id": record["id"]})
        whole = record.get("status")  # Argilla writes no status of a response, but of the record
        answers = [a for a in _listed(given) if (a.get("status") or whole) not in NO_ANSWER]
        labels = [some.get("value") for some in answers]
    else:
        return record
    if given is not None and not answers:
        return None
    return row | {"label": labels[0]} if labels else row


def _listed(responses: Any) -> list[dict[str, Any]]:
    """The answers of a record of Argilla: by question, or in a list by person."""
    if not isinstance(responses, list):
        return [some for of_question in (responses or {}).values() for some in of_question]
    if not all(isinstance(person, dict) for person in responses):
        raise ValueError(
            f"responses of a record of Argilla must be objects with values; got {responses!r}. "
            f"Export the records as JSON again."
        )
    return [
        {"value": answer.get("value"), "status": person.get("status")}
        for person in responses
        for answer in (person.get("values") or {}).values()
    ]


def find_answered(names: Sequence[str], column: Callable[[str], Sequence[Any]]) -> list[bool]:
    """Say which rows of a table somebody has labelled. [] where the table does not say it.

    Labels are in ``label``, ``labels`` or, from Argilla, in columns such as ``label.responses``,
    beside which a ``status`` may be. A column of labels without any label says nothing. Where
    Label Studio wrote the table, an annotation has a number.
    """
    if ANNOTATION in names:
        return [_is_label(cell) for cell in column(ANNOTATION)]
    is_export = any(name.endswith(RESPONSES) for name in names)
    labels = [name for name in names if name in ("label", "labels") or name.endswith(RESPONSES)]
    states = [name for name in names if name.endswith(f"{RESPONSES}.status")]
    found = []
    if labels:
        cells = zip(*map(column, labels), strict=True)
        found.append([any(map(_is_label, row)) for row in cells])
    for name in states or [name for name in names if name == "status"]:
        words = [set(re.findall(r"\w+", str(cell))) - {"None", "nan"} for cell in column(name)]
        if set().union(*words) <= STATES:  # else the column is about something else
            found.append([not some or bool(some & {"submitted", "completed"}) for some in words])
    answered = [all(row) for row in zip(*found, strict=True)]
    return answered if is_export or any(answered) else []


def _is_label(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell
    return cell is not None and not is_nan and str(cell).strip() not in NO_LABEL


def _first(value: Any) -> Any:
    """What a result of Label Studio says, such as the first of {"choices": ["spam"]}."""
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value
