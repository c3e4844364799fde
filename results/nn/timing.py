"""What choosing costs beside training, on the CIFAR-100 set-up; run it with the device idle.

    python results/nn/timing.py --data data --device cuda --out results/nn/timing.json

Three ways to train in a round, five epochs of batches of 64 each: as the experiments do (features
of the trunk cached, steps captured), the same without capture, and through the whole network from
images of 224 pixels, as one would without a cache: the paper's set-up. On a CPU, where that takes
minutes, the last is left out.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tellmost.finetune import Inputs, embed
from tellmost.selecting.select import select
from tellmost_reproduction.frame.folders import keep_text
from tellmost_reproduction.frame.pages import Cells, cpu_model, fill, in_markdown
from tellmost_reproduction.networks.configurations import EMBEDDINGS, NOISE_STD, RULES
from tellmost_reproduction.networks.efficientnet import Trunk, load_trunk, prepare, read_weights
from tellmost_reproduction.networks.problems import CIFAR, Problem, read_problem
from tellmost_reproduction.networks.training import (
    BATCH,
    EPOCHS,
    LEARNING_RATE,
    FewEpochs,
    wait_for,
)

EXAMPLES = (100, 500, 1_000)
CANDIDATES, TARGETS, PICKS = 1_000, 10, 10
REPEATS = 7
DOCUMENT = Path(__file__).parents[2] / "docs" / "network-experiments.md"
MARKS = {"timing.json": "times", "timing-cpu.json": "times on a CPU"}
"""Marks in the document between which the times of a file are written."""


def time_everything(
    problem: Problem,
    trunk: Trunk | None,
    *,
    repeats: int = REPEATS,
    counts: Sequence[int] = EXAMPLES,
) -> dict[str, Any]:
    """Seconds, medians: of embedding, of choosing by rule, and of training on so many images."""
    model = problem.draw(0).to(problem.inputs.device).eval()
    wait = partial(wait_for, model)
    measure = partial(median_seconds, wait=wait, repeats=repeats)
    n = len(problem.labels)
    return {
        "machine": machine_of(problem.inputs.device),
        "candidates": min(CANDIDATES, n),
        "pool": n,
        "embedding": {
            str(count): measure(partial(embed_first, model, problem, count))
            for count in (min(CANDIDATES, n), n)
        },
        "selecting": time_choices(model, problem, measure),
        "training": time_training(model, problem, trunk, counts, measure),
    }


Measure = Callable[[Callable[[], Any]], float]


def median_seconds(
    work: Callable[[], Any], *, wait: Callable[[], None], repeats: int = REPEATS
) -> float:
    """After one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        wait()
        started = perf_counter()
        work()
        wait()
        seconds.append(perf_counter() - started)
    return round(float(np.median(seconds[1:])), 6)


def embed_first(model: nn.Module, problem: Problem, count: int, kind: str = "last") -> Any:
    inputs = Inputs(problem.inputs, np.arange(count), "pool")
    return embed(model, inputs, EMBEDDINGS[kind][1], batch_size=1024)


def time_choices(model: nn.Module, problem: Problem, measure: Measure) -> dict[str, float]:
    """Ten picks for ten targets, of a thousand candidates and of all."""
    made: dict[str, float] = {}
    n = len(problem.labels)
    for kind, (letter, _) in EMBEDDINGS.items():
        embedded = embed_first(model, problem, n, kind)
        for label, rule in RULES.values():
            for count in (min(CANDIDATES, n - TARGETS), n - TARGETS):
                choose = partial(
                    select,
                    embedded.points[TARGETS : TARGETS + count],
                    embedded.points[:TARGETS],
                    PICKS,
                    rule=rule,
                    kernel=embedded.kernel,
                    noise_std=NOISE_STD[CIFAR],
                    progress=False,
                )
                made[f"{letter}-{label} of {count}"] = measure(choose)
    return made


def time_training(
    model: nn.Module,
    problem: Problem,
    trunk: Trunk | None,
    counts: Sequence[int],
    measure: Measure,
) -> dict[str, dict[str, float]]:
    training = FewEpochs(model, problem, max(counts))
    labels = torch.arange(max(counts), device=problem.inputs.device) % problem.classes

    made = {
        "captured": {
            str(n): measure(partial(training.train, problem.inputs[:n], labels[:n], 1))
            for n in counts
        },
        "eager": {
            str(n): measure(partial(train_plainly, model, problem.inputs[:n], labels[:n]))
            for n in counts
        },
    }
    if trunk is not None:
        whole = nn.Sequential(trunk, model)
        images = prepare(torch.zeros(max(counts), 32, 32, 3, device=problem.inputs.device))
        made["whole network"] = {
            str(n): measure(partial(train_plainly, whole, images[:n], labels[:n])) for n in counts
        }
    return made


def train_plainly(model: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """Five epochs, each step as torch runs it."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(labels), device=labels.device), BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(model(inputs[rows]), labels[rows])
            torch.autograd.backward(loss)
            optimizer.step()


def machine_of(device: torch.device) -> str:
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    return f"{gpu}{cpu_model()}, torch {torch.__version__}"


def tabulate_times(timed: Mapping[str, Any]) -> str:
    """Choosing, and its share of each way to train, on the machine of the file."""
    trained = timed["training"]
    heading = ["choosing", "ms", *(f"of {way}, {n} images" for way, n in _trainings(trained))]
    rows: Cells = [heading, ["(training, ms)", "", *_milliseconds(trained)]]
    for name, seconds in timed["selecting"].items():
        shares = (f"{100 * seconds / trained[way][n]:.1f}%" for way, n in _trainings(trained))
        rows.append([name, f"{1000 * seconds:.1f}", *shares])
    embedded = ", ".join(f"{n} in {1000 * s:.1f} ms" for n, s in timed["embedding"].items())
    return f"{timed['machine']}. Embedding images: {embedded}.\n\n{in_markdown(rows)}"


def _trainings(trained: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    return [(way, n) for way, by_count in trained.items() for n in by_count]


def _milliseconds(trained: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [f"{1000 * trained[way][n]:.0f}" for way, n in _trainings(trained)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--images", type=int, nargs="+", default=EXAMPLES, help="to train on")
    given = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device(given.device)
    problem = read_problem(CIFAR, given.data, device, is_smoke=given.smoke)
    is_left_out = given.smoke or device.type == "cpu"
    trunk = None if is_left_out else load_trunk(read_weights(given.data)).to(device)
    repeats = 2 if given.smoke else given.repeats
    timed = time_everything(problem, trunk, repeats=repeats, counts=given.images)
    given.out.write_text(json.dumps(timed, indent=1) + "\n")
    print(tabulate_times(timed))
    if given.out.name in MARKS:
        text = DOCUMENT.read_text(encoding="utf-8")
        keep_text(fill(text, {MARKS[given.out.name]: tabulate_times(timed)}), DOCUMENT)


if __name__ == "__main__":
    main()
