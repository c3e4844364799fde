"""The rounds of an optimization: what was told so far, and the stage of the next choice."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.safebo.spaces import Layout, Search, Space, lay_out_round, lay_out_rows
from tellmost.safebo.stages import Model, Origin, Seeds, Stage
from tellmost.safebo.telling import value_of
from tellmost.safebo.trials import Trial
from tellmost.safebo.views import Seen
from tellmost.shapes import Float

Round = tuple[Stage, Layout]


class Rounds:
    """All trials, and a stage that knows them.

    A finite domain has one stage, which takes in each trial as it comes. In a box, and under
    contexts, every round looks at other points, so that its stage is made anew.
    """

    def __init__(
        self, model: Model, space: Space, search: Search | None, seeds: Seeds, seed: int
    ) -> None:
        self.model = model
        self.trials: list[Trial] = []
        self.recommended: dict[int, Tensor] = {}  # by the number of trials then
        self.moved_to: Tensor | None = None  # where the system was brought after the last trial
        self._space = space
        self._search = search
        self._seeds = seeds
        self._seed = seed
        self._kept: Round | None = None
        self._latest: tuple[tuple, Round] | None = None
        self._keep()

    def change_model(self, model: Model) -> None:
        """Other priors: bounds of earlier rounds do not count any more.

        Values told with the noise of the prior take on that of the new one.
        """
        pairs = list(zip(self.model.outputs, model.outputs, strict=True))
        for number, trial in enumerate(self.trials):
            noise_std = dict(trial.noise_std)
            for old, new in pairs:
                if noise_std.get(old.names[0]) == old.gp.noise_std:
                    noise_std[old.names[0]] = new.gp.noise_std
            self.trials[number] = replace(trial, noise_std=noise_std)
        self.model = model
        self._latest = None
        self._keep()

    def _keep(self) -> None:
        """Where every round looks at the same points: a stage that is there from the start."""
        if self.is_kept:
            self._kept = self._make(self._lay_out_rows(), is_kept=True)

    def add(self, trial: Trial) -> None:
        if self._kept is not None:
            stage, layout = self._kept
            assert trial.index is not None
            stage.observe(self._seen_in(trial, trial.index))
            self._kept = stage, replace(layout, trials=(*layout.trials, trial.index))
        self.trials.append(trial)
        self.moved_to = None

    def recommend(self, x: Float[Tensor, " d"]) -> None:
        """Keep what is the best now, to look at it in later rounds too."""
        self.recommended[len(self.trials)] = x

    def move_to(self, x: Float[Tensor, " d"] | None) -> None:
        """The system was brought to another point: rounds start from there."""
        self.moved_to = x
        self._latest = None

    @property
    def is_kept(self) -> bool:
        """Whether every round looks at the same points."""
        return self._space.box is None and not self._space.contexts

    def present(self) -> Round:
        """The latest round, as far as nothing was told since; else a new one."""
        if not self.is_kept and self._latest is not None:
            (time, *_), latest = self._latest
            if time == len(self.trials):
                return latest
        context = torch.zeros(len(self._space.contexts), dtype=torch.float64)
        if self.trials and self._space.contexts:
            context = torch.from_numpy(self.trials[-1].x[self._space.dimension :])
        return self.at(context, [])

    def at(self, context: Float[Tensor, " c"], pending: Sequence[Tensor]) -> Round:
        """The round under a context, with points that are still waited for."""
        if self._kept is not None:
            return self._kept
        key = len(self.trials), tuple(context.tolist()), tuple(tuple(x.tolist()) for x in pending)
        if self._latest is None or self._latest[0] != key:
            layout = self._lay_out(context, pending)
            self._latest = key, self._make(layout, is_kept=False)
        return self._latest[1]

    @property
    def last_point(self) -> Float[Tensor, " d"] | None:
        """Where the system stands: what was set last, or a seed."""
        if self.moved_to is not None:
            return self.moved_to
        if self.trials:
            return torch.from_numpy(self.trials[-1].x[: self._space.dimension])
        return self._seeds.points[0] if self._seeds.points else None

    def _make(self, layout: Layout, *, is_kept: bool) -> Round:
        seen = [self._seen(number, layout) for number in range(len(self.model.outputs))]
        origin = Origin(layout.seeds, is_first=is_kept and not self.trials)
        points, is_candidate = layout.points, layout.is_candidate
        stage = self.model.stage(points, is_candidate, seen, is_kept=is_kept, origin=origin)
        return stage, layout

    def _lay_out_rows(self) -> Layout:
        assert self._space.rows is not None
        layout = lay_out_rows(self._space.rows, self._seeds.rows, self._data_points())
        rows = [trial.index for trial in self.trials]
        return replace(layout, trials=tuple(row for row in rows if row is not None))

    def _lay_out(self, context: Float[Tensor, " c"], pending: Sequence[Tensor]) -> Layout:
        time = len(self.trials)
        return lay_out_round(
            self._space,
            self._searched(),
            context,
            seeds=self._seeds.declared,
            trials=[torch.from_numpy(trial.x) for trial in self.trials],
            extra=[x for then, x in self.recommended.items() if then < time],
            data=self._data_points(),
            pending=pending,
        )

    def _searched(self) -> Points:
        box = self._space.box
        if box is None or self._search is None:
            assert self._space.rows is not None
            return self._space.rows
        through = self.last_point
        through = box.corners().mean(dim=0) if through is None else through
        generator = np.random.default_rng([self._seed, len(self.trials)])
        return self._search.points(box, through, self._seed, generator)

    def _data_points(self) -> list[Points]:
        width = self._space.dimension + len(self._space.contexts)
        empty = torch.empty(0, width, dtype=torch.float64)
        datas = [output.gp.data for output in self.model.outputs]
        return [empty if data is None else data.points.to(empty) for data in datas]

    def _seen(self, number: int, layout: Layout) -> list[Seen]:
        """What an output was observed to be, the data of its prior first."""
        output = self.model.outputs[number]
        seen = []
        if output.gp.data is not None:
            y, variance = output.gp.data.y / output.scale, output.gp.data.noise_variance
            parts = zip(layout.data[number], y, variance / output.scale**2, strict=True)
            seen = [Seen(row, float(one), float(noise)) for row, one, noise in parts]
        for row, trial in zip(layout.trials, self.trials, strict=True):
            found = self._seen_in(trial, row)
            seen += [found[number]] if number in found else []
        return seen

    def _seen_in(self, trial: Trial, row: int) -> dict[int, Seen]:
        """What a trial says of each output that was told."""
        seen = {}
        for number, output in enumerate(self.model.outputs):
            value = value_of(output, trial.values)
            if value is not None:
                std = trial.noise_std[output.names[0]] / output.scale
                seen[number] = Seen(row, value / output.scale, std**2)
        return seen
