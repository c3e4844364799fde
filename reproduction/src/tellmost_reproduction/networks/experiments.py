"""Which configurations an experiment compares, and in which order all of them are run."""

from collections.abc import Sequence
from dataclasses import dataclass

from tellmost_reproduction.networks import configurations as made
from tellmost_reproduction.networks.configurations import Configuration
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

    @property
    def runnable(self) -> list[Configuration]:
        return [one for one in self.configurations if not one.is_past]

    def on(self, dataset: str) -> list[Configuration]:
        return [one for one in self.configurations if one.dataset == dataset]


def experiments() -> dict[str, Experiment]:
    """All by name, in the order of the paper."""
    both = (CIFAR, MNIST)
    random = {dataset: made.chosen(dataset, ("random",)) for dataset in both}
    listed = [
        Experiment(
            "nn-mnist", "digits 3, 6 and 9, from scratch", _all(made.main_methods(MNIST)), 3
        ),
        Experiment(
            "nn-cifar100",
            "classes 0 to 9, fine-tuned (EfficientNet-Lite0 for B0)",
            _all(made.main_methods(CIFAR)),
            1,
        ),
        Experiment("nn-inside", "the targets can be chosen too", _all(made.inside()), 4),
        Experiment(
            "nn-embeddings",
            "loss gradients (G) and last layer (L)",
            _all(*([*made.by_rules(d), *made.by_loss_gradients(d), *random[d]] for d in both)),
            4,
        ),
        Experiment(
            "nn-laplace",
            "a Laplace approximation of the weights' covariance",
            _all(
                made.by_loss_gradients(MNIST)[:2],
                made.by_laplace(),
                made.chosen(MNIST, ("random",)),
            ),
            4,
        ),
        Experiment(
            "nn-batches",
            "conditional batches and the b best",
            _all(made.by_rules(CIFAR), made.top_b(), random[CIFAR]),
            4,
        ),
        Experiment(
            "nn-baselines",
            "TypiClust, ProbCover and EIG",
            _all(*([*made.by_rules(d), *made.more_baselines(d), *random[d]] for d in both)),
            4,
        ),
        Experiment(
            "nn-undirected",
            "rules that do not look at the targets",
            _all(
                *([*made.undirected(d), *made.chosen(d, ("itl", "badge", "random"))] for d in both)
            ),
            4,
        ),
        Experiment("nn-scarce", "80% of the task's images gone", _all(*map(made.scarce, both)), 4),
        Experiment(
            "nn-lopsided",
            "half the targets of some classes gone",
            _all(*([*made.lopsided(d), *random[d]] for d in both)),
            4,
        ),
        Experiment(
            "nn-candidates",
            "VTL, and how many candidates a round has",
            _all(made.by_rules(CIFAR), made.candidate_counts(), random[CIFAR]),
            4,
        ),
        Experiment(
            "nn-per-round",
            "how many of the targets a round looks at",
            _all(made.chosen(CIFAR, ("itl", "random")), made.target_shares()),
            4,
        ),
        Experiment(
            "nn-targets",
            "how many targets there are",
            _all(made.chosen(CIFAR, ("itl", "random")), made.target_counts()),
            4,
        ),
        Experiment(
            "nn-rho",
            "the table of noise",
            _all(
                made.rho_cells(),
                made.chosen(CIFAR, ("badge", "information-density", "random")),
            ),
            2,
        ),
        Experiment(
            "nn-beyond",
            "the whole pool, earlier rounds, and noise ratios",
            _all(
                made.chosen(CIFAR, ("itl", "vtl", "cosine", "random")),
                made.whole_pool(),
                made.across_rounds(),
                made.noise_ratios(),
            ),
            4,
        ),
    ]
    return {one.name: one for one in listed}


def _all(*parts: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Each once, by its name."""
    by_name = {one.name: one for part in parts for one in part}
    return tuple(by_name.values())


SEED_BLOCKS = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))
"""All configurations of an urgency get the seeds of a block before any gets those of the next."""

Job = tuple[Configuration, int]


def jobs_in_order(chosen: Sequence[Experiment], seeds: int) -> list[Job]:
    """Every configuration with every seed, once; a run that is cut off leaves balanced results."""
    jobs: dict[tuple[str, int], Job] = {}
    for urgency in sorted({one.urgency for one in chosen}):
        group = [one for one in chosen if one.urgency == urgency]
        for block in SEED_BLOCKS:
            for seed in (seed for seed in block if seed < seeds):
                for configuration in _all(*(one.runnable for one in group)):
                    jobs.setdefault((configuration.name, seed), (configuration, seed))
    return list(jobs.values())
