"""``tellmost compare``: is it better than the usual methods, here?"""

from pathlib import Path
from typing import Annotated

from tellmost.cli import options
from tellmost.cli.ending import DONE, UsageError
from tellmost.cli.inputs import (
    Columns,
    check_choices,
    check_machine,
    check_there,
    read_kernel,
    read_labels,
    read_noise,
    read_rule,
    split_names,
    split_numbers,
)
from tellmost.cli.output import print_study

Picks = Annotated[
    int,
    options.option(
        "-k",
        "--k",
        panel=options.ESSENTIALS,
        help="How many rows each method picks.",
        show_default=True,
    ),
]
TargetLabels = Annotated[
    Path | None,
    options.option(
        "--target-labels",
        panel=options.FILES,
        help="A file with the label of each target.",
    ),
]
Methods = Annotated[
    str | None,
    options.option(
        "--methods",
        panel=options.PICKS,
        metavar="NAMES",
        help="Rules to compare with, by commas. Default: random,top-k,mmr,k-center,cosine.",
    ),
]
Seeds = Annotated[
    int,
    options.option(
        "--seeds",
        panel=options.PICKS,
        help="Runs, each on a random half of the pool where there are labels.",
        show_default=True,
    ),
]
Budgets = Annotated[
    str | None,
    options.option(
        "--budgets",
        panel=options.PICKS,
        metavar="NUMBERS",
        help="Numbers of picks to look at, by commas, up to k. Default: k and an eighth, a "
        "quarter and half of it.",
    ),
]


def compare(
    pool: options.PoolFiles,
    targets: options.Targets = None,
    k: Picks = 100,
    labels: options.Labels = None,
    target_labels: TargetLabels = None,
    label_column: options.LabelColumn = None,
    json: options.Json = False,
    rule: options.Rule = "vtl",
    methods: Methods = None,
    seeds: Seeds = 10,
    budgets: Budgets = None,
    kind: options.Kind = None,
    kernel: options.Kernel = None,
    noise_ratio: options.NoiseRatio = None,
    noise_std: options.NoiseStd = None,
    normalize: options.Normalize = None,
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
    """Compare the picks with those of random choice, nearest neighbours, MMR, k-centre and cosine.

    With the labels of pool and targets a linear probe learns from each method's picks and is
    tested on the targets, over seeds: accuracy with standard errors, and a plain verdict. Without
    labels only the targets' variance is compared, which is circular: VTL minimises it by
    construction, whether or not that helps.

        tellmost compare pool.npy --targets val.npy -k 200
            --labels y.csv --target-labels t.csv
    """
    if targets is None:
        raise UsageError("compare needs --targets.")
    has_both = (labels is None) == (target_labels is None)
    if not has_both:
        raise UsageError("give --labels and --target-labels, or neither.")
    noise = (noise_ratio, noise_std)
    check_choices(rule, has_targets=True, normalize=normalize, noise=noise, k=k)
    names = None if methods is None else split_names(methods)
    for name in names or ():
        check_choices(name, has_targets=True, k=k)
    for path, option in ((labels, "--labels"), (target_labels, "--target-labels")):
        if path is not None:
            check_there(path, option)
    has_own_labels = label_column is not None and labels is None
    check_machine(device, memory)
    columns = Columns(
        vector=vector_column,
        text=text_field,
        id=id_column,
        embed=embed,
        ignored=tuple(ignore_column or ()),
        others=(label_column,) if has_own_labels and label_column else (),
        shared=has_own_labels,
        device=device,
        progress=progress,
    )
    given = columns.read_pool(pool)
    wanted = columns.read_targets(targets, given)
    assert wanted is not None
    from tellmost.evaluation.comparing import METHODS
    from tellmost.evaluation.comparing import compare as run

    comparison = run(
        given.vectors,
        wanted.vectors,
        k,
        labels=read_labels(labels, label_column, "--labels", given),
        target_labels=read_labels(target_labels, label_column, "--target-labels", wanted),
        rule=read_rule(rule),
        methods=names or METHODS,
        seeds=seeds,
        budgets=None if budgets is None else split_numbers(budgets, "--budgets"),
        kind=kind,
        normalize=normalize,
        noise_ratio=noise_ratio,
        noise_std=read_noise(noise_std, given),
        kernel=read_kernel(kernel),
        device=device,
        memory=memory,
        progress=progress,
    )
    print_study(comparison, as_json=json)
    return DONE
