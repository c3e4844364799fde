"""This module turns options into arguments of the library."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from tellmost import rules
from tellmost.cli.ending import UsageError
from tellmost.cli.labels import match_ids, read_labels, read_observed
from tellmost.cli.options import OptionValues
from tellmost.cli.paths import noise_file
from tellmost.kernels import Kernel
from tellmost.kernels.written import read_kernel
from tellmost.rows.array_tables import NoColumns
from tellmost.rows.checks import check_positive, check_positives, check_word
from tellmost.rows.files import File
from tellmost.rows.nearby import near
from tellmost.rows.record_files import Wanted, read_records
from tellmost.rows.records import Records, find_columns, listed, match_features
from tellmost.rows.sources import NamedArray
from tellmost.rows.text_formats import CELLS
from tellmost.rows.text_tables import suffix_of
from tellmost.running.memory import check_memory
from tellmost.running.progress import working
from tellmost.selecting.arguments import (
    NORMALIZATIONS,
    check_combination,
    check_device,
    check_meaning,
)
from tellmost.selecting.limits import check_stop
from tellmost.selecting.selection import Selection

NOT_IN_A_CLUSTER = (
    *("text_field", "embed", "features", "observed", "exclude", "candidates", "cost"),
    *("cost_column", "groups", "group_column", "report", "export"),
)
"""Options about rows that only a process that looks at all rows can serve."""

# ---- the options themselves, before any file is read


def check_choices(given: OptionValues) -> None:
    """Check the options of a selection as far as this needs no data."""
    if given.k is given.budget is given.min_gain is given.min_gain_share is None:
        raise UsageError(
            "say how much to pick: -k 100, --budget with --cost-column, or --min-gain-share."
        )
    has_targets, conditional = given.targets is not None, given.conditional is not False
    for text in (given.rule, *split_names(given.methods or "")):
        rule = read_rule(text)
        with about_usage():
            check_combination(
                rule, has_targets, bool(given.replace), conditional, bool(given.floor)
            )
            check_meaning(None, None, given.targets_are, rule, has_targets=has_targets)
            bounds = (given.k, given.budget, given.min_gain, given.min_gain_share)
            check_stop(*bounds, rule, conditional)
    if given.budget is not None and given.cost is given.cost_column is None:
        raise UsageError("--budget needs costs: --cost-column, or --cost with a file.")
    check_cluster(given)
    check_model(given)


def check_cluster(given: OptionValues) -> None:
    """Check that a cluster has workers, and is asked for nothing but vectors and ids."""
    if (given.cluster is None) != (given.workers is None):
        raise UsageError("--cluster and --workers go together, as in --cluster auto --workers 8.")
    vain = [name for name in NOT_IN_A_CLUSTER if getattr(given, name)]
    if given.on_bad_row == "skip":
        vain.append("on_bad_row")
    if given.cluster is not None and vain:
        raise UsageError(
            f"--cluster reads vectors and ids alone, so there is no "
            f"--{vain[0].replace('_', '-')}. Leave it out, or call tellmost.select from Python."
        )


def check_model(given: OptionValues) -> None:
    """Check normalisation, noise, device and memory."""
    if given.noise_ratio is not None and given.noise_std is not None:
        raise UsageError("give --noise-ratio or --noise-std, not both.")
    with about_usage():
        check_word(given.normalize, "--normalize", ("auto", *NORMALIZATIONS))
        if given.noise_ratio is not None:
            check_positive(given.noise_ratio, "--noise-ratio")
        if given.noise_std is not None and noise_file(given) is None:
            check_positive(float(given.noise_std), "--noise-std, where it is no file,")
        check_memory(given.memory)
        if given.device is not None:
            check_device(given.device)


@contextmanager
def about_usage(option: str = "") -> Iterator[None]:
    """Turn the errors of the library's own checks into errors about usage."""
    try:
        yield
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(f"{option}{error}") from error


def read_rule(text: str) -> rules.Rule:
    """The rule of this name, or one as in Python, such as MMR(relevance=0.7)."""
    with about_usage("--rule: "):
        return rules.read_rule(text) if "(" in text else rules.get(text)


def read_prior(text: str) -> Kernel | str:
    """The kernel as in Python: a name that ``select`` knows, or a kernel as it is printed."""
    if text in ("linear", "gaussian"):
        return text
    with about_usage("--kernel: "):
        return read_kernel(text)


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def split_numbers(text: str) -> list[int]:
    try:
        return [int(name) for name in split_names(text)]
    except ValueError as error:
        raise UsageError(
            f"--budgets must be whole numbers by commas, such as 10,20; got {text!r}."
        ) from error


