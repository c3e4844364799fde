"""A run is what follows from a journal: trials and their verdicts, suspects, evidence, the log."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot, inf

import numpy as np
import torch

from tellmost.posterior.gp import GP
from tellmost.safebo.arguments import about_breach, judge
from tellmost.safebo.bounds import PerQuery
from tellmost.safebo.calibration import glance, is_decided, weigh
from tellmost.safebo.choice import SafeTask
from tellmost.safebo.journal import (
    Acknowledged,
    AskedQuery,
    Changed,
    Entry,
    Judged,
    Refit,
    Retracted,
    ToldTrial,
)
from tellmost.safebo.outputs import by_number
from tellmost.safebo.round_state import SafeModel
from tellmost.safebo.rounds import SafeRounds
from tellmost.safebo.spaces import with_context
from tellmost.safebo.trials import Event, Query, Suspect, Trial
from tellmost.safebo.witness import MOST_OF_ONE, Account, Witness

STUCK = 0.01
"""Two readings nearer than this share of their noise agree too well: by chance one pair in a
hundred does, and a stuck sensor always."""

NEARLY_WITHDRAWN = 1e-6
"""A round says whether a seed is withdrawn if a witness finds it no farther within its limits, in
prior standard deviations: the two round differently."""

Key = tuple[int, int]
"""The id of a trial, and the number of an output."""


class SafeRun:
    """What follows from the entries of a journal, one after the other."""

    def __init__(self, task: SafeTask, model: SafeModel, journal: Sequence[Entry] = ()) -> None:
        """Take in a journal. What it decides in the end counts from the start."""
        self.task = task
        self.rounds = SafeRounds(task, model)
        self.suspects: dict[Key, Suspect] = {}
        self.witnesses = [Witness(output) for output in self.model.outputs]
        self.log: list[Event] = []
        self.halt = ""  # why asking has to wait
        self._accepted = [0.0] * len(self.model.outputs)  # the evidence with which asking went on
        self._told: list[ToldTrial] = []
        self._withdrawn: set[int] = set()
        self._is_warned = False
        self._unread: list[tuple[int, int, list[Account]]] = []  # trials, place in the log
        self._retracted = {one.id for one in journal if isinstance(one, Retracted)}
        decided = [one for one in journal if isinstance(one, Judged)]
        self._judged = {(one.id, name): one.is_right for one in decided for name in one.names}
        for entry in journal:
            self.apply(entry)

    @property
    def model(self) -> SafeModel:
        return self.rounds.model

    @property
    def trials(self) -> list[Trial]:
        return self.rounds.trials

    # ---- what happened

    def apply(self, entry: Entry) -> None:
        """Take in an entry of the journal."""
        if isinstance(entry, ToldTrial) and entry.id not in self._retracted:
            self._add(entry)
        elif isinstance(entry, Retracted):
            self.note("retracted", f"trial {entry.id} was told wrongly")
        elif isinstance(entry, Judged):
            kind = "confirmed" if entry.is_right else "discarded"
            self.note(kind, f"{', '.join(entry.names)} of trial {entry.id}")
        elif isinstance(entry, Changed):
            for name, text in entry.texts.items():
                self.note("changed", f"{name}: {text}")
        elif isinstance(entry, Refit):
            self._change_priors(entry.priors)
        elif isinstance(entry, Acknowledged):
            self._go_on(entry)
        elif isinstance(entry, AskedQuery):
            query = Query.from_json(entry.query)
            self.rounds.asked[query.id] = entry.key, query
            self.rounds.rely()

    def note(self, kind: str, text: str) -> None:
        self.log.append(Event(len(self.trials), kind, text))

    def _go_on(self, entry: Acknowledged) -> None:
        self.warn()
        if entry.at is not None:
            self.rounds.move_to(torch.tensor(entry.at, dtype=torch.float64))
        if self.halt:
            self.note("acknowledged", "asking goes on after a violation")
        elif self.warn() is not None:
            self.note("acknowledged", "asking goes on though a prior seems wrong")
        self.halt = ""
        self._accept()

    def _accept(self) -> None:
        """What the evidence says now does not stop asking any more; only more of it does."""
        self._accepted = [weigh(one.ratios())[0] for one in self.witnesses]
        self._is_warned = False
        for one in self.witnesses:
            one.fresh_surprises = 0.0

    def warn(self) -> tuple[str, str] | None:
        """Say which prior the evidence finds too narrow since asking went on, and why.

        The tell at which it was so first is noted, once until asking goes on. The evidence is
        only read here, since that takes longer than a tell should; it is that of each tell.
        """
        now = [one.account() for one in self.witnesses]
        with self.rounds.whole():
            found = self._find_overconfident([*(told for _, _, told in self._unread), now])
            for (trials, place, _), one in zip(self._unread, found, strict=False):
                if one is not None and not self._is_warned:
                    text = f"the model of {one[0]!r} is {one[1]}"
                    self.log.insert(place, Event(trials, "miscalibrated", text))
                    self._is_warned = True
            self._unread = []
        return found[-1]

    def _find_overconfident(
        self, times: Sequence[Sequence[Account]]
    ) -> list[tuple[str, str] | None]:
        """The first output at each time whose prior is too narrow, and the verdict."""
        found: list[tuple[str, str] | None] = [None] * len(times)
        parts = zip(self.model.outputs, self.witnesses, self._accepted, strict=True)
        for number, (output, witness, accepted) in enumerate(parts):
            accounts = [one[number] for one in times]
            for i, (told, ratios) in enumerate(
                zip(accounts, witness.ratios_at(accounts), strict=True)
            ):
                one = glance(output, ratios, told.surprises)
                news = one.evidence - max(accepted, 0.0)
                if one.is_overconfident and is_decided(news, told.fresh_surprises):
                    found[i] = found[i] or (one.name, one.verdict)
        return found

    def _change_priors(self, priors: Mapping[str, GP]) -> None:
        """Take other priors. The bounds of earlier rounds do not count any more.

        Values that were told with the usual noise take on that of the new prior. The evidence
        is carried on: it was collected under the old priors.
        """
        self.warn()
        for output in self.model.outputs:
            old, new = output.gp, priors[output.names[0]]
            kept = " (noise kept: the fit found less)" if new.noise_std == old.noise_std else ""
            self.note("refit", f"{output.names[0]}: {old} -> {new}{kept}")
        self.rounds.model = self.model.with_priors(priors)
        for number, told in enumerate(self._told):
            noise = self._noise_of(told, self.trials[number].index)
            self.trials[number] = replace(self.trials[number], noise_std=noise)
        self.rounds.start_again()
        before = self.witnesses
        self.witnesses = [self._call_witness(i, one) for i, one in enumerate(before)]
        for key, one in list(self.suspects.items()):
            trial = self.trials[self._place_of(key)]
            mean, std = self._predict(key[1], trial.x, trial.noise_std[one.name])
            if abs(one.value - mean) <= self.model.suspect_z * std:
                self._clear(key, "the new prior")
        self.rounds.start_again()
        self._accept()

    def _call_witness(self, number: int, before: Witness) -> Witness:
        """A witness of the present prior, who has seen all trials, with the evidence before."""
        output = self.model.outputs[number]
        witness = Witness(output, before)
        seen = [one for one in self.trials if output.value_in(one.trusted) is not None]
        if seen:
            y = [float(output.value_in(one.trusted)) for one in seen]
            noise = [one.noise_std[output.names[0]] for one in seen]
            numbers = torch.tensor([y, noise], dtype=torch.float64)
            X = torch.from_numpy(np.stack([one.x for one in seen]))
            witness.begin_with(X, numbers[0], numbers[1])
        return witness

    def _place_of(self, key: Key) -> int:
        return next(i for i, one in enumerate(self.trials) if one.id == key[0])

    def _clear(self, key: Key, by: str) -> None:
        """A value is suspect no more. It has counted in the evidence already."""
        suspect, at = self.suspects.pop(key), self._place_of(key)
        before, names = self.trials[at], self.model.outputs[key[1]].names
        left = tuple(name for name in before.suspect if name not in names)
        self.trials[at] = replace(before, suspect=left)
        self._testify(key[1], before, suspect.value, 0.0)
        self.note("confirmed", f"{suspect.name} of trial {suspect.id}, by {by}")

    # ---- a trial

    def _add(self, told: ToldTrial) -> None:
        row = self.task.space.find(told.x[: self.task.space.dimension])
        values = {n: y for n, y in told.values.items() if self._judged.get((told.id, n), True)}
        noise = self._noise_of(told, row)
        implausible, repeated = self._doubt(told, values, noise)
        agreed = {number for _, number in repeated}
        found = [
            number
            for number, one in implausible.items()
            if number not in agreed and not self._judged.get((told.id, one.name), False)
        ]
        names = {name for number in found for name in self.model.outputs[number].names}
        status, broken = judge(self.model.outputs, values, noise, self.model.constraints, found)
        trial = Trial(
            x=told.x.copy(),
            index=row,
            values=values,
            noise_std=noise,
            status="failed" if told.is_failed else status,
            broken=broken,
            id=told.id,
            query=told.query,
            suspect=tuple(name for name in values if name in names),
        )
        is_anew = self.rounds.observe(trial)
        self._told.append(told)
        self._note_breach(trial)
        for key in repeated:
            self._clear(key, f"trial {trial.id}")
        for number, y in by_number(self.model.outputs, values).items():
            self._weigh(number, trial, y, implausible.get(number))
        if repeated or is_anew:
            self.rounds.start_again()
        self._note_withdrawn()
        accounts = [one.account() for one in self.witnesses]
        self._unread.append((len(self.trials), len(self.log), accounts))

    def _noise_of(self, told: ToldTrial, row: int | None) -> dict[str, float]:
        """The noise of each output that was told, by its first name."""
        own, where = by_number(self.model.outputs, told.noise_std), torch.from_numpy(told.x)[None]
        return {
            self.model.outputs[number].names[0]: own.get(number)
            or self.model.noise_std_at(number, row, where)
            for number in by_number(self.model.outputs, told.values)
        }

    def _doubt(
        self, told: ToldTrial, values: Mapping[str, float], noise: Mapping[str, float]
    ) -> tuple[dict[int, Suspect], list[Key]]:
        """The implausible values by output, and the earlier suspects that they repeat."""
        found, repeated = {}, []
        for number, y in by_number(self.model.outputs, values).items():
            name = self.model.outputs[number].names[0]
            mean, std = self._predict(number, told.x, noise[name])
            z = abs(y - mean) / std
            if z > self.model.suspect_z:
                found[number] = Suspect(told.id, name, y, mean, z)
                keys = [key for key in self.suspects if key[1] == number]
                repeated += [key for key in keys if self._agrees(key, told.x, y, noise[name])]
        return found, repeated

    def _predict(self, number: int, x: np.ndarray, noise_std: float) -> tuple[float, float]:
        """Mean and standard deviation of a value. A mixture has none before its seeds are told."""
        point = torch.from_numpy(x)[None]
        if self.model.outputs[number].is_bounded:
            return 0.0, inf
        if self.model.outputs[number].gp.hyperprior is None:
            return self.witnesses[number].predict(point, noise_std)
        if not self.trials or not all(self.task.seeds.outcomes(self.trials)):
            return 0.0, inf
        return self.rounds.mixtures.predict(number, point, noise_std)

    def _agrees(self, key: Key, x: np.ndarray, y: float, noise_std: float) -> bool:
        """Whether a reading repeats a suspect one. A stuck sensor repeats it without any noise."""
        other, suspect = self.trials[self._place_of(key)], self.suspects[key]
        apart = abs(y - suspect.value) / hypot(noise_std, other.noise_std[suspect.name])
        return bool((other.x == x).all()) and STUCK < apart <= self.model.suspect_z

    def _weigh(self, number: int, trial: Trial, y: float, implausible: Suspect | None) -> None:
        """Tell the witness of an output its value, and keep what is suspect."""
        witness, name = self.witnesses[number], self.model.outputs[number].names[0]
        witness.count(implausible is not None)
        if implausible is None or name not in trial.suspect:
            self._testify(number, trial, y, inf if implausible is None else MOST_OF_ONE)
            return
        self.suspects[trial.id, number] = implausible
        witness.doubt(torch.from_numpy(trial.x)[None], y, trial.noise_std[name])
        self.note("suspect", str(implausible))

    def _testify(self, number: int, trial: Trial, y: float, most: float) -> None:
        std = trial.noise_std[self.model.outputs[number].names[0]]
        self.witnesses[number].take(torch.from_numpy(trial.x)[None], y, std, most)

    def _note_breach(self, trial: Trial) -> None:
        """Log what was not safe. A violation stops asking."""
        if trial.status != "safe":
            text = about_breach(trial, self.model.constraints)
            self.note("violation" if trial.status == "violated" else trial.status, text)
            if trial.status == "violated" and self.task.halts_on_violation:
                self.halt = text

    def _note_withdrawn(self) -> None:
        """Log the seeds against which what was told last speaks."""
        seeds, before = self.task.seeds, self._withdrawn
        if not self._may_be_withdrawn():
            self._withdrawn = set()
            return
        withdrawn = self.rounds.present().withdrawn()
        for number, why in withdrawn.items():
            if number not in before:
                self.note("withdrawn", f"{seeds.describe(number)} is withdrawn: {why}")
        self._withdrawn = set(withdrawn)

    def _may_be_withdrawn(self) -> bool:
        """Say whether something may speak against a seed. If so, a round says whether it does.

        A witness knows what bounds are made of, unless it is more than priors and told values.
        """
        seeds, model, confidence = self.task.seeds, self.model, self.rounds.allow()
        if not seeds.declared or any("violated" in one for one in seeds.outcomes(self.trials)):
            return bool(seeds.declared)
        is_known = all(one.gp.hyperprior is None for one in model.outputs)
        if model.slopes or model.strategy or not (is_known and isinstance(confidence, PerQuery)):
            return True
        d, x = self.task.space.dimension, torch.from_numpy(self.trials[-1].x)
        points = with_context(torch.stack([seed[:d] for seed in seeds.points]), x[d:])
        beta, near = confidence.beta(len(model.sides)), False
        for side in model.sides:
            mean, std = self.witnesses[side.output].at(points)
            best = side.margins(mean - beta * std, mean + beta * std)[1]
            near |= bool((best < NEARLY_WITHDRAWN).any())
        return near
