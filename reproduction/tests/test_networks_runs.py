"""Runs that are scheduled, kept and published; what cannot be kept is refused before."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tellmost_reproduction.networks.configurations import STANDARD
from tellmost_reproduction.networks.problems import CIFAR, MNIST, read_problem
from tellmost_reproduction.networks.reproducing import count_runs, publish
from tellmost_reproduction.networks.runs import (
    Run,
    append_run,
    check_runs,
    read_runs,
    split,
    write_runs,
)
from tellmost_reproduction.networks.scheduling import main as schedule

MARKS = ("runs", "equalities", "rho")


def made_up(name, seed, *, rounds=4, level=0.5, **more):
    """A flat curve, a little different for each seed."""
    accuracy = (level + 0.001 * seed + np.zeros(rounds)).tolist()
    in_task, picks = [10 * (i + 1) for i in range(rounds)], [*range(10 * rounds)]
    seconds = dict.fromkeys(("embedding", "selecting", "training"), 0.1)
    return Run(name, seed, 10, accuracy, in_task, picks, seconds, "CPU", **more)


def repository_in(folder):
    """With the document that is written into, and nothing else."""
    (folder / "docs").mkdir()
    (folder / "reproduction/src/tellmost_reproduction/networks").mkdir(parents=True)
    text = "".join(f"<!-- {mark} -->\n<!-- end of {mark} -->\n" for mark in MARKS)
    (folder / "docs" / "network-experiments.md").write_text(text)
    return folder


def runs_in(path, runs):
    for run in runs:
        append_run(run, path)
    return path


def kept_in(repository):
    return read_runs([repository / "results" / "nn" / "runs.jsonl.gz"])


def test_publishing_merges_runs_and_writes_all_of_it_into_the_repository_given(tmp_path):
    repository = repository_in(tmp_path)
    names = ("cifar100/inside/itl", "cifar100/inside/random")
    first = [made_up(name, seed) for name in names for seed in range(2)]
    publish(repository, [runs_in(tmp_path / "first.jsonl", first)])
    more = [made_up("cifar100/inside/itl", 2), replace(first[0], accuracy=[0.9] * 4)]
    publish(repository, [runs_in(tmp_path / "more.jsonl", more)])
    kept = kept_in(repository)
    assert len(kept) == 5 and kept["cifar100/inside/itl", 0].accuracy == [0.9] * 4
    folder = repository / "results" / "nn-inside"
    expected = (
        repository / "reproduction/src/tellmost_reproduction/networks/expected/nn-inside.json"
    )
    assert (folder / "expected.json").resolve() == expected.resolve()
    ends = json.loads(expected.read_text())["methods"]["cifar100/inside/itl"]["accuracy"]["mean"]
    assert ends[-1] == pytest.approx(np.mean([0.9, 0.501, 0.502]))
    assert "| ITL | 3 |" in (folder / "README.md").read_text()
    answer = (repository / "docs" / "does-the-paper-hold.md").read_text()
    assert "| Choosing from S adds" not in answer and "## Claims of the appendix" in answer
    page = (repository / "docs" / "network-experiments.md").read_text()
    assert "There are 5 runs (5 of 4 rounds)" in page and "| Random and BADGE, on" in page


REFUSED = [
    (made_up("cifar100/itl", 1, is_smoke=True), "cifar100/itl, seed 1, is a smoke run"),
    (made_up("cifar100/itl", 1, rounds=3), "cifar100/itl, seed 1, has 3 rounds and .*seed 0, 4"),
    (
        made_up("cifar100/vtl", 1, images=7),
        "cifar100/itl, seed 0, is of 9 and cifar100/vtl, seed 1, of 7",
    ),
]


@pytest.mark.parametrize(("run", "message"), REFUSED)
def test_a_run_that_cannot_stand_beside_the_others_is_refused_before_a_file_is_written(
    run, message, tmp_path
):
    kept = tmp_path / "results" / "nn" / "runs.jsonl.gz"
    kept.parent.mkdir(parents=True)
    write_runs([made_up("cifar100/itl", 0, images=9)], kept)
    before = kept.read_bytes()
    new = runs_in(tmp_path / "new.jsonl", [run])
    with pytest.raises(ValueError, match=message):
        publish(tmp_path, [new])
    assert kept.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [new, tmp_path / "results"]
    assert [*kept.parent.parent.rglob("*")] == [kept.parent, kept]


def test_a_folder_that_is_no_checkout_is_told_before_a_file_is_written(tmp_path):
    path = runs_in(tmp_path / "runs.jsonl", [made_up("cifar100/itl", 0)])
    with pytest.raises(FileNotFoundError, match="--repository must be a checkout"):
        publish(tmp_path, [path])
    assert [*tmp_path.iterdir()] == [path]


def test_runs_of_other_configurations_may_have_another_length():
    check_runs([made_up("cifar100/itl", 0), made_up("cifar100/inside-all", 0, rounds=2)])


def test_runs_are_counted_by_length_and_by_what_is_to_be_run():
    runs = [made_up("cifar100/itl", 0), made_up("mnist/typiclust-in-turn", 3, rounds=2)]
    said = count_runs({(run.configuration, run.seed): run for run in runs})
    assert said.startswith("There are 2 runs (1 of 4 rounds, 1 of 2 rounds). 1 are of the 2,220 ")
    assert said.endswith("and 1 are of TypiClust as it was.")


@pytest.mark.process
def test_a_schedule_at_smoke_size_marks_its_runs_and_goes_on_where_it_ended(tmp_path, capsys):
    out = tmp_path / "runs.jsonl"
    real = runs_in(tmp_path / "real.jsonl", [made_up("mnist/itl", 0, rounds=9)])
    flags = ["--smoke", "--seeds", "1", "--rounds", "1", "--only", "nn-laplace", "--dataset"]
    flags += ["mnist", "--out", str(out), "--have", str(real)]
    assert schedule(flags) == 0 and "8 x 8 digits" in capsys.readouterr().err
    runs = read_runs([out])
    assert len(runs) == 5 and all(run.is_smoke and run.images < 2_000 for run in runs.values())
    assert schedule(flags) == 0 and "nothing left to run" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "0"], "--workers must be 1 or more"),
        (["--device", "cuda"], "--device cuda needs a GPU"),
    ],
)
def test_a_schedule_that_cannot_run_says_so_at_once(flags, message, tmp_path):
    if "cuda" in flags and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message):
        schedule(["--out", str(tmp_path / "runs.jsonl"), "--smoke", *flags])


def test_old_runs_without_marks_are_read(tmp_path):
    old = made_up("mnist/itl", 0).to_dict()
    del old["is_smoke"], old["images"]
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(old) + "\n").encode()))
    (run,) = read_runs([path]).values()
    assert not run.is_smoke and run.images is None


@pytest.mark.parametrize("name", [CIFAR, MNIST])
def test_the_pool_is_apart_from_targets_and_validation(name):
    problem = read_problem(name, None, torch.device("cpu"), is_smoke=True)
    one = replace(STANDARD[name], targets=20)
    parts, again = (split(problem, one, 3) for _ in range(2))
    assert len(parts.targets) == 20 and problem.is_in_task[parts.targets].all()
    assert not np.intersect1d(parts.pool, parts.targets).size
    assert not np.intersect1d(parts.pool, problem.validation).size
    assert len(parts.pool) + 20 + len(problem.validation) == len(problem.labels)
    assert (parts.targets == again.targets).all()
    assert (split(problem, one, 4).targets != parts.targets).any()
    inside = split(problem, replace(one, pool="inside"), 3)
    assert np.isin(parts.targets, inside.pool).all()


def test_a_scarce_pool_has_a_fifth_of_the_task_and_lopsided_targets_fewer_of_some_classes():
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    one = replace(STANDARD[CIFAR], targets=100)
    full = split(problem, one, 0)
    scarce = split(problem, replace(one, pool="scarce"), 0)
    kept = problem.is_in_task[scarce.pool].sum() / problem.is_in_task[full.pool].sum()
    assert kept == pytest.approx(0.2, abs=0.01)
    assert (~problem.is_in_task[scarce.pool]).sum() == (~problem.is_in_task[full.pool]).sum()
    firsts = [
        np.mean([(problem.labels[split(problem, c, s).targets] < 2).mean() for s in range(5)])
        for c in (one, replace(one, is_lopsided=True))
    ]
    assert firsts[0] == pytest.approx(1 / 2, abs=0.08)
    assert firsts[1] == pytest.approx(1 / 3, abs=0.08)
