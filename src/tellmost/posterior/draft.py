"""A small dense copy of what is known about a few rows, to try observations on.

It forecasts which rows will be observed next, so that their columns can be made in one pass. A
wrong forecast costs a pass, never a pick.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from torch import Tensor

from tellmost.numerics import nonnegative
from tellmost.posterior.nearness import nearer, nearness
from tellmost.posterior.problem import CHOSEN_FIELDS, State
from tellmost.posterior.targets import covariance_fields
from tellmost.shapes import Float


@dataclass
class Draft:
    """A joint posterior of some rows and the targets; ``observe`` conditions it in place."""

    state: State  # of the rows: first without, then with the fields that are made of these
    needs: Set[str]
    variance: Float[Tensor, "b b"]
    given_targets: Float[Tensor, "b b"] | None = None
    covariance: Float[Tensor, "b m"] | None = None  # with the targets
    projected: Mapping[str, Float[Tensor, "b _r"]] = field(default_factory=dict)  # whose squares
    # add up to squared covariances, by their names
    prior: Float[Tensor, "b b"] | None = None  # where nearness to the chosen is read

    def __post_init__(self) -> None:
        targets = self.state.targets
        if targets is not None:  # the tracker's own are updated in place
            targets = replace(targets, variance=targets.variance.clone())
        self.state = replace(self.state, fields=self._fields(), targets=targets)

    def observe(self, place: int) -> None:
        """Condition on an observation of one of the rows, by its place among them."""
        noise = self.state.noise_variance[place]
        column = self.variance[:, place].clone()
        s = column[place] + noise
        if self.covariance is not None and self.state.targets is not None:
            of_targets = self.covariance[place].square() / s
            nonnegative(self.state.targets.variance.sub_(of_targets))
        for against in (self.covariance, *self.projected.values(), self.variance):
            if against is not None:
                against.sub_(column[:, None] * (against[place] / s))
        if self.given_targets is not None:
            seen = self.given_targets[:, place].clone()
            self.given_targets.sub_(seen[:, None] * (seen / (seen[place] + noise)))
        fields = self._fields() | self._nearness(place)
        self.state = replace(self.state, step=self.state.step + 1, fields=fields)

    def _nearness(self, place: int) -> dict[str, Tensor]:
        """To the chosen, with a row chosen by its place."""
        if self.prior is None:
            return {}
        column, variance = self.prior[:, [place]], self.prior.diagonal()
        return {
            name: nearer(name, values, nearness(name, column, variance, variance[[place]])[:, 0])
            for name, values in self.state.fields.items()
            if name in CHOSEN_FIELDS
        }

    def _fields(self) -> dict[str, Tensor]:
        fields = dict(self.state.fields)
        if "variance" in self.needs:
            fields["variance"] = nonnegative(self.variance.diagonal().clone())
        if self.given_targets is not None:
            fields["variance_given_targets"] = nonnegative(self.given_targets.diagonal().clone())
        if self.covariance is not None and self.state.targets is not None:
            fields |= covariance_fields(self.covariance, self.state.targets, self.needs)
        for name, projected in self.projected.items():
            fields[name] = projected.square().sum(dim=1)
        return fields
