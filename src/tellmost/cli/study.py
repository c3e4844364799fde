"""The commands ``study``: safe tuning from shell scripts and by operators, JSON in and out."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tellmost.cli.ending import DONE, UsageError
from tellmost.cli.options import ESSENTIALS, OUTPUT, REQUIRED, Option, OptionValues, command

if TYPE_CHECKING:
    from optuna.study import Study

FILE = "tellmost:file"
"""The attribute of a study that holds the file from which it was made."""

STORAGE = Option("storage", str, ESSENTIALS, "URL", default="sqlite:///tellmost.db").says(
    "Where the study is: sqlite:///laser.db, postgresql://user@host/db, or journal:laser.log."
)
NAME = Option("name", str, ESSENTIALS).says("The study. It may be left out if there is one.")
RETRY = Option("retry", float, ESSENTIALS, "SECONDS", default=30.0).says(
    "How long a database that went away is waited for."
)

study_app = typer.Typer(
    help="Tune a machine safely, with a database that operators and scripts share.",
    no_args_is_help=True,
)


@study_app.command("create")
@command(
    Option("file", Path, None, metavar="FILE", default=REQUIRED).says(
        "A .toml or .json file: parameters, objective, constraints, seeds and measurements."
    ),
    STORAGE,
    NAME,
    Option("changed", list[str], ESSENTIALS, "WHAT").says(
        "The study exists and these settings change: limits, confidence, seeds or domain."
    ),
)
def create(given: OptionValues) -> int:
    """Create a study from a file, or change what may be changed of one.

    tellmost study create laser.toml --storage sqlite:///laser.db
    """
    import optuna

    from tellmost.cli.study_file import (
        make_sampler,
        measured_trials,
        read_study_file,
        settle_priors,
    )

    try:  # before anything is stored
        described = settle_priors(read_study_file(given.file))
        sampler = make_sampler(described, given.changed or ())
        measured = measured_trials(described, sampler)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{given.file}: {error}") from error
    name = given.name or described.get("name") or given.file.stem
    direction = described.get("direction", "maximize")
    storage = _open(given.storage)
    study = optuna.create_study(
        storage=storage,
        sampler=sampler,
        study_name=name,
        direction=direction,
        load_if_exists=bool(given.changed),
    )
    if not given.changed:
        for one in measured:
            _add_measured(study, one["setting"], one["values"], sampler.space)
    sampler.replay(study)
    storage.set_study_system_attr(study._study_id, FILE, json.dumps(described))
    return _print({"study": name, "storage": given.storage, "told": len(study.trials)})


def _add_measured(study: "Study", setting: Any, values: Any, space: Any) -> None:
    import optuna

    values = dict(values)
    objective = values.pop("objective", None)
    states = optuna.trial.TrialState
    trial = optuna.trial.create_trial(
        params=setting,
        distributions=space,
        value=objective,
        user_attrs=values,
        state=states.FAIL if objective is None else states.COMPLETE,
    )
    study.add_trial(trial)


@study_app.command("ask")
@command(
    STORAGE,
    NAME,
    Option("n", int, ESSENTIALS, default=1, flags=("-n",)).says("For so many machines."),
    Option("point", str, ESSENTIALS, "JSON").says(
        "Judge and ask for this setting, if it is safe, in place of a choice."
    ),
    Option("risk", bool, ESSENTIALS, default=False).says("Ask for it though it may be unsafe."),
    RETRY,
)
def ask(given: OptionValues) -> int:
    """Print safe points to measure next, each with what is known about its safety."""
    from tellmost.integrations import optuna as field

    study = _load(given)
    box = field.sampler_of(study).box
    if given.point is not None:
        setting = _read_json(given.point)
        box.encode(setting, "--point")
        study.enqueue_trial(setting, user_attrs={"risk": True} if given.risk else None)
    asked = field.ask(study, given.n, retry=given.retry)
    return _print(
        [
            {
                "trial": one.number,
                "parameters": one.params,
                "units": box.units,
                "safety": one.user_attrs["safety"],
            }
            for one in asked
        ]
    )


@study_app.command("tell")
@command(
    Option("told", str, None, metavar="JSON", default="-").says(
        "What was measured, or - for stdin: one object or a list of them."
    ),
    STORAGE,
    NAME,
    RETRY,
)
def tell(given: OptionValues) -> int:
    """Store what was measured. To tell the same twice changes nothing.

        tellmost study tell '{"trial": 7, "objective": 0.8, "constraints": {"heat": 61.5}}'

    In place of values an object may have "failed" or "abandoned" with a reason, or "decision":
    "confirmed", "discarded" or "retracted" for a trial that was told before.
    """
    study = _load(given)
    told = _read_json(sys.stdin.read() if given.told == "-" else given.told)
    each = told if isinstance(told, list) else [told]
    for one in each:  # all are looked at before the first is stored
        _check_told(one)
    for one in each:
        _tell_one(study, one, given.retry)
    return _print({"told": [one["trial"] for one in each]})


def _check_told(one: Any) -> None:
    from tellmost.cli.study_file import check_keys

    known = ["trial", "objective", "constraints", "failed", "abandoned", "decision"]
    named = check_keys(one, known, "what is told")
    if not isinstance(named.get("trial"), int) or isinstance(named["trial"], bool):
        raise UsageError(f"what is told must have the number of a trial; got {one!r:.200}.")
    words = [key for key in ("failed", "abandoned", "decision") if key in named]
    if len(words) + bool({"objective", "constraints"} & set(named)) != 1:
        raise UsageError(
            f"what is told must have values, or failed, or abandoned, or decision: {one!r:.200}."
        )
    for key in words:
        if not isinstance(named[key], str) or not named[key]:
            raise UsageError(f"{key} must be a text that says why; got {named[key]!r:.80}.")


def _tell_one(study: "Study", one: dict[str, Any], retry: float) -> None:
    from tellmost.integrations import optuna as field

    if "abandoned" in one:
        field.abandon(study, one["trial"], one["abandoned"])
    elif "decision" in one:
        field.decide(study, one["trial"], one["decision"])
    else:
        field.tell(
            study,
            one["trial"],
            one.get("objective"),
            one.get("constraints"),
            failed=one.get("failed", ""),
            retry=retry,
        )


@study_app.command("status")
@command(STORAGE, NAME)
def status(given: OptionValues) -> int:
    """Print what waits for people, and what is known."""
    from tellmost.integrations import optuna as field

    return _print(field.status(_load(given)))


@study_app.command("acknowledge")
@command(
    STORAGE,
    NAME,
    Option("at", str, ESSENTIALS, "JSON").says(
        "Where the machine stands now. Default: the point that is farthest from all limits."
    ),
    Option("by", str, ESSENTIALS, default="").says("Who acknowledges, for the record."),
)
def acknowledge(given: OptionValues) -> int:
    """Let asking go on after a violation, once the machine is safe again."""
    from tellmost.integrations import optuna as field

    at = None if given.at is None else _read_json(given.at)
    return _print({"acknowledged": field.acknowledge(_load(given), at, given.by)})


@study_app.command("figures")
@command(
    STORAGE,
    NAME,
    Option("output", Path, OUTPUT, flags=("--output", "-o"), default=REQUIRED).says(
        "The page, a single .html file that needs no network."
    ),
)
def figures(given: OptionValues) -> int:
    """Write a page of figures: bands, safe maps, margins, growth, calibration and risk."""
    from tellmost.report.study_page import write_study_page

    study = _load(given)
    described = json.loads(study._storage.get_study_system_attrs(study._study_id)[FILE])
    tables = {"objective": described["objective"], **described.get("constraints", {})}
    write_study_page(study, given.output, {name: t.get("unit", "") for name, t in tables.items()})
    return _print({"written": str(given.output)})


# ---- inside


def _open(url: str) -> Any:
    import optuna

    from tellmost.integrations.optuna import open_storage

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return open_storage(url)


def _load(given: OptionValues) -> "Study":
    """The study with the sampler that its file describes, once its storage can be used."""
    from tellmost.integrations.optuna_storage import RETRY, retrying

    return retrying(lambda: _load_now(given), RETRY if given.retry is None else given.retry)


def _load_now(given: OptionValues) -> "Study":
    import optuna

    from tellmost.cli.study_file import make_sampler

    place = given.storage.removeprefix("sqlite:///").removeprefix("journal:")
    if "://" not in place and not Path(place).exists():
        raise UsageError(f"--storage must exist; {place} does not. 'study create' makes it.")
    storage = _open(given.storage)
    found = {one.study_name: one._study_id for one in storage.get_all_studies()}
    name = given.name or (next(iter(found)) if len(found) == 1 else None)
    if name not in found:
        there = ", ".join(found) or "none"
        raise UsageError(f"--name must be a study in {given.storage}, {there}; got {name}.")
    described = storage.get_study_system_attrs(found[name]).get(FILE)
    if described is None:
        raise UsageError(f"{name!r} was not made by 'tellmost study create'; use it from Python.")
    sampler = make_sampler(json.loads(described))
    return optuna.load_study(study_name=name, storage=storage, sampler=sampler)


def _read_json(text: str) -> Any:
    from tellmost.cli.study_file import MOST_BYTES

    if len(text) > MOST_BYTES:
        raise UsageError(f"JSON must have at most {MOST_BYTES:,} letters; got {len(text):,}.")
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"this is no JSON: {text[:80]!r} ({error}).") from error


def _print(answer: Any) -> int:
    print(json.dumps(answer, ensure_ascii=False, allow_nan=False, default=str))
    return DONE
