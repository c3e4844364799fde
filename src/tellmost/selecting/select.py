"""select(): check the arguments, read the pool, pose the problem, run the loop, sum up.

``select_quietly`` is the whole call. ``select`` is the same and warns of the notes that the result
has, so a call from within the package, which nobody asked for, says nothing.
"""

import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import replace
from functools import wraps
from inspect import unwrap
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
import torch
from torch import Tensor

from tellmost.posterior.floor import Floor, check_floor, compute_floor
from tellmost.posterior.problem import FewRows, Nearest, Problem, State
from tellmost.posterior.weight_tracker import Tracker, WeightTracker, track
from tellmost.rules import CosineSimilarity, Random, Rule, TopK
from tellmost.running import workers
from tellmost.running.processes import Shard, check_group
from tellmost.running.progress import QUIET_SECONDS, ProgressLine, working
from tellmost.selecting.arguments import (
    check_agreement,
    check_combination,
    check_data,
    check_meaning,
    check_noise,
    check_placement,
    check_rule,
)
from tellmost.selecting.checkpoint import check_checkpoint, open_log
from tellmost.selecting.data import (
    QUIET,
    SelectionData,
    evenly_spaced,
    note_copies,
    note_directions,
    note_scales,
    note_targets,
    resolve_noise,
)
from tellmost.selecting.limits import (
    Eligibility,
    Task,
    check_columns_ahead,
    check_enough,
    check_limits,
    check_stop,
)
from tellmost.selecting.loop import Chooser, Eager, Once, Progress, Trace, run
from tellmost.selecting.selection import TAKEN_AS_ALL, Selection
from tellmost.shapes import Float, Int, Shaped

if TYPE_CHECKING:
    from tellmost.selecting.fused_rounds import FusedRounds

FIXED = (CosineSimilarity, Random, TopK)
"""Rules whose gains no observation changes, so that they are scored once."""

MANY_PAIRS = 10**8
"""To compare so many rows with targets takes a second or more."""

DETERMINED = 1e-9
"""The targets determine f at a row where they leave less than this share of its variance."""


AGREED = (
    *("noise_ratio", "noise_std", "id_column", "cost", "budget", "groups", "max_per_group"),
    *("dedupe", "replace", "conditional", "floor"),
)
"""Arguments that all processes of a group must give alike."""


