"""Lines of a text file, plain or gzipped, with their numbers as an editor shows them."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from tellmost.rows.sources import File

MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 files with it

Line = tuple[int, str]
"""(number from 1, text with its end of line)."""


def suffix_of(path: Path) -> str:
    """The ending that says the format: of ``a.jsonl.gz`` it is .jsonl."""
    return path.with_suffix("").suffix if is_gzipped(path) else path.suffix


def is_gzipped(path: Path) -> bool:
    return path.suffix == ".gz"


def read_lines(file: File) -> Iterator[Line]:
    """All lines; errors name the file and the line. The file must be as it was at first."""
    for number, line in enumerate(_byte_lines(file), start=1):
        content = line.removeprefix(MARK) if number == 1 else line
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file.label} must be text in UTF-8; line {number} is not: {error.reason} at its "
                f"byte {error.start}. Convert the file first, for example with iconv."
            ) from error
        yield number, text


def _byte_lines(file: File) -> Iterator[bytes]:
    with file.opened():  # it has to be the same as before
        pass
    open_bytes = gzip.open if is_gzipped(file.path) else open
    with open_bytes(file.path, "rb") as opened:
        try:
            yield from opened
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            message = str(error).rstrip(".")
            raise ValueError(f"{file.label} is no whole .gz file: {message}.") from error
