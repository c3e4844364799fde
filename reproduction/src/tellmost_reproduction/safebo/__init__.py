"""The paper's experiments with safe Bayesian optimization."""
