"""Choosing what to train a network on: its embeddings, strategies, and the loop."""

from sightline.finetune import baselines
from sightline.finetune.activations import LastLayer, Outputs
from sightline.finetune.candidates import Uniform, WholePool
from sightline.finetune.covariances import Laplace, LatentCovariance, Weighted
from sightline.finetune.embedding import Embedded, Embedding, embed
from sightline.finetune.few_shot import FewShot, few_shot
from sightline.finetune.history import History, Round
from sightline.finetune.inputs import Inputs
from sightline.finetune.laplace import LaplacePosterior, fit_laplace
from sightline.finetune.loss_gradients import LossGradients
from sightline.finetune.output_gradients import OutputGradients
from sightline.finetune.predictive import Predictive
from sightline.finetune.projections import Projected
from sightline.finetune.sampler import TargetedSampler
from sightline.finetune.strategies import Scene, Strategy
from sightline.finetune.targeted import Targeted
from sightline.finetune.tuner import ActiveFineTuner

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
