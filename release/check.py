"""Check what a release would publish: ``make release``. It publishes nothing.

1. The public address is set, from which the links of the package are made.
2. Two builds from two copies of the project are the same, byte for byte.
3. A package index can show the README.
4. The wheel installs in an empty environment with what it asks for and nothing else, and selects.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hatch_build import public_address  # noqa: E402

BUILT_FROM = ("src", "reproduction", "pyproject.toml", "hatch_build.py", "README.md")
BUILT_FROM += ("CHANGELOG.md", "CITATION.cff", "LICENSE")
DISTRIBUTIONS = (".", "reproduction")

FIRST_CALL = """
import sys, numpy as np, tellmost as tm
rng = np.random.default_rng(0)
chosen = tm.select(rng.standard_normal((1000, 8)), rng.standard_normal((3, 8)), k=5)
assert len(chosen) == 5, chosen
assert (tm.__file__ or "").startswith(sys.prefix), tm.__file__
print(chosen)
"""


class NotReady(Exception):  # noqa: N818
    """The project cannot be released as it is."""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, **options
    )  # type: ignore[call-overload]
    if done.returncode:
        raise NotReady(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def check_address(root: Path = ROOT) -> str:
    address = public_address(root)
    if not address.startswith("https://"):
        raise NotReady(
            "the project has no public address, so links in the package would lead nowhere; "
            f'pyproject.toml has address = "{address}" under [tool.tellmost]. Write the https '
            "address of the repository there."
        )
    return address


def build(out: Path) -> dict[str, str]:
    """Build sdists and wheels from a fresh copy of the project; return the digest of each."""
    copy = out / "copy"
    copy.mkdir(parents=True)
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", "tests")
            shutil.copytree(source, copy / name, ignore=skipped, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, copy / name)
    here = {**os.environ, "PYTHONPATH": ""}
    for folder in DISTRIBUTIONS:
        run(
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-d",
            out / "dist",
            cwd=copy / folder,
            env=here,
        )
    built = sorted((out / "dist").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built}


def check_builds(first: Path, second: Path) -> dict[str, str]:
    """Two builds, from copies with other names and other times, must not differ."""
    digests, again = build(first), build(second)
    if digests != again:
        others = sorted(name for name in digests if digests[name] != again.get(name))
        raise NotReady(f"two builds of the same files differ in {', '.join(others)}.")
    return digests


def check_description(dist: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()))


def check_installing(dist: Path, out: Path) -> str:
    """Install the wheel in an empty environment, and make a first call from another folder."""
    venv.create(out, with_pip=True)
    python = out / "bin" / "python"
    [wheel] = dist.glob("tellmost-*.whl")
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    return run(python, "-c", FIRST_CALL, cwd=out, env={**os.environ, "PYTHONPATH": ""})


def main() -> None:
    print("public address:", check_address())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, digest in check_builds(place / "first", place / "second").items():
            print(f"{digest}  {name}")
        check_description(place / "first" / "dist")
        print("a package index can show the README")
        print(check_installing(place / "first" / "dist", place / "empty"), end="")
        shutil.copytree(place / "first" / "dist", ROOT / "dist", dirs_exist_ok=True)
    print("ready: dist/ has what may be published")


if __name__ == "__main__":
    try:
        main()
    except NotReady as why:
        sys.exit(f"not ready: {why}")
