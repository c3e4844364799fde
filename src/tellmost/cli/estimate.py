"""``tellmost estimate``: what a selection will take, before it runs."""

from tellmost.cli import options
from tellmost.cli.ending import DONE, UsageError
from tellmost.cli.inputs import (
    Columns,
    check_choices,
    check_machine,
    find_candidates,
    find_observed,
    read_kernel,
    read_noise,
    read_rule,
    read_values,
)
from tellmost.cli.output import print_study


def estimate(
    pool: options.PoolFiles,
    targets: options.Targets = None,
    k: options.K = None,
    json: options.Json = False,
    replace: options.Replace = False,
    rule: options.Rule = "vtl",
    kernel: options.Kernel = None,
    noise_ratio: options.NoiseRatio = None,
    noise_std: options.NoiseStd = None,
    normalize: options.Normalize = None,
    observed: options.Observed = None,
    exclude: options.Exclude = None,
    candidates: options.Candidates = None,
    target_weights: options.TargetWeights = None,
    vector_column: options.VectorColumn = None,
    text_field: options.TextField = None,
    id_column: options.IdColumn = None,
    ignore_column: options.IgnoreColumn = None,
    embed: options.Embed = None,
    device: options.Device = None,
    memory: options.Memory = None,
    columns_ahead: options.ColumnsAhead = None,
    progress: options.Progress = None,
    debug: options.Debug = False,
) -> int:
    """Say what a selection will take: time, memory, device, passes over the pool.

    A short trial on the first rows, of about a second, tells how fast this machine is with them.

        tellmost estimate pool.npy --targets val.npy -k 1000
    """
    noise = (noise_ratio, noise_std)
    if k is None:
        raise UsageError("say how many rows: estimate needs -k.")
    check_choices(
        rule,
        has_targets=targets is not None,
        normalize=normalize,
        noise=noise,
        k=k,
        replace=replace,
    )
    check_machine(device, memory)
    columns = Columns(
        vector=vector_column,
        text=text_field,
        id=id_column,
        embed=embed,
        ignored=tuple(ignore_column or ()),
        device=device,
        progress=progress,
    )
    given = columns.read_pool(pool)
    wanted = columns.read_targets(targets, given)
    from tellmost.evaluation.estimation import estimate as run

    estimated = run(
        given.vectors,
        None if wanted is None else wanted.vectors,
        k,
        rule=read_rule(rule),
        kernel=read_kernel(kernel),
        noise_ratio=noise_ratio,
        noise_std=read_noise(noise_std, given),
        normalize=normalize,
        observed=find_observed(observed, given),
        candidates=find_candidates(candidates, exclude, given),
        target_weights=read_values(target_weights, "--target-weights", wanted),
        replace=replace,
        columns_ahead=columns_ahead,
        device=device,
        memory=memory,
    )
    print_study(estimated, as_json=json)
    return DONE
