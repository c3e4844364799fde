"""How often does ``compare`` claim a difference where there is none?

Each data set is drawn anew: a pool in clusters, and targets from a few of them. In three cases the
truth is that no method is better than another:

- classes: labels are drawn at random, so that every answer is right as often as any other;
- numbers: labels are standard normal, so that nothing can be learned from any pick;
- blind: labels follow from the rows, but all methods draw their picks at random.

``raw`` counts the data sets in which a difference counts for at least one of the methods, and
``said`` those of them in which the verdict says so, since the picks of some method have taught the
probe anything. Each number of picks stands for itself, and at most 5% may have such a claim. Run
it again to add data sets to those that were counted.
"""

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import tellmost as tm
from setting import RESULTS, save

ROWS, FEATURES, TARGETS, CLUSTERS, CLASSES, PICKS = 300, 12, 40, 8, 4, 32
DRAWS = 7
CASES = ("classes", "numbers", "blind")
COUNTED = ("raw", "said", "learned")


@dataclass(frozen=True)
class Draw(tm.rules.Random):
    """Random choice under a name of its own."""

    def gain(self, state):
        return tm.rules.Random(1_000 * (1 + self.number) + self.seed).gain(state)

    number: ClassVar[int] = 0


BLIND = [
    type(f"Draw{i}", (Draw,), {"name": f"draw-{i}", "number": i}) for i in range(1, DRAWS + 1)
]


def draw_points(rng):
    """Clustered rows, and targets from two of the clusters."""
    centres = rng.standard_normal((CLUSTERS, FEATURES))
    pool = centres[rng.integers(CLUSTERS, size=ROWS)] + rng.standard_normal((ROWS, FEATURES))
    near = centres[rng.integers(2, size=TARGETS)]
    return pool, near + rng.standard_normal((TARGETS, FEATURES))


def compare(case: str, seed: int):
    rng = np.random.default_rng(seed)
    pool, targets = draw_points(rng)
    options = {}
    if case == "classes":
        labels, wanted = rng.integers(CLASSES, size=ROWS), rng.integers(CLASSES, size=TARGETS)
    elif case == "numbers":
        labels, wanted = rng.standard_normal(ROWS), rng.standard_normal(TARGETS)
    else:
        slope = rng.standard_normal(FEATURES)
        labels = pool @ slope + rng.standard_normal(ROWS)
        wanted = targets @ slope + rng.standard_normal(TARGETS)
        options = {"rule": "random", "methods": [draw() for draw in BLIND]}
    return tm.compare(pool, targets, PICKS, labels=labels, target_labels=wanted, **options)


def count(case: str, seconds: float, before: dict) -> dict:
    """Compare on data sets until the time is over, and add to what was counted before."""
    end, n, tally = time.process_time() + seconds, before["data_sets"], before["by_picks"]
    while time.process_time() < end:
        for verdict in compare(case, n).verdicts:
            counts = tally.setdefault(str(verdict.picks), dict.fromkeys(COUNTED, 0))
            is_claimed = bool(verdict.better or verdict.worse)
            counts["raw"] += is_claimed
            counts["said"] += is_claimed and verdict.has_learned
            counts["learned"] += verdict.has_learned
        n += 1
    print(case, n, tally, flush=True)
    return {"data_sets": n, "by_picks": tally}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=200.0, help="processor time of a case")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    path = RESULTS / "false_claims.json"
    cases = json.loads(path.read_text())["cases"] if path.exists() else {}
    for case in options.cases:
        before = cases.get(case, {"data_sets": 0, "by_picks": {}})
        cases[case] = count(case, options.seconds, before)
    setting = {"rows": ROWS, "features": FEATURES, "targets": TARGETS, "picks": PICKS, "seeds": 10}
    save("false_claims", {"setting": setting, "cases": cases})


if __name__ == "__main__":
    main()
