"""A network that learns 3, 6 and 9 from a pool of all ten digits, label by label.

The paper's MNIST experiment (Hübotter et al. 2024, App. H) on scikit-learn's 8 x 8 digits, small
enough for a laptop. Thirty unlabelled images of 3, 6 and 9 are the targets, of which three are
looked at in each round, among 1,000 candidates; the noise has a standard deviation of 0.01 where
none is said; labels of other digits cost as much and are not trained on; the loss weighs classes
evenly; the network is trained from its first weights in every round. All that is the paper's.
Ours: five labels a round, a smaller network, and a fixed number of training steps.

    python results/digits-network/run.py --out digits-network
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.cli.demo import CLASSES, Digits, split_digits
from tellmost.finetune import ActiveFineTuner, FineTuningHistory, Strategy, Targeted
from tellmost.shapes import Float
from tellmost_reproduction.scores import summarize_scores, tabulate

NOISE_STD = 0.01
TARGETS_PER_ROUND, CANDIDATES, BATCH = 3, 1_000, 5
STEPS, LEARNING_RATE = 40, 1e-2

STRATEGIES: Mapping[str, Strategy] = {
    "vtl": Targeted("vtl", noise_std=NOISE_STD),
    "itl-y": Targeted("itl-y", noise_std=NOISE_STD),
    "ctl": Targeted("ctl", noise_std=NOISE_STD),
    "vtl, center+unit, ratio 1": Targeted("vtl", normalize="center+unit"),
    "vtl, ratio 1": Targeted("vtl"),
    "cosine": Targeted("cosine"),
    "random": Targeted("random"),
}
ROUNDS, SEEDS = 8, 10
SMOKE_STRATEGIES, SMOKE_ROUNDS, SMOKE_SEEDS = ("vtl", "itl-y", "random"), 4, 3

Curves = Float[np.ndarray, "methods seeds rounds"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a network to tell 3, 6 and 9 apart.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a smaller run, for the tests")
    options = parser.parse_args(arguments)
    names = SMOKE_STRATEGIES if options.smoke else tuple(STRATEGIES)
    rounds, seeds = (SMOKE_ROUNDS, SMOKE_SEEDS) if options.smoke else (ROUNDS, SEEDS)
    with one_thread():
        runs = {name: [run(name, seed, rounds) for seed in range(seeds)] for name in names}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "summary.json").write_text(json.dumps(summarize(runs), indent=1) + "\n")
    print(describe(runs))
    print(f"\nwritten to {options.out}: summary.json")


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: products this small finish before further threads wake up."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


def run(name: str, seed: int, rounds: int) -> FineTuningHistory:
    """One strategy on one split of the images."""
    split = split_digits(seed)
    network = make_network(seed)
    tuner = ActiveFineTuner(
        network,
        pool=images_of(split.pool),
        labels=split.labels,
        targets=images_of(split.targets),
        train=FromTheStart(network),
        strategy=STRATEGIES[name],
        batch=BATCH,
        candidates=CANDIDATES,
        targets_per_round=TARGETS_PER_ROUND,
        task=CLASSES,
        evaluate=lambda model: {"accuracy": measure_accuracy(model, split)},
        seed=seed,
        progress=False,
    )
    return tuner.run(rounds)


def images_of(pixels: Float[np.ndarray, "n d"]) -> Float[Tensor, "n 1 8 8"]:
    return torch.from_numpy(pixels).float().reshape(-1, 1, 8, 8)


def make_network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
        )


class FromTheStart:
    """A trainer that begins with the network's first weights in every round."""

    def __init__(self, network: nn.Module) -> None:
        self._start = deepcopy(network.state_dict())

    def __call__(self, model: nn.Module, inputs: Tensor, labels: Tensor, round: int) -> None:
        model.load_state_dict(self._start)
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        weights = 1 / torch.bincount(labels, minlength=10).clamp(min=1)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels, weight=weights)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def measure_accuracy(model: nn.Module, split: Digits) -> float:
    """On held-out images of 3, 6 and 9."""
    predicted = model(images_of(split.test)).argmax(dim=1).numpy()
    return float((predicted == split.test_labels).mean())


def curves(runs: Mapping[str, Sequence[FineTuningHistory]], column: str) -> Curves:
    return np.array([[one.column(column) for one in seeds] for seeds in runs.values()])


def describe(runs: Mapping[str, Sequence[FineTuningHistory]]) -> str:
    names = list(runs)
    first = runs[names[0]]
    budgets = first[0].column("labels").astype(int).tolist()[1::2]
    return "\n".join(
        [
            f"mean ± standard error over {len(first)} seeds",
            *tabulate("accuracy on 3, 6, 9", names, curves(runs, "accuracy")[..., 1::2], budgets),
            *tabulate("share of 3, 6, 9", names, curves(runs, "share")[..., 1::2], budgets),
        ]
    )


def summarize(runs: Mapping[str, Sequence[FineTuningHistory]]) -> dict[str, Any]:
    """Every number of the run, to be written down."""
    accuracy, share = curves(runs, "accuracy"), curves(runs, "share")
    first = next(iter(runs.values()))
    return {
        "labels": first[0].column("labels").astype(int).tolist(),
        "seeds": len(first),
        "methods": {
            name: {
                "strategy": repr(STRATEGIES[name]),
                "accuracy": summarize_scores(accuracy[i]),
                "share": summarize_scores(share[i]),
            }
            for i, name in enumerate(runs)
        },
    }


if __name__ == "__main__":
    main()
