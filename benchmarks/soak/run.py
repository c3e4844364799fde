"""Does anything go wrong, get lost or get stuck, if random problems run for an hour?

A case is a kind and a seed, and the same case does the same again, apart from when a process is
killed. Each failure gets a small Python file that repeats it.
"""

import argparse
import os
import queue
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import broken
import dense
import numpy as np
import torch

KINDS = {
    "dense": dense.fuzz,
    "damage": broken.damage,
    "kill-select": broken.kill_select,
    "kill-safe": broken.kill_safe,
    "kill-study": broken.kill_study,
    "signal": broken.stop_command,
}
TURNS = [
    "dense",
    "dense",
    "damage",
    *["dense", *KINDS] * 2,
]  # an odd number, so that both of two processes have all kinds
FAILED = "FAILED"
STUCK = 180  # seconds: no case takes a tenth of it on an idle machine
SECONDS_BETWEEN_LINES = 30
ENDLESS = 10**12
SMOKE_SEED = 5  # its command is a copy of the process, which takes a second, not seven

REPRODUCTION = '''"""{about}
"""

import runpy
import sys

sys.argv = ["run.py", "--kind", "{kind}", "--seed", "{seed}"]
sys.path.insert(0, {folder!r})
runpy.run_path({script!r}, run_name="__main__")
'''


def run_case(kind, seed):
    """The counts of a case, what it drew, and its error."""
    torch.set_num_threads(1)  # a copy of a process has none of its other threads
    signal.signal(signal.SIGALRM, raise_stuck)
    signal.alarm(STUCK)
    counts, note, error = Counter(), {}, None
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counts = KINDS[kind](np.random.default_rng(seed), Path(folder), note)
    except (Exception, MemoryError):
        error = traceback.format_exc()
    signal.alarm(0)
    return counts, note, error


def raise_stuck(*_):
    raise RuntimeError(f"the case was not done after {STUCK} seconds")


def work(seeds, turns, deadline, results):
    """Run cases until the deadline."""
    for seed in seeds:
        if time.time() > deadline:
            return
        kind = turns[seed % len(turns)]
        results.put((kind, seed, *run_case(kind, seed)))


def soak(seed, cases, turns, seconds, folder):
    """Run cases on all processors, print counts as they come, and return them."""
    results, deadline, workers = broken.FORK.Queue(), time.time() + seconds, []
    for first in range(seed, seed + os.cpu_count()):
        share = range(first, seed + cases, os.cpu_count())
        workers.append(broken.FORK.Process(target=work, args=(share, turns, deadline, results)))
        workers[-1].start()
    counts, printed = Counter(), time.time()
    while any(worker.is_alive() for worker in workers) or not results.empty():
        try:
            kind, own, found, note, error = results.get(timeout=1)
        except queue.Empty:
            continue
        counts += Counter({f"{kind} {what}": found[what] for what in found})
        counts += Counter({f"{kind} cases": 1, f"{kind} {FAILED}": error is not None})
        if error is not None:
            write_reproduction(folder, kind, own, note, error)
        if time.time() > printed + SECONDS_BETWEEN_LINES:
            printed = time.time()
            print(in_words(counts), flush=True)
    return counts + Counter({f"processes {FAILED}": sum(w.exitcode != 0 for w in workers)})


def write_reproduction(folder, kind, seed, note, error):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}-{seed}.py"
    drawn = "\n".join(f"{name} = {value!r}" for name, value in note.items())
    about = f"{error}\n{drawn}".replace("\\", "/")
    script = os.path.abspath(__file__)
    folder = os.path.dirname(script)
    path.write_text(
        REPRODUCTION.format(about=about, kind=kind, seed=seed, script=script, folder=folder)
    )
    print(f"{path}: {error.strip().splitlines()[-1][:300]}", flush=True)


def in_words(counts):
    return ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path("soak-failures"))
    parser.add_argument("--kind", choices=KINDS, help="run only one case, of this kind")
    parser.add_argument("--seed", type=int, help="of the first case; by default the clock says it")
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    given = parser.parse_args()
    clock = SMOKE_SEED if given.smoke else int(time.time())
    seed = clock if given.seed is None else given.seed
    if given.kind is not None:
        counts, note, error = run_case(given.kind, seed)
        print(note, error or in_words(counts), sep="\n")
        sys.exit(error is not None)
    print(f"seed {seed}; failures go to {given.out}", flush=True)
    cases, turns = (len(KINDS), list(KINDS)) if given.smoke else (ENDLESS, TURNS)
    counts = soak(seed, cases, turns, 60 * given.minutes, given.out)
    print(f"done: {in_words(counts)}")
    sys.exit(any(FAILED in name for name in counts))


if __name__ == "__main__":
    main()
