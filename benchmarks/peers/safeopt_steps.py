"""Let SafeOpt's heuristic mode choose step by step, and print its sets as one JSON line.

Reads a problem as JSON from stdin: ``grid``, the ``values`` of both functions there, the rows of
``start``, the ``noise`` of each observation in turn, ``prior_stds``, ``lengthscales``,
``noise_std`` and ``beta``. Runs in safeopt's own environment; see README.md beside this file.
"""

import json
import sys
from importlib.metadata import version

from safeopt_peer import GPy, np, safeopt  # brings the shims


def make_optimizer(problem: dict, X: np.ndarray, y: np.ndarray) -> safeopt.SafeOpt:
    """Zero-mean Gaussian kernels; a limit of 0 for the second function alone."""
    gps = [
        GPy.models.GPRegression(
            X,
            y[:, [i]],
            GPy.kern.RBF(X.shape[1], variance=std**2, lengthscale=lengthscale),
            noise_var=problem["noise_std"] ** 2,
        )
        for i, (std, lengthscale) in enumerate(
            zip(problem["prior_stds"], problem["lengthscales"], strict=True)
        )
    ]
    return safeopt.SafeOpt(
        gps,
        np.array(problem["grid"]),
        fmin=[-np.inf, 0.0],
        lipschitz=None,
        beta=problem["beta"],
        threshold=0,
    )


def take_step(optimizer: safeopt.SafeOpt) -> dict:
    """The choice, and the sets behind it; ``expanders`` are all, beyond the one it stops at."""
    x = optimizer.optimize()
    row = int(np.flatnonzero((optimizer.inputs == x).all(axis=1))[0])
    found = {"row": row, "first_expander": np.flatnonzero(optimizer.G).tolist()}
    optimizer.compute_sets(full_sets=True)
    sets = {"safe": optimizer.S, "maximizers": optimizer.M, "expanders": optimizer.G}
    rows = {name: np.flatnonzero(mask).tolist() for name, mask in sets.items()}
    return {**found, **rows, "bounds": optimizer.Q.T.tolist()}


def main() -> None:
    problem = json.load(sys.stdin)
    grid, values, noise = (np.array(problem[name]) for name in ("grid", "values", "noise"))
    start = problem["start"]
    optimizer = make_optimizer(problem, grid[start], values[start] + noise[: len(start)])
    steps = []
    for after in noise[len(start) :]:
        steps.append(take_step(optimizer))
        row = steps[-1]["row"]
        optimizer.add_new_data_point(grid[row], values[row] + after)
    print(json.dumps({"version": version("safeopt"), "steps": steps}))


if __name__ == "__main__":
    main()
