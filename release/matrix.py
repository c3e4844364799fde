"""Test the wheel with several versions of Python, torch and numpy, and with each extra alone.

    python release/matrix.py                        # every row whose Python is on the PATH
    python release/matrix.py --pythons 3.12 --tests tests
    python release/matrix.py --pythons PYTHON          # by its path
    python release/matrix.py --extras                  # each extra, with the Python that runs this
    python release/matrix.py --extras plot ray

Each row gets an environment of its own, which is removed afterwards. It needs up to 6 GB. The
wheel is installed with the versions of the row, without the project's own list of versions. Then
``doctor`` runs, and the tests. Where the wheel has an extra, its use in extras.py runs instead.
What came of it goes into matrix.json and matrix.md beside this file; a row that is not run again
keeps its entry.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from extras import USES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "release" / "matrix.json"

OLDEST, NEWEST = "oldest", "newest"
OLDEST_VERSIONS = {
    "3.10": ("torch==2.6.0", "numpy==1.26.0"),
    "3.11": ("torch==2.6.0", "numpy==1.26.0"),
    "3.12": ("torch==2.6.0", "numpy==1.26.0"),
    "3.13": ("torch==2.6.0", "numpy==2.1.0"),  # the first numpy for it
}
NEEDED_BY_TESTS = ("pytest", "hypothesis", "mpmath", "scipy", "typer", "safetensors")
TESTS = ("tests/kernels/test_kernels.py", "tests/rules/test_facts_from_the_paper.py")
TESTS += ("tests/selecting/test_against_the_oracle.py", "tests/learner/test_learner.py")
TESTS += ("tests/retrieval", "tests/safebo/test_safe_oracle.py", "tests/cli/test_doctor.py")

HEAD = """# Versions that were tested

`python release/matrix.py` installs the wheel with each of these versions in an empty environment,
runs `tellmost doctor`, and then the tests named below. The wheel of torch is the one that
`pip install torch` brings there.

