"""Does a million rows fit? Time and peak memory beyond the pool, each rule in its own process."""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import tellmost as tm
from setting import NOISE_STD, clustered, save

SIZE = {"n": 1_000_000, "d": 256, "m": 1_000, "k": 100}
SMOKE = {"n": 20_000, "d": 32, "m": 50, "k": 5}
RULES = ("itl", "vtl", "ctl")


def alone(rule: str, size: dict) -> dict:
    """What one process needs, beside the pool and the imports."""
    pool, targets = clustered(size["n"], size["d"], size["m"])
    options = {"kernel": "linear", "rule": rule}
    tm.select(pool[:1_000], targets[:10], 2, **options)  # imports and libraries are warm
    before = resident_mb()
    start = time.perf_counter()
    chosen = tm.select(pool, targets, size["k"], noise_std=NOISE_STD, **options)
    took = time.perf_counter() - start
    beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    return {
        "seconds": took,
        "beyond_pool_mb": beyond,
        "allowed_mb": 300 + 100 * size["n"] / 2**20,
        "uncertainty": chosen.uncertainty[[0, -1]].tolist(),
        "passes": chosen.settings["passes"],
    }


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(size: dict, rules: tuple[str, ...]) -> dict:
    rows = {}
    for rule in rules:
        command = [sys.executable, __file__, "--alone", rule, json.dumps(size)]
        rows[rule] = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
        print(rule, rows[rule])
    return {"size": size, "rules": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--alone", nargs=2, metavar=("RULE", "SIZE"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.alone:
        print(json.dumps(alone(options.alone[0], json.loads(options.alone[1]))))
    elif options.smoke:
        main(SMOKE, RULES[:1])
    else:
        save("million", main(SIZE, RULES))
