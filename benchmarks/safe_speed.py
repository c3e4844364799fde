"""How fast is the safe optimiser where domains are large, kernels rough, and records long?

Processor seconds of one thread. Objective and constraint have different lengthscales, so nothing
is shared between them, and all observations lie near the middle, so that most of the domain is
still open. An ask is that of a loop: it follows a tell, and the median over several is taken after
two that warm up. ``bar`` says what a figure should stay below. ``--before FILE`` puts the figures
of another version, written by its own run of this file, beside these.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch

import tellmost as tm
from setting import save
from tellmost.kernels import Gaussian, Kernel, Matern

NOISE_STD, ASKS, UNEQUAL = 0.1, 9, 1.1
Prior = Callable[[float], Kernel]
"""A kernel, whose lengthscale is multiplied by the argument."""


def value(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The objective and the constraint at (n, d) points of the unit cube."""
    return np.sin(5 * x).sum(axis=-1), 1.2 - 4 * ((x - 0.5) ** 2).sum(axis=-1)


def grid(side: int, d: int) -> np.ndarray:
    axis = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)


def make(domain: Any, prior: Prior, **options: Any) -> tm.SafeOptimizer:
    objective, limited = (tm.GP(prior(by), noise_std=NOISE_STD) for by in (1.0, UNEQUAL))
    return tm.SafeOptimizer(
        domain,
        objective=objective,
        constraints={"g": tm.Constraint(limited, at_least=0.0)},
        on_violation="continue",
        confidence=0.99,
        suspect_z=float("inf"),  # one value in 16,000 is; all that was told is then believed twice
        **options,
    )


def near_the_middle(domain: np.ndarray, count: int) -> np.ndarray:
    """Random rows that keep the limit with much room to spare, again and again if they are few."""
    rows = np.flatnonzero(value(domain)[1] > min(1.0, value(domain)[1].max() - 0.01))
    return np.random.default_rng(0).choice(rows, size=count, replace=count > len(rows))


def tell(optimizer: tm.SafeOptimizer, x: Any, point: np.ndarray, **context: Any) -> None:
    rng = np.random.default_rng(len(optimizer.history))
    f, g = (np.stack(value(point)) + NOISE_STD * rng.standard_normal(2)).tolist()
    where = {"row": x} if isinstance(x, int) else {"x": x}
    optimizer.tell(**where, objective=f, constraints={"g": g}, **context)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    found = call()
    return process_time() - start, found


def time_loop(
    optimizer: tm.SafeOptimizer, context: Callable[[int], list[float]] | None = None
) -> dict:
    """Seconds of an ask and of the tell after it, and how many points they were about."""
    asks, tells = [], []
    for number in range(ASKS + 2):
        now = {} if context is None else {"context": context(number)}
        asked, query = timed(lambda now=now: optimizer.ask(**now))
        told, _ = timed(lambda query=query: tell(optimizer, query, query.x))
        asks.append(asked)
        tells.append(told)
    return {
        "seconds": statistics.median(asks[2:]),
        "most": max(asks[2:]),
        "first": asks[0],
        "seconds_per_tell": statistics.median(tells[2:]),
        "safe": int(optimizer.safe_mask.sum()),
        "targets": int(optimizer.target_mask.sum()),
    }


def construct(side: int, prior: Prior) -> dict:
    domain = grid(side, 2)
    return {"seconds": min(timed(lambda: make(domain, prior))[0] for _ in range(3))}


def ask_under_contexts(side: int, observed: int, prior: Prior, *, are_new: bool) -> dict:
    """Each ask has a context that no ask had before, or one of two that come back."""
    domain, rng = grid(side, 2), np.random.default_rng(0)
    optimizer = make(domain, prior, contexts=["load"])
    for row in near_the_middle(domain, observed):
        tell(optimizer, int(row), domain[row], context=[float(rng.random())])
    return time_loop(optimizer, lambda number: [number / 10 if are_new else (number % 2) / 2])


