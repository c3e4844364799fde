"""check(): are these embeddings suitable for choosing data, and with which noise?"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tellmost import numerics
from tellmost.evaluation.evidence import Evidence, KnownLabels, hold_out, take_labels
from tellmost.evaluation.health import Health, check_pool, draw_rows, look
from tellmost.evaluation.statistics import (
    bullet,
    entry,
    html_table,
    make_frame,
    number,
    percent,
)
from tellmost.rows.checks import check_positive, check_whole
from tellmost.running.progress import working
from tellmost.selecting.data import check_variance

if TYPE_CHECKING:
    import pandas

CHECKED_ROWS = 5_000
"""At most so many random rows are looked at with their labels: probes on more take minutes, and
the standard error of a share is below one point."""

WEAK_PROBE = 0.2
"""A probe that closes less than this share of the gap from trivial to perfect answers is weak."""

WITHOUT_LABELS = (
    "Labels of these rows would add: how well a linear probe predicts them, whether predicted "
    "variance goes with actual error, and the noise by marginal likelihood."
)
HEADLINES = {
    "unknown": "Suitable or not: unknown without labels.",
    "suitable": "Suitable.",
    "doubtful": "Doubtful.",
    "unsuitable": "Unsuitable.",
}


@dataclass(frozen=True, repr=False)
class Suitability:
    """The health of a pool, and the evidence of its labels if there are any."""

    health: Health
    evidence: Evidence | None  # None without labels

    @property
    def verdict(self) -> str:
        """One of suitable, doubtful and unsuitable, or unknown without labels."""
        if self.evidence is None:
            return "unknown"
        if self.evidence.gain.sign <= 0:
            return "unsuitable"
        is_weak = self.evidence.share_of_gap < WEAK_PROBE
        return "doubtful" if is_weak or self.evidence.rank_correlation.sign <= 0 else "suitable"

    @property
    def reasons(self) -> list[str]:
        """Sentences on which the verdict rests."""
        if self.evidence is None:
            return [WITHOUT_LABELS]
        return [reason_of_probe(self.evidence), reason_of_variance(self.evidence)]

    def facts(self) -> Iterator[tuple[str, str]]:
        """Names, with a text about what the labels showed."""
        evidence = self.evidence
        if evidence is None:
            return
        sample = "" if evidence.rows == self.health.rows else f", of {evidence.rows:,} random rows"
        yield "labels", f"{evidence.kind}, {evidence.labels}{sample}"
        if evidence.kind == "classes":
            text = f"{percent(evidence.score.value)} ± {percent(evidence.score.error or 0.0)}"
            trivial, error = f"the commonest class gives {percent(evidence.baseline)}", ""
        else:
            text, trivial = evidence.score.text(digits=3), "the mean gives 0"
            error = f"; root mean squared error {number(evidence.rmse or 0.0)}"
        yield (
            f"held-out {evidence.measure}",
            f"{text} by a linear probe, {evidence.folds} folds; {trivial}{error}",
        )
        yield (
            "rank correlation",
            f"{evidence.rank_correlation.text(digits=3)} of predicted variance and squared error, "
            f"after {evidence.learned_from:,} random rows at a noise ratio of "
            f"{number(evidence.noise_ratio)}",
        )
        edge = " (the end of what was looked at)" if evidence.is_at_edge else ""
        recipe = ". Of classes, coded as 0 and 1, it is no recipe: see docs/noise.md"
        yield (
            "noise ratio",
            f"{number(evidence.likeliest_noise_ratio)}{edge} by marginal likelihood; the default "
            f"is {number(numerics.DEFAULT_NOISE_RATIO)}{recipe * (evidence.kind == 'classes')}",
        )

    def describe(self) -> str:
        """The findings as text for a terminal, with the verdict at the end."""
        facts = "\n".join(entry(name, text, 18) for name, text in self.facts())
        verdict = "\n".join([HEADLINES[self.verdict], *map(bullet, self.reasons)])
        return "\n\n".join(filter(None, [self.health.describe(), facts, verdict]))

    __repr__ = describe

    def _repr_html_(self) -> str:
        """The findings as a table for a notebook."""
        said = [*self.health.remarks, HEADLINES[self.verdict], *self.reasons]
        return html_table(["about", "found"], [*self.health.facts(), *self.facts()], said)

    def to_frame(self) -> "pandas.DataFrame":
        """A row per number that was found: its name, value and standard error. Needs pandas."""
        return make_frame(
            [
                {"name": f"{part}.{name}", **as_number(value)}
                for part in ("health", "evidence")
                for name, value in (self.to_dict()[part] or {}).items()
                if as_number(value)
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The findings for machines, ready for JSON."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "health": self.health.to_dict(),
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
        }


def as_number(value: Any) -> dict[str, float]:
    """A value and its standard error, if this is a number or a mean."""
    if isinstance(value, dict) and "mean" in value:
        error = value["standard_error"]
        return {"value": value["mean"], "error": np.nan if error is None else error}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"value": value, "error": np.nan} if is_number else {}


def check(
    pool: Any,
    *,
    labels: Any = None,
    kind: str | None = None,
    normalize: str | None = None,
    noise_ratio: float | None = None,
    folds: int = 5,
    device: Any = None,
    memory: int | str | None = None,
    progress: bool | None = None,
    seed: int = 0,
) -> Suitability:
    """See whether embeddings carry labels, and whether predicted variance goes with error.

    Args:
        pool, normalize, device, memory, progress: as in ``select``.
        labels: (n,) one per row. Names or whole numbers are classes, floats numbers. None looks at
            the rows alone.
        kind: "classes" or "numbers", where the labels' dtype does not tell.
        noise_ratio: at which variances are predicted; None for the default of ``select``.
        folds: how many parts the rows are cut into. Each is held out once.
        seed: decides which rows are looked at, where there are too many, and the folds.

    >>> import numpy as np
    >>> pool = np.random.default_rng(0).standard_normal((300, 8))
    >>> check(pool, labels=pool[:, 0] > 0).verdict
    'doubtful'
    """
    ratio = numerics.DEFAULT_NOISE_RATIO
    if noise_ratio is not None:
        ratio = check_positive(noise_ratio, "noise_ratio")
    rng = np.random.default_rng(seed)
    data = check_pool(pool, normalize, device, memory)
    known = None
    if labels is not None:
        known = take_labels(labels, "labels", len(data.pool), "pool row", kind)
        folds = check_folds(folds, known)
    with closing(data.pool.source), torch.inference_mode(), working(progress, "checking"):
        data = data.read()
        check_variance(data.kernel, data.known.prior_variance, "pool")
        health = look(data, normalize, rng)
        if known is None:
            return Suitability(health, None)
        some = draw_rows(rng, len(known), CHECKED_ROWS)
        few = KnownLabels(known.kind, known.values[some.numpy()], known.why)
        rows = data.pool.rows(some).cpu()
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
    how = " only weakly" if evidence.share_of_gap < WEAK_PROBE else ""
    verb = "do not carry the labels" if evidence.gain.sign <= 0 else f"carry the labels{how}"
    score, baseline = f"{evidence.score.value:.2f}", f"{evidence.baseline:.2f}"
    return f"the embeddings {verb} ({evidence.measure} {score} against {baseline})."


def reason_of_variance(evidence: Evidence) -> str:
    relation = {1: "goes with", 0: "says nothing about", -1: "goes against"}
    sign, figure = evidence.rank_correlation.sign, evidence.rank_correlation.text(digits=2)
    text = f"predicted variance {relation[sign]} the error (rank correlation {figure})"
    if sign > 0 or evidence.gain.sign <= 0:
        return f"{text}."
    return (
        f"{text}: do not trust the uncertainty of single rows. A selection may pay all the same; "
        f"compare tells."
    )
