"""What a build writes into the package's description: links that start from the public address.

The address is one setting, ``[tool.tellmost]`` in pyproject.toml. While it is empty the package
names no address, and the links of the README stay as they are in the repository.
"""

import re
import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RELATIVE_LINK = re.compile(r"(!?)(\[(?:[^][]|\[[^]]*\]\([^)]*\))*\])\((?![a-z]+:|#)([^)]+)\)")


def public_address(root: Path) -> str:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["tool"]["tellmost"]["address"].rstrip("/")


def urls(address: str) -> dict[str, str]:
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def with_absolute_links(text: str, address: str) -> str:
    """Let the links of a page lead to the address, and its pictures come from there."""

    def link(found: re.Match[str]) -> str:
        is_picture, shown, path = found.groups()
        if not is_picture:
            shown = with_absolute_links(shown, address)  # a picture may be what is clicked on
        return f"{is_picture}{shown}({address}/{'raw' if is_picture else 'blob'}/main/{path})"

    return RELATIVE_LINK.sub(link, text) if address else text


class LinksFromTheAddress(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        address = public_address(root)
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, address),
        }
        if address:
            metadata["urls"] = urls(address)
