"""``tellmost check``: are these embeddings suitable?"""

from typing import Annotated

from tellmost.cli import options
from tellmost.cli.ending import DONE
from tellmost.cli.inputs import Columns, check_machine, check_normalize, check_there, read_labels
from tellmost.cli.output import print_study

Folds = Annotated[
    int,
    options.option(
        "--folds", panel=options.RUNNING, help="Each is held out once.", show_default=True
    ),
]
Seed = Annotated[
    int,
    options.option(
        "--seed", panel=options.RUNNING, help="Of folds and samples.", show_default=True
    ),
]


def check(
    pool: options.PoolFiles,
    labels: options.Labels = None,
    label_column: options.LabelColumn = None,
    json: options.Json = False,
    normalize: options.Normalize = None,
    noise_ratio: options.NoiseRatio = None,
    kind: options.Kind = None,
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

        tellmost check pool.npy --labels y.csv
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
    from tellmost.evaluation.suitability import check as run

    suitability = run(
        given.vectors,
        labels=read_labels(labels, label_column, "--labels", given),
        normalize=normalize,
        kind=kind,
        noise_ratio=noise_ratio,
        folds=folds,
        device=device,
        memory=memory,
        progress=progress,
        seed=seed,
    )
    print_study(suitability, as_json=json)
    return DONE
