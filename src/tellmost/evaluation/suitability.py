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
from tellmost.evaluation.probes import kernel_features, name_probe
from tellmost.evaluation.runs import nearest_similarity
from tellmost.evaluation.statistics import bullet, entry, number, percent
from tellmost.kernels import Linear
from tellmost.rows.checks import check_positive, check_whole
from tellmost.rules import VTL
from tellmost.running.extras import make_frame
from tellmost.running.notebooks import html_table
from tellmost.running.progress import working
from tellmost.running.workers import team
from tellmost.selecting.arguments import check_meaning
from tellmost.selecting.data import SelectionData, check_variance
from tellmost.targets.examples import LEAST_GAIN, estimate_density

if TYPE_CHECKING:
    import pandas

CHECKED_ROWS, CHECKED_BY_KERNEL = 5_000, 2_000
"""At most so many random rows are looked at with their labels: probes on more take minutes, and
the standard error of a share is about one point."""

WEAK_PROBE = 0.2  # a share of the gap from trivial to perfect answers; below it a probe is weak

WITHOUT_LABELS = (
    "Labels of these rows would add: how well a probe predicts them, whether predicted "
    "variance goes with actual error, and the noise by marginal likelihood."
)


@dataclass(frozen=True)
class Aim:
    """What the targets are beside the pool."""

    targets: int
    gain: float  # how much likelier each is under the others than under the pool, in nats
    region: int  # rows that are likelier under the targets' density than under the pool
    median_similarity: float  # of a target to the row nearest to it
    least_similarity: float

    def facts(self) -> Iterator[tuple[str, str]]:
        like = (
            f"they predict one another (gain {number(self.gain)}): {self.region:,} rows of the "
            f"pool are likelier under their estimated density than under the pool"
        )
        if self.gain < LEAST_GAIN:
            like = (
                f"they do not predict one another (gain {number(self.gain)}, below {LEAST_GAIN}), "
                f"so they are taken for all there is to learn about"
            )
        yield "targets", f"{self.targets:,}; {like}"
        yield (
            "nearest rows",
            f"similarity {self.median_similarity:.2f} for the median target, and "
            f"{self.least_similarity:.2f} for the one that is farthest from the pool",
        )


