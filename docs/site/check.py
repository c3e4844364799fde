"""Check a built site: links lead somewhere, and no page loads anything from elsewhere.

``python docs/site/check.py build/site`` prints what is wrong, and then ends with exit code 1.
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"src", "srcset", "data", "poster", "action", "xlink:href"}
FROM_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
NO_LOAD = {"a", "area"}  # their href is a link, which loads nothing by itself


class Page(HTMLParser):
    """The names, links and loads of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = [a or b for a, b in IN_STYLES.findall(text)]
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and name in ("id", "name"):
                self.names.add(value)
            elif value and name == "href" and tag in NO_LOAD:
                self.links.append(value)
            elif value and (name in LOADS or (name == "href" and tag != "base")):
                self.loads.append(value)


@cache
def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def has_place(path: Path, name: str) -> bool:
    return not name or path.suffix != ".html" or name in read(path).names


def problems_of(path: Path) -> list[str]:
    """What is wrong with a page: a link or a load that leads nowhere, or a load from elsewhere."""
    page = read(path)
    found = [f"loads {url}" for url in page.loads if FROM_ELSEWHERE.match(url)]
    for url in page.links + page.loads:
        parts = urlsplit(url)
        if parts.scheme or parts.netloc or url.startswith("data:"):
            continue
        there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not there.is_file():
            found.append(f"links to {url}, which is not there")
        elif not has_place(there, unquote(parts.fragment)):
            found.append(f"links to {url}, but there is no such place on that page")
    return found


def check(folder: Path) -> list[str]:
    """All that is wrong with the pages and styles below a folder, one line for each."""
    pages = sorted(folder.resolve().rglob("*.html"))
    said = [
        f"{path.relative_to(folder.resolve())} {it}" for path in pages for it in problems_of(path)
    ]
    for path in sorted(folder.resolve().rglob("*.css")):
        urls = [a or b for a, b in IN_STYLES.findall(path.read_text(encoding="utf-8"))]
        said += [f"{path.name} loads {url}" for url in urls if FROM_ELSEWHERE.match(url)]
    return said


if __name__ == "__main__":
    problems = check(Path(sys.argv[1]))
    print(
        "\n".join(problems) or "Every link leads somewhere, and nothing is loaded from elsewhere."
    )
    sys.exit(bool(problems))
