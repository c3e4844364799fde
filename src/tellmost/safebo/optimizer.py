"""SafeOptimizer: ask, tell, and never step outside."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from tellmost.learner.record import refusing_damaged_state
from tellmost.posterior.gp import GP
from tellmost.rows.checks import check_seed
from tellmost.rules import Rule
from tellmost.running.workers import calculating
from tellmost.safebo import arguments
from tellmost.safebo.bounds import ForRun, Learned, RKHSBound, Schedule, check_confidence
from tellmost.safebo.calibration import fit_again
from tellmost.safebo.choice import SafeRound, SafeTask
from tellmost.safebo.constraints import Constraint
from tellmost.safebo.journal import (
    Acknowledged,
    AskedQuery,
    Changed,
    Entry,
    Judged,
    Refit,
    Retracted,
    ToldTrial,
    check_inside,
    read_journal,
    write_entry,
)
from tellmost.safebo.knowledge import SafeKnowledge
from tellmost.safebo.mixture import SetRule, check_priors
from tellmost.safebo.outputs import OBJECTIVE, by_number, gather_outputs, gather_sides
from tellmost.safebo.round_state import SafeModel
from tellmost.safebo.run import SafeRun
from tellmost.safebo.saving import (
    FORMAT,
    EntriesDigest,
    check_identity,
    describe_settings,
    digest,
    read_state,
    refuse_closures,
    write_state,
)
from tellmost.safebo.spaces import Search, check_space, with_context
from tellmost.safebo.strategies import QueryStrategy, check_strategy
from tellmost.safebo.trials import (
    Halted,
    Located,
    MiscalibratedModel,
    Query,
    RiskSpent,
    Seeds,
    Trial,
)

SUSPECT_Z = 4.0
"""A right model finds one value in 16,000 so far from what it expects."""


class SafeOptimizer(SafeKnowledge):
    """Finds the best point of an unknown function without violating unknown constraints.

    Gaussian processes say what is believed about objective and constraints. ``ask`` names a point
    that satisfies all constraints with the stated confidence: the one that tells most about the
    targets, by default the points that may be the best. ``tell`` takes in what came out. Where
    nothing is known to be safe, ``ask`` repeats a declared seed or refuses; it never guesses.
    """

    @calculating()
    def __init__(
        self,
        domain: Any,
        *,
        objective: GP,
        constraints: Mapping[str, Constraint] | None = None,
        safe_seed: Any = None,
        direction: Literal["maximize", "minimize"] = "maximize",
        confidence: float | None = None,
        horizon: int | float | None = None,
        beta: float | Schedule | RKHSBound | None = None,
        rule: str | Rule = "vtl",
        targets: Any = None,
        strategy: QueryStrategy | None = None,
        sets: SetRule = "mixture",
        search: Search | None = None,
        noise_std: Mapping[str, Any] | None = None,
        contexts: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        max_step: Any = None,
        on_violation: Literal["halt", "continue"] = "halt",
        on_miscalibration: Literal["halt", "log"] = "halt",
        suspect_z: float = SUSPECT_Z,
        seed: int = 0,
    ) -> None:
        """The optimizer is told what may be set, what is believed, and what must hold.

        Args:
            domain: (n, d) points, all of which are searched, or a ``tm.Box``.
            objective: its prior, a ``tm.GP``. Data that a prior brings along count as told.
            constraints: by name. A constraint with the objective's own GP is the same function.
            safe_seed: points that you declare safe (whole numbers are rows of a finite domain),
                or (points, values) with values by name, {"objective": [...], "height": [...]}.
                Seeds that were not told yet are asked for first.
            direction: whether large or small values of the objective are good.
            confidence: the probability that a query satisfies all constraints, by the present
                bounds. It is 0.99 if neither this nor ``beta`` is given.
            horizon: so many queries satisfy all constraints together with ``confidence``, and
                then ``ask`` refuses. Every query counts, also one that is not told.
            beta: how many standard deviations make bounds that hold in all rounds at once, and
                are intersected over time on finite domains: a number, a function of the number
                of observations, or ``safebo.RKHSBound(norm, delta)``.
            rule: "vtl", "itl", "mm-itl", "ctl" or an object. Gains add over the outputs, each
                in units of its prior standard deviation.
            targets: ``ProbableMaximizers()`` (the default of VTL), ``PotentialMaximizers()`` (that
                of other rules), ``ThompsonMaximizers(K)``, ``PotentialExpanders()``,
                ``LevelSet(tau)``, or a function of ``targets.Known`` that returns a mask.
            strategy: a method of ``safebo.baselines`` that replaces rule and targets. One with
                ``keeps_safe = False``, such as ``EIC()``, asks for points that may be unsafe.
            sets: how a ``GP.unknown`` proves points safe. "mixture": by the probability under all
                its hyper-parameters. "hpd": under the worst of the likeliest ones, whose weights
                add up to the confidence; it expands less, and is for functions that may steepen.
            search: where a box is searched: ``SobolSet()`` (default), ``CoordinateLines()`` or
                ``RandomLines()``.
            noise_std: the noise of outputs by name, if it is not that of the GP: a number, one
                per row of the domain, or a function of the points.
            contexts: names of variables that are observed but not chosen. The GPs take them as
                their last inputs, and ``ask(context=...)`` takes their values.
            names: the names of the parameters of a finite domain. A box has its own.
            max_step: how far each parameter may move from the last point that was told.
            on_violation: whether a told violation stops further asks until ``acknowledge()``.
            on_miscalibration: whether values that speak against a prior stop further asks until
                ``refit()`` or ``acknowledge()``, or are logged.
            suspect_z: a value is suspect if it lies so many standard deviations from what the
                model expects. Infinity takes every value as it is.
            seed: decides drawn targets, lines, and the points of a box.
        """
        space, word = check_space(domain, names, contexts), arguments.check_word
        declared, values = arguments.read_seeds(safe_seed, space)
        self._task = SafeTask(
            space=space,
            search=arguments.check_search(search, space),
            targets=arguments.check_safe_targets(targets, rule),
            seeds=Seeds(tuple(declared)),
            max_step=arguments.check_max_step(max_step, space),
            seed=check_seed(seed),
            halts_on_violation=word(on_violation, "on_violation", ("halt", "continue")),
            halts_on_miscalibration=word(on_miscalibration, "on_miscalibration", ("halt", "log")),
        )
        checked = arguments.check_constraints(objective, constraints, space)
        outputs = gather_outputs(objective, checked, space.sample())
        is_alone = targets is None and rule == "vtl"
        self._given = SafeModel(
            domain=space.sample(),
            outputs=outputs,
            constraints=checked,
            sides=gather_sides(outputs, checked),
            confidence=check_confidence(confidence, beta, horizon),
            rule=arguments.check_safe_rule(rule, self._task.seed),
            noise_std=arguments.check_output_noise(noise_std, outputs, space),
            is_minimized=not word(direction, "direction", ("maximize", "minimize")),
            strategy=check_strategy(strategy, checked, is_alone, horizon is not None),
            sets="mixture" if word(sets, "sets", ("mixture", "hpd")) else "hpd",
            suspect_z=arguments.check_suspect_z(suspect_z),
        )
        check_priors(self._given, self._task)
        self._journal: list[Entry] = []
        self._known_as: tuple[str, ...] = ()  # before settings were changed
        self._digest = EntriesDigest()
        unlearned = [Learned(output.names, 0, 0.0) for output in outputs]
        self._given.confidence.betas(unlearned, len(self._given.sides))  # it may fail
        self._last_run = SafeRun(self._task, self._given)
        for (_, point), told in zip(declared, values, strict=False):
            x, own = point[: space.dimension].numpy(), space.context_of(point)
            self.tell(x, told.pop(OBJECTIVE, None), told, context=own)

    # ---- the loop

    @calculating()
    def ask(self, context: Any = None, pending: Query | Sequence[Any] = ()) -> Query:
        """Say where to measure next, and why that is safe.

        ``pending`` are points that were asked for and not told yet. The next one is chosen as if
        they had been measured, but what is safe rests only on what was told.
        """
        at, waiting, key = self._prepare(context, pending)
        for known, query in self._rounds.asked.values():
            if known == key:
                self._rounds.at(at, [x for _, x in waiting])
                return query
        now = self._round(at, waiting, pending)
        now.state.check()
        query = self._named(now.choose(waiting), key)
        if isinstance(self._given.confidence, ForRun):
            self._record(AskedQuery(query.to_json(), key))
        return query

    @calculating()
    def judge(self, x: Any, context: Any = None, pending: Query | Sequence[Any] = ()) -> Query:
        """Say what is known about the safety of a point of your own choice.

        Its ``purpose`` is "risk" if nothing proves it safe. Nothing is recorded: under a horizon,
        ``count`` the query if you set it.
        """
        at, waiting, key = self._prepare(context, pending)
        now = self._round(at, waiting, pending)
        return self._named(now.judge(self._task.space.read_point(x, "x")), key)

    def count(self, query: Query) -> None:
        """A query was given out elsewhere: under a horizon its risk counts, told or not."""
        if isinstance(self._given.confidence, ForRun) and query.id not in self._rounds.asked:
            self._record(AskedQuery(query.to_json(), ""))

    @calculating()
    def tell(
        self,
        x: Any = None,
        objective: Any = None,
        constraints: Mapping[str, Any] | None = None,
        *,
        row: int | None = None,
        failed: bool = False,
        noise_std: Any = None,
        context: Any = None,
        repeat: bool = False,
    ) -> Trial:
        """Take in what came out at a point, whether it was asked for or not.

        Args:
            x: a Query, a point, or a point by names. Or give ``row``, of a finite domain.
            objective: its value, or None if it was not measured.
            constraints: values by name. A function that serves several names is told once.
            failed: nothing was measured. The point is passed over until a value is told.
            noise_std: the noise of these values if it is not the usual: a number, or by name.
            row: a row of a finite domain, in place of ``x``.
            context: the context of the measurement. A Query brings its own.
            repeat: the query was told before, and was measured again.

        Returns the trial, whose ``id`` serves to retract it.
        """
        space, outputs = self._task.space, self._model.outputs
        given = arguments.check_values(objective, constraints, self._model.constraints, failed)
        if isinstance(x, Query):
            known = {self.fingerprint, *self._known_as}
            arguments.check_query(x, known, self._rounds.trials, is_repeat=repeat)
            context = x.context if context is None else context
        _, point = space.read_told(x, row)
        told = by_number(outputs, given)
        arguments.check_size(told, outputs)
        own = arguments.check_told_noise(noise_std, outputs, told)
        trial = ToldTrial(
            id=next((e.id for e in reversed(self._journal) if isinstance(e, ToldTrial)), -1) + 1,
            x=with_context(point[None], space.read_context(context))[0].numpy().copy(),
            values={name: y for number, y in told.items() for name in outputs[number].names},
            noise_std={outputs[number].names[0]: std for number, std in own.items()},
            is_failed=failed,
            query=x.id if isinstance(x, Query) and x.id else None,
        )
        if isinstance(x, Query):
            self.count(x)
        self._record(trial)
        return self._rounds.trials[-1]

    @calculating()
    def retract(self, id: int) -> None:
        """A trial was told wrongly: it does not count any more, but what it risked does."""
        told = [one.id for one in self._rounds.trials]
        if id not in told:
            raise ValueError(f"id must be that of a trial that counts, {told}; got {id!r}.")
        self._decide(Retracted(id))

    @calculating()
    def acknowledge(self, at: Any = None) -> None:
        """Go on asking after a halt, from where the system stands now.

        ``at`` is that point, as ``tell`` takes it, and after a violation by default the
        ``restore_point``. Steps are counted from it until a trial is told.
        """
        where = None
        if at is not None:
            where = tuple(self._task.space.read_point(at, "at")[1].tolist())
        elif self.is_halted and (restored := self.restore_point) is not None:
            where = tuple(restored.tolist())
        self._record(Acknowledged(where))

    @calculating()
    def confirm(self, id: int) -> None:
        """The suspect values of a trial are right, so the models learn from them."""
        self._decide(Judged(id, self._suspect_names(id), is_right=True))

    @calculating()
    def discard(self, id: int) -> None:
        """The suspect values of a trial are glitches, so nothing rests on them any more."""
        self._decide(Judged(id, self._suspect_names(id), is_right=False))

    # ---- hyper-parameters, save and resume

    def refit(self) -> None:
        """Fit kernels and noise to what was told, and log it (extra ``bo``).

        A ``GP.unknown`` stays, means stay too, and noise never shrinks. One noise is fitted to all
        values of an output. Bounds of earlier rounds rested on other priors, so they are
        forgotten, and the safe set may shrink.
        """
        outputs, trials = self._model.outputs, self._rounds.trials
        if all(output.gp.hyperprior is not None for output in outputs):
            raise ValueError("refit() has nothing to fit: GP.unknown is weighed at every tell.")
        found = {output.names[0]: fit_again(output, trials) for output in outputs}
        self._record(Refit(found))

    def state_dict(self) -> dict[str, Any]:
        """Return what was told, and what tells this optimizer from others, as plain values."""
        identity = self._identity()
        refuse_closures(identity)
        journal = [write_entry(one) for one in self._journal]
        known_as = sorted({self.fingerprint, *self._known_as})
        return {**identity, "format": FORMAT, "known_as": known_as, "journal": journal}

    @calculating()
    def load_state_dict(self, state: Mapping[str, Any], changed: Collection[str] = ()) -> None:
        """Become the optimizer that the state was taken from. It must have the same arguments.

        ``changed`` names arguments that may differ: "beta", "confidence", "limits", "seeds" or
        "domain". All that was told is judged anew by those of this optimizer, and the log says
        what changed.
        """
        differing = check_identity(state, self._identity(), changed)
        width = self._task.space.dimension + len(self._task.space.contexts)
        with refusing_damaged_state():
            journal = read_journal(state["journal"], self._given.outputs, width)
            journal += [Changed(differing)] if differing else []
            check_inside(journal, self._task.space)
            run = SafeRun(self._task, self._given, journal)
            known_as = tuple(map(str, state["known_as"]))
        self._journal, self._last_run, self._known_as = journal, run, known_as

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was told to a JSON file, whole or not at all.

        A file that has entries which this optimizer does not know is not overwritten.
        """
        write_state(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str], changed: Collection[str] = ()) -> "SafeOptimizer":
        """Read what was told from a file written by ``save``, and return the optimizer itself.

        ``changed`` is that of ``load_state_dict``.
        """
        self.load_state_dict(read_state(path), changed)
        return self

    # ---- inside

    def _identity(self) -> dict[str, Any]:
        """The arguments tell it from others, with the priors from before any refit."""
        return describe_settings(self._task, self._given)

    def _record(self, entry: Entry) -> None:
        run = self._run
        with run.rounds.whole():
            run.apply(entry)
            self._journal.append(entry)

    def _decide(self, entry: Entry) -> None:
        """Take in an entry that changes how earlier ones count."""
        journal = [*self._journal, entry]
        run = SafeRun(self._task, self._given, journal)
        self._journal, self._last_run = journal, run

    @cached_property
    def fingerprint(self) -> str:
        """What tells the optimizer from others, and is part of the ids of its queries."""
        return digest(self._identity())

    def _named(self, query: Query, key: str) -> Query:
        return replace(query, id=f"{self.fingerprint}-{digest([key, query.x.tolist()])}")

    def _prepare(self, context: Any, pending: Any) -> tuple[Tensor, list[Located], str]:
        """The context, what is waited for, and a key of all else that a query follows from.

        After a halt nothing is asked.
        """
        if self._run.halt:
            raise Halted(self._run.halt)
        found = self._run.warn()
        if found is not None and self._task.halts_on_miscalibration:
            raise MiscalibratedModel.by_verdict(*found)
        now = self._task.space.read_context(context)
        waiting = self._task.space.read_pending(pending, now)
        others = now.tolist(), [x.tolist() for _, x in waiting]
        return now, waiting, self._digest.of(self._journal, *others)

    def _round(self, context: Tensor, waiting: Sequence[Located], pending: Any) -> SafeRound:
        """The round, which may risk what the queries so far have left. Refuse if that is 0."""
        queries = pending if isinstance(pending, list | tuple) else [pending]
        confidence = self._rounds.allow([one for one in queries if isinstance(one, Query)])
        if confidence is None:
            raise RiskSpent(str(self._given.confidence), len(self._rounds.asked), self.risk_spent)
        with self._rounds.whole() as rounds:
            now = rounds.at(context, [x for _, x in waiting])
            now.state.rely_on(confidence)
        return now

    def _suspect_names(self, id: int) -> tuple[str, ...]:
        found = [one.suspect for one in self._rounds.trials if one.id == id and one.suspect]
        if not found:
            some = ", ".join(sorted({str(one.id) for one in self.suspects})) or "none"
            raise ValueError(
                f"id must be that of a trial with suspect values, {some}; got {id!r}."
            )
        return found[0]
