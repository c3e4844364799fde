"""``sightline check``: are these embeddings suitable?"""

from pathlib import Path
from typing import Annotated

import typer

from sightline.cli import options
from sightline.cli.choices import check_machine, check_normalize
from sightline.cli.compare import Kind, LabelColumn
from sightline.cli.ending import DONE
from sightline.cli.inputs import Columns, check_there, read_labels
from sightline.cli.output import print_study

Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        rich_help_panel=options.FILES,
        help="A file with the label of each pool row: names or whole numbers are classes, other "
        "numbers a regression.",
        show_default=False,
    ),
]
Folds = Annotated[
    int, typer.Option("--folds", rich_help_panel=options.RUNNING, help="Each is held out once.")
]
Seed = Annotated[
    int, typer.Option("--seed", rich_help_panel=options.RUNNING, help="Of folds and samples.")
]


def check(
    pool: options.PoolFiles,
    labels: Labels = None,
    label_column: LabelColumn = None,
    json: options.Json = False,
    normalize: options.Normalize = None,
    noise_ratio: options.NoiseRatio = None,
    kind: Kind = None,
    folds: Folds = 5,
    seed: Seed = 0,
    vector_column: options.VectorColumn = None,
    text_field: options.TextField = None,
    id_column: options.IdColumn = None,
    ignore_column: options.IgnoreColumn = None,
    embed: options.Embed = None,
    device: options.Device = None,
    memory: options.Memory = None,
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Tell whether embeddings suit the method, and which noise fits them.

    With labels: how well a linear probe does on held-out rows, whether the predicted variance says
    where it errs, and the noise by marginal likelihood. Always: duplicates, lengths, effective
    rank. Ends with a verdict in words.

        sightline check pool.npy --labels y.csv
    """
    check_normalize(normalize)
    if labels is not None:
        check_there(labels, "--labels")
    has_own_labels = label_column is not None and labels is None
    check_machine(device, memory)
    columns = Columns(
        vector=vector_column,
        text=text_field,
        id=id_column,
        embed=embed,
        ignored=tuple(ignore_column or ()),
        others=(label_column,) if has_own_labels and label_column else (),
        device=device,
        progress=progress,
    )
    given = columns.read_pool(pool)
    from sightline.progress import working
    from sightline.studies import check as run

    known = read_labels(labels, label_column, "--labels", given)
    with working(progress, "checking"):
        suitability = run(
            given.vectors,
            known,
            normalize=normalize,
            kind=kind,
            noise_ratio=noise_ratio,
            folds=folds,
            device=device,
            memory=memory,
            seed=seed,
        )
    print_study(suitability, as_json=json)
    return DONE