@dataclass(frozen=True, repr=False)
class Suitability:
    """The health of a pool, and the evidence of its labels if there are any."""

    health: Health
    evidence: Evidence | None  # None without labels
    aim: Aim | None = None  # None without targets
    probe: str = "a linear probe"
    usual_ratio: float = numerics.DEFAULT_NOISE_RATIO  # of noise to prior variance in ``select``

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
    def _headline(self) -> str:
        unknown = "suitable or not: unknown without labels"
        return f"{unknown if self.evidence is None else self.verdict}.".capitalize()

    @property
    def reasons(self) -> list[str]:
        """Sentences on which the verdict rests."""
        evidence = self.evidence
        if evidence is None:
            return [WITHOUT_LABELS]
        how = " only weakly" if evidence.share_of_gap < WEAK_PROBE else ""
        verb = "do not carry the labels" if evidence.gain.sign <= 0 else f"carry the labels{how}"
        score, baseline = f"{evidence.score.value:.2f}", f"{evidence.baseline:.2f}"
        sign, figure = evidence.rank_correlation.sign, evidence.rank_correlation.text(digits=2)
        relation = {1: "goes with", 0: "says nothing about", -1: "goes against"}[sign]
        doubt = ""
        if sign <= 0 < evidence.gain.sign:
            doubt = (
                ": do not trust the uncertainty of single rows. A selection may pay all the same; "
                "compare tells"
            )
        return [
            f"the embeddings {verb} ({evidence.measure} {score} against {baseline}).",
            f"predicted variance {relation} the error (rank correlation {figure}){doubt}.",
        ]

    def facts(self) -> Iterator[tuple[str, str]]:
        """Names, with a text about what the labels showed."""
        yield from () if self.aim is None else self.aim.facts()
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
            f"{text} by {self.probe}, {evidence.folds} folds; {trivial}{error}",
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
            f"is {number(self.usual_ratio)}{recipe * (evidence.kind == 'classes')}",
        )

    def describe(self) -> str:
        """The findings as text for a terminal, with the verdict at the end."""
        facts = "\n".join(entry(name, text, 18) for name, text in self.facts())
        verdict = "\n".join([self._headline, *map(bullet, self.reasons)])
        return "\n\n".join(filter(None, [self.health.describe(), facts, verdict]))

    __repr__ = describe

    def _repr_html_(self) -> str:
        """The findings as a table for a notebook."""
        said = [*self.health.remarks, self._headline, *self.reasons]
        return html_table(["about", "found"], [*self.health.facts(), *self.facts()], said)

    def to_frame(self) -> "pandas.DataFrame":
        """A row per number that was found: its name, value and standard error. Needs pandas."""
        records: list[dict[str, Any]] = []
        found = self.to_dict()
        parts = [(part, found[part] or {}) for part in ("health", "aim", "evidence")]
        for name, value in ((f"{part}.{name}", v) for part, of in parts for name, v in of.items()):
            if isinstance(value, dict) and "mean" in value:
                error = value["standard_error"]
                error = np.nan if error is None else error
                records.append({"name": name, "value": value["mean"], "error": error})
            elif isinstance(value, int | float) and not isinstance(value, bool):
                records.append({"name": name, "value": value, "error": np.nan})
        return make_frame(records)

    def to_dict(self) -> dict[str, Any]:
        """The findings for machines, ready for JSON."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "health": self.health.to_dict(),
            "aim": None if self.aim is None else vars(self.aim),
            "probe": self.probe,
            "default_noise_ratio": self.usual_ratio,
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
        }


def check(
    pool: Any,
    targets: Any = None,
    *,
    labels: Any = None,
    kind: str | None = None,
    kernel: Any = None,
    normalize: str | None = "auto",
    noise_ratio: float | None = None,
    folds: int = 5,
    device: Any = None,
    memory: int | str | None = None,
    progress: bool | None = None,
    seed: int = 0,
) -> Suitability:
    """See whether embeddings carry labels, and whether predicted variance goes with error.

    Args:
        pool, targets, kernel, normalize, device, memory, progress: as in ``select``. With a kernel
            the probe has it too. With targets it is said whether they predict one another.
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
    meaning = check_meaning(kernel, normalize, None, VTL(), has_targets=True)
    ratio = usual = meaning.usual_ratio
    if noise_ratio is not None:
        ratio = check_positive(noise_ratio, "noise_ratio")
    rng = np.random.default_rng(seed)
    data = check_pool(pool, targets, meaning, device=device, memory=memory)
    known = None
    if labels is not None:
        known = take_labels(labels, "labels", len(data.pool), "pool row", kind)
        folds = check_folds(folds, known)
    shown = working(progress, "checking")
    with closing(data.pool.source), torch.inference_mode(), team(), shown:
        data = data.read()
        check_variance(data.kernel, data.known.prior_variance, "pool")
        health, prior = look(data, rng), data.kernel
        aim = None if targets is None else look_at_targets(data)
        if known is None:
            return Suitability(health, None, aim)
        is_linear = isinstance(prior, Linear)
        some = draw_rows(rng, len(known), CHECKED_ROWS if is_linear else CHECKED_BY_KERNEL)
        few = KnownLabels(known.kind, known.values[some.numpy()], known.why)
        rows = data.pool.rows(some)
        rows = rows.cpu() if is_linear else kernel_features(prior, rows)[0]
        probe = "a linear probe" if is_linear else name_probe(prior)
        return Suitability(health, hold_out(rows, few, folds, ratio, rng), aim, probe, usual)


def look_at_targets(data: SelectionData) -> Aim:
    """Whether the targets predict one another, and which rows of the pool are like them."""
    assert data.targets is not None and data.target_weights is not None
    kernel, targets = data.kernel, data.targets
    density = estimate_density(
        data.pool, targets, data.target_weights, kernel, memory=data.plan.kept
    )
    nearest = nearest_similarity(data.pool, targets, kernel)
    return Aim(
        targets=len(targets),
        gain=density.gain,
        region=density.row_count,
        median_similarity=float(nearest.median()),
        least_similarity=float(nearest.min()),
    )


def check_folds(folds: Any, labels: KnownLabels) -> int:
    folds = check_whole(folds, "folds, each with a row or more,", 2, len(labels))
    if len(np.unique(labels.values)) == 1:
        raise ValueError("labels must not be all equal: nothing could be learned from them.")
    return folds
