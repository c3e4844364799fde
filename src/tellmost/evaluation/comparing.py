"""compare(): a rule beside other methods, by what a probe learns from their picks."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from tellmost.evaluation.comparison import Comparison, Measurement
from tellmost.evaluation.judging import ClassJudge, Features, Labels, NumberJudge, check_labels
from tellmost.kernels import Kernel
from tellmost.kernels.linear import check_kernel, matrix_size
from tellmost.rows.opening import check_whole
from tellmost.rules import Rule
from tellmost.running.processes import ALONE
from tellmost.selecting.arguments import check_combination, check_rule, check_scene
from tellmost.selecting.select import select
from tellmost.selecting.selection import Selection
from tellmost.selecting.task import Scene

METHODS = ("random", "top-k", "mmr", "k-center", "cosine")

Progress = Callable[[int, int], None]
"""Called after each selection with how many are done, and how many there are."""


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
    normalize: str | None = None,
    noise_ratio: float | None = None,
    noise_std: Any = None,
    kernel: Any = None,
    device: Any = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Choose by a rule and by other methods, and see which picks are worth more.

    With the labels of all pool rows and of the targets, a linear probe learns from each method's
    picks and answers for the targets; every seed draws a random half of the pool as candidates.
    Without labels only the targets' variance can be compared, which is circular.

    Args:
        pool, targets, rule, normalize, noise_ratio, noise_std, kernel, device, memory: as in
            ``select``.
        k: picks of each method.
        labels, target_labels: (n,) and (m,): names or whole numbers are classes, floats numbers.
        methods: names or rules to compare with; one that has a ``seed`` is given each seed.
        seeds: runs, at least 2 with labels.
        budgets: numbers of picks to look at, up to k; None for k and an eighth, a quarter and half
            of it.
        kind: "classes" or "numbers", where the labels' dtype does not tell.
        progress: called after each selection with how many are done, and how many there are.
    """
    rules = check_methods(rule, methods)
    seeds = check_whole(seeds, "seeds")
    k = check_whole(k, "k")
    looked_at = check_budgets(budgets, k)
    prior = check_kernel(kernel)
    scene = check_all(pool, targets, prior, rules, k, normalize, device, memory)
    both = check_both(labels, target_labels, scene, kind)
    check_runs(scene, prior, k, seeds, has_labels=both is not None)
    with closing(scene.pool.source), torch.inference_mode():
        scene = scene.surveyed(normalize)
        arguments = Arguments(
            pool=pool if scene.pool.source.held is None else scene.pool.source.held,
            targets=targets,
            k=k,
            more={
                "kernel": kernel,
                "noise_ratio": noise_ratio,
                "noise_std": noise_std,
                "normalize": normalize,
                "device": device,
                "memory": memory,
            },
        )
        study = Study(rules, arguments, scene, seeds, looked_at, progress or (lambda *_: None))
        return study.without_labels() if both is None else study.with_labels(*both)


@dataclass(frozen=True)
class Arguments:
    """What every selection of a study is called with."""

    pool: Any
    targets: Any
    k: int
    more: dict[str, Any]

    def select(self, rule: Rule, candidates: np.ndarray | None) -> Selection:
        return select(
            self.pool,
            self.targets,
            self.k,
            rule=rule,
            candidates=candidates,
            progress=False,
            **self.more,
        )


