"""Choosing what to train a network on: its embeddings, strategies, and the loop."""

from tellmost.finetune import baselines
from tellmost.finetune.activations import LastLayer, Outputs
from tellmost.finetune.candidates import Uniform, WholePool
from tellmost.finetune.covariances import Laplace, LatentCovariance, Weighted
from tellmost.finetune.embedding import Embedded, Embedding, embed
from tellmost.finetune.few_shot import FewShot, few_shot
from tellmost.finetune.history import History, Round
from tellmost.finetune.inputs import Inputs
from tellmost.finetune.laplace import LaplacePosterior, fit_laplace
from tellmost.finetune.loss_gradients import LossGradients
from tellmost.finetune.output_gradients import OutputGradients
from tellmost.finetune.predictive import Predictive
from tellmost.finetune.projections import Projected
from tellmost.finetune.sampler import TargetedSampler
from tellmost.finetune.strategies import Scene, Strategy
from tellmost.finetune.targeted import Targeted
from tellmost.finetune.tuner import ActiveFineTuner

__all__ = [
    "ActiveFineTuner",
    "Embedded",
    "Embedding",
    "FewShot",
    "History",
    "Inputs",
    "Laplace",
    "LaplacePosterior",
    "LastLayer",
    "LatentCovariance",
    "LossGradients",
    "OutputGradients",
    "Outputs",
    "Predictive",
    "Projected",
    "Round",
    "Scene",
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
