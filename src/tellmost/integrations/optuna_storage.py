"""Storages that lose nothing: SQLite and PostgreSQL by URL, or a journal file."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock
from sqlalchemy.exc import SQLAlchemyError

from tellmost.running.writing import locked

JOURNAL = "journal:"
"""What a storage that is a journal file begins with."""

SQLITE_WAIT = 60.0
"""Seconds for which a writer waits while another one has an SQLite file."""

RETRY = 30.0
"""Seconds for which a database that went away is waited for."""

HEARTBEAT = 60
"""Workers of ``study.optimize`` say so often, in seconds, that they live."""

LASTING = ("readonly", "read-only", "disk is full", "no space", "permission denied")
"""Words of errors that do not pass by waiting."""

Result = TypeVar("Result")


def open_storage(url: str, *, heartbeat: int = HEARTBEAT) -> BaseStorage:
    """The storage of a URL such as sqlite:///laser.db, postgresql://host/db or journal:laser.log.

    A path alone is an SQLite file. Its transactions begin by taking the file, so two writers wait
    for each other and never fail halfway. Workers of ``study.optimize`` say every ``heartbeat``
    seconds that they live, and Optuna fails the trials of those that missed two. Trials of
    ``ask`` wait for as long as it takes, and so do those in a journal, which has no heartbeat.
    """
    if url.startswith(JOURNAL):
        return JournalStorage(WholeLines(url.removeprefix(JOURNAL)))
    url = url if "://" in url else f"sqlite:///{url}"
    url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    is_sqlite = url.startswith("sqlite")
    waiting = {"connect_args": {"timeout": SQLITE_WAIT}} if is_sqlite else {"pool_pre_ping": True}
    storage = RDBStorage(url, engine_kwargs=waiting)
    storage.heartbeat_interval = heartbeat  # as an argument it warns that it is experimental
    if not is_sqlite:
        return storage

    @sqlalchemy.event.listens_for(storage.engine, "connect")
    def leave_transactions_alone(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # else Python begins them, and too late

    @sqlalchemy.event.listens_for(storage.engine, "begin")
    def take_the_file(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()  # connections that were made before
    return storage


def retrying(action: Callable[[], Result], seconds: float = RETRY) -> Result:
    """What an action returns, tried again while its database is away, for so many seconds.

    The action must be one that may be done twice.
    """
    deadline, pause = time.monotonic() + seconds, 0.05
    while True:
        try:
            return action()
        except (StorageInternalError, SQLAlchemyError) as error:
            why = describe_storage_error(error)
            if not is_passing(error) or time.monotonic() + pause > deadline:
                raise StorageInternalError(f"the storage cannot be used: {why}") from error
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def is_passing(error: BaseException) -> bool:
    """Whether waiting may help."""
    why = describe_storage_error(error).lower()
    cause = error if isinstance(error, SQLAlchemyError) else error.__cause__
    is_about_access = isinstance(
        cause, sqlalchemy.exc.OperationalError | sqlalchemy.exc.DBAPIError
    )
    return is_about_access and not any(word in why for word in LASTING)


def describe_storage_error(error: BaseException) -> str:
    """What the database said, in one line."""
    cause = error if isinstance(error, SQLAlchemyError) else error.__cause__ or error
    return " ".join(str(getattr(cause, "orig", None) or cause).split())


class FileLock(BaseJournalFileLock):
    """A lock that the system lets go when its process ends, however it ends."""

    def __init__(self, path: str) -> None:
        self._path, self._held = Path(path), ExitStack()

    def acquire(self) -> bool:
        self._held.enter_context(locked(self._path, SQLITE_WAIT))
        return True

    def release(self) -> None:
        self._held.close()


class WholeLines(JournalFileBackend):
    """A journal file whose lines are whole, also after a power cut or on a full disk."""

    def __init__(self, path: str) -> None:
        super().__init__(path, lock_obj=FileLock(path))
        self._path = Path(path)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines. What a writer before left unfinished was never acknowledged: it goes."""
        with locked(self._path.with_name(f"{self._path.name}.end"), SQLITE_WAIT):
            self._cut(self._whole())
            before = os.path.getsize(self._path)
            try:
                super().append_logs(logs)
            except OSError:
                self._cut(before)
                raise

    def _whole(self) -> int:
        """The length of the file up to its last line that is whole."""
        with self._path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start = end
            while start > 0:
                start = max(start - 4096, 0)
                file.seek(start)
                block = file.read(min(4096, end - start))
                if (at := block.rfind(b"\n")) >= 0:
                    return start + at + 1
        return 0

    def _cut(self, length: int) -> None:
        if os.path.getsize(self._path) > length:
            os.truncate(self._path, length)
