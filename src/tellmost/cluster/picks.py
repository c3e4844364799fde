"""The picks of a run on a cluster, kept by its driver in the file that ``checkpoint`` names.

A local file is the one that a run without a cluster writes and reads. On other file systems
nothing is appended or overwritten, since few of them do it whole: each generation is a small file
of its own with all picks so far, ``run.jsonl.00000007``. The one before it is removed after it.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from tellmost.rows.stores import about_store, open_store
from tellmost.running.writing import written_whole
from tellmost.selecting.checkpoint import check_checkpoint

SECONDS_BETWEEN_WRITES = {True: 1.0, False: 5.0}  # of a local file, of one elsewhere


class PickLog:
    """All whole lines of a checkpoint, and where they are kept."""

    def __init__(self, checkpoint: str | os.PathLike[str] | None) -> None:
        self.content = b""
        self.name = "picks.jsonl"
        self._path: Path | None = None
        self._store: Any = None
        self._generation = 0
        self._kept, self._written = 0, time.monotonic()
        if isinstance(checkpoint, str) and "://" in checkpoint:
            self._store, self._folder = open_store(checkpoint, "checkpoint")
            self.name = self._folder.rpartition("/")[2]
            self._read_generations()
        elif checkpoint is not None:
            self._path = check_checkpoint(checkpoint)
            self.name = self._path.name
            self.content = self._path.read_bytes() if self._path.exists() else b""
        self._kept = len(self.content)

    @property
    def count(self) -> int:
        return max(self.content.count(b"\n") - 1, 0)

    @property
    def last_gain(self) -> float:
        return float(json.loads(self.content.splitlines()[-1])["gain"])

    @property
    def way_on(self) -> str:
        if self._path is self._store is None:
            return "With a checkpoint the same call would go on from its picks."
        return "The same call goes on from the picks in the checkpoint."

    def add(self, lines: bytes) -> None:
        """Take down whole lines, and write them once in a while."""
        self.content += lines
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES[self._store is None]:
            self.keep()

    def keep(self) -> None:
        """Write what is new."""
        if len(self.content) > self._kept:
            if self._path is not None:
                with written_whole(self._path) as unfinished:
                    unfinished.write_bytes(self.content)
            elif self._store is not None:
                self._write_generation()
            self._kept = len(self.content)
        self._written = time.monotonic()

    def _generations(self) -> list[str]:
        with about_store(self._store, self._folder, "checkpoint"):
            self._store.invalidate_cache()
            found = self._store.glob(f"{self._folder}.{'[0-9]' * 8}")
        return sorted(found)

    def _read_generations(self) -> None:
        """Read the generation with the most picks: the last one may have been cut short."""
        found = self._generations()[-2:]
        for path in found:
            with about_store(self._store, path, "checkpoint"):
                content = self._store.cat_file(path)
            whole = content[: content.rfind(b"\n") + 1]
            self.content = max(self.content, whole, key=len)
        self._generation = int(found[-1][-8:]) if found else 0

    def _write_generation(self) -> None:
        old, self._generation = self._generations(), self._generation + 1
        path = f"{self._folder}.{self._generation:08}"
        with about_store(self._store, path, "checkpoint"):
            self._store.pipe_file(path, self.content)
            for earlier in old:
                self._store.rm_file(earlier)
