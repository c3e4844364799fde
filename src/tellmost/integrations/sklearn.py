"""scikit-learn: an estimator that learns from the rows that say most about its targets."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from tellmost.rules import Rule
from tellmost.selecting.select import select_quietly
from tellmost.shapes import Bool

Method = TypeVar("Method", bound=Callable[..., Any])


def _learner_has(name: str) -> Callable[[Method], Method]:
    """Say for a method whether the estimator inside has it."""
    return available_if(
        lambda self: hasattr(getattr(self, "estimator_", getattr(self, "estimator", None)), name)
    )


class TargetedSubset(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit an estimator to the k rows of X that tell most about ``targets``.

    ``fit(X, y, targets=T)`` selects as ``tm.select(X, T, k)`` does, and takes all rows where there
    are no more than k. Without targets the rule is ``undirected-vtl``, which asks for none. The
    Selection is ``selection_``, and its rows are ``indices_``. Without ``estimator`` it only
    selects. Steps before it in a Pipeline transform the targets too, with
    ``transform_input=["targets"]`` and metadata routing.
    """

    def __init__(
        self,
        k: int = 100,
        estimator: Any = None,
        *,
        rule: str | Rule = "vtl",
        kernel: Any = None,
        noise_ratio: float | None = None,
        normalize: str | None = "auto",
    ) -> None:
        self.k, self.estimator, self.rule = k, estimator, rule
        self.kernel, self.noise_ratio, self.normalize = kernel, noise_ratio, normalize

    def fit(self, X: Any, y: Any = None, *, targets: Any = None) -> "TargetedSubset":
        """Select rows, and fit a clone of the estimator to them and their labels."""
        if y is None and self.estimator is not None and get_tags(self).target_tags.required:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        rows = validate_data(self, X, dtype=np.float64)
        check_consistent_length(rows, y)
        self.selection_ = select_quietly(
            rows,
            targets,
            min(self.k, len(rows)),
            rule="undirected-vtl" if targets is None else self.rule,
            kernel=self.kernel,
            noise_ratio=self.noise_ratio,
            normalize=self.normalize,
            progress=False,
        )
        self.indices_ = self.selection_.indices
        if self.estimator is not None:
            labels = None if y is None else np.asarray(y)[self.indices_]
            self.estimator_ = clone(self.estimator).fit(rows[self.indices_], labels)
        return self

    def get_support(self) -> Bool[np.ndarray, " n"]:
        """The mask of the rows of X that were selected."""
        check_is_fitted(self, "indices_")
        return np.isin(np.arange(self.selection_.settings["rows"]), self.indices_)

    @_learner_has("predict")
    def predict(self, X: Any) -> Any:
        return self._ask("predict", X)

    @_learner_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        return self._ask("predict_proba", X)

    @_learner_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        return self._ask("decision_function", X)

    @_learner_has("transform")
    def transform(self, X: Any) -> Any:
        return self._ask("transform", X)

    @_learner_has("score")
    def score(self, X: Any, y: Any = None) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_.score(X, y)

    @property
    def classes_(self) -> Any:
        return self.estimator_.classes_

    def _ask(self, name: str, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return getattr(self.estimator_, name)(rows)

    def __sklearn_tags__(self) -> Any:
        """The tags of the estimator inside, but for inputs that only it could read."""
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            inner = get_tags(self.estimator)
            tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
            tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
            tags.transformer_tags = inner.transformer_tags
        return tags
