"""How fast, and how good, are the picks beside those of other libraries?

Each peer runs in an environment of its own (see peers/README.md), on the same problem, in the same
run. ``--peers DIR`` names the folder that holds the environments activeft, submodlib and bmdal.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

import tellmost as tm
from setting import NOISE_STD, clustered, save, seconds

SIZE = {"n": 10_000, "d": 256, "m": 100}
K = 100
TRIES = 2  # of each peer; the faster one counts
OURS = ("itl", "itl-y", "vtl", "ctl", "undirected-itl")
PEERS = (  # environment, script, mode, most rows, picks to time (None: all k)
    ("activeft", "activeft_peer.py", "exact-itl", 10_000, 4),
    ("activeft", "activeft_peer.py", "exact-vtl", 10_000, 4),
    ("activeft", "activeft_peer.py", "exact-ctl", 10_000, 4),
    ("activeft", "activeft_peer.py", "default-itl", 10_000, None),
    ("activeft", "activeft_peer.py", "default-vtl", 10_000, None),
    ("submodlib", "submodlib_peer.py", "logdetmi", 2_000, None),
    ("submodlib", "submodlib_peer.py", "logdetmi", 10_000, None),
    ("bmdal", "bmdal_peer.py", "bait", 10_000, None),
    ("bmdal", "bmdal_peer.py", "maxdet", 10_000, None),
)


def measure_ours(pool: torch.Tensor, targets: torch.Tensor, rule: str) -> dict:
    def run() -> tm.Selection:
        return tm.select(pool, targets, K, rule=rule, noise_std=NOISE_STD, kernel="linear")

    took = seconds(run, 5)
    left = float(run().uncertainty[-1])
    return {
        "library": "tellmost",
        "mode": rule,
        "n": len(pool),
        "seconds": took["median"],
        "least": took["least"],
        "per_pick": took["median"] / K,
        "left": left,
    }


def typical(rounds: list[dict]) -> dict:
    """The median of our rounds; a peer gets the faster of its tries: ratios on the safe side."""
    medians = [row["seconds"] for row in rounds]
    took = statistics.median(medians)
    return {**rounds[-1], "seconds": took, "per_pick": took / K, "medians": medians}


def measure_peer(folder: Path, peer: tuple, pool: torch.Tensor, targets: torch.Tensor) -> dict:
    environment, script, mode, most, picks = peer
    pool = pool[:most]
    with tempfile.TemporaryDirectory() as scratch:
        problem = Path(scratch) / "problem.npz"
        np.savez(problem, pool=pool.numpy(), targets=targets.numpy())
        command = [
            str(folder / environment / "bin" / "python"),
            str(Path(__file__).parent / "peers" / script),
            *("--problem", str(problem), "--k", str(K), "--noise-std", str(NOISE_STD)),
            *("--mode", mode),
            *(("--picks", str(picks)) if picks else ()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().splitlines()
        return {"library": environment, "mode": mode, "n": most, "failed": why[-1] if why else ""}
    row = json.loads(done.stdout.strip().splitlines()[-1])
    whole = (
        row["seconds"]
        if picks is None
        else (row["setup_seconds"] + row["first_call_seconds"] + (K - 1) * row["seconds_per_pick"])
    )
    return {
        "library": environment,
        "version": row["version"],
        "mode": mode,
        "n": most,
        "seconds": whole,
        "per_pick": row["seconds_per_pick"],
        "is_extrapolated": picks is not None,
        "peak_rss_mb": row["peak_rss_mb"],
        "distinct": len(set(row["indices"])),
        "left": left_after(pool, targets, row["indices"]) if picks is None else None,
    }


def left_after(pool: torch.Tensor, targets: torch.Tensor, indices: list[int]) -> float:
    """Mean target variance once the picks are observed, repeats included."""
    chosen = tm.select(
        pool, targets, 1, noise_std=NOISE_STD, observed=indices, replace=True, kernel="linear"
    )
    return float(chosen.uncertainty[0])


def times_faster(rows: list[dict]) -> dict[str, float]:
    """How many times faster we are; exact modes per pick, the others in all."""
    ours = {row["mode"]: row for row in rows if row["library"] == "tellmost"}
    ratios = {}
    for row in rows:
        if row["library"] == "tellmost" or "failed" in row or row["n"] != SIZE["n"]:
            continue
        rule = {"logdetmi": "itl-y", "bait": "undirected-itl", "maxdet": "undirected-itl"}.get(
            row["mode"], row["mode"].split("-")[-1]
        )
        key = "per_pick" if row["mode"].startswith("exact") else "seconds"
        ratios[f"{row['library']} {row['mode']}"] = row[key] / ours[rule][key]
    return ratios


def main(folder: Path) -> dict:
    pool, targets = clustered(**SIZE)
    rounds = [[measure_ours(pool, targets, rule) for rule in OURS]]
    peers = []
    for peer in PEERS:
        tries = [measure_peer(folder, peer, pool, targets) for _ in range(TRIES)]
        peers.append(min(tries, key=lambda row: row.get("seconds", 0.0)))
        rounds.append([measure_ours(pool, targets, rule) for rule in OURS])
        print(peers[-1], flush=True)
    rows = [typical([row[i] for row in rounds]) for i in range(len(OURS))] + peers
    ratios = times_faster(rows)
    for name, ratio in ratios.items():
        print(f"{name:>24}: {ratio:9.1f} times our time")
    return {
        "size": {**SIZE, "k": K},
        "noise_std": NOISE_STD,
        "rows": rows,
        "times_faster": ratios,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, required=True)
    warnings.simplefilter("ignore", UserWarning)
    save("peers", main(parser.parse_args().peers))
