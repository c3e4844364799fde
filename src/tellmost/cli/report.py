"""``tellmost report``: a page about a selection that was saved."""

from pathlib import Path
from typing import Annotated

import typer

from tellmost.cli import options
from tellmost.cli.ending import DONE
from tellmost.cli.inputs import Columns, check_there
from tellmost.cli.output import check_not_read, check_page, show_items

Saved = Annotated[
    Path, typer.Argument(metavar="SELECTION", help="A .tellmost file.", show_default=False)
]
Pool = Annotated[
    list[Path],
    typer.Option(
        "--pool", "-p", help="The pool that it was chosen from, as then.", show_default=False
    ),
]
Page = Annotated[
    Path, typer.Option("--output", "-o", help="The page to write.", show_default=False)
]


def report(
    selection: Saved,
    pool: Pool,
    output: Page,
    targets: options.Targets = None,
    vector_column: options.VectorColumn = None,
    text_field: options.TextField = None,
    id_column: options.IdColumn = None,
    ignore_column: options.IgnoreColumn = None,
    embed: options.Embed = None,
    device: options.Device = None,
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Write a page about a saved selection: one .html file that needs no network.

    Uncertainty against picks beside random, nearest neighbours and MMR; the picks and the targets
    each serves; a map; the targets that the pool helps least; the health of the pool.

        tellmost select pool.npy --targets val.npy -k 100 -o picks.tellmost

        tellmost report picks.tellmost --pool pool.npy --targets val.npy -o report.html
    """
    check_there(selection, "SELECTION")
    check_page(output, "--output")
    columns = Columns(
        vector=vector_column,
        text=text_field,
        id=id_column,
        embed=embed,
        ignored=tuple(ignore_column or ()),
        device=device,
        progress=progress,
    )
    from tellmost.running.progress import working
    from tellmost.running.writing import check_writable
    from tellmost.selecting.selection import Selection

    check_not_read(output, "--output", [selection, *pool, targets])
    check_writable(output, "--output")
    chosen = Selection.load(selection)
    given = columns.read_pool(pool)
    wanted = columns.read_targets(targets, given)
    points = None if wanted is None else wanted.vectors
    with working(progress, "writing the page"):
        chosen.report(output, given.vectors, points, show_items(given), show_items(wanted))
    print(f"written: {output}")
    return DONE
