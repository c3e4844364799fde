"""The scripts beside the network runs: why rules get stuck, and what choosing costs."""

import torch
from scripts import load_script

from tellmost_reproduction.networks.configurations import smaller
from tellmost_reproduction.networks.problems import CIFAR, MNIST, read_problem
from tellmost_reproduction.networks.runs import Run

sticking, timing = (load_script(f"results/nn/{name}.py") for name in ("sticking", "timing"))


def test_after_one_image_gaps_and_picks_are_written_down_by_digit():
    problem = read_problem(MNIST, None, torch.device("cpu"), is_smoke=True)
    found = sticking.look_after_one_image(problem, problem.labels, candidates=100)
    least, most = found["gap_range"]
    medians = found["gap_medians"]
    assert found["digit"] == 0 and set(medians) == {"0", "1", "2", "3"}
    assert all(least < median < most for median in medians.values())
    assert set(found["picks"]) == {"G-ITL", "G-VTL", "G-CTL"}
    assert all(gain >= 0 for gain in found["picks"]["G-VTL"]["gains"])


def test_ties_to_the_first_epoch_are_tried_beside_the_stored_runs():
    problem = read_problem(MNIST, None, torch.device("cpu"), is_smoke=True)
    kept = Run("mnist/random", 0, 10, [0.5] * 4, [10, 20, 30, 40], [0] * 40, {}, "CPU")
    runs = {("mnist/random", 0): kept}
    found = sticking.try_first_ties(
        problem, ["mnist/random"], runs, seeds=2, rounds=3, change=smaller
    )
    tried = found["configurations"]["mnist/random"]
    assert len(tried["first"]["accuracy"]) == 2 and max(tried["first"]["task_labels"]) <= 3
    assert tried["last"] == {"task_labels": [30], "accuracy": [0.5]}
    heading, row = sticking.tabulate_ties(found)
    assert heading[0] == "after 3 labels, 2 seeds" and row[0] == "Random" and row[-1] == "50.0"


def test_times_are_of_choosing_embedding_and_training():
    problem = read_problem(CIFAR, None, torch.device("cpu"), is_smoke=True)
    timed = timing.time_everything(problem, None, repeats=1, counts=(20,))
    assert len(timed["selecting"]) == 12 and set(timed["training"]) == {"captured", "eager"}
    assert all(seconds > 0 for seconds in timed["selecting"].values())
    table = timing.tabulate_times(timed).splitlines()
    assert table[2].startswith("| choosing | ms | of captured, 20 images |") and len(table) == 17