@dataclass(frozen=True)
class Study:
    """Selections to make and to judge."""

    rules: tuple[Rule, ...]
    arguments: Arguments
    scene: Scene  # surveyed
    seeds: int
    budgets: tuple[int, ...]
    progress: Progress

    def without_labels(self) -> Comparison:
        """Each method once on the whole pool, and those that draw at random once per seed."""
        runs = [(rule, self.seeds if is_random(rule) else 1) for rule in self.rules]
        total, done = sum(count for _, count in runs), 0
        variance, chosen = {}, None
        for rule, count in runs:
            rows = []
            for seed in range(count):
                chosen = self.arguments.select(seeded(rule, seed), None)
                rows.append(chosen.uncertainty[list(self.budgets)])
                done += 1
                self.progress(done, total)
            variance[rule.name] = np.array(rows)
        assert chosen is not None
        return self._comparison(variance, None, chosen, len(self.scene.pool))

    def with_labels(self, labels: Labels, of_targets: Labels) -> Comparison:
        """All methods on the same random half of the pool, for each seed."""
        pool, targets = self.scene.pool, self.scene.targets
        assert targets is not None
        features = Features.of(pool, np.random.default_rng(0))
        make = ClassJudge if labels.are_classes else NumberJudge
        judge = make(labels, features(targets), of_targets)
        n, total, done = len(pool), self.seeds * len(self.rules), 0
        shape = (self.seeds, len(self.budgets))
        scores = {rule.name: np.empty((*shape, len(targets))) for rule in self.rules}
        variance = {name: np.empty(shape) for name in scores}
        for seed in range(self.seeds):
            half = np.sort(np.random.default_rng(seed).choice(n, (n + 1) // 2, replace=False))
            for rule in self.rules:
                chosen = self.arguments.select(seeded(rule, seed), half)
                picks = torch.from_numpy(chosen.indices)
                rows = features(pool.rows(picks))
                variance[rule.name][seed] = chosen.uncertainty[list(self.budgets)]
                scores[rule.name][seed] = [judge.scores(rows[:b], picks[:b]) for b in self.budgets]
                done += 1
                self.progress(done, total)
        measured = Measurement(
            measure=judge.measure,
            unit=judge.unit,
            in_unit=judge.in_unit,
            scores=scores,
            labels=f"{labels.kind}, {labels.why}",
            strangers=judge.strangers,
            spread=getattr(judge, "spread", None),
        )
        return self._comparison(variance, measured, chosen, (n + 1) // 2)

    def _comparison(
        self,
        variance: dict[str, np.ndarray],
        measured: Measurement | None,
        last: Selection,
        candidates: int,
    ) -> Comparison:
        kept = ("kernel", "noise_variance", "noise_ratio", "normalize", "dtype", "device")
        return Comparison(
            rule=self.rules[0].name,
            methods=tuple(rule.name for rule in self.rules),
            budgets=self.budgets,
            seeds=self.seeds,
            rows=len(self.scene.pool),
            candidates=candidates,
            targets=last.settings["targets"],
            variance_before=float(last.uncertainty[0]),
            variance=variance,
            measured=measured,
            settings={name: last.settings[name] for name in kept},
        )


def is_random(rule: Rule) -> bool:
    return "seed" in getattr(type(rule), "__dataclass_fields__", {})


def seeded(rule: Rule, seed: int) -> Rule:
    """The same rule with another seed, if it has one."""
    anything: Any = rule
    return replace(anything, seed=seed) if is_random(rule) else rule


def check_methods(rule: str | Rule, methods: Sequence[str | Rule]) -> tuple[Rule, ...]:
    """The rule, then the others; each name once."""
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list of names or rules; got the name {methods!r}.")
    rules = (check_rule(rule), *(check_rule(method) for method in methods))
    names = [one.name for one in rules]
    if len(rules) > 1 and names[0] in names[1:]:
        rules = (rules[0], *(one for one in rules[1:] if one.name != names[0]))
        names = [one.name for one in rules]
    if len(rules) < 2:
        raise ValueError(f"methods must name at least one method other than {names[0]!r}.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"methods has {twice[0]!r} more than once. Name each method once.")
    return rules


def check_budgets(budgets: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """Ascending, with k as the last."""
    if budgets is None:
        return tuple(sorted({max(k // part, 1) for part in (8, 4, 2, 1)}))
    wanted = {check_whole(budget, "budgets") for budget in budgets}
    if wanted and max(wanted) > k:
        raise ValueError(f"budgets must be at most k = {k}; got {max(wanted)}.")
    return tuple(sorted(wanted | {k}))


def check_all(
    pool: Any,
    targets: Any,
    kernel: Kernel,
    rules: tuple[Rule, ...],
    k: int,
    normalize: str | None,
    device: Any,
    memory: int | str | None,
) -> Scene:
    """The scene of the rule, with the errors that ``select`` would give; not read yet."""
    for rule in rules:
        check_combination(rule, targets is not None, False, True, False)
    if targets is None:
        raise ValueError("compare needs targets: it asks what picks tell about them; got none.")
    return check_scene(
        pool,
        targets,
        kernel,
        normalize=normalize,
        observed=None,
        candidates=None,
        target_weights=None,
        rule=rules[0],
        k=k,
        replace=False,
        device=device,
        memory=memory,
        exchange=ALONE,
    )


def check_both(
    labels: Any, target_labels: Any, scene: Scene, kind: str | None
) -> tuple[Labels, Labels] | None:
    """Labels of pool and targets, or neither."""
    if labels is None and target_labels is None:
        return None
    if labels is None or target_labels is None:
        given = "labels" if target_labels is None else "target_labels"
        raise ValueError(
            f"labels and target_labels go together: give both or neither; got only {given}."
        )
    assert scene.targets is not None
    of_pool = check_labels(labels, "labels", len(scene.pool), "pool row", kind)
    m = len(scene.targets)
    of_targets = check_labels(target_labels, "target_labels", m, "target", kind)
    are_names = [one.values.dtype.kind in "US" for one in (of_pool, of_targets)]
    if of_pool.kind != of_targets.kind or are_names[0] != are_names[1]:
        raise TypeError(
            f"labels and target_labels must be of one kind; got {of_pool.values.dtype} and "
            f"{of_targets.values.dtype}. Convert one, or say kind='classes' or kind='numbers'."
        )
    return of_pool, of_targets


def check_runs(scene: Scene, kernel: Kernel, k: int, seeds: int, *, has_labels: bool) -> None:
    """Whether there is enough for every run."""
    n = len(scene.pool)
    if k > n:
        raise ValueError(f"k = {k} is larger than the {n} rows of the pool. Ask for fewer.")
    if not has_labels:
        return
    if matrix_size(kernel) is not None:
        raise ValueError(
            "labels cannot be used with a Precomputed kernel: a linear probe needs features. Drop "
            "the labels, or pass the features as pool."
        )
    if seeds < 2:
        raise ValueError("seeds must be at least 2 with labels, for standard errors; got 1.")
    if k > (n + 1) // 2:
        raise ValueError(
            f"k must be at most half of the pool with labels, {(n + 1) // 2} of {n} rows, since "
            f"each run chooses from a random half; got {k}. Ask for fewer."
        )
