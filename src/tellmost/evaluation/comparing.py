"""compare(): choose by a rule and by other methods, and see whose picks teach a probe more."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.evaluation.comparison import Comparison, Measurement
from tellmost.evaluation.evidence import KnownLabels, number_classes, take_labels
from tellmost.evaluation.health import draw_rows
from tellmost.evaluation.probes import PROBE_C, center_and_scale, fit_logistic, predict_numbers
from tellmost.kernels.linear import check_kernel, matrix_size
from tellmost.rows.checks import check_whole
from tellmost.rules import Rule
from tellmost.running.progress import ProgressLine
from tellmost.selecting.arguments import check_combination, check_data, check_rule
from tellmost.selecting.data import SelectionData
from tellmost.selecting.select import select_quietly
from tellmost.selecting.selection import Selection
from tellmost.shapes import Float, Int

METHODS = ("random", "top-k", "mmr", "k-center", "cosine")

PROBE_SAMPLE = 4_096
"""Random pool rows from which a probe takes the mean and the scale of its features."""

KEPT = ("kernel", "noise_variance", "noise_ratio", "normalize", "dtype", "device", "notes")
"""The comparison keeps these settings of the rule's last selection."""

Choose = Callable[..., Selection]
"""``select`` with everything given but the rule and the candidates; it does not warn."""


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
    progress: bool | None = None,
) -> Comparison:
    """Choose by a rule and by other methods, and see which picks are worth more.

    With the labels of all pool rows and of the targets, a linear probe learns from each method's
    picks and answers for the targets. Each seed draws a random half of the pool as candidates.
    Without labels only the targets' variance can be compared, which is circular.

    Args:
        pool, targets, rule, normalize, noise_ratio, noise_std, kernel, device, memory, progress:
            as in ``select``.
        k: how many rows each method picks.
        labels, target_labels: (n,) and (m,). Names or whole numbers are classes, floats numbers.
        methods: names or rules to compare with. One that has a ``seed`` is given each seed.
        seeds: how many runs are made, at least 2 with labels.
        budgets: numbers of picks to look at, up to k. None for k and an eighth, a quarter and half
            of it.
        kind: "classes" or "numbers", where the labels' dtype does not tell.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> pool, targets = rng.standard_normal((200, 8)), rng.standard_normal((20, 8))
    >>> result = compare(pool, targets, 10, labels=pool[:, 0], target_labels=targets[:, 0])
    >>> result.best_other
    'mmr'
    >>> result.to_frame().shape  # six methods at four budgets
    (24, 8)
    """
    rules = check_methods(rule, methods)
    seeds = check_whole(seeds, "seeds")
    k = check_whole(k, "k")
    looked_at = check_budgets(budgets, k)
    more = {"normalize": normalize, "device": device, "memory": memory}
    for each in rules:
        check_combination(each, targets is not None, False, True, False)
    if targets is None:
        raise ValueError("compare needs targets: it asks what picks tell about them; got none.")
    data = check_data(pool, targets, check_kernel(kernel), rules[0], k=k, **more)
    both = check_both(labels, target_labels, data, kind)
    check_runs(data, k, seeds, has_labels=both is not None)
    with closing(data.pool.source), torch.inference_mode():
        pool = pool if data.pool.source.held is None else data.pool.source.held
        noise = {"noise_ratio": noise_ratio, "noise_std": noise_std}
        choose = partial(select_quietly, pool, targets, k, kernel=kernel, **noise, **more)
        with ProgressLine(progress, "selections", done_before=0) as line:
            found = choose_and_judge(choose, rules, seeds, looked_at, data.read(), both, line)
    for note in found.settings["notes"]:
        warnings.warn(note, UserWarning, stacklevel=2)
    return found


def choose_and_judge(
    choose: Choose,
    rules: tuple[Rule, ...],
    seeds: int,
    budgets: tuple[int, ...],
    data: SelectionData,
    both: tuple[KnownLabels, KnownLabels] | None,
    tell: Callable[[int, int], None],
) -> Comparison:
    """Make every run. Without labels a rule that draws nothing at random runs only once."""
    judge, n = None if both is None else Judge(data, *both), len(data.pool)
    settings: dict[str, Any] = {}
    variance: dict[str, list[np.ndarray]] = {rule.name: [] for rule in rules}
    scores: dict[str, list[list[np.ndarray]]] = {rule.name: [] for rule in rules}
    runs = [
        (seed, rule)
        for seed in range(seeds)
        for rule in rules
        if judge is not None or seed == 0 or has_seed(rule)
    ]
    for done, (seed, rule) in enumerate(runs, 1):
        half = None if judge is None else half_of(n, seed)
        chosen = choose(rule=with_seed(rule, seed), candidates=half, progress=False)
        if rule is rules[0]:
            settings = {name: chosen.settings[name] for name in KEPT}
        variance[rule.name].append(chosen.uncertainty[list(budgets)])
        if judge is not None:
            scores[rule.name].append(judge.scores(chosen.indices, budgets))
        tell(done, len(runs))
    return Comparison(
        rule=rules[0].name,
        methods=tuple(rule.name for rule in rules),
        budgets=budgets,
        seeds=seeds,
        rows=n,
        candidates=n if judge is None else len(half_of(n, 0)),
        targets=chosen.settings["targets"],
        variance_before=float(chosen.uncertainty[0]),
        variance={name: np.array(runs) for name, runs in variance.items()},
        measured=None if judge is None else judge.measurement(scores),
        settings=settings,
    )