def ask_in_grid(side: int, d: int, observed: int, prior: Prior, rule: str = "vtl") -> dict:
    domain = grid(side, d)
    optimizer = make(domain, prior, rule=rule)
    rows = near_the_middle(domain, observed).tolist()
    tells = [timed(lambda row=row: tell(optimizer, row, domain[row]))[0] for row in rows]
    return {"seconds_per_tell_before": sum(tells) / len(tells), **time_loop(optimizer)}


def ask_in_box(observed: int, prior: Prior) -> dict:
    optimizer = make(tm.Box([0.0, 0.0], 1.0), prior)
    points = np.random.default_rng(0).random((20 * observed, 2))
    for point in points[value(points)[1] > 0.3][:observed]:
        tell(optimizer, point, point)
    return time_loop(optimizer)


def gaussian(lengthscale: float) -> Prior:
    return lambda by: Gaussian(by * lengthscale)


def matern(lengthscale: float) -> Prior:
    return lambda by: Matern(2.5, by * lengthscale)


Questions = dict[str, tuple[float, Callable[[], dict]]]


def questions(share: float) -> Questions:
    """Each with its bar. ``share`` is that of the points along a side and of the observations."""

    def part(count: int) -> int:
        return max(int(count * share), 4)

    return {
        "constructor, 10,000 points, Matern": (0.5, lambda: construct(part(100), matern(0.2))),
        "contexts, 10,000 points, 200 observations, Gaussian": (
            0.1,
            lambda: ask_under_contexts(part(100), part(200), gaussian(0.3), are_new=True),
        ),
        "contexts that come back, 10,000 points, 200 observations, Gaussian": (
            0.1,
            lambda: ask_under_contexts(part(100), part(200), gaussian(0.3), are_new=False),
        ),
        "contexts, 10,000 points, 200 observations, Matern": (
            0.1,
            lambda: ask_under_contexts(part(100), part(200), matern(0.3), are_new=True),
        ),
        "contexts that come back, 10,000 points, 200 observations, Matern": (
            0.1,
            lambda: ask_under_contexts(part(100), part(200), matern(0.3), are_new=False),
        ),
        "ITL, 1,296 points in 4d, 5 observations, Gaussian": (
            0.1,
            lambda: ask_in_grid(part(6), 4, 5, gaussian(0.5), "itl"),
        ),
        "ITL, 2,500 points, 5 observations, Matern": (
            0.06,
            lambda: ask_in_grid(part(50), 2, 5, matern(0.2), "itl"),
        ),
        "ITL, 2,500 points, 50 observations, Matern": (
            0.06,
            lambda: ask_in_grid(part(50), 2, part(50), matern(0.2), "itl"),
        ),
        "VTL, 40,000 points, 1,000 observations, Gaussian": (
            0.3,
            lambda: ask_in_grid(part(200), 2, part(1_000), gaussian(0.2)),
        ),
        "VTL, 40,000 points, 1,000 observations, Matern": (
            0.3,
            lambda: ask_in_grid(part(200), 2, part(1_000), matern(0.2)),
        ),
        "box in 2d, 1,000 observations, Matern": (
            0.15,
            lambda: ask_in_box(part(1_000), matern(0.3)),
        ),
    }


def measure(asked: Questions, before: dict) -> dict:
    found = {}
    for name, (bar, ask) in asked.items():
        found[name] = {"bar": bar, **ask()}
        if name in before:
            found[name]["before"] = before[name]
        print(name, json.dumps(found[name]), flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--before", type=Path, help="the result of another version")
    parser.add_argument("--only", default="", help="questions that begin like this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    asked = questions(0.1 if arguments.smoke else 1.0)
    asked = {name: one for name, one in asked.items() if name.startswith(arguments.only)}
    before = json.loads(arguments.before.read_text())["asks"] if arguments.before else {}
    found = measure(asked, before)
    if not arguments.smoke and not arguments.only:
        save("safe_speed", {"asks": found})
