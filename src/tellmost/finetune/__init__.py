"""Choosing what to train a network on: its embeddings, strategies, and the loop."""

from tellmost.finetune import baselines
from tellmost.finetune.embedding import Embedded, Embedding, embed
from tellmost.finetune.few_shot import FewShot, few_shot
from tellmost.finetune.gradients import LossGradients, OutputGradients
from tellmost.finetune.history import FineTuningHistory, FineTuningRound
from tellmost.finetune.inputs import Inputs
from tellmost.finetune.laplace import (
    LaplaceCovariance,
    LaplacePosterior,
    LatentCovariance,
    Weighted,
    fit_laplace,
)
from tellmost.finetune.layers import LastLayer, Outputs
from tellmost.finetune.plan import Uniform, WholePool
from tellmost.finetune.predictive import Predictive
from tellmost.finetune.projections import Projected
from tellmost.finetune.sampler import TargetedSampler
from tellmost.finetune.strategies import RoundInputs, Strategy, Targeted
from tellmost.finetune.tuner import ActiveFineTuner

__all__ = [
    "ActiveFineTuner",
    "Embedded",
    "Embedding",
    "FewShot",
    "FineTuningHistory",
    "FineTuningRound",
    "Inputs",
    "LaplaceCovariance",
    "LaplacePosterior",
    "LastLayer",
    "LatentCovariance",
    "LossGradients",
    "OutputGradients",
    "Outputs",
    "Predictive",
    "Projected",
    "RoundInputs",
    "Strategy",
    "Targeted",
    "TargetedSampler",
    "Uniform",
    "Weighted",
    "WholePool",
    "baselines",
    "embed",
    "few_shot",
    "fit_laplace",
]
