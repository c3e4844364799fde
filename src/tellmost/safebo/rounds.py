"""The rounds of an optimization: all trials, and the points that each round looks at."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellmost.kernels.kernel import Points
from tellmost.safebo.bounds import Confidence, ForRun
from tellmost.safebo.choice import SafeRound, SafeTask
from tellmost.safebo.kept_rows import KeptVectors
from tellmost.safebo.mixture import Mixtures
from tellmost.safebo.outputs import OutputValue
from tellmost.safebo.round_state import Layout, RoundState, SafeModel
from tellmost.safebo.spaces import SobolSet, with_context
from tellmost.safebo.trial_blocks import Told
from tellmost.safebo.trials import Query, Trial
from tellmost.shapes import Float


class SafeRounds:
    """All trials, and the round that follows from them.

    If every round looks at the same points, one state is kept, and takes in the trials one by one:
    at once where bounds of all rounds count, and else when a round is wanted. In a box, and under
    contexts, every round looks at other points too, so its state is made anew, except for what is
    kept of points that come back.
    """

    def __init__(self, task: SafeTask, model: SafeModel) -> None:
        self.task = task
        self.mixtures = Mixtures(task.seeds.points, task.space.width)
        self._mixtures_of_all = Mixtures(task.seeds.points, task.space.width, takes_all=True)
        self.model = model
        self.trials: list[Trial] = []
        self.asked: dict[str, tuple[str, Query]] = {}  # under a horizon, by id
        self.recommended: dict[int, Tensor] = {}  # by the number of trials then: looked at later
        self.is_kept = task.space.box is None and not task.space.contexts
        self._moved_to: Tensor | None = None  # where the system was brought after the last trial
        self._latest: tuple[tuple[Any, ...], RoundState] | None = None
        self._untaken: list[Told] = []  # for the state that is kept
        self._kept = KeptVectors()
        self.is_torn = False
        self.start_again()

    @contextmanager
    def whole(self) -> Iterator["SafeRounds"]:
        """Mark the rounds as torn until the block has ended. Torn rounds are made anew."""
        before, self.is_torn = self.is_torn, True
        yield self
        self.is_torn = before

    def observe(self, trial: Trial) -> bool:
        """Take in a trial. Say whether all rounds so far have to be made anew."""
        self._recommend(trial)
        model, row = self.mixtures.learn(self.model, [*self.trials, trial]), trial.index
        is_anew = model is not self.model or (self.is_kept and row is None)
        if self.is_kept and not is_anew and self._latest is not None and row is not None:
            self._untaken.append((row, self._values_in(self.model, trial, row, trial.trusted)))
            if self.model.confidence.is_intersected:
                self._observe_untaken()
        self.trials.append(trial)
        self._moved_to = None
        return is_anew

    def _observe_untaken(self) -> None:
        untaken, self._untaken = self._untaken, []
        if self._latest is not None:
            self._latest[1].observe(untaken)

    def _take_in(self) -> None:
        """Let the state that is kept take in what was told since, and doubt suspect values."""
        self._observe_untaken()
        if self.is_kept and self._latest is not None and self.has_suspects:
            state = self._latest[1]
            if state.doubted is None:
                state.doubt(self._believe_all(state.layout))

    def move_to(self, x: Float[Tensor, " d"]) -> None:
        """The system was brought to another point, so rounds start from there."""
        self._moved_to = x
        if not self.is_kept:
            self._latest = None

    @property
    def has_suspects(self) -> bool:
        return any(trial.suspect for trial in self.trials)

    def start_again(self) -> None:
        """Make all that is believed anew, from the trials as they are now."""
        self.model = self.mixtures.learn(self.model, self.trials)
        self._latest, self._untaken, self._kept = None, [], KeptVectors()
        if self.is_kept:
            self.latest()

    def allow(self, pending: Sequence[Query] = ()) -> Confidence | None:
        """The confidence of the next query; under a horizon None if no more may be asked."""
        if not isinstance(self.model.confidence, ForRun):
            return self.model.confidence
        others = [one.risk for one in pending if one.id not in self.asked]
        return self.model.confidence.allow([one.risk for _, one in self.asked.values()] + others)

    def rely(self) -> None:
        """Make bounds with what the next query may risk."""
        if self._latest is not None:
            self._latest[1].rely_on(self._relied_on())

    def _relied_on(self) -> Confidence:
        """The confidence of the next query, or if it may risk nothing of the last that might."""
        if not isinstance(self.model.confidence, ForRun):
            return self.model.confidence
        risks = [one.risk for _, one in self.asked.values()]
        while (found := self.model.confidence.allow(risks)) is None:
            risks.pop()
        return found

    def _recommend(self, trial: Trial) -> None:
        """Remember what was best before the trial, where the next round may not look at it."""
        search, space = self.task.search, self.task.space
        if search is None or isinstance(search, SobolSet):
            return
        before = self.at(torch.from_numpy(trial.x[space.dimension :]), [])
        if bool(before.state.safe_rows.any()):
            self.recommended[len(self.trials)] = torch.from_numpy(before.recommend().x)

    def present(self) -> SafeRound:
        """The round of the last query if nothing was told since, else the latest."""
        if self._latest is None or (not self.is_kept and self._latest[0][0] != len(self.trials)):
            return self.latest()
        with self.whole():
            self._take_in()
            self.rely()
        return self._round(self._latest[1])

    def restore_point(self) -> np.ndarray | None:
        """Return the trial to go back to by the latest round, and keep the present round."""
        present = self._latest
        found = self.latest().restore_point()
        self._latest = present or self._latest
        return found

    def latest(self) -> SafeRound:
        """The round under the context of the last trial, whatever was asked since."""
        context = torch.zeros(len(self.task.space.contexts), dtype=torch.float64)
        if self.trials:
            context = torch.from_numpy(self.trials[-1].x[self.task.space.dimension :])
        return self.at(context, [])

    def at(self, context: Float[Tensor, " c"], pending: Sequence[Tensor]) -> SafeRound:
        """The round under a context, with points that are still waited for."""
        key: tuple[Any, ...] = ()
        if not self.is_kept:
            waiting = tuple(tuple(x.tolist()) for x in pending)
            key = len(self.trials), tuple(context.tolist()), waiting
        with self.whole():
            self._take_in()
            if self._latest is None or self._latest[0] != key:
                self._latest = key, self._start(context, [] if self.is_kept else pending)
        return self._round(self._latest[1])

    def _round(self, state: RoundState) -> SafeRound:
        return SafeRound(self.task, state, self.trials, self._last_point)

    @property
    def _last_point(self) -> Float[Tensor, " d"] | None:
        """The point where the system stands: what was set last, or a seed."""
        if self._moved_to is not None:
            return self._moved_to
        d, seeds = self.task.space.dimension, self.task.seeds.points
        if self.trials:
            return torch.from_numpy(self.trials[-1].x[:d])
        return seeds[0][:d] if seeds else None

    # ---- the points of a round

    def _lay_out(self, context: Float[Tensor, " c"], pending: Sequence[Tensor]) -> Layout:
        """Lay out what is searched, and behind it where something is known or waited for.

        A kept domain has its seeds and trials among its rows. Elsewhere trials come with the
        context that they had, and what they set may be asked for under the present context too.
        Trials outside a domain that was changed are known, and never asked for.
        """
        space, seeds, trials = self.task.space, self.task.seeds, self.trials
        d, width = space.dimension, space.dimension + len(space.contexts)
        parts: list[Points] = []
        is_candidate: list[Tensor] = []

        def add(points: Points, may_be_asked: bool | Tensor) -> tuple[int, ...]:
            """Put points under the others, and return their row numbers."""
            first = sum(map(len, parts))
            parts.append(points)
            is_candidate.append(torch.as_tensor(may_be_asked).expand(len(points)))
            return tuple(range(first, first + len(points)))

        add(with_context(self._searched(), context), True)
        of_seeds = tuple(row for row, _ in seeds.declared if row is not None)
        if space.box is not None:
            settings = [point[:d] for point in seeds.points]
            of_seeds = add(with_context(_stack(settings, d), context), True)
        datas = [output.gp.data for output in self.model.outputs]
        of_data = tuple(
            () if one is None else add(one.points.to("cpu", torch.float64), False) for one in datas
        )
        fixed = sum(map(len, parts))
        known = _stack([trial.x for trial in trials], width)
        if self.is_kept:
            outside = iter(add(known[[trial.index is None for trial in trials]], False))
            rows = (trial.index for trial in trials)
            of_trials = tuple(next(outside) if row is None else row for row in rows)
        else:
            inside = True if space.box is None else space.box.contains(known[:, :d])
            of_trials = add(known, False if len(context) else inside)
            if len(context) and space.box is not None:
                add(with_context(known[:, :d], context), inside)
        extra = [x for time, x in self.recommended.items() if time < len(trials)]
        add(with_context(_stack(extra, d), context), True)
        of_pending = add(_stack(pending, width), False)
        found = of_seeds, of_trials, of_data, of_pending
        is_asked = torch.cat(is_candidate)
        return Layout(torch.cat(parts), is_asked, fixed, *found, self.is_kept, len(context))

    def _searched(self) -> Points:
        """The points that the search names in this round, or all of a finite domain."""
        box = self.task.space.box
        if box is None or self.task.search is None:
            assert self.task.space.rows is not None
            return self.task.space.rows
        through = self._last_point
        through = box.corners().mean(dim=0) if through is None else box.clip(through[None])[0]
        generator = np.random.default_rng([self.task.seed, len(self.trials)])
        return self.task.search.points(box, through, self.task.seed, generator)

    # ---- what was observed there

    def _start(self, context: Float[Tensor, " c"], pending: Sequence[Tensor]) -> RoundState:
        """The state of a round: each output knows the data of its prior, then all trials."""
        layout = self._lay_out(context, pending)
        told = [trial.trusted for trial in self.trials]
        kept = None if self.is_kept else self._kept
        state = self._believe(self.model, layout, told, self.mixtures, kept)
        if self.has_suspects:
            state.doubt(self._believe_all(layout))
        return state

    def _believe_all(self, layout: Layout) -> RoundState:
        """What is believed if suspect values are right."""
        mixtures, told = self._mixtures_of_all, [trial.values for trial in self.trials]
        return self._believe(mixtures.learn(self.model, self.trials), layout, told, mixtures)

    def _believe(
        self,
        model: SafeModel,
        layout: Layout,
        told: Sequence[Mapping[str, float]],
        mixtures: Mixtures,
        kept: KeptVectors | None = None,
    ) -> RoundState:
        values: list[list[OutputValue]] = [[] for _ in model.outputs]
        for seen, output, rows in zip(values, model.outputs, layout.data, strict=True):
            data, scale = output.gp.data, output.scale
            if data is not None:
                parts = zip(rows, data.y / scale, data.noise_variance / scale**2, strict=True)
                seen += [OutputValue(row, float(y), float(noise)) for row, y, noise in parts]
        for row, trial, given in zip(layout.trials, self.trials, told, strict=True):
            for number, one in self._values_in(model, trial, row, given).items():
                values[number].append(one)
        state = model.start(layout, values, mixtures.over(layout.points), kept)
        state.rely_on(self._relied_on())
        return state

    def _values_in(
        self, model: SafeModel, trial: Trial, row: int, given: Mapping[str, float]
    ) -> dict[int, OutputValue]:
        """Read what a trial says of each output, by some of its values."""
        values = {}
        for number, output in enumerate(model.outputs):
            for name in output.names:
                if name in given:
                    std = output.noise_std_of(trial.noise_std) / output.scale
                    values[number] = OutputValue(row, given[name] / output.scale, std**2)
                    break
        return values


def _stack(points: Sequence[Tensor | np.ndarray], width: int) -> Points:
    if not points:
        return torch.empty(0, width, dtype=torch.float64)
    return torch.from_numpy(np.stack([np.asarray(one) for one in points]))
