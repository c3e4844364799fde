r"""Running values over the rows, each with its start, its update and its fresh form.

Row j is observed with :math:`u = \Sigma\phi_j` and :math:`s = \phi_j^\top u + \rho_j^2`. Each
value names the vector whose product with the rows it needs; the tracker makes one pass for all.
``vectors`` are those of several rows before any of them is observed, and ``carry`` brings a
product with one of them, of features phi, up to date after an observation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tellmost.numerics import nonnegative
from tellmost.posterior.nearness import RunningNearness
from tellmost.posterior.problem import Problem, TargetSummary, standardizing_weights
from tellmost.posterior.weight_space import Start, Step, WeightPosterior, symmetric_root
from tellmost.shapes import Float


@dataclass(frozen=True)
class Taken:
    """An observation: its vectors, all rows' products with them, the scale of each update."""

    columns: Mapping[str, Float[Tensor, " n"]]
    vectors: Mapping[str, Float[Tensor, " d"]]
    scales: Mapping[str, float]


class RunningVariance:
    r"""The variance given D: :math:`v \leftarrow v - c^2 / s`, with the column :math:`c = \Phi u`.

    With ``given_targets`` the same in a posterior that saw the targets first. Conditioning
    commutes, so no inverse of the targets' covariance is needed after the first.
    """

    def __init__(
        self, posterior: WeightPosterior, values: Tensor, *, given_targets: bool = False
    ) -> None:
        self.name = "variance_given_targets" if given_targets else "variance"
        self.values = values
        self._posterior = posterior
        self._given_targets = given_targets

    def start(self) -> Start | None:
        return self._posterior.start()

    def before(self, step: Step, step_given_targets: Step | None) -> None:
        if self._given_targets:
            assert step_given_targets is not None
            step = step_given_targets
        self._step = step

    @property
    def scale(self) -> float:
        return self._step.s

    def vector(self) -> Float[Tensor, " d"]:
        return self._step.u

    def vectors(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return block @ self._posterior.covariance

    def carry(self, own: Float[Tensor, " n"], taken: Taken, phi: Float[Tensor, " d"]) -> None:
        c_phi = taken.vectors[self.name] @ phi
        own.addcmul_(taken.columns[self.name], c_phi, value=-1.0 / taken.scales[self.name])

    def update(self, column: Float[Tensor, " n"], own: Float[Tensor, " n"]) -> None:
        nonnegative(self.values.addcmul_(own, own, value=-1.0 / self._step.s))

    def fresh(self, block: Float[Tensor, "b d"]) -> Tensor:
        return nonnegative(self._posterior.variance(block))


class RunningSquaredCovariance:
    r""":math:`q = \sum_a w_a k_t(x, a)^2 = \phi^\top \Sigma M \Sigma \phi`, with
    :math:`M = \sum_a w_a \phi_a\phi_a^\top = R R^\top`:

    .. math:: q \leftarrow q - 2\, c\, (\Phi h)/s + c^2\, (u^\top M u)/s^2, \qquad h = \Sigma M u.

    The same with the second moment of all candidates in the place of M, by another ``name``. At
    small noise q falls by many orders and the recursion loses digits; ``start`` rebuilds it.
    The product of the rows with another row's h changes by the same terms.
    """

    def __init__(
        self, name: str, posterior: WeightPosterior, root: Float[Tensor, "d r"], values: Tensor
    ) -> None:
        self.name = name
        self.values = values
        self.root = root
        self._posterior = posterior

    def start(self) -> Start:
        return Start(uses_prior=False, plus=self.root.T @ self._posterior.covariance)

    def before(self, step: Step, step_given_targets: Step | None) -> None:
        projected = self.root.T @ step.u
        self._h = self._posterior.covariance @ (self.root @ projected)
        self._uMu, self._s = float(projected @ projected), step.s

    @property
    def scale(self) -> float:
        return self._uMu

    def vector(self) -> Float[Tensor, " d"]:
        return self._h

    def vectors(self, block: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        covariance = self._posterior.covariance
        return ((block @ covariance) @ self.root) @ (self.root.T @ covariance)

    def carry(self, own: Float[Tensor, " n"], taken: Taken, phi: Float[Tensor, " d"]) -> None:
        c, h = taken.columns["variance"], taken.columns[self.name]
        c_phi, h_phi = taken.vectors["variance"] @ phi, taken.vectors[self.name] @ phi
        s, uMu = taken.scales["variance"], taken.scales[self.name]
        own.addcmul_(h, c_phi, value=-1.0 / s)
        own.addcmul_(c, h_phi - c_phi * (uMu / s), value=-1.0 / s)

    def update(self, column: Float[Tensor, " n"], own: Float[Tensor, " n"]) -> None:
        change = own.mul(-2.0 / self._s).add_(column, alpha=self._uMu / self._s**2)
        nonnegative(self.values.addcmul_(change, column))

    def fresh(self, block: Float[Tensor, "b d"]) -> Tensor:
        return (block @ self._posterior.covariance @ self.root).square_().sum(dim=1)


class RunningStandardizedCovariance:
    r""":math:`\sum_a w_a k_t(x, a)/\mathrm{sd}_t(a) = \phi^\top g`, with
    :math:`g = \Sigma_t \sum_a w_a \phi_a / \mathrm{sd}_t(a)`: no recursion, one product.

    Every observation changes every weight, so no product can be made ahead of it.
    """

    def __init__(
        self, problem: Problem, posterior: WeightPosterior, targets: TargetSummary, values: Tensor
    ) -> None:
        self.values = values
        self._posterior = posterior
        self._features = problem.known_targets
        self._targets = targets

    def start(self) -> None:
        """A product, not its square."""

    def before(self, step: Step, step_given_targets: Step | None) -> None:
        """Nothing to keep: the vector comes from the posterior after the observation."""

    def vector(self) -> Float[Tensor, " d"]:
        assert self._targets.state is not None
        weights = standardizing_weights(self._targets.state)
        return self._posterior.covariance @ (self._features.T @ weights)

    def update(self, column: Float[Tensor, " n"], own: Float[Tensor, " n"]) -> None:
        self.values.copy_(own)

    def fresh(self, block: Float[Tensor, "b d"]) -> Tensor:
        return block @ self.vector()


Predictable = RunningVariance | RunningSquaredCovariance | RunningNearness
"""Values whose products can be made before the observation."""

Running = Predictable | RunningStandardizedCovariance


def root_of_targets(problem: Problem) -> Float[Tensor, "d r"]:
    """R with R R' = sum_a w_a phi_a phi_a', and at most d columns."""
    assert problem.target_weights is not None
    root = problem.known_targets.T * problem.target_weights.sqrt()
    if root.shape[1] <= root.shape[0]:
        return root.contiguous()
    return symmetric_root(root @ root.T)
