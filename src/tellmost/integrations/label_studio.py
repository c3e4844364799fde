"""Picks as tasks of Label Studio, to be imported there."""

import json
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellmost.running.writing import check_writable, written_whole
from tellmost.selecting.selection import Selection


@runtime_checkable
class Described(Protocol):
    """A pool whose rows have ids, and texts if ``text_field`` names them."""

    @property
    def ids(self) -> np.ndarray: ...

    @property
    def text_field(self) -> str | None: ...

    def items(self, indices: np.ndarray) -> list[Any]:
        """What to show for some rows."""


def check_label_studio_path(path: str | os.PathLike[str], argument: str = "output") -> None:
    """Check, before long work, that tasks can be written there."""
    path = Path(path)
    if path.suffix != ".json":
        raise ValueError(f"{argument}: Label Studio reads .json files; got {path.name}.")
    check_writable(path, argument)


def write_label_studio(
    path: str | os.PathLike[str], chosen: Selection, records: Described
) -> None:
    """Write a JSON list of tasks in the order of the picks, whole or not at all.

    A labelling configuration refers to the text as ``$text``. Without texts a task has only the id
    and the row number.
    """
    check_label_studio_path(path)
    text = json.dumps(make_tasks(chosen, records), ensure_ascii=False, indent=1, default=str)
    with written_whole(Path(path)) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8", errors="replace")


def make_tasks(chosen: Selection, records: Described) -> list[dict[str, Any]]:
    """A task per pick: what is to be labelled, and why it was picked."""
    indices = chosen.indices.tolist()
    ids = records.ids[chosen.indices].tolist()
    texts = None if records.text_field is None else records.items(chosen.indices)
    tasks = []
    for rank, (index, identifier) in enumerate(zip(indices, ids, strict=True)):
        data = {"id": identifier, "index": index}
        if texts is not None:
            data = {"text": texts[rank], **data}
        meta = {"rank": rank + 1, "gain": float(chosen.gains[rank])}
        tasks.append({"data": data, "meta": meta})
    return tasks
