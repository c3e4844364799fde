"""Write the badges of the README, each from the file that makes it true.

``python docs/site/badges.py`` writes docs/badges/. A test says when one of them is not true any
more. They are pictures in the repository, so nobody learns who looks at them.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "badges"
WIDTH_OF_LETTER, MARGIN = 6.6, 12

SHAPE = """<svg xmlns="http://www.w3.org/2000/svg" width="{whole:.0f}" height="20" role="img">
<title>{label}: {value}</title>
<rect width="{whole:.0f}" height="20" rx="3" fill="#2563c9"/>
<path d="M3 0H{left:.0f}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0" fill="#4a4f57"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{first:.1f}" y="14">{label}</text>
<text x="{second:.1f}" y="14">{value}</text>
</g>
</svg>
"""


def facts() -> dict[str, tuple[str, str]]:
    """What each badge says: the Pythons on which the tests passed, the licence, the types."""
    matrix = ROOT / "release" / "matrix.json"
    rows = json.loads(matrix.read_text())["rows"] if matrix.exists() else {}
    passed = {name.split()[0] for name, row in rows.items() if row.get("tests")}
    in_order = sorted(passed, key=lambda name: int(name.split(".")[1]))
    settings = (ROOT / "pyproject.toml").read_text()
    licence = re.search(r'^license = "(.*)"', settings, re.MULTILINE)
    assert licence is not None
    tested = {"python": ("Python", ", ".join(in_order))} if passed else {}
    return tested | {
        "licence": ("licence", licence.group(1)),
        "types": ("types", "checked by mypy"),
    }


def draw(label: str, value: str) -> str:
    left = WIDTH_OF_LETTER * len(label) + MARGIN
    right = WIDTH_OF_LETTER * len(value) + MARGIN
    return SHAPE.format(
        label=label,
        value=value,
        left=left,
        whole=left + right,
        first=left / 2,
        second=left + right / 2,
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, said in facts().items():
        (FOLDER / f"{name}.svg").write_text(draw(*said))
