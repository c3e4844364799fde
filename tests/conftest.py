"""Options of the test run.

``--shapes`` is the second pass: every annotated shape in ``sightline`` is checked at run time.
"""

import os

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):  # elsewhere every run tries new problems
    settings.load_profile("repeatable")

torch.set_num_threads(1)  # the problems are small, and threads that wait for each other are slow


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shapes", action="store_true", help="check array shapes at run time")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--shapes"):
        from jaxtyping import install_import_hook

        config.stash[HOOK] = install_import_hook("sightline", "shape_checking.check")
        config.stash[HOOK].__enter__()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shapes"):
        skip = pytest.mark.skip(
            reason="no shapes can be checked in other processes and in kernels"
        )
        for item in items:
            if {"process", "browser", "kernels"} & set(item.keywords):
                item.add_marker(skip)


HOOK = pytest.StashKey()
