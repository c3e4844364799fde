"""Keep the numbers of a full run as the expected ones, and tables in documents."""

import os
import re
from pathlib import Path

from tellmost_reproduction.keeping import keep_text
from tellmost_reproduction.numbers import Numbers

ABOUT_LINK = "`expected.json`: the expected numbers, a link to the file in the package.\n"


def keep_expected(numbers: Numbers, path: Path, folder: Path) -> None:
    """One file, in the package; the folder has a link to it, of which its page speaks."""
    link = folder / "expected.json"
    path.parent.mkdir(exist_ok=True)
    keep_text(numbers.to_json(), path)
    page = folder / "README.md"
    keep_text(f"{page.read_text(encoding='utf-8')}\n{ABOUT_LINK}", page)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(path, folder))


def fill(text: str, name: str, table: str) -> str:
    """The text between two marks replaced by a table."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    marked = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"the document has no marks {start} and {end} to write between.")
    return marked.sub(lambda found: f"{start}\n{table}\n{end}", text)
