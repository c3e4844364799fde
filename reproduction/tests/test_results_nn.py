"""The script beside the network runs that tells what choosing costs."""

import torch
from scripts import load_script

from tellmost_reproduction.networks.problems import CIFAR, read_problem

timing = load_script("results/nn/timing.py")


def test_times_are_of_choosing_embedding_and_training():
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    timed = timing.time_everything(problem, None, repeats=1, counts=(20,))
    assert len(timed["selecting"]) == 12 and set(timed["training"]) == {"captured", "eager"}
    assert all(seconds > 0 for seconds in timed["selecting"].values())
    table = timing.tabulate_times(timed).splitlines()
    assert table[2].startswith("| choosing | ms | of captured, 20 images |") and len(table) == 17
