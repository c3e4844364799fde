"""select(): check the arguments, build what is known, run the loop, return a Selection."""

import json
import os
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.linear import check_kernel
from tellmost.posterior.columns_ahead import shortlist_length
from tellmost.posterior.floor import Floor, compute_floor
from tellmost.posterior.problem import Problem
from tellmost.posterior.weight_tracker import Tracker, track
from tellmost.rows.sources import NamedArray
from tellmost.rules import CosineSimilarity, Random, Rule, TopK
from tellmost.running.progress import ProgressLine
from tellmost.selecting.arguments import (
    check_agreement,
    check_checkpoint,
    check_combination,
    check_floor,
    check_group,
    check_placement,
    check_rule,
    check_scene,
)
from tellmost.selecting.checkpoint import (
    Checkpoint,
    FollowedCheckpoint,
    NoCheckpoint,
    identify,
    open_checkpoint,
)
from tellmost.selecting.choosers import Chooser, Eager, Lazy, Once
from tellmost.selecting.fused_rounds import FusedRounds, fused_rounds
from tellmost.selecting.limits import (
    Eligibility,
    Limits,
    check_bounds,
    check_columns_ahead,
    check_enough,
    check_limits,
    check_noise,
)
from tellmost.selecting.loop import Stop, Trace, run
from tellmost.selecting.notes import warn_of_determined_targets, warn_of_small_noise
from tellmost.selecting.selection import Selection
from tellmost.selecting.task import Noise, Scene, resolve_noise

ArrayLike = np.ndarray | Tensor | str | os.PathLike[str] | list[Any] | NamedArray
PoolLike = ArrayLike | Iterable[Any]  # of paths, or of blocks


@torch.inference_mode()
def select(
    pool: PoolLike,
    targets: ArrayLike | None = None,
    k: int | None = None,
    *,
    rule: str | Rule = "vtl",
    kernel: Any = None,
    noise_ratio: float | None = None,
    noise_std: float | np.ndarray | Tensor | None = None,
    normalize: str | None = None,
    observed: Any = None,
    candidates: Any = None,
    target_weights: Any = None,
    cost: Any = None,
    budget: float | None = None,
    groups: Any = None,
    max_per_group: int | None = None,
    replace: bool = False,
    conditional: bool = True,
    min_gain: float | None = None,
    min_gain_share: float | None = None,
    floor: bool = False,
    columns_ahead: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    group: Any = None,
    memory: int | str | None = None,
    progress: bool | None = None,
) -> Selection:
    """Choose the rows of ``pool`` that tell most about ``targets``.

    Args:
        pool: (n, d) rows to choose from: an array, a tensor, a memory map, the path of an .npy,
            .safetensors or .parquet file, a list of such paths, or an object whose ``__iter__``
            gives (b, d) blocks, the same each time. Stays where it is, in its own dtype.
        targets: (m, d) or (d,) points to learn about. None only for rules without targets.
        k: how many rows. At least one of k, budget, min_gain and min_gain_share is given.
        rule: a name (vtl, itl, itl-y, mm-itl, ctl, truvar, local-uncertainty, uncertainty,
            undirected-itl, undirected-vtl, cosine, top-k, mmr, k-center, k-means++, random) or an
            object from ``tm.rules``.
        kernel: None for inner products of the given rows; or from ``tm.kernels``; or any gpytorch
            kernel.
        noise_ratio: noise variance over the candidates' mean prior variance. The one knob: small
            spreads the picks, large concentrates them near the targets.
        noise_std: instead of the ratio a standard deviation in the unit of y, one number or one
            per row.
        normalize: None, "unit", "center" or "center+unit", for pool, targets and observed alike.
        observed: what is known already: numbers of pool rows, (o, d) points, or an earlier
            Selection from this pool. Conditioned on first, never picked again unless ``replace``.
        candidates: mask or row numbers: which rows may be picked.
        target_weights: (m,) importance of each target.
        cost, budget: (n,) positive costs; ranks by gain per cost, skips what no longer fits.
        groups, max_per_group: (n,) labels; at most so many per label, observed rows included.
        replace: whether a row may be picked again, as a repeated measurement.
        conditional: False ranks once by the first gain (top-b), for comparison.
        min_gain, min_gain_share: stop below an absolute gain, or below a share of the first.
        floor: also compute ``floor`` and ``whole_pool``.
        columns_ahead: how many picks one pass over the pool prepares, as far as memory goes; None:
            as the costs of the machine say; 1 makes a pass for every pick. Changes no pick.
        checkpoint: the path of a file that takes down each pick as it is made. A run that was
            interrupted, called again, goes on from there; the file of another run is refused.
        device: where to compute; None for where the pool is.
        group: a process group of torch.distributed, such as ``torch.distributed.group.WORLD``,
            whose processes hold the rows between them. Each calls select with its own rows as
            pool, and with its own entries of what has one per row (candidates, noise_std, cost,
            groups); all else is the same for all, and so is the result. Rows are numbered through,
            those of rank 0 first, in ``observed`` too. None: this process holds all rows.
        memory: what may be allocated on the device beyond what you hold: bytes, or a size such as
            "4GB". A file that takes more than half of it is streamed. None for half of what is
            available.
        progress: a line on stderr; None shows it on a terminal after a second.
    """
    exchange = check_group(group)
    with exchange.together():
        rule = check_rule(rule)
        log_path = check_checkpoint(checkpoint)
        check_combination(rule, targets is not None, replace, conditional, floor)
        bounds = check_bounds(k, budget, min_gain, min_gain_share, rule, conditional)
        ahead = check_columns_ahead(columns_ahead)
        prior = check_kernel(kernel)
    scene = check_scene(
        pool,
        targets,
        prior,
        normalize=normalize,
        observed=observed,
        candidates=candidates,
        target_weights=target_weights,
        rule=rule,
        k=bounds.k,
        replace=replace,
        device=device,
        memory=memory,
        exchange=exchange,
    )
    check_agreement(
        scene,
        rule,
        bounds,
        {
            "noise_ratio": noise_ratio,
            "noise_std": noise_std,
            "normalize": normalize,
            "cost": cost,
            "groups": groups,
            "max_per_group": max_per_group,
            "replace": replace,
            "conditional": conditional,
            "floor": floor,
            "columns_ahead": ahead,
            "checkpoint": None if log_path is None else str(log_path),
        },
    )
    with exchange.together():
        ratio, std = check_noise(noise_ratio, noise_std, scene)
    limits = check_limits(
        scene,
        rule,
        cost=cost,
        budget=budget,
        groups=groups,
        max_per_group=max_per_group,
        replace=replace,
    )
    check_enough(bounds, limits, exchange)
    with closing(scene.pool.source):
        scene = scene.surveyed(normalize)
        task = Task(
            scene=scene,
            rule=rule,
            noise=resolve_noise(scene, ratio, std),
            limits=limits,
            stop=Stop(bounds.k, bounds.min_gain, bounds.min_gain_share),
            normalize=normalize,
            conditional=conditional,
            floor=floor,
            columns_ahead=ahead,
            checkpoint=log_path,
        )
        return carry_out(task, progress)


