"""What a built site has besides its pages: ``llms.txt``, a plain list of them for programs."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

LEFT_OUT = re.compile(r"(results|benchmarks)/|docs/decisions/")
HEAD = """# Tellmost

> Choose the data that tells you most about what you want to know: transductive active learning,
> exact and fast, as a Python library and a command line.

Start with `chosen = tm.select(pool, targets, k=50)` after `import tellmost as tm`. The picks are
`chosen.indices`.
"""


def first_sentence(page: nodes.document) -> str:
    """What the page is about, in the words that it opens with."""
    for paragraph in page.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if text.endswith((".", ":")) and paragraph.parent.tagname == "section":
            return re.split(r"(?<=[.:?]) (?=[A-Z`])", text)[0].rstrip(":")
    return ""


def list_pages(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    lines = [HEAD]
    for name in sorted(app.env.found_docs):
        if not LEFT_OUT.match(name):
            title = app.env.titles[name].astext()
            about = first_sentence(app.env.get_doctree(name))
            lines.append(f"- [{title}]({name}.html){f': {about}' if about else ''}")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", list_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
