"""Which configurations an experiment compares, and in which order all of them are run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tellmost_reproduction.networks import configurations as made
from tellmost_reproduction.networks.configurations import Configuration, published
from tellmost_reproduction.networks.problems import CIFAR, MNIST


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or one beyond it."""

    name: str
    title: str
    configurations: tuple[Configuration, ...]
    urgency: int  # those of a smaller number are run first

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(one.dataset for one in self.configurations))

    def on(self, dataset: str) -> list[Configuration]:
        return [one for one in self.configurations if one.dataset == dataset]


def _all(*parts: Iterable[Configuration]) -> tuple[Configuration, ...]:
    """Each configuration once, by its name."""
    return tuple({one.name: one for part in parts for one in part}.values())


RANDOM = {dataset: made.chosen(dataset, "random") for dataset in (CIFAR, MNIST)}
FIRST = {"nn-cifar100": 1, "nn-rho": 2, "nn-mnist": 3}
EXPERIMENTS = {
    name: Experiment(name, title, _all(*parts), FIRST.get(name, 4))
    for name, title, parts in (
        ("nn-mnist", "digits 3, 6 and 9, from scratch", [made.main_methods(MNIST)]),
        (
            "nn-cifar100",
            "classes 0 to 9, fine-tuned (EfficientNet-Lite0 for B0)",
            [made.main_methods(CIFAR)],
        ),
        ("nn-inside", "the targets can be chosen too", [made.inside()]),
        (
            "nn-embeddings",
            "loss gradients (G) and last layer (L)",
            [
                part
                for dataset, random in RANDOM.items()
                for part in (made.by_rules(dataset), made.by_loss_gradients(dataset), random)
            ],
        ),
        (
            "nn-laplace",
            "a Laplace approximation of the weights' covariance",
            [
                made.by_loss_gradients(MNIST, ("itl", "vtl")),
                made.by_loss_gradients(MNIST, ("itl", "vtl"), by_laplace=True),
                RANDOM[MNIST],
            ],
        ),
        (
            "nn-batches",
            "conditional batches and the b best",
            [made.by_rules(CIFAR), made.top_b(), RANDOM[CIFAR]],
        ),
        (
            "nn-baselines",
            "TypiClust, ProbCover and EIG",
            [
                part
                for dataset, random in RANDOM.items()
                for part in (made.by_rules(dataset), made.more_baselines(dataset), random)
            ],
        ),
        (
            "nn-undirected",
            "rules that do not look at the targets",
            [
                part
                for dataset in RANDOM
                for part in (
                    made.undirected(dataset),
                    made.chosen(dataset, "itl", "badge", "random"),
                )
            ],
        ),
        ("nn-scarce", "80% of the task's images gone", map(made.scarce, RANDOM)),
        (
            "nn-lopsided",
            "half the targets of some classes gone",
            [
                part
                for dataset, random in RANDOM.items()
                for part in (made.lopsided(dataset), random)
            ],
        ),
        (
            "nn-candidates",
            "VTL, and how many candidates a round has",
            [made.by_rules(CIFAR), made.candidate_counts(), RANDOM[CIFAR]],
        ),
        (
            "nn-per-round",
            "how many of the targets a round looks at",
            [made.chosen(CIFAR, "itl", "random"), made.target_shares()],
        ),
        (
            "nn-targets",
            "how many targets there are",
            [made.chosen(CIFAR, "itl", "random"), made.target_counts()],
        ),
        (
            "nn-rho",
            "the table of noise",
            [made.rho_cells(), made.chosen(CIFAR, "badge", "information-density", "random")],
        ),
        (
            "nn-beyond",
            "the whole pool, earlier rounds, and noise ratios",
            [made.chosen(CIFAR, "itl", "vtl", "cosine", "random"), made.beyond()],
        ),
    )
}
"""All by name, in the order of the paper."""

SEED_BLOCKS = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))
"""All configurations of an urgency get the seeds of a block before any gets the next."""

Job = tuple[Configuration, int]


def jobs_in_order(chosen: Sequence[Experiment], seeds: int) -> list[Job]:
    """Every configuration with every seed, so that runs that are cut off are balanced.

    Each is trained as by the published code, and as by the paper's text.
    """
    jobs: dict[tuple[str, int], Job] = {}
    for urgency in sorted({one.urgency for one in chosen}):
        group = _all(*(one.configurations for one in chosen if one.urgency == urgency))
        runnable = [one for one in group if not one.is_past]
        for block in SEED_BLOCKS:
            for seed in (seed for seed in block if seed < seeds):
                for one in (*map(published, runnable), *runnable):
                    jobs.setdefault((one.name, seed), (one, seed))
    return list(jobs.values())
