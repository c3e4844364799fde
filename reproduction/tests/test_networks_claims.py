"""Every judge of the network experiments can hold, fail, and say that it cannot be told."""

import numpy as np
import pytest

from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN
from tellmost_reproduction.networks.claims import CLAIMS
from tellmost_reproduction.networks.curves import EQUALITIES, Curves, repeats
from tellmost_reproduction.networks.experiments import EXPERIMENTS
from tellmost_reproduction.networks.page import notes_for
from tellmost_reproduction.networks.problems import TASKS
from tellmost_reproduction.networks.runs import Run

ROUNDS, SEEDS = 20, 4
RULES = ("itl", "vtl", "ctl")


def judged(*given, **options):
    return verdict_on(*given, **options).holds


def verdict_on(experiment, part, levels, *, spread=0.001, share=(), stuck=()):
    """The verdict on the claim with these words, from flat curves at these levels.

    A level may be one for the first half of the rounds and one for the second. Names are without
    their dataset; what is not named is at a half.
    """
    runs = {}
    for one in EXPERIMENTS[experiment].configurations:
        name = one.name.split("/", 1)[1]
        first, last = np.broadcast_to(levels.get(name, 0.5), 2)
        accuracy = np.repeat([first, last], ROUNDS // 2)
        in_task = [int(dict(share).get(name, 0.5) * 10 * (i + 1)) for i in range(ROUNDS)]
        in_task = [len(TASKS[one.dataset]) - 1] * ROUNDS if name in stuck else in_task
        shifts = np.random.default_rng([*name.encode()]).normal(size=SEEDS)
        for seed, shift in enumerate(spread * (shifts - shifts.mean())):
            shifted = accuracy + shift
            run = Run(one.name, seed, 10, shifted.tolist(), in_task, [0] * 10 * ROUNDS, {}, "CPU")
            runs[one.name, seed] = run
    claim = next(claim for claim in CLAIMS[experiment] if part in claim.text)
    return claim.judge(Curves.of(EXPERIMENTS[experiment], runs))


CASES = [
    # winning
    ("nn-batches", "b best", {"itl": 0.6, "vtl": 0.6, "ctl": 0.6}, HOLDS),
    ("nn-batches", "b best", {"itl": 0.6}, IN_PART),
    ("nn-batches", "b best", {}, OPEN),
    ("nn-batches", "b best", dict.fromkeys(RULES, 0.4), FAILS),
    # rising: a step up within chance is none
    ("nn-targets", "M of targets", dict(zip(
        ("targets-10/itl", "targets-30/itl", "itl", "targets-300/itl"), (0.3, 0.4, 0.5, 0.6),
        strict=True)), HOLDS),
    ("nn-targets", "M of targets", {"targets-10/itl": 0.3, "targets-300/itl": 0.5002}, IN_PART),
    ("nn-targets", "M of targets", {"targets-300/itl": 0.5002}, OPEN),
    ("nn-targets", "M of targets", {"targets-300/itl": 0.4}, FAILS),
    # alike, by the interval
    ("nn-embeddings", "CIFAR-100: loss", {}, HOLDS),
    ("nn-embeddings", "CIFAR-100: loss", {f"{k}-loss-1": 0.4 for k in RULES}, FAILS),
    ("nn-embeddings", "CIFAR-100: loss", {f"{k}-loss-1": 0.48 for k in RULES}, OPEN),
    ("nn-laplace", "brings nothing", {}, HOLDS),
    ("nn-laplace", "brings nothing", {f"laplace/{k}-loss-0.01": 0.6 for k in RULES[:2]}, FAILS),
    # most of eight
    ("nn-undirected", "CIFAR-100: most", {"random": 0.6}, HOLDS),
    ("nn-undirected", "CIFAR-100: most", {"bait": 0.4, "margin": 0.4}, IN_PART),
    ("nn-undirected", "CIFAR-100: most", {}, OPEN),
    ("nn-undirected", "CIFAR-100: most", {"random": 0.4}, FAILS),
    # at the end alone
    ("nn-inside", "all of A", {f"inside/{k}": (0.3, 0.6) for k in RULES}, HOLDS),
    ("nn-inside", "all of A", {f"inside/{k}": (0.9, 0.5) for k in RULES}, OPEN),
    ("nn-inside", "all of A", {f"inside/{k}": (0.9, 0.4) for k in RULES}, FAILS),
    # early and late
    ("nn-cifar100", "early", {"cosine": (0.6, 0.4)}, HOLDS),
    ("nn-cifar100", "early", {"cosine": (0.4, 0.4)}, IN_PART),
    ("nn-cifar100", "early", {}, OPEN),
    ("nn-cifar100", "early", {"cosine": (0.4, 0.6)}, FAILS),
    ("nn-per-round", "smaller share", {"itl": (0.3, 0.6)}, HOLDS),
    ("nn-per-round", "smaller share", {"itl": (0.6, 0.5)}, OPEN),
    ("nn-per-round", "smaller share", {"per-round-100/itl": (0.4, 0.6)}, FAILS),
    ("nn-per-round", "first 10", {"per-round-1/itl": (0.4, 0.9)}, IN_PART),
    ("nn-per-round", "over all", {"per-round-1/itl": (0.4, 0.9)}, FAILS),
    # at most two points worse
    ("nn-cifar100", "almost as well", {"vtl": 0.6}, HOLDS),
    ("nn-cifar100", "almost as well", {"vtl": 0.4}, FAILS),
    ("nn-cifar100", "almost as well", {"vtl": 0.48}, OPEN),
    ("nn-cifar100", "do not overlap", {"itl": 0.6, "vtl": 0.6}, HOLDS),
    ("nn-cifar100", "do not overlap", {}, FAILS),
    # the table of noise
    ("nn-rho", "little effect", {}, HOLDS),
    ("nn-rho", "little effect", {f"{k}-100": 0.4 for k in (
        "itl-loss", "itl-last", "ctl-loss", "ctl-last")}, FAILS),
    ("nn-rho", "little effect", {f"{k}-100": 0.48 for k in (
        "itl-loss", "itl-last", "ctl-loss", "ctl-last")}, OPEN),
    ("nn-rho", "four", {"random": 0.4}, HOLDS),
    ("nn-rho", "four", {"random": 0.4, "itl-loss-0.01": 0.4}, IN_PART),
    ("nn-rho", "four", {"random": 0.6}, FAILS),
]  # fmt: skip


@pytest.mark.parametrize(("experiment", "part", "levels", "verdict"), CASES)
def test_a_judge_says_what_the_levels_of_the_curves_say(experiment, part, levels, verdict):
    assert judged(experiment, part, levels) == verdict


def test_a_difference_with_a_wide_interval_cannot_be_told():
    levels = {"laplace/itl-loss-0.01": 0.52, "laplace/vtl-loss-0.01": 0.52}
    assert judged("nn-laplace", "brings nothing", levels, spread=0.02) == OPEN


@pytest.mark.parametrize(("itl", "verdict"), [(0.9, HOLDS), (0.6, OPEN), (0.5, FAILS)])
def test_twice_the_rate_is_more_than_two_times_the_share(itl, verdict):
    said = judged("nn-cifar100", "twice the rate", {}, share={"itl": itl, "cosine": 0.3}.items())
    assert said == verdict


def test_curves_that_know_one_class_are_no_evidence():
    of_vtl = ("vtl-loss-0.01", "laplace/vtl-loss-0.01")
    both = (*of_vtl, "itl-loss-0.01", "laplace/itl-loss-0.01")
    better = {"laplace/vtl-loss-0.01": 0.9}
    assert judged("nn-laplace", "brings nothing", better) == IN_PART
    assert judged("nn-laplace", "brings nothing", better, stuck=of_vtl[:1]) == HOLDS
    assert judged("nn-laplace", "brings nothing", {}, stuck=both) == OPEN


def test_rules_that_come_to_the_same_choice_count_once():
    alike = ("max-dist", "undirected-itl", "uncertainty")
    most = ("nn-undirected", "MNIST: most")
    assert judged(*most, dict.fromkeys(alike, 0.4)) == IN_PART  # one of five
    four = dict.fromkeys(("uncertainty", "max-dist", "bait", "margin", "max-entropy"), 0.4)
    assert judged(*most, four) == HOLDS  # four of five
    assert judged(*most, four, stuck=("margin", "max-entropy", "least-confidence")) == IN_PART
    assert judged(*most, {"badge": 0.4}) == OPEN  # it is Random
    beats = ("nn-mnist", "every baseline")
    won = {"itl": 0.6, "vtl": 0.6, "ctl": 0.55}
    assert judged(*beats, won) == HOLDS
    assert judged(*beats, {**won, "cosine": 0.9}) == IN_PART
    assert judged(*beats, {**won, "badge": 0.9}) == HOLDS


def test_rules_that_are_the_same_are_named_and_their_first_picks_agree():
    names = ("mnist/ctl", "mnist/cosine", "mnist/badge", "mnist/random")
    picks = {"mnist/ctl": [1, 2, 3], "mnist/cosine": [1, 2, 4]}
    runs = {
        (name, seed): Run(name, seed, 1, [0.5] * 3, [1, 2, 3], picks.get(name, [7, 8, 9]), {}, "")
        for name in names
        for seed in range(2)
    }
    curves = Curves.of(EXPERIMENTS["nn-mnist"], runs)
    of_cosine, of_badge = notes_for(curves)
    assert (
        "CTL and CosineSimilarity, on MNIST" in of_cosine and "first 2 to 2 picks are" in of_cosine
    )
    assert "Random and BADGE" in of_badge and "Of two" not in of_badge
    every = {one.name for experiment in EXPERIMENTS.values() for one in experiment.configurations}
    assert all(name in every for equality in EQUALITIES for name in equality.names)


def test_pairs_of_a_rule_with_itself_and_pairs_seen_before_are_repeats():
    pairs = [
        ("mnist/itl", "mnist/badge"),
        ("mnist/itl", "mnist/random"),
        ("mnist/vtl", "mnist/random"),
    ]
    assert repeats([*pairs, ("mnist/ctl", "mnist/cosine")]) == [
        ("mnist/itl", "mnist/badge"),
        ("mnist/ctl", "mnist/cosine"),
    ]


def test_rounds_without_an_image_of_the_task_are_counted():
    one = EXPERIMENTS["nn-mnist"].configurations[0]
    runs = {
        (one.name, seed): Run(one.name, seed, 1, [0.3] * 4, in_task, [0] * 4, {}, "CPU")
        for seed, in_task in enumerate(([0, 1, 1, 2], [1, 2, 3, 4]))
    }
    curves = Curves.of(EXPERIMENTS["nn-mnist"], runs)
    assert curves.idle(one.name) == 0.25 and not curves.is_stuck(one.name)


def test_figure_4_tells_the_end_too_but_not_of_curves_that_are_stuck():
    levels = {"itl": (0.9, 0.6), "cosine": (0.5, 0.7)}
    stuck = ("information-density",)
    judged_over_all, at_the_end = verdict_on(
        "nn-mnist", "beat Random", levels, stuck=stuck
    ).finding.split("at the end, not judged: ")
    assert "ITL 75.0 against CosineSimilarity 60.0" in judged_over_all
    assert "ITL 60.0 against CosineSimilarity 70.0" in at_the_end
    assert "InformationDensity" not in at_the_end