"""


def call(*command: str | Path, **options: Any) -> tuple[int, str]:
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    return done.returncode, done.stdout


def build_wheel(out: Path) -> Path:
    code, said = call(
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=ROOT
    )
    if code:
        sys.exit(f"the wheel cannot be built:\n{said}")
    return next(out.glob("*.whl"))


def try_row(python: str, which: str, short: str, wheel: Path, tests: list[str]) -> dict[str, Any]:
    """Make an environment, install, run the doctor and the tests; say what came of each."""
    started = time.perf_counter()
    wanted = OLDEST_VERSIONS[short] if which == OLDEST else ("torch", "numpy")
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        inside = Path(folder) / "env" / "bin" / "python"
        call(python, "-m", "venv", Path(folder) / "env")
        wanted = (str(wheel), *wanted, *NEEDED_BY_TESTS)
        quick = ("-q", "--no-cache-dir", "--no-compile")
        code, said = call(inside, "-m", "pip", "install", *quick, *wanted)
        if code:
            return {"installed": False, "why": said.strip().splitlines()[-1]}
        here = {**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
        doctor, words = call(inside, "-m", "tellmost", "doctor", cwd=folder, env=here)
        shutil.copytree(ROOT / "tests", Path(folder) / "tests")
        shutil.copyfile(ROOT / "pyproject.toml", Path(folder) / "pyproject.toml")
        code, said = call(inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests,
                          cwd=folder, env=here)  # fmt: skip
    versions = dict(re.findall(r"^(python|torch|numpy) +(\S+)", words, re.MULTILINE))
    return {
        "installed": True,
        **versions,
        "doctor": doctor == 0,
        "tests": code == 0,
        "counts": dict(count_tests(said)),
        "failures": re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)[:20],
        "minutes": round((time.perf_counter() - started) / 60, 1),
    }


def try_extra(extra: str, wheel: Path) -> dict[str, Any]:
    """Install the wheel with one extra, and run what this promises."""
    with tempfile.TemporaryDirectory(prefix="extra-") as folder:
        inside = Path(folder) / "env" / "bin" / "python"
        call(sys.executable, "-m", "venv", Path(folder) / "env")
        wanted = ("-c", ROOT / "constraints.txt", f"{wheel}[{extra}]")
        quick = ("-q", "--no-cache-dir", "--no-compile")
        code, said = call(inside, "-m", "pip", "install", *quick, *wanted)
        if code == 0:
            here = {**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
            code, said = call(inside, "-c", USES[extra], cwd=folder, env=here)
        _, frozen = call(inside, "-m", "pip", "freeze")
    why = {} if code == 0 else {"why": said.strip().splitlines()[-1]}
    return {"works": code == 0, "packages": len(frozen.splitlines()), **why}


def count_tests(said: str) -> list[tuple[str, int]]:
    """How many tests passed, failed and were skipped, from the dots that pytest prints."""
    dots = "".join(re.findall(r"^([.sFEx]+)(?: +\[ *\d+%\])?$", said, re.MULTILINE))
    marks = {"passed": ".", "skipped": "s", "failed": "F", "errors": "E"}
    return [(name, dots.count(mark)) for name, mark in marks.items() if dots.count(mark)]


def page(kept: dict[str, Any]) -> str:
    rows, tests = kept["rows"], ", ".join(f"`{test}`" for test in kept["tests"])
    head = (
        "| Python | versions | torch | numpy | doctor | tests | |\n|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for name, row in sorted(
        rows.items(), key=lambda item: [int(n) for n in re.findall(r"\d+", item[0])]
    ):
        short, which = name.split()
        if not row["installed"]:
            lines.append(f"| {short} | {which} | | | | | does not install: {row['why']} |")
            continue
        counts = ", ".join(f"{count} {what}" for what, count in row["counts"].items())
        shown = {True: "ok", False: "**fails**"}
        lines.append(
            f"| {row['python']} | {which} | {row['torch']} | {row['numpy']} "
            f"| {shown[row['doctor']]} | {shown[row['tests']]} | {counts} |"
        )
        remarks = [f"`{test}`" for test in row["failures"]] + row.get("notes", [])
        lines += [f"| | | | | | | {remark} |" for remark in remarks]
    lines += ["", f"Tests: {tests}.", "", *page_of_extras(kept.get("extras", {}))]
    return HEAD + head + "\n".join(lines) + "\n"


def page_of_extras(extras: dict[str, Any]) -> list[str]:
    lines = [
        "## Extras",
        "",
        "`python release/matrix.py --extras` installs the wheel with one extra, in an empty",
        "environment, and runs what the extra is for (`extras.py`).",
        "",
        "| extra | packages | |",
        "|---|---|---|",
    ]
    for name, row in sorted(extras.items()):
        said = "works" if row["works"] else f"**fails**: {row['why']}"
        lines.append(f"| {name} | {row['packages']} | {said} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=list(OLDEST_VERSIONS))
    parser.add_argument(
        "--versions", nargs="+", default=[OLDEST, NEWEST], choices=[OLDEST, NEWEST]
    )
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    parser.add_argument("--extras", nargs="*", choices=list(USES))
    given = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        if given.extras is None:
            run_rows(given, wheel, kept)
        else:
            run_extras(given.extras or list(USES), wheel, kept)
    RESULTS.with_suffix(".md").write_text(page(kept))


def run_rows(given: argparse.Namespace, wheel: Path, kept: dict[str, Any]) -> None:
    for python in given.pythons:
        python = f"python{python}" if re.fullmatch(r"3\.\d+", python) else python
        if shutil.which(python) is None:
            print(f"{python} is not here", file=sys.stderr)
            continue
        _, said = call(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        short = said.strip()
        for which in given.versions:
            row = try_row(python, which, short, wheel, given.tests)
            print(short, which, row, flush=True)
            kept["rows"][f"{short} {which}"] = row
            kept["tests"] = given.tests
            save(kept)


def run_extras(extras: list[str], wheel: Path, kept: dict[str, Any]) -> None:
    for extra in extras:
        row = try_extra(extra, wheel)
        print(extra, row, flush=True)
        kept.setdefault("extras", {})[extra] = row
        save(kept)


def save(kept: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
