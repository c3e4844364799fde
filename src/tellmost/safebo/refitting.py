"""Hyper-parameters of the priors from what was told, only when asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellmost.kernels.written import is_written, read_kernel
from tellmost.posterior.gp import GP
from tellmost.safebo.outputs import Output
from tellmost.safebo.telling import value_of
from tellmost.safebo.trials import Trial
from tellmost.shapes import Float


@dataclass(frozen=True)
class Refit:
    """New priors of some outputs, by their first names, and after how many trials."""

    trials: int
    priors: Mapping[str, GP]

    def state(self) -> dict[str, Any]:
        """As plain values; a mean that is a function stays that of the old prior."""
        for name, gp in self.priors.items():
            if not is_written(gp.kernel):
                raise ValueError(
                    f"the kernel to which {name!r} was fitted again cannot be written down: "
                    f"{gp.kernel!r}. Keep history, or use kernels of tm.kernels."
                )
        return {
            "trials": self.trials,
            "priors": {
                name: {"kernel": repr(gp.kernel), "noise_std": gp.noise_std}
                for name, gp in self.priors.items()
            },
        }

    @classmethod
    def read(cls, state: Mapping[str, Any], outputs: Sequence[Output]) -> "Refit":
        old = {output.names[0]: output.gp for output in outputs}
        return cls(
            state["trials"],
            {
                name: replace(
                    old[name], kernel=read_kernel(prior["kernel"]), noise_std=prior["noise_std"]
                )
                for name, prior in state["priors"].items()
            },
        )


def fit_again(output: Output, trials: Sequence[Trial]) -> GP:
    """The prior under which all values of an output are most likely, with the same mean.

    Noise never shrinks: where the fit finds less than was stated, the stated one is kept and the
    rest is fitted beside it, since too little noise makes bounds too narrow to be safe.
    """
    X, y = observations_of(output, trials)
    gp = output.gp
    found = GP.fit(X, y, gp.kernel, mean=gp.mean)
    if found.noise_std < gp.noise_std:
        found = GP.fit(X, y, gp.kernel, mean=gp.mean, noise_std=gp.noise_std)
    return replace(gp, kernel=found.kernel, noise_std=found.noise_std)


def observations_of(
    output: Output, trials: Sequence[Trial]
) -> tuple[Float[np.ndarray, "t d"], Float[np.ndarray, " t"]]:
    """All inputs and values, those that the prior brought along first."""
    inputs, values = [], []
    if output.gp.data is not None:
        inputs, values = list(output.gp.data.points.numpy()), output.gp.data.y.tolist()
    for trial in trials:
        value = value_of(output, trial.values)
        if value is not None:
            inputs.append(trial.x)
            values.append(value)
    if not values:
        raise ValueError(f"nothing was told of {output.names[0]!r} yet, so nothing can be fitted.")
    return np.array(inputs), np.array(values)


def describe_refit(old: GP, new: GP, name: str) -> str:
    kept = " (noise kept: the fit found less)" if new.noise_std == old.noise_std else ""
    return f"{name}: {old} -> {new}{kept}"
