"""check(): are these embeddings suitable for choosing data, and with which noise?"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tellmost import numerics
from tellmost.evaluation.health import Health, check_pool, draw, look
from tellmost.evaluation.evidence import Evidence, KnownLabels, hold_out, take_labels
from tellmost.evaluation.statistics import bullet, entry, number, percent
from tellmost.rows.opening import check_positive, check_whole
from tellmost.selecting.task import check_variance

CHECKED_ROWS = 5_000
"""Random rows whose labels are looked at, at most: probes on more take minutes, and the standard
error of a share is below one point."""

WEAK_PROBE = 0.2
"""A probe that closes less than this share of the gap from trivial to perfect answers is weak."""


WITHOUT_LABELS = (
    "Labels of these rows would add: how well a linear probe predicts them, whether predicted "
    "variance goes with actual error, and the noise by marginal likelihood."
)


@dataclass(frozen=True)
class Suitability:
    """What the rows, and their labels if there are any, say about a pool."""

    health: Health
    evidence: Evidence | None  # None without labels

    @property
    def verdict(self) -> str:
        """suitable, doubtful, unsuitable; or unknown without labels."""
        if self.evidence is None:
            return "unknown"
        if self.evidence.gain.sign <= 0:
            return "unsuitable"
        is_weak = self.evidence.share_of_gap < WEAK_PROBE
        return "doubtful" if is_weak or self.evidence.rank_correlation.sign <= 0 else "suitable"

    @property
    def reasons(self) -> list[str]:
        """What the verdict rests on."""
        if self.evidence is None:
            return [WITHOUT_LABELS]
        return [reason_of_probe(self.evidence), reason_of_variance(self.evidence)]

    def describe(self) -> str:
        """For a terminal."""
        parts = [self.health.describe()]
        if self.evidence is not None:
            facts = facts_about(self.evidence, self.health.rows)
            parts.append("\n".join(entry(name, text, 18) for name, text in facts))
        headline = {
            "unknown": "Suitable or not: unknown without labels.",
            "suitable": "Suitable.",
            "doubtful": "Doubtful.",
            "unsuitable": "Unsuitable.",
        }[self.verdict]
        return "\n\n".join([*parts, "\n".join([headline, *map(bullet, self.reasons)])])

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "health": self.health.to_dict(),
            "evidence": None if self.evidence is None else evidence_dict(self.evidence),
        }


def check(
    pool: Any,
    labels: Any = None,
    *,
    kind: str | None = None,
    normalize: str | None = None,
    noise_ratio: float | None = None,
    folds: int = 5,
    device: Any = None,
    memory: int | str | None = None,
    seed: int = 0,
) -> Suitability:
    """See whether embeddings carry labels, and whether predicted variance goes with error.

    Args:
        pool, normalize, device, memory: as in ``select``.
        labels: (n,) one per row: names or whole numbers are classes, floats numbers. None looks at
            the rows alone.
        kind: "classes" or "numbers", where the labels' dtype does not tell.
        noise_ratio: at which variances are predicted; None for the default of ``select``.
        folds: each is held out once.
        seed: of the rows that are looked at, where there are too many, and of the folds.
    """
    ratio = numerics.DEFAULT_NOISE_RATIO
    if noise_ratio is not None:
        ratio = check_positive(noise_ratio, "noise_ratio")
    rng = np.random.default_rng(seed)
    scene = check_pool(pool, normalize, device, memory)
    known = None
    if labels is not None:
        known = take_labels(labels, "labels", len(scene.pool), "pool row", kind)
        folds = check_folds(folds, known)
    with closing(scene.pool.source), torch.inference_mode():
        scene = scene.surveyed(normalize)
        check_variance(scene.kernel, scene.known.prior_variance, "pool")
        health = look(scene, normalize, rng)
        if known is None:
            return Suitability(health, None)
        some = draw(rng, len(known), CHECKED_ROWS)
        few = KnownLabels(known.kind, known.values[some.numpy()], known.why)
        rows = scene.pool.rows(some).cpu()
        return Suitability(health, hold_out(rows, few, folds, ratio, rng))


def check_folds(folds: Any, labels: KnownLabels) -> int:
    folds = check_whole(folds, "folds")
    if not 2 <= folds <= len(labels):
        raise ValueError(
            f"folds must be at least 2 and at most the number of rows, {len(labels)}; got {folds}."
        )
    if len(np.unique(labels.values)) == 1:
        raise ValueError("labels must not be all equal: nothing could be learned from them.")
    return folds


def reason_of_probe(evidence: Evidence) -> str:
    score, baseline = f"{evidence.score.value:.2f}", f"{evidence.baseline:.2f}"
    figures = f"({evidence.measure} {score} against {baseline})"
    if evidence.gain.sign <= 0:
        return f"the embeddings do not carry the labels {figures}."
    if evidence.share_of_gap < WEAK_PROBE:
        return f"the embeddings carry the labels only weakly {figures}."
    return f"the embeddings carry the labels {figures}."


def reason_of_variance(evidence: Evidence) -> str:
    figures = f"(rank correlation {evidence.rank_correlation.text(digits=2)})"
    if evidence.rank_correlation.sign > 0:
        return f"predicted variance goes with the error {figures}."
    what = "says nothing about" if evidence.rank_correlation.sign == 0 else "goes against"
    text = f"predicted variance {what} the error {figures}"
    if evidence.gain.sign <= 0:
        return f"{text}."
    return (
        f"{text}: do not trust the uncertainty of single rows. A selection may pay all the same; "
        f"compare tells."
    )


def facts_about(evidence: Evidence, n: int) -> Iterator[tuple[str, str]]:
    sample = "" if evidence.rows == n else f", of {evidence.rows:,} random rows"
    yield "labels", f"{evidence.kind}, {evidence.labels}{sample}"
    trivial = "the commonest class" if evidence.kind == "classes" else "the mean"
    if evidence.kind == "classes":
        text = f"{percent(evidence.score.value)} ± {percent(evidence.score.error or 0.0)}"
        against = percent(evidence.baseline)
    else:
        text, against = evidence.score.text(digits=3), "0"
    error = "" if evidence.rmse is None else f"; root mean squared error {number(evidence.rmse)}"
    yield (
        f"held-out {evidence.measure}",
        f"{text} by a linear probe, {evidence.folds} folds; {trivial} gives {against}{error}",
    )
    yield (
        "rank correlation",
        f"{evidence.rank_correlation.text(digits=3)} of predicted variance and squared error, "
        f"after {evidence.learned_from:,} random rows at a noise ratio of "
        f"{number(evidence.noise_ratio)}",
    )
    yield "noise ratio", noise_in_words(evidence)


def noise_in_words(evidence: Evidence) -> str:
    found = number(evidence.likeliest_noise_ratio)
    edge = " (the end of what was looked at)" if evidence.is_at_edge else ""
    text = (
        f"{found}{edge} by marginal likelihood; the default is "
        f"{number(numerics.DEFAULT_NOISE_RATIO)}"
    )
    if evidence.kind == "classes":
        text += ". Of classes, coded as 0 and 1, it is no recipe: see docs/noise.md"
    return text


def evidence_dict(evidence: Evidence) -> dict[str, Any]:
    means = ("score", "gain", "rank_correlation")
    plain = {name: value for name, value in vars(evidence).items() if name not in means}
    return (
        plain
        | {name: getattr(evidence, name).to_dict() for name in means}
        | {"measure": evidence.measure, "default_noise_ratio": numerics.DEFAULT_NOISE_RATIO}
    )
