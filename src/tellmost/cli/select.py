"""``tellmost select``: from files to picks."""

from pathlib import Path
from typing import Annotated

from tellmost.cli import options
from tellmost.cli.ending import DONE, NOTHING_LEFT
from tellmost.cli.inputs import (
    Columns,
    check_choices,
    check_machine,
    choose_values,
    find_candidates,
    find_observed,
    read_kernel,
    read_noise,
    read_rule,
    read_values,
)
from tellmost.cli.output import Outlet, has_ended_early, print_selection, remark_on

Output = Annotated[
    Path | None,
    options.option(
        "--output",
        "-o",
        panel=options.ESSENTIALS,
        help="Where the picks go: .csv, .jsonl, .parquet, or .tellmost (everything about the "
        "selection). Default: csv on stdout.",
    ),
]
AsRecords = Annotated[
    bool,
    options.option(
        "--records",
        panel=options.OUTPUT,
        help="Write the pool's own records of the picks, in their order and format.",
    ),
]
Export = Annotated[
    str | None,
    options.option(
        "--export",
        panel=options.OUTPUT,
        metavar="TOOL",
        help="Write the picks as tasks for a labelling tool: label-studio.",
    ),
]
Report = Annotated[
    Path | None,
    options.option(
        "--report",
        panel=options.ESSENTIALS,
        help="Also write a page about the selection, one .html file.",
    ),
]


def select(
    pool: options.PoolFiles,
    targets: options.Targets = None,
    k: options.K = None,
    output: Output = None,
    report: Report = None,
    records: AsRecords = False,
    export: Export = None,
    json: options.Json = False,
    rule: options.Rule = "vtl",
    budget: options.Budget = None,
    max_per_group: options.MaxPerGroup = None,
    min_gain: options.MinGain = None,
    min_gain_share: options.MinGainShare = None,
    replace: options.Replace = False,
    conditional: options.Conditional = True,
    kernel: options.Kernel = None,
    noise_ratio: options.NoiseRatio = None,
    noise_std: options.NoiseStd = None,
    normalize: options.Normalize = None,
    floor: options.Floor = False,
    observed: options.Observed = None,
    exclude: options.Exclude = None,
    candidates: options.Candidates = None,
    vector_column: options.VectorColumn = None,
    text_field: options.TextField = None,
    id_column: options.IdColumn = None,
    ignore_column: options.IgnoreColumn = None,
    embed: options.Embed = None,
    target_weights: options.TargetWeights = None,
    cost: options.Cost = None,
    cost_column: options.CostColumn = None,
    groups: options.Groups = None,
    group_column: options.GroupColumn = None,
    device: options.Device = None,
    memory: options.Memory = None,
    columns_ahead: options.ColumnsAhead = None,
    checkpoint: options.Checkpoint = None,
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Pick the rows of POOL that tell most about the targets.

    The picks come with what each was worth, the uncertainty that remains after it, and the target
    it is nearest to; the first ten of a hundred are the selection for ten.

        tellmost select pool.npy --targets val.npy -k 1000 -o picks.csv --report report.html

        tellmost select data.parquet --targets tgt.parquet --vector-column emb
            --cost-column n_tokens --budget 2e6 -o picks.parquet

        tellmost select train.jsonl --targets prompts.jsonl --text-field text
            --embed all-minilm -k 500 --records -o picked.jsonl

        tellmost select pool.npy --targets val.npy -k 64
            --observed round1.csv --exclude rejected.csv -o round2.csv
    """
    outlet = Outlet(output, report, as_records=records, export=export)
    check_choices(
        rule,
        has_targets=targets is not None,
        normalize=normalize,
        noise=(noise_ratio, noise_std),
        conditional=conditional,
        k=k,
        budget=budget,
        min_gain=min_gain,
        min_gain_share=min_gain_share,
        replace=replace,
        floor=floor,
        has_cost=cost is not None or cost_column is not None,
    )
    check_machine(device, memory)
    columns = Columns(
        vector=vector_column,
        text=text_field,
        id=id_column,
        embed=embed,
        ignored=tuple(ignore_column or ()),
        others=tuple(name for name in (cost_column, group_column) if name is not None),
        device=device,
        progress=progress,
    )
    given = columns.read_pool(pool)
    wanted = columns.read_targets(targets, given)
    values = (target_weights, cost, groups, checkpoint, Path(noise_std or "."))
    named = (*(observed or ()), *(exclude or ()), *(candidates or ()))
    outlet.check(given, [*pool, targets, *values, *named])
    import tellmost

    may = find_candidates(candidates, exclude, given)
    costs = choose_values(cost, cost_column, "--cost", given)
    chosen = tellmost.select(
        given.vectors,
        None if wanted is None else wanted.vectors,
        k,
        rule=read_rule(rule),
        kernel=read_kernel(kernel),
        noise_ratio=noise_ratio,
        noise_std=read_noise(noise_std, given),
        normalize=normalize,
        observed=find_observed(observed, given),
        candidates=may,
        target_weights=read_values(target_weights, "--target-weights", wanted),
        cost=costs,
        budget=budget,
        groups=choose_values(groups, group_column, "--groups", given),
        max_per_group=max_per_group,
        replace=replace,
        conditional=conditional,
        min_gain=min_gain,
        min_gain_share=min_gain_share,
        floor=floor,
        columns_ahead=columns_ahead,
        checkpoint=checkpoint,
        device=device,
        memory=memory,
        progress=progress,
    )
    rows = outlet.write(chosen, given, wanted, progress)
    remarks = remark_on(chosen, given, costs, budget, may)
    print_selection(chosen, rows, outlet, remarks, as_json=json)
    return NOTHING_LEFT if has_ended_early(chosen) else DONE
