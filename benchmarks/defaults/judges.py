"""What picks have taught: learners that see the labels of the picks and answer for unseen inputs.

All features have the pool's mean and scale taken out, so that rows have a squared norm of about 1.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

LOGISTIC = {"weak": 0.01, "strong": 1.0}  # L2 strengths on the summed loss
RIDGE = 0.1
STEPS = 150
NOISE = 0.01  # of the GP on standardised numbers
LENGTHSCALES = (0.5, 1.0, 2.0)  # in median distances; the likelihood of the picks chooses one


class Judge:
    """All methods at one number of picks, at once."""

    def __init__(self, problem, device: str) -> None:
        pool = torch.from_numpy(problem.pool).to(device, torch.float64)
        mean, spread = pool.mean(dim=0), pool.std(dim=0)
        scale = torch.where(spread > 0, spread, 1.0) * pool.shape[1] ** 0.5
        test = torch.from_numpy(problem.test).to(device, torch.float64)
        self.pool, self.test = ((rows - mean) / scale for rows in (pool, test))
        self.y, self.test_y = problem.pool_y, problem.test_y
        self.device = device

    def accuracies(self, picks: list[np.ndarray]) -> dict[str, list[float]]:
        """For each learner the share of right answers of each method, out of all classes seen."""
        classes = np.unique(np.concatenate([self.y, self.test_y]))
        rows = torch.from_numpy(np.stack(picks)).to(self.device)
        known = torch.from_numpy(np.searchsorted(classes, self.y)).to(self.device)[rows]
        truth = torch.from_numpy(np.searchsorted(classes, self.test_y)).to(self.device)
        hot = one_hot(known, len(classes)).double()
        unseen = torch.where(hot.sum(dim=1) > 0, 0.0, -torch.inf)[:, None]
        X, Z = with_one(self.pool[rows]), with_one(self.test)
        scores = {
            f"logistic, {name}": Z @ logistic(X.float(), known, unseen.float(), l2) + unseen
            for name, l2 in LOGISTIC.items()
        }
        scores["ridge"] = Z @ ridge(X, hot) + unseen
        nearest = torch.cdist(Z.expand(len(X), -1, -1), X).argmin(dim=2)
        guesses = {name: score.argmax(dim=2) for name, score in scores.items()}
        guesses["1-NN"] = known.gather(1, nearest)
        return {name: (g == truth).double().mean(dim=1).tolist() for name, g in guesses.items()}

    def errors(self, picks: list[np.ndarray]) -> dict[str, list[float]]:
        """For each learner the root mean squared error of each method, over the spread."""
        found: dict[str, list[float]] = {"GP": [], "ridge": []}
        y = torch.from_numpy(self.y).to(self.device, torch.float64)
        truth = torch.from_numpy(self.test_y).to(self.device, torch.float64)
        for rows in picks:
            rows = torch.from_numpy(rows).to(self.device)
            X, known = self.pool[rows], y[rows]
            mean, spread = known.mean(), known.std().clamp(min=1e-12)
            values = ((known - mean) / spread)[:, None]
            guesses = {
                "GP": gp(X, values, self.test),
                "ridge": with_one(self.test) @ ridge(with_one(X)[None], values[None])[0],
            }
            for name, guess in guesses.items():
                off = guess[:, 0] * spread + mean - truth
                found[name].append(float(off.square().mean().sqrt() / truth.std()))
        return found


def with_one(X: Tensor) -> Tensor:
    return torch.cat([X, X.new_ones(*X.shape[:-1], 1)], dim=-1)


def logistic(X: Tensor, y: Tensor, unseen: Tensor, l2: float) -> Tensor:
    """Logistic regressions, one for each method, by L-BFGS on the sum of their losses."""
    B, k, d = X.shape
    W = X.new_zeros(B, d, unseen.shape[2], requires_grad=True)
    search = torch.optim.LBFGS(
        [W], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-7
    )

    def loss() -> Tensor:
        search.zero_grad()
        logits = X @ W + unseen
        fault = cross_entropy(logits.reshape(B * k, -1), y.reshape(-1), reduction="sum")
        value = (fault + l2 / 2 * W[:, :-1].square().sum()) / k
        value.backward()
        return value

    search.step(loss)
    return W.detach().double()


def ridge(X: Tensor, y: Tensor) -> Tensor:
    """Least squares with an L2 penalty, through the picks' inner products."""
    K = X @ X.mT
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    return X.mT @ torch.linalg.solve(K + RIDGE * eye, y)


def gp(X: Tensor, y: Tensor, Z: Tensor) -> Tensor:
    """The posterior mean under a Gaussian kernel; its lengthscale by the picks' likelihood."""
    apart = torch.cdist(X, X)
    median = apart[apart > 0].median() if bool((apart > 0).any()) else apart.new_tensor(1.0)
    best, answer = -torch.inf, None
    for share in LENGTHSCALES:
        scale = share * median
        eye = torch.eye(len(X), dtype=X.dtype, device=X.device)
        L = torch.linalg.cholesky((-0.5 * (apart / scale).square()).exp() + NOISE * eye)
        solved = torch.cholesky_solve(y, L)
        fit = float(-0.5 * (y * solved).sum() - L.diagonal().log().sum())
        if fit > best:
            best = fit
            answer = (-0.5 * (torch.cdist(Z, X) / scale).square()).exp() @ solved
    return answer