# ---- pool and targets


def read_points(given: OptionValues) -> tuple[Records, Records | None]:
    """The pool and the targets. The options that name columns serve both."""
    check_features(given)
    if given.on_bad_row not in ("fail", "skip"):
        raise UsageError(f"--on-bad-row must be fail or skip; got {given.on_bad_row!r}.")
    pool = read_pool(given)
    targets = None if given.targets is None else read_targets(given, pool, given.targets)
    _check_excluded(given, [one for one in (pool, targets) if one is not None])
    return pool, targets


def _check_excluded(given: OptionValues, files: Sequence[Records]) -> None:
    """Check that one of the files has each column that is named as no feature."""
    is_own = given.label_column is not None and given.labels is None
    texts = [*(given.exclude_columns or ()), *([given.label_column] if is_own else [])]
    names = list(dict.fromkeys(name for records in files for name in records.table.names))
    _, unknown = find_columns(texts, names)
    if unknown:
        raise ValueError(
            f"no file has a column {unknown[0]!r}; there is {listed(names) or 'none with a name'}."
        )


def check_features(given: OptionValues) -> None:
    """Check that the option --features can mean something."""
    paths = map(Path, [*given.pool, *([] if given.targets is None else [given.targets])])
    is_vain = not any(suffix_of(path) in (*CELLS, "") for path in paths)
    if given.features and (is_vain or given.embed is not None or given.vector_column is not None):
        raise UsageError(
            "--features names columns of .csv and .tsv files, each of one number; name a column "
            "of vectors with --vector-column, and leave out --features with it or --embed."
        )


def read_pool(given: OptionValues) -> Records:
    if given.cluster is not None:  # nobody reads all ids
        named = NamedArray(given.pool, given.vector_column, given.id_column)
        file = File(Path(str(given.pool[0])), "pool", size=0, changed=0)
        none = np.empty(0, dtype=np.int64)
        return Records(named, none, NoColumns(file), named.id_column)
    columns = [name for name in (given.cost_column, given.group_column) if name is not None]
    return read_files(given.pool, "pool", given, Wanted(columns=columns))


def read_targets(
    given: OptionValues, pool: Records, place: str | Path, argument: str = "targets"
) -> Records:
    """Rows like the pool's, with those of its columns that make their vectors and labels."""
    wanted = Wanted(required=False, lone_vector=True)
    return match_features(read_files([place], argument, given, wanted), pool)


def read_files(
    places: Sequence[str | Path], argument: str, given: OptionValues, wanted: Wanted
) -> Records:
    """The rows of files. The column of labels and those to exclude are no features."""
    label = [] if given.label_column is None else [given.label_column]
    wanted = replace(
        wanted,
        vector_column=given.vector_column,
        text_field=given.text_field,
        id_column=given.id_column,
        excluded=[*(given.exclude_columns or ()), *label],
        features=given.features or None,
        embed=given.embed,
        skip_bad=given.on_bad_row == "skip",
        device=given.device,
        memory=check_memory(given.memory),
    )
    is_counted = given.embed is not None
    what = ", ".join(Path(str(place).split("?")[0]).name for place in places)
    waiting = nullcontext() if is_counted else working(given.progress, f"reading {what}")
    with waiting:
        return read_records(places, argument, wanted, given.progress)


def vectors_of(records: Records | None) -> Any:
    return None if records is None else records.vectors


# ---- everything else


