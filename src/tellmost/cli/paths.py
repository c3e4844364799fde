"""The files that a command reads and writes. None of them may be two of these."""

import os
import sys
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

from tellmost.cli.ending import UsageError
from tellmost.cli.options import OptionValues
from tellmost.rows.records import is_number
from tellmost.rows.text_tables import MARK
from tellmost.running.writing import leads_in_a_circle

SNIFFED = 4096
FIRST = {
    b"{": ".jsonl",
    b"[": ".json",
    b"\x93NUMPY": ".npy",
    b"PAR1": ".parquet",
    b"PK\3\4": ".npz",
}
GZIPPED = b"\x1f\x8b"
WRITTEN = ("--output", "--report", "--checkpoint")


def take_stdin(given: OptionValues) -> None:
    """Put what stdin brings into a file, since rows are read several times. It is named ``-``.

    Its first bytes tell the format: that of one of FIRST, or else .csv, gzipped or not.
    """
    names = ("pool", "targets", "queries")
    named = [name for name in names if getattr(given, name) in (Path("-"), [Path("-")])]
    if not named:
        return
    if len(named) > 1:
        raise UsageError(f"only one file can come from stdin; got - for {' and '.join(named)}.")
    start = sys.stdin.buffer.read(SNIFFED)
    suffix = _suffix_of(start)
    given.stdin = TemporaryDirectory()  # it is removed with the options
    path = Path(given.stdin.name) / f"stdin{suffix}"
    with path.open("wb") as file:
        file.write(start)
        copyfileobj(sys.stdin.buffer, file)
    setattr(given, named[0], [path] if named[0] == "pool" else path)


def _suffix_of(start: bytes) -> str:
    if start.startswith(GZIPPED):
        return f"{_suffix_of(_unzipped(start))}.gz"
    text = start.removeprefix(MARK).lstrip()
    return next((suffix for first, suffix in FIRST.items() if text.startswith(first)), ".csv")


def _unzipped(start: bytes) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start, SNIFFED)
    except zlib.error as error:
        raise UsageError(f"stdin is not a complete .gz file: {error}. Send it again.") from error


def named_files(given: OptionValues) -> Iterator[tuple[str, Path]]:
    """Each file that the command reads or writes, after the name of its option."""
    for name, value in vars(given).items():
        is_argument = name == "selection" or (name == "pool" and given.selection is None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                yield name if is_argument else f"--{name.replace('_', '-')}", path
    if (path := noise_file(given)) is not None:
        yield "--noise-std", path


def noise_file(given: OptionValues) -> Path | None:
    """The file of --noise-std; None where it is a number or not given."""
    if given.noise_std is None or is_number(given.noise_std):
        return None
    return Path(given.noise_std)


def check_files(given: OptionValues) -> None:
    """Check that what is read is there, and that no other file of the command is overwritten."""
    take_stdin(given)
    named = list(named_files(given))
    for option, path in named:
        if leads_in_a_circle(path):
            raise UsageError(
                f"{option}: {str(path)!r} is a link in a circle of links. Name a file."
            )
        if option not in WRITTEN and not path.exists():
            raise UsageError(f"{option}: there is no file {str(path)!r}.")
    written = [entry for entry in named if entry[0] in WRITTEN]
    for (option, path), (other, same) in product(written, named):
        if option != other and is_same_file(path, same):
            raise UsageError(
                f"{option} and {other} name the same file, {str(path)!r}, which would be "
                f"overwritten. Name another file."
            )


def is_same_file(path: Path, other: Path) -> bool:
    """Say if two paths lead to one file, which need not exist. Links are followed."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)