FIXED = (CosineSimilarity, Random, TopK)
"""Rules whose gains no observation changes, so that they are scored once."""


@dataclass(frozen=True)
class Task:
    """A selection to make, every argument checked."""

    scene: Scene
    rule: Rule
    noise: Noise
    limits: Limits
    stop: Stop
    normalize: str | None
    conditional: bool
    floor: bool
    columns_ahead: int | None
    checkpoint: Path | None


def carry_out(task: Task, progress: bool | None) -> Selection:
    """Build what is known, run the loop, sum up."""
    problem = task.scene.problem(task.rule, task.noise, task.stop.picks, task.columns_ahead)
    log = open_log(task)  # before any long work, since it may refuse
    check_floor(task.floor, problem)
    check_placement(task.rule, problem)
    notes = warn_of_small_noise(problem, task.stop.picks, task.noise)
    tracker = track(problem)
    notes += warn_of_determined_targets(tracker, task.rule, problem.place)
    before = tracker.targets.copy_of_variance()
    eligibility = Eligibility(task.limits, problem.place)
    rounds = (
        fused_rounds(tracker, task.rule, eligibility, task.stop.picks)
        if task.conditional and problem.place.exchange.is_alone
        else None
    )
    chooser = choose_chooser(task, problem, tracker, eligibility, rounds)
    exchange = problem.place.exchange
    with ExitStack() as open_now, ProgressLine(progress if exchange.rank == 0 else False) as line:
        with exchange.together():
            open_now.enter_context(log)
        trace = run(chooser, tracker, eligibility, task.stop, line, log, rounds)
    after = tracker.targets.copy_of_variance()
    least = compute_floor(problem, trace.rows) if task.floor else None
    settings = describe(task, tracker, least, notes) | {
        "resumed_picks": trace.resumed,
        "rounds": 0 if rounds is None else rounds.made,
    }
    return summarize(task, trace, before, after, least, settings)