@torch.inference_mode()
@workers.team()
def select_quietly(
    pool: Any,
    targets: Any = None,
    k: int | None = None,
    *,
    rule: str | Rule = "vtl",
    kernel: Any = None,
    noise_ratio: float | None = None,
    noise_std: float | np.ndarray | Tensor | None = None,
    normalize: str | None = "auto",
    targets_are: str | None = None,
    column: str | list[str] | None = None,
    id_column: str | None = None,
    text: str | None = None,
    embed: str | None = None,
    observed: Any = None,
    candidates: Any = None,
    target_weights: Any = None,
    cost: Any = None,
    budget: float | None = None,
    groups: Any = None,
    max_per_group: int | None = None,
    dedupe: float | None = None,
    replace: bool = False,
    conditional: bool = True,
    min_gain: float | None = None,
    min_gain_share: float | None = None,
    floor: bool = False,
    columns_ahead: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    group: Any = None,
    cluster: Any = None,
    memory: int | str | None = None,
    progress: bool | None = None,
) -> Selection:
    """Choose the rows of ``pool`` that tell most about ``targets``.

    Args:
        pool: (n, d) rows to choose from: an array, a tensor, a memory map, a pandas or polars
            frame, an Arrow table, a Hugging Face Dataset, a column of vectors of one of these, a
            scipy sparse matrix, the path of a file (.npy, .npz, .safetensors, .parquet, .csv,
            .tsv, .jsonl, .json), a URL such as ``s3://bucket/part-*.parquet``, a folder, a
            pattern, a list of all these, or an object whose ``__iter__`` gives (b, d) blocks, the
            same each time. It stays where it is, in its own dtype; text files are read to memory.
        targets: (m, d) or (d,) points to learn about. Only some rules need none.
        k: how many rows to pick. Give at least one of k, budget, min_gain and min_gain_share.
        rule: a name (vtl, itl, itl-y, mm-itl, ctl, truvar, local-uncertainty, uncertainty,
            undirected-itl, undirected-vtl, cosine, top-k, mmr, k-center, k-means++, random) or an
            object from ``tm.rules``.
        kernel: None for embeddings: inner products of rows that are centred and scaled to unit
            length, where targets are examples. "linear" for the paper: inner products of the rows
            as given. "gaussian" for tables: columns of equal scale, and the median distance as
            lengthscale. Or from ``tm.kernels``, or any gpytorch kernel, for rows as given.
        noise_ratio: noise variance over the candidates' mean prior variance. It is the one knob: a
            small ratio spreads the picks, a large one concentrates them near the targets.
        noise_std: in place of the ratio, a standard deviation in the unit of y: one number, or one
            per row.
        normalize: None, "unit", "center" or "center+unit", for pool, targets and observed alike.
            "auto" is "center+unit" for embeddings and rules with targets, else None.
        targets_are: "examples" of what is wanted: their distribution is estimated on the pool, and
            uncertainty and gains are about it. Or "all" of it: exactly these points. None is
            "examples" for embeddings and the rules vtl, ctl and mm-itl. Targets that do not
            predict one another are all there is in any case, and a note says so.
        column: the column of vectors in a table (or the tensor in .safetensors), of the pool, and
            of targets that have it too; or a list of columns of numbers. None means the only one.
        id_column: the column with the id of each row, a whole number or a text. ``chosen.ids``
            are those of the picks, and targets that have the column are named by it.
        text, embed: embed the texts of this column by this model, as ``tm.embed`` does, in pool
            and targets. Without ``text`` both are lists or columns of texts.
        observed: what is known already: numbers of pool rows, (o, d) points, or an earlier
            Selection from this pool. They are conditioned on first, and are not picked again
            unless ``replace``.
        candidates: mask or row numbers: which rows may be picked.
        target_weights: (m,) importance of each target.
        cost, budget: (n,) positive costs. Rows are ranked by gain per cost, and those that no
            longer fit into the budget are skipped.
        groups, max_per_group: (n,) labels, and how many rows each label may have at most. Observed
            rows count.
        dedupe: close rows that are nearer than this in cosine to one observed or picked, such as
            0.98. Rows are compared as the rule sees them; other kernels by their correlation.
        replace: whether a row may be picked again, as a repeated measurement.
        conditional: False ranks the rows once by their first gain (top-b), for comparison.
        min_gain, min_gain_share: stop below an absolute gain, or below a share of the first.
        floor: also compute ``floor`` and ``whole_pool``.
        columns_ahead: how many picks one pass over the pool prepares, as far as memory goes. None
            follows the costs of the machine; 1 makes a pass for every pick. It changes no pick.
        checkpoint: the path of a file that takes down each pick as it is made. A run that was
            interrupted, called again, goes on from there; the file of another run is refused.
        device: where to compute; None for where the pool is.
        group: a process group of torch.distributed, such as ``torch.distributed.group.WORLD``,
            whose processes hold the rows between them. Each calls select with its own rows as
            pool, and with its own entries of what has one per row (candidates, noise_std, cost,
            groups). All else is the same for all, and so is the result. Rows are numbered through,
            those of rank 0 first, also in ``observed``. None: this process holds all rows.
        cluster: workers that hold files between them, such as ``tm.cluster.Ray(workers=8)``. The
            pool is then paths or URLs, and the checkpoint may be a URL.
        memory: what may be allocated on the device beyond what you hold: bytes, or a size such as
            "4GB". A file that takes more than half of it is streamed. None takes half of what is
            available.
        progress: a line on stderr. None shows it after a second, in logs every half minute.
    """
    called = dict(locals())
    if cluster is not None:
        return cluster.select(pool, targets, options_of(called))
    exchange = None if group is None else check_group(group)
    with nullcontext() if exchange is None else exchange.together():
        rule = check_rule(rule)
        log_path = None if checkpoint is None else check_checkpoint(checkpoint)
        check_combination(rule, targets is not None, replace, conditional, floor)
        stop = check_stop(k, budget, min_gain, min_gain_share, rule, conditional)
        ahead = check_columns_ahead(columns_ahead)
        meaning = check_meaning(
            kernel, normalize, targets_are, rule, has_targets=targets is not None
        )
    table = pool
    if (column, id_column, text, embed) != (None, None, None, None):
        from tellmost.rows.record_files import name_both

        named = (column, id_column, text, embed)
        pool, targets = name_both(pool, targets, "targets", *named, progress=progress)
    data = check_data(
        pool,
        targets,
        meaning,
        rule,
        k=stop.picks,
        observed=observed,
        candidates=candidates,
        target_weights=target_weights,
        replace=replace,
        device=device,
        memory=memory,
        group=exchange,
    )
    if exchange is not None:
        given = {name: called[name] for name in AGREED} | {
            "normalize": meaning.normalize,
            "targets_are": meaning.targets_are,
            "kernel to be fitted": meaning.is_table,
            "columns_ahead": ahead,
            "checkpoint": None if log_path is None else str(log_path),
        }
        check_agreement(data, rule, stop, exchange, given)
    with data.together():
        ratio, std = check_noise(noise_ratio, noise_std, data)
    limits = check_limits(
        data,
        rule,
        cost=cost,
        budget=budget,
        groups=groups,
        max_per_group=max_per_group,
        dedupe=dedupe,
        replace=replace,
        conditional=conditional,
    )
    check_enough(stop, limits, data.shard)
    with closing(data.pool.source):
        data = data.read()
        with waiting(data, progress):
            data = data.with_density()
        task = Task(
            data=data,
            rule=rule,
            noise=resolve_noise(data, ratio, std),
            limits=limits,
            stop=stop,
            conditional=conditional,
            floor=floor,
            columns_ahead=ahead,
            checkpoint=log_path,
        )
        chosen = carry_out(task, progress)
    if exchange is not None or isinstance(table, np.ndarray | Tensor):
        return chosen
    return chosen.with_records(table)


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call but for what it is about, to be made elsewhere."""
    return {name: given[name] for name in given.keys() - {"pool", "targets", "cluster"}}


P = ParamSpec("P")


def warning_of_notes(choose: Callable[P, Selection]) -> Callable[P, Selection]:
    """The same function, which also warns its caller of the notes that the result has."""

    @wraps(choose)
    def select(*arguments: P.args, **options: P.kwargs) -> Selection:
        chosen = choose(*arguments, **options)
        group: Any = options.get("group")
        if group is None or torch.distributed.get_rank(group) == 0:  # one process says it for all
            settings = chosen.settings
            for kind, note in zip(settings["note_kinds"], settings["notes"], strict=True):
                is_asked = kind == TAKEN_AS_ALL and options.get("targets_are") == "examples"
                if kind not in QUIET or is_asked:
                    warnings.warn(note, UserWarning, stacklevel=2)
        return chosen

    select.__name__ = select.__qualname__ = "select"
    return select


select = warning_of_notes(select_quietly)
unwrap(select).__qualname__ = "select"  # what Python calls it where arguments are missing


def carry_out(task: Task, progress: bool | None) -> Selection:
    """Pose the problem, run the loop, and sum up."""
    problem = task.data.problem(
        task.rule,
        task.noise,
        task.stop.picks,
        task.columns_ahead,
        is_deduplicated=task.limits.dedupe is not None,
    )
    # before any long work, since it may refuse
    log = None if task.checkpoint is None else open_log(task.checkpoint, task)
    if task.floor:
        check_floor(problem)
    check_placement(task.rule, problem)
    tracker = track(problem)
    notes = note_beforehand(task, problem, tracker)
    before = tracker.targets.copy_of_variance()
    eligibility = Eligibility(task.limits, task.data.shard)
    rounds = find_rounds(task, tracker, eligibility)
    chooser = choose_chooser(task.rule, tracker, eligibility, conditional=task.conditional)
    with ExitStack() as open_now:
        line = progress_line(open_now, task, progress)
        if log is not None:
            with task.data.together():
                open_now.enter_context(log)
        trace = run(chooser, tracker, eligibility, task.stop, line, log, rounds)
    after = tracker.targets.copy_of_variance()
    notes |= note_copies(problem, [pick.row for pick in trace.picks])
    given = replace(problem, measure=None)  # the floor is that of each target
    rows = torch.tensor([pick.row for pick in trace.picks], dtype=torch.int64)
    least = compute_floor(given, rows.tolist()) if task.floor else None
    settings = describe(task, tracker, least, notes) | {
        "closed_copies": eligibility.copies_of_all,
        "resumed_picks": trace.resumed,
        "rounds": 0 if rounds is None else rounds.made,
    }
    variance = torch.stack([before, after]).cpu().numpy()
    return summarize(task, trace, rows, variance, least, Nearest.of(problem, rows), settings)


def note_beforehand(task: Task, problem: Problem, tracker: Tracker) -> dict[str, str]:
    """The notes that need no pick, by their kinds."""
    data = task.data
    few = FewRows.read(problem, evenly_spaced(problem.row_count))
    notes = note_scales(problem, few.points, data)
    notes |= note_directions(problem, few, task.stop.picks, task.noise, data.usual_ratio)
    return notes | note_determined_targets(tracker, task.rule, data.shard) | note_targets(data)


def waiting(data: SelectionData, progress: bool | None) -> AbstractContextManager[None]:
    """Show the seconds in which many targets are compared with the rows, before the first pick."""
    pairs = 0 if data.targets is None else data.row_count * len(data.targets)
    is_first = data.shard is None or data.shard.group.rank == 0
    if data.targets_are == "all" or pairs < MANY_PAIRS or not is_first:
        return nullcontext()
    return working(progress, "comparing rows with targets")


def progress_line(open_now: ExitStack, task: Task, progress: bool | None) -> Progress | None:
    """Tells of progress where it is wanted. Of several processes the first does.

    A selection of less than a second opens no line, unless asked.
    """
    if progress is False or (task.data.shard is not None and task.data.shard.group.rank > 0):
        return None
    started = time.monotonic()
    lines: list[ProgressLine] = []

    def tell(done: int, most: int | None, gain: float) -> None:
        if not lines and (progress is True or time.monotonic() - started > QUIET_SECONDS):
            lines.append(open_now.enter_context(ProgressLine(progress, started=started)))
        for line in lines:
            line(done, most, gain)

    return tell


def find_rounds(task: Task, tracker: Tracker, eligibility: Eligibility) -> "FusedRounds | None":
    """Rounds of several picks, if the rows are on a GPU that has kernels for the rule."""
    if not isinstance(tracker, WeightTracker) or not tracker.problem.rows.is_fused:
        return None
    from tellmost.selecting.fused_rounds import FUSED, FusedRounds

    is_alone = task.data.shard is None  # a round decides about all rows at once
    has_rounds = task.conditional and is_alone and eligibility.is_plain and tracker.width > 1
    if type(task.rule) not in FUSED or not has_rounds:
        return None
    return FusedRounds(tracker, FUSED[type(task.rule)], eligibility, task.stop.picks)


def choose_chooser(
    rule: Rule, tracker: Tracker, eligibility: Eligibility, *, conditional: bool
) -> Chooser:
    changes = not isinstance(rule, FIXED) or eligibility.repeats
    if not conditional or not changes:
        return Once(tracker, rule, eligibility, marginal=changes)
    return Eager(tracker, rule, eligibility)


def describe(
    task: Task, tracker: Tracker, least: Floor | None, notes: dict[str, str]
) -> dict[str, Any]:
    """Write down what was actually used, as plain values. In a group rank 0 says it."""
    data, rule, noise = task.data, task.rule, task.noise
    weights, group = data.target_weights, None if data.shard is None else data.shard.group
    own = {
        "rule": rule.name,
        "rule_in_full": repr(rule),
        "unit": rule.unit,
        "kernel": repr(data.kernel),
        "form": tracker.form,
        "conditional": task.conditional,
        "replace": task.limits.replace,
        "limits": task.limits.names(),
        "noise_variance": noise.scalar if noise.scalar is not None else "per point",
        "noise_ratio": noise.ratio if noise.ratio < float("inf") else None,
        "normalize": data.normalize,
        "targets_are": "examples" if data.examples is not None else "all",
        "examples": None if data.examples is None else data.examples.describe(),
        "dtype": str(data.pool.source.dtype).removeprefix("torch."),
        "device": str(data.pool.device),
        "processes": 1 if group is None else group.size,
        "rows": data.row_count,
        "features": data.pool.dimension,
        "candidates": data.candidate_count,
        "targets": 0 if data.targets is None else len(data.targets),
        "target_weights": weights.tolist() if weights is not None and data.is_weighted else None,
        "pool": "streamed" if data.pool.is_streamed else "held",
        "memory": data.plan.budget,
        "passes": tracker.passes,
        "columns_ahead": tracker.width,
        "reads": round(data.pool.source.passes, 2),
        "floor": None if least is None else least.description,
        "floor_is_exact": None if least is None else least.is_exact,
        "notes": list(notes.values()),
        "note_kinds": list(notes),
    }
    return own if group is None else json.loads(group.texts(json.dumps(own))[0])


def summarize(
    task: Task,
    trace: Trace,
    rows: Int[Tensor, " k"],
    target_variance: Float[np.ndarray, "2 m"],
    least: Floor | None,
    nearest: Nearest | None,
    settings: dict[str, Any],
) -> Selection:
    data = task.data
    near = None if nearest is None else nearest.targets.numpy()
    names = None if near is None or data.target_names is None else data.target_names[near]
    indices = data.pool_numbers(rows)
    points, candidates = data.observed.points, data.candidates
    if data.shard is not None and data.shard.group.size > 1:
        candidates = None  # nobody holds what all processes have
    is_even = task.noise.scalar is not None or data.shard is not None
    return Selection(
        indices=indices.numpy(),
        gains=np.array([pick.gain for pick in trace.picks], dtype=np.float64),
        uncertainty=np.array(
            [trace.uncertainty_before, *(pick.uncertainty for pick in trace.picks)]
        ),
        target_variance=target_variance,
        floor=None if least is None else least.floor.cpu().numpy(),
        whole_pool=None if least is None else least.whole_pool.cpu().numpy(),
        stop_reason=trace.stop_reason,
        settings=settings,
        fingerprint=data.known.fingerprint,
        observed_indices=data.observed.indices.numpy(),
        observed_points=None if points is None else points.numpy(),
        candidate_indices=None if candidates is None else candidates.numpy(),
        noise_variance=None if is_even else task.noise.of_pool.cpu().numpy(),
        ids=find_ids(data, indices),
        nearest_target=near,
        nearest_target_name=names,
        similarity=None if nearest is None else nearest.similarity.numpy(),
        kernel=data.kernel,
        rule=task.rule,
    )


def find_ids(data: SelectionData, rows: Int[Tensor, " k"]) -> Shaped[np.ndarray, " k"] | None:
    """The ids of pool rows by their overall numbers; None where no ids were asked for."""
    read, shard = data.pool.source.ids, data.pool_shard
    if read is None or shard is None:
        return None if read is None else read(rows)
    return np.array(shard.look_up(rows, lambda own: read(own).tolist()))


def note_determined_targets(tracker: Tracker, rule: Rule, shard: Shard | None) -> dict[str, str]:
    """Note that ITL about f_A is undirected, if f_A determines every candidate."""
    if rule.name != "itl":
        return {}

    def is_open(state: State) -> Tensor:
        return state.variance_given_targets > DETERMINED * state.variance

    is_directed = bool(tracker.score(is_open).any())
    if is_directed if shard is None else shard.is_any(is_directed):
        return {}
    note = (
        "the targets determine f at every candidate, so ITL about f_A is uncertainty sampling "
        "here and no longer directed. Use rule='vtl' or rule='itl-y', which stay directed."
    )
    return {"determined targets": note}
