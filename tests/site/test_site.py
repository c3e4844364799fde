"""The site: what it is made from is complete, and what is built from it stands by itself."""

import re
import subprocess
import sys
import zlib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import tellmost as tm

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(name: str) -> ModuleType:
    """A script of ``docs/site``, which is no package."""
    found = spec_from_file_location(f"site_{name}", DOCS / "site" / f"{name}.py")
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_page_is_in_the_contents_of_the_site():
    listed = (DOCS / "index.md").read_text().split("```{toctree}")[1:]
    names = {line.strip() for block in listed for line in block.split("```")[0].splitlines()}
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    missing = {page for page in pages if not any(Path(page).match(name) for name in names if name)}
    assert not missing, f"docs/index.md has no place for {sorted(missing)}"


@pytest.mark.builds_site
def test_the_page_of_results_says_what_the_files_say():
    results = load("results")
    assert results.PAGE.read_text() == results.page(), "run python docs/site/results.py"


def test_the_badges_are_true():
    badges = load("badges")
    for name, said in badges.facts().items():
        there = (badges.FOLDER / f"{name}.svg").read_text()
        assert there == badges.draw(*said), "run python docs/site/badges.py"


def test_a_page_that_loads_from_elsewhere_or_links_nowhere_is_found(tmp_path):
    tags = [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<div style="background: url(http://cdn.example/x.png)"></div>',
        '<a href="missing.html">there</a><a href="#nowhere">here</a>',
        '<a href="https://example.org">no load</a><h1 id="top"></h1><a href="#top">up</a>',
    ]
    (tmp_path / "page.html").write_text("\n".join(tags))
    (tmp_path / "site.css").write_text("@import 'https://cdn.example/y.css';")
    said = load("check").check(tmp_path)
    assert len(said) == 6 and sum("example/" in line for line in said) == 4


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The site, built with warnings as errors and every notebook run."""
    out = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-q", "-D", f"nb_execution_cache_path={out / 'notebooks'}"]
    command = [sys.executable, "-m", "sphinx", "-c", str(DOCS), *options, str(ROOT), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.builds_site
def test_the_site_stands_by_itself(built):
    assert load("check").check(built) == []


@pytest.mark.builds_site
def test_equations_are_written_out_and_notebooks_have_pictures(built):
    theory = (built / "docs" / "theory.html").read_text()
    assert theory.count("<math") > 10
    for page in (DOCS / "tutorials").glob("[!i]*.md"):
        text = (built / "docs" / "tutorials" / f"{page.stem}.html").read_text()
        assert "cell_output" in text and "Traceback" not in text


@pytest.mark.builds_site
def test_the_reference_has_every_public_name(built):
    lines = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split()[0] for line in zlib.decompress(lines).decode().splitlines()}
    for name in tm.__all__:
        value = getattr(tm, name)
        for part in names_of(value) if isinstance(value, ModuleType) else [name]:
            assert any(full.endswith(f".{part}") for full in known), f"{name} lacks {part}"


def names_of(room: ModuleType) -> list[str]:
    """The public classes and functions of a room."""
    named = getattr(room, "__all__", [name for name in vars(room) if not name.startswith("_")])
    homes = {name: getattr(getattr(room, name), "__module__", "") or "" for name in named}
    return [name for name, home in homes.items() if home.startswith("tellmost")]


@pytest.mark.builds_site
def test_the_list_for_programs_names_pages_that_exist(built):
    links = re.findall(r"\]\(([^)]+)\)", (built / "llms.txt").read_text())
    assert len(links) > 30 and all((built / link).is_file() for link in links)
