"""What would the Gaussian-process experiments cost with a dense posterior in every round?

Both in one run: all picks by ``select``, and single rounds by the joint covariance of S and A,
conditioned anew on everything observed, after several numbers of observations. What lies between
these is interpolated: a dense run of all rounds is an estimate, and called so. In each dense round
the pick is compared with the one that ``select`` made there.
"""

import argparse
import time

import numpy as np

from setting import save
from tellmost_reproduction.gp.curves import pick
from tellmost_reproduction.gp.dense import DensePrior, pick_from
from tellmost_reproduction.gp.methods import methods_for
from tellmost_reproduction.gp.settings import FULL, SMOKE, Setting, Size, settings

TIMED = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0)  # of all rounds: when a dense one is timed


def time_dense(setting: Setting, rule: object, picks: np.ndarray) -> dict:
    """Seconds of single rounds, of all by interpolation, and how many picks were the same."""
    last = len(picks) - 1
    counts = sorted({round(share * last) for share in TIMED})
    started = time.perf_counter()
    prior = DensePrior.of(setting, rule)
    setup = time.perf_counter() - started
    first, seconds, same = None, [], 0
    for count in counts:
        started = time.perf_counter()
        row, gain = pick_from(prior, rule, picks[:count].tolist(), first)
        seconds.append(time.perf_counter() - started)
        first = gain if first is None else first
        same += int(row == picks[count])
    every = np.interp(np.arange(len(picks)), counts, seconds)
    return {
        "observations": counts,
        "round_seconds": seconds,
        "estimated_seconds": setup + float(every.sum()),
        "same_picks": same,
    }


def time_methods(setting: Setting, size: Size) -> dict:
    rows = {}
    for method in methods_for(setting):
        if method.is_random:
            continue
        pick(setting, method.rule, 2)  # libraries are warm
        started = time.perf_counter()
        picks = pick(setting, method.rule, size.rounds)
        took = time.perf_counter() - started
        rows[method.key] = {"seconds": took, "dense": time_dense(setting, method.rule, picks)}
        report(setting.name, method.key, rows[method.key])
    return rows


def report(setting: str, method: str, row: dict) -> None:
    dense = row["dense"]
    same = dense["same_picks"] == len(dense["observations"])
    print(
        f"{setting:26}{method:20}{row['seconds']:8.2f} s, dense about "
        f"{dense['estimated_seconds']:8.1f} s, {'same picks' if same else 'OTHER PICKS'}"
    )


def main(size: Size) -> dict:
    return {
        "rounds": size.rounds,
        "settings": {name: time_methods(s, size) for name, s in settings(size.side).items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    options = parser.parse_args()
    if options.smoke:
        main(SMOKE)
    else:
        save("dense_rounds", main(FULL))
