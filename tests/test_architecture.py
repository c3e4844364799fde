"""Imports point inward, the public names are a contract, and importing is cheap."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tellmost as tm

SOURCE = Path(tm.__file__).parent

LAYERS = [
    {"shapes", "numerics"},
    {"running", "kernels", "gpu"},
    {"rows"},
    {"posterior"},
    {"rules", "targets"},
    {"selecting"},
    {"learner", "retrieval", "cluster", "theory"},
    {"safebo", "finetune"},
    {"evaluation", "integrations", "testing"},
    {"report"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

OUTWARD_AND_LAZY = {
    ("selecting", "report"),  # chosen.plot() and chosen.report()
    ("kernels", "integrations"),  # a gpytorch kernel finds its adapter
    ("posterior", "integrations"),  # GP.fit and GP.of
    ("safebo", "report"),  # opt.plot()
}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> list[tuple[str, bool]]:
    """(room, whether the import is inside a function) for each import from tellmost."""
    tree = ast.parse(path.read_text())
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "tellmost":
            names = [f"tellmost.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        parts = [f"{name}.".split(".") for name in names]
        found += [(room, node in inside) for package, room, *_ in parts if package == "tellmost"]
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_inward(path):
    here = room_of(path)
    assert here in LEVEL, f"{here} has no place in the layers"
    for there, is_lazy in imports_of(path):
        if (here, there) in OUTWARD_AND_LAZY:
            assert is_lazy
        elif there in LEVEL:  # else a public name of the package, in the outermost rooms
            assert LEVEL[there] <= LEVEL[here], f"{here} must not import {there}"
        else:
            assert LEVEL[here] > LEVEL["selecting"]


def test_rooms_of_one_layer_do_not_import_each_other():
    for path in FILES:
        here = room_of(path)
        for there, _ in imports_of(path):
            if there in LEVEL and LEVEL[there] == LEVEL[here]:
                assert there == here, f"{here} and {there} share a layer"


PUBLIC = [
    *("GP", "ActiveFineTuner", "ActiveLearner", "Box", "Constraint", "Parameter", "Query"),
    "Retriever",
    *(
        "SafeOptimizer",
        "Selection",
        "check",
        "cluster",
        "compare",
        "embed",
        "evaluation",
        "finetune",
        "integrations",
        "kernels",
    ),
    *("near", "rules", "safebo", "select", "targets", "testing", "theory"),
]


def test_the_public_names_are_these():
    assert dir(tm) == sorted(tm.__all__) == sorted(PUBLIC)
    assert sorted(tm.rules.__all__) == [
        "CTL",
        "CosineSimilarity",
        "ITL",
        "KCenter",
        "KMeansPlusPlus",
        "LocalUncertainty",
        "MMITL",
        "MMR",
        "Random",
        "Rule",
        "TopK",
        "TruVar",
        "UncertaintySampling",
        "UndirectedITL",
        "UndirectedVTL",
        "VTL",
        "get",
    ]
    assert sorted(tm.kernels.__all__) == [
        "Constant",
        "FeatureKernel",
        "FeatureMap",
        "Gaussian",
        "Kernel",
        "Kronecker",
        "Laplace",
        "Linear",
        "Matern",
        "Outer",
        "Precomputed",
        "Product",
        "Scaled",
        "Sum",
    ]


def test_select_keeps_its_arguments():
    import inspect

    parameters = inspect.signature(tm.select).parameters
    assert list(parameters) == [
        *("pool", "targets", "k", "rule", "kernel", "noise_ratio", "noise_std", "normalize"),
        *(
            "targets_are",
            "column",
            "id_column",
            "text",
            "embed",
            "observed",
            "candidates",
            "target_weights",
        ),
        *("cost", "budget", "groups"),
        *(
            "max_per_group",
            "dedupe",
            "replace",
            "conditional",
            "min_gain",
            "min_gain_share",
            "floor",
        ),
        *("columns_ahead", "checkpoint", "device", "group", "cluster", "memory", "progress"),
    ]
    defaults = {name: p.default for name, p in parameters.items() if name != "pool"}
    assert defaults.pop("rule") == "vtl"
    assert defaults.pop("conditional") is True
    assert defaults.pop("normalize") == "auto"
    assert all(value in (None, False) for value in defaults.values())


@pytest.mark.process
def test_importing_loads_nothing_beyond_torch_and_numpy_and_finds_every_public_name():
    code = (
        "import json, sys, torch, numpy\n"
        "before = set(sys.modules)\n"
        "import tellmost; tellmost.select\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))\n"
        "[getattr(tellmost, name) for name in sys.argv[1:]]"
    )
    command = [sys.executable, "-c", code, *PUBLIC]
    loaded = json.loads(subprocess.check_output(command, text=True))
    allowed = {"tellmost", "numpy", "jaxtyping", "wadler_lindig"}  # shapes, where installed
    third_party = {name for name in loaded if name not in sys.stdlib_module_names} - allowed
    assert not {name for name in third_party if not name.startswith("_")}


@pytest.mark.process
def test_torch_is_loaded_only_when_it_is_used():
    code = "import sys, tellmost.cli.app; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_numerics_holds_what_several_rooms_share():
    """A tolerance of one room stands beside its use."""
    text = (SOURCE / "numerics.py").read_text()
    names = re.findall(r"^([A-Z_0-9]+)\b.* = ", text, re.MULTILINE)
    assert len(names) > 20 and len(set(names)) == len(names)
    experiments = (SOURCE.parents[1] / "reproduction" / "src").rglob("*.py")
    words = {path: set(re.findall(r"\w+", path.read_text())) for path in [*FILES, *experiments]}
    for name in names:
        users = {path for path in words if name in words[path]} - {SOURCE / "numerics.py"}
        rooms = {room_of(path) if path in FILES else "reproduction" for path in users}
        assert len(rooms) > 1, f"{name} is used by {rooms} alone: put it there"


def test_warnings_are_caught_nowhere():
    for path in FILES:
        assert "catch_warn" not in path.read_text()


def test_no_file_is_too_long():
    for path in FILES:
        lines = len(path.read_text().splitlines())
        assert lines <= 500, f"{path.name} has {lines} lines: split it"


MOST_FILES = 18  # that a plain selection enters


def files_entered(call) -> list[str]:
    """The files of the package in which a call enters a function, in their order."""
    root, entered = f"{SOURCE}/", {}

    def note(frame, event, argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(root):
            entered[path.removeprefix(root)] = True

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered)


def test_a_reader_can_follow_a_selection():
    """Code for several processes, a GPU, a checkpoint or a progress line is not on the way."""
    rng = np.random.default_rng(0)
    pool, targets = rng.standard_normal((500, 16)), rng.standard_normal((8, 16))
    tm.select(pool, targets, 3)
    entered = files_entered(lambda: tm.select(pool, targets, 10))
    assert len(entered) <= MOST_FILES, entered
    elsewhere = ("running/processes", "running/progress", "selecting/checkpoint", "fused_rounds")
    assert not [path for path in entered if any(name in path for name in elsewhere)]


def test_nothing_else_lies_loose_at_the_top():
    loose = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert loose == {"__init__.py", "__main__.py", "numerics.py", "py.typed", "shapes.py"}
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert rooms <= set(LEVEL) and len(LAYERS) <= 12


def test_hardly_any_file_name_occurs_twice():
    """Two files of one name are the same kind of thing in two rooms, and there are few of them."""
    names = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert sum(count - 1 for count in names.values()) <= 10, names.most_common(12)


def test_public_class_names_occur_once():
    homes = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}
