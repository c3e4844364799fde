"""compare(): choose by a rule and by other methods, and see whose picks teach a probe more."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import product
from typing import Any

import numpy as np
import torch

from tellmost.evaluation.comparison import Comparison, Measurement
from tellmost.evaluation.evidence import KnownLabels, take_labels
from tellmost.evaluation.judging import Judge, VarianceJudge, choose_judges
from tellmost.evaluation.runs import BASELINES, IN_REGION, Method, Run, RunData, draw_runs, name_of
from tellmost.rows.checks import check_whole
from tellmost.rules import Rule
from tellmost.running.progress import ProgressLine
from tellmost.running.workers import team
from tellmost.selecting.arguments import (
    check_combination,
    check_data,
    check_meaning,
    check_noise,
    check_rule,
)
from tellmost.selecting.data import QUIET, SelectionData, resolve_noise

METHODS = ("random", "top-k", "nearest-in-turn", "mmr", "flqmi", "k-center", IN_REGION)

KEPT = (
    *("rule", "kernel", "noise_variance", "noise_ratio", "normalize", "targets_are", "examples"),
    *("dtype", "device", "notes", "note_kinds"),
)
"""The comparison keeps these settings of the rule's last selection."""


def compare(
    pool: Any,
    targets: Any,
    k: int,
    *,
    labels: Any = None,
    target_labels: Any = None,
    rule: str | Rule = "vtl",
    methods: Sequence[str | Rule] = METHODS,
    seeds: int = 10,
    budgets: Sequence[int] | None = None,
    kind: str | None = None,
    normalize: str | None = "auto",
    targets_are: str | None = None,
    noise_ratio: float | None = None,
    noise_std: Any = None,
    kernel: Any = None,
    device: Any = None,
    memory: int | str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Choose by a rule and by other methods, and see which picks are worth more.

    Each seed cuts pool and targets into two random halves. Each half of the targets steers a
    choice from one half of the pool, and is judged on the other half of the targets. With the
    labels of all pool rows and of the targets, a probe with the kernel of the selection learns
    from each method's picks and answers for the targets. Without labels only the targets' variance
    can be compared, which is circular.

    Args:
        pool, targets: as in ``select``, and so are the arguments that are not named here. Other
            methods see rows as they are, and cosines, unless a kernel that is not linear is
            given, which they then see too.
        k: how many rows each method picks.
        labels, target_labels: (n,) and (m,). Names or whole numbers are classes, floats numbers.
        methods: names or rules to compare with; also "nearest-in-turn", "flqmi" and
            "random-in-region", which draws among the rows that are likelier under the targets'
            estimated density than under the pool.
        seeds: how often pool and targets are cut, at least 2 times. Each time gives two runs.
        budgets: numbers of picks to look at, up to k. None for k and an eighth, a quarter and half
            of it.
        kind: "classes" or "numbers", where the labels' dtype does not tell.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> pool, targets = rng.standard_normal((200, 8)), rng.standard_normal((20, 8))
    >>> result = compare(pool, targets, 10, labels=pool[:, 0], target_labels=targets[:, 0])
    >>> result.verdicts[-1].worse
    ()
    >>> result.to_frame().shape  # seven methods at four budgets; these targets show no region
    (28, 8)
    """
    if targets is None:
        raise ValueError("compare needs targets: it asks what picks tell about them; got none.")
    all_methods = check_methods(rule, methods)
    looked_at = check_budgets(budgets, k := check_whole(k, "k"))
    options = {"normalize": normalize, "kernel": kernel, "targets_are": targets_are}
    options |= {"noise_ratio": noise_ratio, "noise_std": noise_std}
    more = {"device": device, "memory": memory}
    meaning = check_meaning(kernel, normalize, targets_are, check_rule(rule), has_targets=True)
    data = check_data(pool, targets, meaning, check_rule(rule), k=k, **more)
    both = check_both(labels, target_labels, data, kind)
    assert data.targets is not None
    given = data.targets
    noise = check_noise(noise_ratio, noise_std, data)
    seeds = check_whole(seeds, "seeds", 2)  # one has no standard error
    with closing(data.pool.source), torch.inference_mode(), team():
        held = data.pool.source.held
        data = data.read()
        if both is None:
            of_pool = resolve_noise(data, *noise).of_pool
            judges: tuple[Judge, ...] = (VarianceJudge(data, of_pool),)
        else:
            judges = choose_judges(data, given, *both)
        classes = None if both is None or not both[1].are_classes else both[1].values
        setting = RunData(
            data=data,
            pool=pool if held is None else held,
            given=given,
            k=k,
            options=options | more,
        )
        runs = draw_runs(setting, seeds, classes)
        with ProgressLine(progress, "selections", done_before=0) as line:
            found = choose_and_judge(setting, all_methods, runs, judges, looked_at, both, line)
    settings = found.settings
    for kind, note in zip(settings["note_kinds"], settings["notes"], strict=True):
        if kind not in QUIET:
            warnings.warn(note, UserWarning, stacklevel=2)
    return found


def choose_and_judge(
    setting: RunData,
    methods: Sequence[Method],
    runs: list[Run],
    judges: tuple[Judge, ...],
    budgets: tuple[int, ...],
    both: tuple[KnownLabels, KnownLabels] | None,
    tell: Callable[[int, int], None],
) -> Comparison:
    """Let every method choose in every run, and every judge score the picks."""
    methods, notes = setting.leave_out(methods)
    m, names = len(setting.given), [name_of(method) for method in methods]
    scores = {name: np.empty((len(judges), len(runs), len(budgets), m)) for name in names}
    by_rule: list[dict[str, Any]] = []  # the settings of each choice
    trials = list(product(enumerate(runs), methods))
    for done, ((number, run), method) in enumerate(trials, 1):
        picks, used = setting.pick(method, run, is_other=method != methods[0])
        for judge, of in zip(judges, scores[name_of(method)], strict=True):
            of[number] = judge.scores(picks, budgets)
        if method == methods[0]:
            by_rule.append(used)
        tell(done, len(trials))
    taken = [used["targets_are"] for used in by_rule]
    if len(set(taken)) > 1:
        notes.append(
            f"Targets were taken as examples in {taken.count('examples'):,} of {len(taken):,} "
            f"choices: half of the targets predict one another less than all of them do."
        )
    labels, strangers = None, 0
    if both is not None:
        labels = f"{both[0].kind}, {both[0].why}"
        if both[0].are_classes:
            strangers = len(np.setdiff1d(both[0].values, both[1].values))
    steers = np.stack([run.steers for run in runs])
    return Comparison(
        methods=tuple(names),
        budgets=budgets,
        seeds=len(runs) // 2,
        rows=len(setting.data.pool),
        candidates=min(len(run.candidates) for run in runs),
        targets=m,
        measured=tuple(
            Measurement.of(judge, {name: of[i] for name, of in scores.items()}, steers)
            for i, judge in enumerate(judges)
        ),
        settings={name: by_rule[-1][name] for name in KEPT},
        labels=labels,
        strangers=strangers,
        notes=tuple(notes),
    )


def check_methods(rule: str | Rule, methods: Sequence[str | Rule]) -> tuple[Method, ...]:
    """The rule, then the other methods. Each name occurs once."""
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list of names or rules; got the name {methods!r}.")
    first = check_rule(rule)
    given: list[Method] = [one if one in BASELINES else check_rule(one) for one in methods]
    others = [one for one in given if name_of(one) != first.name]
    if not others:
        raise ValueError(f"methods must name at least one method other than {first.name!r}.")
    names = [name_of(one) for one in others]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"methods has {twice[0]!r} more than once. Name each method once.")
    for one in (first, *others):
        if not isinstance(one, str):
            check_combination(one, True, False, True, False)
    return (first, *others)


def check_budgets(budgets: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """The budgets in ascending order, with k as the last."""
    if budgets is None:
        return tuple(sorted({max(k // part, 1) for part in (8, 4, 2, 1)}))
    wanted = {check_whole(budget, "each of budgets, up to k,", most=k) for budget in budgets}
    return tuple(sorted(wanted | {k}))


def check_both(
    labels: Any, target_labels: Any, data: SelectionData, kind: str | None
) -> tuple[KnownLabels, KnownLabels] | None:
    """The labels of pool and targets. They are given together or not at all."""
    if labels is None and target_labels is None:
        return None
    if labels is None or target_labels is None:
        given = "labels" if target_labels is None else "target_labels"
        raise ValueError(
            f"labels and target_labels go together: give both or neither; got only {given}."
        )
    assert data.targets is not None
    of_pool = take_labels(labels, "labels", len(data.pool), "pool row", kind)
    m = len(data.targets)
    of_targets = take_labels(target_labels, "target_labels", m, "target", kind)
    are_names = [one.values.dtype.kind in "US" for one in (of_pool, of_targets)]
    if of_pool.kind != of_targets.kind or are_names[0] != are_names[1]:
        raise TypeError(
            f"labels and target_labels must be of one kind; got {of_pool.values.dtype} and "
            f"{of_targets.values.dtype}. Convert one, or say kind='classes' or kind='numbers'."
        )
    if not of_targets.are_classes and np.ptp(of_targets.numbers().numpy()) == 0:
        raise ValueError(
            "target_labels must not be all equal: no share of their variance can be explained."
        )
    return of_pool, of_targets
