"""How Sphinx builds the site: ``make docs``. Nothing that a page needs comes from elsewhere.

The source folder is that of the project, so that pages link to results and benchmarks as files.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "reproduction" / "src"), str(ROOT / "docs" / "site")]

import tellmost  # noqa: E402

project = "Tellmost"
author = "The Tellmost developers"
copyright = author
version = release = tellmost.__version__
root_doc = "docs/index"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "equations",
    "pages",
]
include_patterns = [
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/reference/*.md",
    "docs/tutorials/*.md",
    "results/*/README.md",
    "benchmarks/README.md",
    "benchmarks/*/README.md",
    "release/matrix.md",
    "release/mutants.md",
    "*.md",
]
exclude_patterns = ["README.md", "**/.*", "src", "tests", "reproduction", "build", "dist", "demo"]
suppress_warnings = [
    "misc.highlighting_failure",  # what a command prints is shown as it is
    "toc.empty_glob",  # a page may be written later than the contents
    "myst.header",  # pages that experiments write have headings of their own
]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_ipywidgets_js: dict = {}
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request, set_score_request, set_transform_request",  # sklearn's
}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "Tellmost"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["start"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
