"""Scripts that stand beside their results and benchmarks, as modules."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load_script(path):
    """Import a file of the repository, which may import what stands beside it."""
    file = ROOT / path
    name = "_".join(file.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
    if name not in sys.modules:
        spec = spec_from_file_location(name, file)
        module = sys.modules[name] = module_from_spec(spec)
        sys.path.insert(0, str(file.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(file.parent))
    return sys.modules[name]
