"""Training a head on customer queries of one family of intents, chosen round by round.

A frozen sentence model turns queries into rows; a head on it, a linear probe or a small MLP, names
one of 77 intents. Ten unlabelled queries of a family are the targets. Each of four rounds buys the
labels of 25 queries out of 10,003 and trains the head further on all that were bought, whatever
intents they are. It is tested on the family's other test queries. A seed draws the ten targets and
the head's first weights. A family is as in the experiment ``banking77``.

A strategy compares queries by what the head's last layer sees of them, or by the gradients of the
loss there. A probe's last layer sees the rows themselves, so that training changes nothing about
what is chosen; an MLP's sees its hidden activations. Gradients change with either.

    python results/banking77-fine-tuning/run.py --data banking77 --out fine-tuning
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from torch import Tensor, nn

from tellmost.finetune import ActiveFineTuner, FineTuningHistory, LossGradients, Strategy, Targeted
from tellmost.shapes import Bool
from tellmost_reproduction.banking77 import (
    FAMILIES,
    TARGETS,
    Queries,
    Result,
    describe,
    find_members,
    read_queries,
    summarize,
)
from tellmost_reproduction.scores import draw_curves

HIDDEN = 128
STEPS, LEARNING_RATE = 50, 0.01
BATCH, ROUNDS, SEEDS = 25, 4, 10
SMOKE_BATCH, SMOKE_ROUNDS, SMOKE_SEEDS, SMOKE_FAMILIES = 10, 2, 2, 1

STRATEGIES: dict[str, Strategy] = {  # on the last layer, if nothing else is said
    "vtl-gradients": Targeted("vtl", embedding=LossGradients(), observed=True),
    "mmr-gradients": Targeted("mmr", embedding=LossGradients(), observed=True),
    "vtl-paper": Targeted("vtl", noise_std=0.01),  # its noise, and nothing kept between rounds
    "vtl": Targeted("vtl", observed=True),
    "mmr": Targeted("mmr", observed=True),
    "cosine": Targeted("cosine"),
    "random": Targeted("random"),
}


def make_probe(features: int, classes: int) -> nn.Module:
    return nn.Linear(features, classes)


def make_mlp(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


HEADS: dict[str, Callable[[int, int], nn.Module]] = {"linear probe": make_probe, "MLP": make_mlp}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    batch: int = BATCH
    rounds: int = ROUNDS
    seeds: int = SEEDS
    families: int = len(FAMILIES)

    @property
    def budgets(self) -> list[int]:
        return [self.batch * (number + 1) for number in range(self.rounds)]


SMOKE = Size(SMOKE_BATCH, SMOKE_ROUNDS, SMOKE_SEEDS, SMOKE_FAMILIES)


@dataclass(frozen=True, eq=False)
class Exam:
    """Queries of a family: some to choose for, and the others with their intents, to be asked."""

    targets: Tensor
    queries: Tensor
    intents: Tensor
    is_shown: Tensor  # whether a target has the same intent

    @staticmethod
    def draw(test: Queries, members: Bool[np.ndarray, " c"], seed: int) -> "Exam":
        of_family = np.flatnonzero(members[test.intents])
        order = np.random.default_rng(seed).permutation(of_family)
        rows, intents = torch.from_numpy(test.rows), torch.from_numpy(test.intents)
        targets, held_out = torch.from_numpy(order[:TARGETS]), torch.from_numpy(order[TARGETS:])
        is_shown = torch.isin(intents[held_out], intents[targets])
        return Exam(rows[targets], rows[held_out], intents[held_out], is_shown)

    def grade(self, model: nn.Module) -> dict[str, float]:
        is_right = (model(self.queries).argmax(dim=1) == self.intents).double()
        return {
            "accuracy": is_right.mean().item(),
            "accuracy_shown": is_right[self.is_shown].mean().item(),
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a head for the queries of a family.")
    parser.add_argument("--data", type=Path, required=True, help="folder of train.csv, test.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--embed", default="all-minilm", help="model that embeds the queries")
    parser.add_argument("--smoke", action="store_true", help="a smaller run, for the tests")
    options = parser.parse_args(arguments)
    size = SMOKE if options.smoke else Size()
    names, train, test = read_queries(options.data, options.embed)
    results = {}
    for family in list(FAMILIES)[: size.families]:
        members = find_members(names, FAMILIES[family])
        results[family] = {head: run_family(members, train, test, head, size) for head in HEADS}
        for head, result in results[family].items():
            lines = describe(f"{family}, {head}", result, list(STRATEGIES), size.budgets)
            print("\n".join(lines), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    write_results(options.out / "summary.json", results, size)
    draw_figure(results, size, options.out / "figure.png")
    print(f"\nwritten to {options.out}")


def run_family(
    members: Bool[np.ndarray, " c"], train: Queries, test: Queries, head: str, size: Size
) -> Result:
    shape = (len(STRATEGIES), size.seeds, size.rounds)
    result = Result(np.empty(shape), np.empty(shape), np.empty(shape))
    for seed in range(size.seeds):
        exam = Exam.draw(test, members, seed)
        for i, strategy in enumerate(STRATEGIES.values()):
            history = tune(train, exam, HEADS[head], strategy, seed, size)
            bought = np.cumsum(members[history.labels])
            result.share[i, seed] = bought[size.batch - 1 :: size.batch] / size.budgets
            result.accuracy[i, seed] = history.column("accuracy")
            result.accuracy_shown[i, seed] = history.column("accuracy_shown")
    return result


def tune(
    train: Queries,
    exam: Exam,
    make_head: Callable[[int, int], nn.Module],
    strategy: Strategy,
    seed: int,
    size: Size,
) -> FineTuningHistory:
    """All rounds of one head, which starts from weights that the seed decides."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        head = make_head(train.rows.shape[1], int(train.intents.max()) + 1)
    tuner = ActiveFineTuner(
        head,
        pool=train.rows,
        labels=train.intents,
        targets=exam.targets,
        train=fit,
        evaluate=exam.grade,
        strategy=strategy,
        batch=size.batch,
        candidates=None,
        seed=seed,
        progress=False,
    )
    with catch_warnings():
        simplefilter("ignore", UserWarning)  # little noise, on purpose
        return tuner.run(size.rounds)


def fit(model: nn.Module, inputs: Tensor, labels: Tensor, round: int) -> None:
    """Some more steps on all that is labelled."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def write_results(path: Path, results: Mapping[str, Mapping[str, Result]], size: Size) -> None:
    summary = {
        "budgets": size.budgets,
        "targets": TARGETS,
        "steps_per_round": STEPS,
        "learning_rate": LEARNING_RATE,
        "families": {
            family: {head: summarize(result, list(STRATEGIES)) for head, result in heads.items()}
            for family, heads in results.items()
        },
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


def draw_figure(results: Mapping[str, Mapping[str, Result]], size: Size, path: Path) -> None:
    """Accuracy: a column per family, a row per head."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(results) + 0.6, 5.2), layout="constrained")
    grid = figure.subplots(len(HEADS), len(results), sharex=True, sharey=True, squeeze=False)
    for column, (family, heads) in enumerate(results.items()):
        for axes, (head, result) in zip(grid[:, column], heads.items(), strict=True):
            draw_curves(axes, list(STRATEGIES), result.accuracy, size.budgets)
            axes.set_ylabel(f"accuracy of the {head}" if column == 0 else "")
            axes.set_xlabel(axes.get_xlabel() if axes in grid[-1] else "")
        grid[0, column].set_title(family, loc="left", fontsize="medium")
    lines, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=len(STRATEGIES), frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
