"""How far is a selection from the time it takes to read the pool?

The limit is k plain float32 products of two columns with the pool, ``V @ X.T``, in the same run;
below that, the time that merely reading the pool takes.
"""

import argparse
import warnings

import torch

import tellmost as tm
from setting import NOISE_STD, clustered, save, seconds

RULES = ("itl", "vtl", "ctl", "undirected-itl", "mm-itl")


def measure(n: int, d: int, m: int, k: int, repeats: int) -> dict:
    pool, targets = clustered(n, d, m)
    columns = torch.randn(2, d)
    product = seconds(lambda: columns @ pool.T, 10 * repeats)
    reading = seconds(lambda: pool.sum(), 10 * repeats)
    rows = {}
    for rule in RULES:
        took = seconds(lambda rule=rule: run(pool, targets, k, rule), repeats)
        rows[rule] = {**took, "over_limit": took["median"] / (k * product["median"])}
        print(f"{rule:>15}: {took['median']:.2f} s, {rows[rule]['over_limit']:.2f} of the limit")
    return {
        "size": {"n": n, "d": d, "m": m, "k": k},
        "two_column_product": product,
        "reading_once": reading,
        "rules": rows,
    }


def run(pool: torch.Tensor, targets: torch.Tensor, k: int, rule: str) -> tm.Selection:
    return tm.select(pool, targets, k, kernel="linear", rule=rule, noise_std=NOISE_STD)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    warnings.simplefilter("ignore", UserWarning)
    if parser.parse_args().smoke:
        print(measure(2_000, 32, 10, 5, 1))
    else:
        save("limit", measure(100_000, 768, 100, 100, 3))
