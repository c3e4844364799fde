"""The network experiments at smoke size, and what is made of runs, whole or cut off."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tellmost.finetune import Targeted
from tellmost.finetune.baselines import RandomChoice
from tellmost_reproduction.catalogue import CATALOGUE, Request
from tellmost_reproduction.networks.claims import CLAIMS, judge, unjudged
from tellmost_reproduction.networks.configurations import chosen, published, smaller
from tellmost_reproduction.networks.curves import Curves
from tellmost_reproduction.networks.experiments import EXPERIMENTS, jobs_in_order
from tellmost_reproduction.networks.page import PAPER, numbers_of, table_of_noise, write_page
from tellmost_reproduction.networks.problems import CIFAR, PUBLISHED, TASKS, read_problem
from tellmost_reproduction.networks.reproducing import is_near
from tellmost_reproduction.networks.runs import Bench, Run, append_run, read_runs, write_runs
from tellmost_reproduction.networks.scheduling import open_jobs

LEVELS = {"itl": 0.88, "vtl": 0.87, "ctl": 0.86, "random": 0.80, "cosine": 0.75}


def made_up(name, seed, *, rounds=20, batch=10):
    """A run that rises to its level, a little different for each seed."""
    level = LEVELS.get(name.rsplit("/", 1)[-1].split("-")[0], 0.78)
    noise = 0.002 * np.random.default_rng([seed, *name.encode()]).normal(size=rounds)
    accuracy = level * (1 - np.exp(-np.arange(1, rounds + 1) / 3)) + noise
    in_task = [int(level * batch * (i + 1)) for i in range(rounds)]
    return Run(name, seed, batch, accuracy.tolist(), in_task, [*range(rounds * batch)], {}, "CPU")


def made_up_runs(experiment, seeds=4):
    return {
        (one.name, seed): replace(
            made_up(one.name, seed),
            seconds=dict.fromkeys(("embedding", "selecting", "training"), 0.1),
        )
        for one in experiment.configurations
        for seed in range(seeds)
    }


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    return CATALOGUE["nn"].run(Request(folder, is_smoke=True, progress=False))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_network_experiment_runs_at_smoke_size_and_is_written_down(outcome, name):
    folder = next(path for path in outcome.written if path.name == name)
    page = (folder / "README.md").read_text()
    past = [one for one in EXPERIMENTS[name].configurations if one.is_past]
    assert "Smoke size" in page and "not run" not in page
    assert "## Trained as the paper's text says" in page
    assert ("| verdict |" in page) == (name != "nn-beyond")
    assert (folder / "figure.png").stat().st_size > 10_000
    rows = (folder / "seeds.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 2 * (len(EXPERIMENTS[name].configurations) - len(past))
    assert outcome.differences == () and EXPERIMENTS[name].title in outcome.text
    assert "8 x 8 digits stand in for both" in outcome.text


def test_a_name_stands_for_one_configuration():
    by_name = {}
    for one in (one for experiment in EXPERIMENTS.values() for one in experiment.configurations):
        assert by_name.setdefault(one.name, one).strategy == one.strategy
        assert replace(by_name[one.name], label=one.label) == one
    assert len([one for one in by_name.values() if not one.is_past]) == 111
    assert {one.name for one in by_name.values() if one.is_past} == {
        "cifar100/typiclust-in-turn",
        "mnist/typiclust-in-turn",
    }


def test_jobs_come_by_urgency_and_then_seed_by_seed():
    jobs = jobs_in_order(list(EXPERIMENTS.values()), 10)
    names = [(one.name, seed) for one, seed in jobs]
    assert len(set(names)) == len(names) == 2220
    figure4 = EXPERIMENTS["nn-cifar100"].configurations
    assert names[:7] == [(published(one).name, 0) for one in figure4]
    assert names[7:14] == [(one.name, 0) for one in figure4]
    first_of_mnist = next(i for i, (name, _) in enumerate(names) if name.startswith("mnist"))
    rho = EXPERIMENTS["nn-rho"].configurations
    both = {name for one in (*rho, *figure4) for name in (one.name, published(one).name)}
    assert {name for name, _ in names[:first_of_mnist]} == both
    seeds = [seed for name, seed in names[first_of_mnist:] if name == "mnist/itl"]
    assert seeds == list(range(10))
    assert not [name for name, _ in names if "typiclust-in-turn" in name]


@pytest.mark.parametrize("dataset", [*TASKS, *PUBLISHED.values()])
def test_a_run_repeats_itself_and_a_bench_forgets_the_one_before(dataset):
    problem = read_problem(dataset, None, torch.device("cpu"), is_smoke=True)
    names = [one for one in TASKS if dataset in (one, PUBLISHED[one])]
    itl, random = map(smaller, chosen(names[0], "itl", "random"))
    bench = Bench(problem, capacity=30)
    first, _, again = (bench.run(one, 1, 3) for one in (itl, random, itl))
    assert again.picks == first.picks and again.accuracy == first.accuracy
    assert len(first.accuracy) == 3 and len(first.picks) == 3 * itl.batch
    labels = problem.labels[first.picks]
    assert first.in_task[-1] == (labels < problem.classes).sum()
    assert first.share[-1] == pytest.approx((labels < problem.classes).mean())


def test_the_targets_alone_end_when_all_of_them_are_chosen():
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    line = next(one for one in EXPERIMENTS["nn-inside"].configurations if one.pool == "targets")
    run = Bench(problem, capacity=100).run(smaller(line), 0, 100)
    assert len(run.accuracy) == 2 and run.in_task == [10, 20] and len(set(run.picks)) == 20


def test_runs_are_kept_and_none_is_started_twice(tmp_path):
    path = tmp_path / "runs.jsonl"
    experiment = EXPERIMENTS["nn-cifar100"]
    for name, seed in (("cifar100/itl", 0), ("cifar100/vtl", 1)):
        append_run(made_up(name, seed), path)
    left = {(one.name, seed) for one, seed in open_jobs([experiment], 2, [path], 20)}
    assert len(left) == 26 and ("cifar100/itl", 0) not in left and ("cifar100/itl", 1) in left
    assert len(open_jobs([experiment], 2, [path], 100)) == 28  # those are too short
    write_runs(read_runs([path]).values(), tmp_path / "kept.jsonl.gz")
    append_run(made_up("cifar100/itl", 0, rounds=30), path)
    merged = read_runs([tmp_path / "kept.jsonl.gz", path])
    assert len(merged) == 2 and len(merged["cifar100/itl", 0].accuracy) == 30


def test_a_file_with_half_a_run_is_refused_by_its_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(made_up("cifar100/itl", 0).to_dict()) + '\n{"configuration": "ci')
    with pytest.raises(ValueError, match="line 2 is none"):
        read_runs([path])


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_claims_are_judged_by_the_curves_alone(name):
    curves = Curves.of(EXPERIMENTS[name], made_up_runs(EXPERIMENTS[name]))
    assert len(judge(curves)) == len(CLAIMS[name]) and unjudged(curves) == []
    numbers = numbers_of(curves)
    assert set(numbers.methods) == {one.name for one in EXPERIMENTS[name].configurations}
    none = Curves.of(EXPERIMENTS[name], {})
    assert judge(none) == [] and len(unjudged(none)) == len(CLAIMS[name])


def test_runs_as_published_are_judged_and_those_of_the_text_stand_beside_them():
    experiment = EXPERIMENTS["nn-embeddings"]
    runs = made_up_runs(experiment)
    for (name, seed), run in list(runs.items()):
        if name.startswith("cifar100/"):
            other = name.replace("cifar100", "cifar100-head", 1)
            runs[other, seed] = replace(run, configuration=other, accuracy=[0.5] * 20)
    judged, beside = Curves.of(experiment, runs), Curves.beside(experiment, runs)
    assert judged.trained == {"cifar100": "cifar100-head", "mnist": "mnist"}
    assert judged.last("accuracy", "cifar100/itl").value == 0.5
    assert beside.last("accuracy", "cifar100/itl").value > 0.8 and beside.trained == {
        "cifar100": "cifar100"
    }
    assert not beside.of_name("mnist/itl") and judged.of_name("mnist/itl")
    numbers = numbers_of(judged, beside).methods
    assert {"cifar100-head/itl", "cifar100/itl", "mnist/itl"} <= set(numbers)


def test_few_published_runs_do_not_judge_an_experiment():
    experiment = EXPERIMENTS["nn-laplace"]
    runs = made_up_runs(experiment)
    for (name, seed), run in list(runs.items()):
        other = name.replace("mnist", "mnist-float32", 1)
        if name == "mnist/random":
            runs[other, seed] = replace(run, configuration=other)
    assert Curves.of(experiment, runs).trained == {"mnist": "mnist"}
    assert not Curves.beside(experiment, runs).runs
    whole = runs | {(f"mnist-float32{n[5:]}", s): run for (n, s), run in runs.items()}
    assert Curves.of(experiment, whole).trained == {"mnist": "mnist-float32"}


def test_verdicts_follow_the_levels_of_made_up_curves():
    curves = Curves.of(EXPERIMENTS["nn-cifar100"], made_up_runs(EXPERIMENTS["nn-cifar100"]))
    said = {verdict.claim: verdict for verdict in judge(curves)}
    beats = next(v for claim, v in said.items() if "every baseline" in claim)
    twice = next(v for claim, v in said.items() if "twice the rate" in claim)
    assert beats.holds == "holds" and "12 of 12" in beats.finding
    assert twice.holds == "does not hold" and "ITL 1.17" in twice.finding


def test_the_table_of_noise_has_the_papers_numbers_beside_ours():
    runs = made_up_runs(EXPERIMENTS["nn-rho"])
    missing = ("cifar100/itl-loss-0.01", 0)
    some = {key: run for key, run in runs.items() if key[0] != missing[0]}
    curves = Curves.of(EXPERIMENTS["nn-rho"], some)
    cells = table_of_noise(curves)
    assert [row[0] for row in cells[1:]] == list(PAPER)
    rows = {row[0]: row[1:] for row in cells}
    assert rows["G-ITL"][1] == "not run (*79.1 ± 1.2*)"
    ours = f"{100 * curves.last('accuracy', 'cifar100/itl').value:.1f} ± "
    assert rows["L-ITL"][2].startswith(ours) and rows["L-ITL"][2].endswith("(87.5 ± 0.3)")
    assert len(set(rows["L-CTL (top-b)"])) == 1


def test_means_agree_within_some_standard_errors():
    assert is_near(0.80, 0.81, 0.005) and not is_near(0.80, 0.83, 0.005)
    assert not is_near(0.80, 0.81, 0.0)


def test_strategies_are_those_of_the_paper():
    by_name = {one.name: one.strategy for one in EXPERIMENTS["nn-cifar100"].configurations}
    assert by_name["cifar100/itl"] == Targeted("itl-y", noise_std=1.0)
    assert by_name["cifar100/random"] == RandomChoice()


def test_a_page_says_which_curves_are_stuck_and_how_often_nothing_was_trained():
    runs = made_up_runs(EXPERIMENTS["nn-mnist"])
    for seed in range(4):
        key = ("mnist/information-density", seed)
        runs[key] = replace(runs[key], in_task=[1] * 20, picks=[seed] * 200)
    curves = Curves.of(EXPERIMENTS["nn-mnist"], runs)
    page = write_page(curves, judge(curves), Curves.beside(EXPERIMENTS["nn-mnist"], runs))
    assert "**Stuck.** InformationDensity: each of 4 runs bought 1 label of the task" in page
    assert "InformationDensity 95%" in page and "Random 0%" in page
