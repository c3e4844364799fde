"""SafeOpt that picks among expanders alone, as where the paper jumps past barriers."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from tellmost.safebo.baselines.expanding import find_expanders_by_slope
from tellmost.safebo.choice import best_row
from tellmost.safebo.slopes import grow
from tellmost.safebo.stages import Stage, Track
from tellmost.safebo.strategies import Choice, Scene


@dataclass(frozen=True)
class ExpandersAlone:
    """The widest of SafeOpt's expanders; where there are none, of all that may be asked for."""

    keeps_safe: ClassVar[bool] = True

    def track(self, stage: Stage, before: Track | None) -> Track:
        return grow(stage, before)

    def choose(self, scene: Scene) -> Choice:
        is_wanted = scene.is_open & find_expanders_by_slope(scene)
        among = is_wanted if bool(is_wanted.any()) else scene.is_open
        return Choice(best_row(scene.widths.where(among, -torch.inf)), "expand")