def open_log(task: Task) -> Checkpoint | FollowedCheckpoint | NoCheckpoint:
    """Where the picks are taken down, and those of the same run before it was interrupted."""
    if task.checkpoint is None:
        return NoCheckpoint()
    identity = identify(
        task.scene,
        task.rule,
        task.noise,
        task.limits,
        normalize=task.normalize,
        conditional=task.conditional,
        least_gains=(task.stop.min_gain, task.stop.min_gain_share),
    )
    scene = task.scene
    return open_checkpoint(
        task.checkpoint,
        identity,
        scene.pool_place.total,
        scene.all_candidates(),
        scene.place.exchange,
    )


def choose_chooser(
    task: Task,
    problem: Problem,
    tracker: Tracker,
    eligibility: Eligibility,
    rounds: FusedRounds | None,
) -> Chooser:
    """How the best row is found: scoring all rows each time, once, or only the promising ones."""
    rule = task.rule
    changes = not isinstance(rule, FIXED) or task.limits.replace
    place = problem.place
    if not task.conditional or not changes:
        return Once(tracker, rule, eligibility, place, marginal=changes)
    can_wait = rule.needs <= {"variance"}  # other running values are brought up to date each time
    can_jump = problem.rows.source.jumps  # else the rows to score afresh cost a pass
    has_lazy = rule.gains_only_shrink and can_wait and can_jump and problem.targets is not None
    if has_lazy and rounds is None and place.exchange.is_alone:
        rows_per_pass = len(problem.rows) // max(problem.rows.dimension, 1)
        return Lazy(tracker, rule, eligibility, place, rows_per_pass)
    return Eager(tracker, rule, eligibility, place, shortlist_length(problem, tracker.width))


def describe(
    task: Task, tracker: Tracker, least: Floor | None, notes: list[str]
) -> dict[str, Any]:
    """What was actually used, in terms that can be written down; of a group, by rank 0."""
    scene, rule, noise = task.scene, task.rule, task.noise
    weights, exchange = scene.target_weights, scene.place.exchange
    own = {
        "rule": rule.name,
        "rule_in_full": repr(rule),
        "unit": rule.unit,
        "kernel": repr(scene.kernel),
        "form": tracker.form,
        "conditional": task.conditional,
        "replace": task.limits.replace,
        "limits": task.limits.names(),
        "noise_variance": noise.scalar if noise.scalar is not None else "per point",
        "noise_ratio": noise.ratio if noise.ratio < float("inf") else None,
        "normalize": task.normalize,
        "dtype": str(scene.pool.source.dtype).removeprefix("torch."),
        "device": str(scene.pool.device),
        "processes": exchange.size,
        "rows": scene.pool_place.total,
        "features": scene.pool.dimension,
        "candidates": scene.place.total,
        "targets": 0 if scene.targets is None else len(scene.targets),
        "target_weights": weights.tolist() if weights is not None and scene.is_weighted else None,
        "pool": "streamed" if scene.pool.is_streamed else "held",
        "memory": scene.plan.budget,
        "passes": tracker.passes,
        "columns_ahead": tracker.width,
        "reads": round(scene.pool.source.passes, 2),
        "floor": None if least is None else least.description,
        "floor_is_exact": None if least is None else least.is_exact,
        "notes": notes,
    }
    return own if exchange.is_alone else json.loads(exchange.texts(json.dumps(own))[0])


def summarize(
    task: Task,
    trace: Trace,
    before: Tensor,
    after: Tensor,
    least: Floor | None,
    settings: dict[str, Any],
) -> Selection:
    scene = task.scene
    rows = torch.tensor(trace.rows, dtype=torch.int64)
    indices = scene.pool_numbers(rows)
    points, candidates = scene.observed.points, scene.all_candidates()
    is_even = task.noise.scalar is not None or not scene.place.exchange.is_alone
    return Selection(
        indices=indices.numpy(),
        gains=np.array(trace.gains, dtype=np.float64),
        uncertainty=np.array(trace.uncertainty, dtype=np.float64),
        target_variance=torch.stack([before, after]).cpu().numpy(),
        floor=None if least is None else least.floor.cpu().numpy(),
        whole_pool=None if least is None else least.whole_pool.cpu().numpy(),
        stop_reason=trace.stop_reason,
        settings=settings,
        fingerprint=scene.known.fingerprint,
        observed_indices=scene.observed.indices.numpy(),
        observed_points=None if points is None else points.numpy(),
        candidate_indices=None if candidates is None else candidates.cpu().numpy(),
        noise_variance=None if is_even else task.noise.of_pool.cpu().numpy(),
        kernel=scene.kernel,
        rule=task.rule,
    )
