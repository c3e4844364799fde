"""Run what the migration pages show of peers that cannot stand beside Tellmost's tests.

    python release/migrations.py               # every peer whose Python is on the PATH
    python release/migrations.py Ax SafeOpt

Each peer gets an environment of its own, which is removed afterwards. There its block runs as it
stands on the page, after the first block of the page. The versions, what came of it and a digest
of the block go into migrations.json beside this file. A test compares the digests with the pages,
so a block that was changed must be run again.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix import ROOT, call

RESULTS = ROOT / "release" / "migrations.json"
BLOCK = re.compile(r"^```(?:py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Peer:
    page: str
    python: str
    packages: tuple[str, ...]
    answer: str  # what the block chose, as Python says it


PEERS = {
    "submodlib": Peer("coming-from.md", "3.11", ("submodlib-py",), "rows"),
    "SafeOpt": Peer("migrating.md", "3.9", ("safeopt", "numpy<1.24"), "opt.x[:, 0].tolist()"),
    "Ax": Peer(
        "migrating.md", "3.11", ("torch==2.13.0", "ax-platform"), "client.summarize().x.tolist()"
    ),
}


def blocks_of(page: str) -> dict[str, str]:
    """The blocks of a page by their first lines: ``# SafeOpt`` begins that of SafeOpt."""
    found = BLOCK.findall((ROOT / "docs" / page).read_text())
    return {block.split("\n", 1)[0].removeprefix("# "): block for block in found}


def digest_of(block: str) -> str:
    return hashlib.sha256(block.encode()).hexdigest()[:16]


def run_block(name: str, peer: Peer, python: str) -> dict[str, Any]:
    """Install the peer alone, run its block, and say what it chose with which versions."""
    blocks = blocks_of(peer.page)
    data = next(iter(blocks.values())).replace("import tellmost as tm\n", "")
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        inside = Path(folder) / "env" / "bin" / "python"
        call(python, "-m", "venv", Path(folder) / "env")
        code, said = call(inside, "-m", "pip", "install", "-q", "--no-cache-dir", *peer.packages)
        if code:
            sys.exit(f"{name} does not install:\n{said}")
        script, answer = Path(folder) / "block.py", Path(folder) / "answer.json"
        last = f"import json\njson.dump({peer.answer}, open({str(answer)!r}, 'w'))"
        script.write_text("\n".join([data, blocks[name], last]))
        code, said = call(inside, script, cwd=folder, env={**os.environ, "PYTHONPATH": ""})
        if code:
            sys.exit(f"{name} does not run as the page shows it:\n{said}")
        _, freeze = call(inside, "-m", "pip", "freeze")
        names = [re.match(r"[\w-]+", package)[0] for package in peer.packages]  # type: ignore[index]
        versions = dict(line.split("==") for line in freeze.splitlines() if "==" in line)
        return {
            "python": peer.python,
            "versions": {package: versions[package] for package in names},
            "digest": digest_of(blocks[name]),
            "chose": json.loads(answer.read_text()),
        }


def main() -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or PEERS:
        python = f"python{PEERS[name].python}"
        if shutil.which(python) is None:
            print(f"{python} is not here, which {name} needs", file=sys.stderr)
            continue
        kept[name] = run_block(name, PEERS[name], python)
        print(name, kept[name], flush=True)
        RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