def arguments_for(
    function: Callable[..., Any], given: OptionValues, pool: Records, targets: Records | None
) -> dict[str, Any]:
    """Find what was given for the arguments of the function, in options or in files.

    An argument for which nothing was given is left out.
    """
    readers: dict[str, Callable[[], Any]] = {
        "candidates": lambda: find_candidates(given, pool),
        "observed": lambda: find_observed(given.observed, pool),
        "cost": lambda: choose_values(given.cost, given.cost_column, "--cost", pool),
        "groups": lambda: choose_values(given.groups, given.group_column, "--groups", pool),
        "target_weights": lambda: read_values(given.target_weights, "--target-weights", targets),
        "labels": lambda: read_values(given.labels, "--labels", pool, given.label_column),
        "target_labels": lambda: read_values(
            given.target_labels, "--target-labels", targets, given.label_column
        ),
        "noise_std": lambda: read_noise(given, pool),
        "cluster": lambda: find_cluster(given),
        "rule": lambda: read_rule(given.rule),
        "kernel": lambda: given.kernel and read_prior(given.kernel),
        "methods": lambda: given.methods and split_names(given.methods),
        "budgets": lambda: given.budgets and split_numbers(given.budgets),
    }
    # they are passed by position, and the rows know their ids
    known = vars(given).keys() - {"pool", "targets", "id_column", "embed"}
    names = [name for name in signature(function).parameters if name in known]
    values = {name: readers[name]() if name in readers else getattr(given, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def find_cluster(given: OptionValues) -> Any:
    if given.cluster is None:
        return None
    from tellmost.cluster import Ray

    with about_usage("--cluster: "):
        return Ray(
            workers=given.workers,
            cpus_per_worker=given.cpus_per_worker,
            address=None if given.cluster == "local" else given.cluster,
        )


def read_values(
    path: Path | None, option: str, records: Records | None, column: str | None = None
) -> np.ndarray | None:
    """One value per row, from a file of its own or from a column of the records' file."""
    if path is None:
        if column is None or records is None:
            return None
        return records.of_vectors(records.column(column))
    if records is None:
        raise UsageError(f"{option} needs --targets.")
    return of_usable(read_labels(path, option, records, column=column), option, records)


def of_usable(values: np.ndarray, option: str, records: Records) -> np.ndarray:
    """The values of the rows that are not skipped. An error numbers rows as the file does."""
    if records.rows is not None and option in ("--cost", "--noise-std"):
        usable = values.copy()
        usable[records.skipped] = 1
        check_positives(usable, option, len(records), f"row of {records.path.name}")
    return records.of_vectors(values)


def choose_values(
    path: Path | None, column: str | None, option: str, pool: Records
) -> np.ndarray | None:
    """One value per pool row, from a file of its own or from a column of the pool's."""
    if path is not None and column is not None:
        raise UsageError(f"give {option} (a file) or a column of the pool's file, not both.")
    if column is not None and option == "--cost":
        return of_usable(pool.numbers(column), option, pool)
    return read_values(path, option, pool, column)


def read_noise(given: OptionValues, pool: Records) -> float | np.ndarray | None:
    """The noise: a number, or one for each row from a file."""
    if given.noise_std is None:
        return None
    path = noise_file(given)
    return float(given.noise_std) if path is None else read_values(path, "--noise-std", pool)


def find_candidates(given: OptionValues, pool: Records) -> np.ndarray | None:
    """Rows that may be picked: those named, without those excluded. None for all."""
    if not given.candidates and not given.exclude and not given.avoid:
        return None
    may = np.full(len(pool), not given.candidates)
    may[find_rows(given.candidates or (), "--candidates", pool)] = True
    may[find_rows(given.exclude or (), "--exclude", pool)] = False
    may = pool.of_vectors(may) & ~find_near(given, pool)
    if not may.any():
        raise ValueError("no row may be picked: --candidates, --exclude and --avoid leave none.")
    return may


def find_near(given: OptionValues, pool: Records) -> np.ndarray:
    """The mask of the rows that are near to some that no pick may be near to, told in a note."""
    mask = np.zeros(len(pool if pool.rows is None else pool.rows), dtype=bool)
    for path in given.avoid or ():
        others = read_targets(given, pool, path, "--avoid")
        found = near(pool.vectors, others.vectors, given.avoid_cosine)
        warnings.warn(
            f"{found.sum():,} of {len(found):,} rows are near to one of the {len(others):,} rows "
            f"of {path.name} (cosine {given.avoid_cosine:g}), and are not picked.",
            stacklevel=2,
        )
        mask |= found
    return mask


def find_observed(paths: Sequence[Path] | None, pool: Records) -> Any:
    """An earlier selection with all it knew, or the rows that files name."""
    if not paths:
        return None
    if len(paths) > 1:
        given: Any = find_rows(paths, "--observed", pool)
    else:
        given = read_observed(paths[0], pool, "--observed")
    if pool.rows is None or isinstance(given, Selection) or given.ndim != 1:
        return given
    rows = np.asarray(given)
    lacking = rows[~np.isin(rows, pool.rows)]
    if len(lacking):
        raise ValueError(
            f"--observed must name rows that are finite and not empty; row {lacking[0]} of "
            f"{pool.path.name} was skipped. Leave it out."
        )
    return np.searchsorted(pool.rows, rows)


def find_rows(paths: Sequence[Path], option: str, pool: Records) -> np.ndarray:
    """The numbers of the rows that files name by id, each once."""
    found = [np.empty(0, dtype=np.int64)]
    is_observed = option == "--observed"
    found += [match_ids(path, pool, option, only_labelled=is_observed) for path in paths]
    return np.unique(np.concatenate(found))