def half_of(n: int, seed: int) -> Int[np.ndarray, " c"]:
    """The random half of the pool from which all methods choose in this run."""
    return draw_rows(np.random.default_rng(seed), n, (n + 1) // 2).numpy()


def has_seed(rule: Rule) -> bool:
    return "seed" in getattr(type(rule), "__dataclass_fields__", {})


def with_seed(rule: Any, seed: int) -> Rule:
    """The rule with this seed, if it draws at random."""
    return replace(rule, seed=seed) if has_seed(rule) else rule


class Judge:
    """Scores picks, target by target, by a linear probe that learns from their labels.

    The probe is a multinomial logistic regression, scored by its accuracy, or a Bayesian linear
    regression, scored by the share of the targets' variance that it explains.
    """

    def __init__(self, data: SelectionData, labels: KnownLabels, of_targets: KnownLabels) -> None:
        assert data.targets is not None
        self._pool, self._kind, self._why = data.pool, labels.kind, labels.why
        some = draw_rows(np.random.default_rng(0), len(data.pool), PROBE_SAMPLE)
        self._mean, self._scale = center_and_scale(data.pool.rows(some).cpu())
        self._targets = self._features(data.targets)
        self._classes, self._spread = 0, None
        if labels.are_classes:
            (self._labels, self._wanted), self._classes = number_classes(labels, of_targets)
            return
        self._labels, self._wanted = labels.numbers(), of_targets.numbers()
        self._spread = float((self._wanted - self._wanted.mean()).square().mean())
        if self._spread == 0:
            raise ValueError(
                "target_labels must not be all equal: no share of their variance can be explained."
            )

    def scores(
        self, picks: Int[np.ndarray, " k"], budgets: tuple[int, ...]
    ) -> list[Float[np.ndarray, " m"]]:
        """The scores of the probes that know the labels of the first picks, for each budget."""
        chosen = torch.from_numpy(picks)
        rows, labels = self._features(self._pool.rows(chosen)), self._labels[chosen]
        return [self._score(rows[:budget], labels[:budget]).numpy() for budget in budgets]

    def _score(self, rows: Float[Tensor, "b d"], labels: Tensor) -> Float[Tensor, " m"]:
        if self._spread is None:
            probe = fit_logistic(rows, labels, self._classes, C=PROBE_C)
            return (probe.predict(self._targets) == self._wanted).double()
        guessed = predict_numbers(rows, labels[:, None], self._targets)[:, 0]
        return 1.0 - (guessed - self._wanted).square() / self._spread

    def _features(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return (rows.cpu() - self._mean) / self._scale  # probes are small: they learn on the CPU

    def measurement(self, scores: dict[str, list[list[np.ndarray]]]) -> Measurement:
        is_accuracy = self._spread is None
        strangers = self._classes - len(torch.unique(self._wanted)) if is_accuracy else 0
        return Measurement(
            measure="accuracy" if is_accuracy else "R²",
            unit="points" if is_accuracy else "in R²",
            in_unit=100.0 if is_accuracy else 1.0,
            scores={name: np.array(runs) for name, runs in scores.items()},
            labels=f"{self._kind}, {self._why}",
            strangers=strangers,
            spread=self._spread,
        )


def check_methods(rule: str | Rule, methods: Sequence[str | Rule]) -> tuple[Rule, ...]:
    """The rule, then the other methods. Each name occurs once."""
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list of names or rules; got the name {methods!r}.")
    first = check_rule(rule)
    others = [other for other in map(check_rule, methods) if other.name != first.name]
    if not others:
        raise ValueError(f"methods must name at least one method other than {first.name!r}.")
    names = [other.name for other in others]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"methods has {twice[0]!r} more than once. Name each method once.")
    return (first, *others)


def check_budgets(budgets: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """The budgets in ascending order, with k as the last."""
    if budgets is None:
        return tuple(sorted({max(k // part, 1) for part in (8, 4, 2, 1)}))
    wanted = {check_whole(budget, "budgets") for budget in budgets}
    if wanted and max(wanted) > k:
        raise ValueError(f"budgets must be at most k = {k}; got {max(wanted)}.")
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
    return of_pool, of_targets


def check_runs(data: SelectionData, k: int, seeds: int, *, has_labels: bool) -> None:
    """Check that there is enough for every run."""
    n = len(data.pool)
    if k > n:
        raise ValueError(f"k = {k} is larger than the {n} rows of the pool. Ask for fewer.")
    if not has_labels:
        return
    if matrix_size(data.kernel) is not None:
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
