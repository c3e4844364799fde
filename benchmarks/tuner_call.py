"""Should fine-tuning call ``select`` as users of embeddings do, as the paper does, or otherwise?

The last layer of EfficientNet-Lite0 is trained for ten classes of CIFAR-100, as in
results/nn-beyond, and VTL chooses on its last-layer embeddings by several calls. Each has 10 seeds
of 100 rounds. All take four minutes of one core. ``--data`` is the folder of
``tellmost reproduce nn-beyond``.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.finetune import LastLayer, RoundInputs
from tellmost.selecting.select import select_quietly
from tellmost_reproduction.networks.configurations import beyond
from tellmost_reproduction.networks.problems import CIFAR_HEAD
from tellmost_reproduction.networks.scheduling import Conditions, bench_of

CENTRED = {"kernel": "linear", "normalize": "center+unit"}
LOOP = "centred, all, 1 (the loop's)"
CALLS: dict[str, dict[str, Any]] = {
    "as given, all, 1 (the paper's)": {"kernel": "linear"},
    LOOP: CENTRED | {"noise_ratio": 1.0},
    "centred, all, 0.1": CENTRED | {"noise_ratio": 0.1},
    "centred, examples, 1": CENTRED | {"noise_ratio": 1.0, "targets_are": "examples"},
    "centred, examples, 0.1 (select's)": {},
}
SEEDS, ROUNDS = 10, 100
LABELS = (50, 100, 250, 500, 1_000)  # ten a round


@dataclass(frozen=True)
class Called:
    """Chooses by ``select`` with these options, on last-layer embeddings."""

    options: tuple[tuple[str, Any], ...]
    name: str = "called"

    def choose(self, inputs: RoundInputs, k: int) -> np.ndarray:
        rows, targets = (inputs.embed(of, LastLayer()).points for of in ("candidates", "targets"))
        return select_quietly(rows, targets, k, progress=False, **dict(self.options)).indices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    out = Path(__file__).parent / "results" / "tuner_call.json"
    parser.add_argument("--out", type=Path, default=out)
    given = parser.parse_args()
    bench = bench_of(Conditions(given.data, "cpu", ROUNDS), CIFAR_HEAD)
    like = replace(beyond()[-1], dataset=CIFAR_HEAD)
    runs = {
        name: [
            bench.run(
                replace(like, strategy=Called(tuple(options.items()))), seed, ROUNDS
            ).accuracy
            for seed in range(SEEDS)
        ]
        for name, options in CALLS.items()
    }
    given.out.write_text(json.dumps(tell(runs), indent=1) + "\n")


def tell(runs: dict[str, list]) -> dict[str, dict]:
    """Accuracy in per cent by the number of labels, and how far a call is ahead of the loop's."""
    percent = {name: 100 * np.array(of) for name, of in runs.items()}
    found = {}
    for name, accuracy in percent.items():
        ahead = (accuracy - percent[LOOP]).mean(axis=1)
        found[name] = {
            "accuracy": {k: round(accuracy[:, k // 10 - 1].mean(), 1) for k in LABELS},
            "mean over rounds": round(accuracy.mean(), 1),
            "ahead of the loop's": round(ahead.mean(), 2),
            "standard error": round(ahead.std(ddof=1) / len(ahead) ** 0.5, 2),
        }
        print(name, found[name])
    return found


if __name__ == "__main__":
    main()
