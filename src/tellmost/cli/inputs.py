"""From the names of files to what the library takes.

Mistakes in the options themselves, found before any file is read.
"""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellmost.cli.ending import UsageError

if TYPE_CHECKING:
    import numpy as np

    from tellmost.cli.records import Records
    from tellmost.kernels import Kernel
    from tellmost.rules import Rule


@dataclass(frozen=True)
class Columns:
    """Which columns of the files hold what; the same names serve pool and targets."""

    vector: str | None = None
    text: str | None = None
    id: str | None = None
    embed: str | None = None
    others: tuple[str, ...] = ()  # of the pool, no features: costs, groups, labels
    ignored: tuple[str, ...] = ()  # of both, if they have them
    shared: bool = False  # whether the targets have the others too
    is_target: bool = False  # a lone vector is then one target
    device: str | None = None
    progress: bool | None = None

    def read_pool(self, paths: Sequence[Path]) -> "Records":
        for path in paths:
            check_there(path, "pool")
        if len(paths) == 1:
            return self._read(paths[0], "pool")
        from tellmost.cli.array_tables import read_array_files

        named = (self.vector, self.text, self.id, self.embed, *self.others, *self.ignored)
        if any(name is not None for name in named):
            raise UsageError("several pool files hold arrays alone: no column can be named.")
        return read_array_files(paths, "pool")

    def read_targets(self, path: Path | None, pool: "Records") -> "Records | None":
        """Of the pool's columns the targets need those only that make their vectors."""
        if path is None:
            return None
        check_there(path, "--targets")
        from tellmost.cli.reading import column_names
        from tellmost.cli.records import match_features

        names = column_names(path, "targets")
        is_archive = path.suffix in (".npz", ".safetensors")
        own = replace(
            self,
            id=self.id if self.id in names else None,
            text=self.text if self.text in names or self.embed is not None else None,
            vector=self.vector if self.vector in names or is_archive else None,
            others=self.others if self.shared else (),
            ignored=tuple(name for name in self.ignored if name in names),
            is_target=True,
        )
        return match_features(own._read(path, "targets"), pool)

    def _read(self, path: Path, argument: str) -> "Records":
        from tellmost.cli.reading import read_records
        from tellmost.running.progress import ProgressLine, working

        is_counted = self.embed is not None
        waiting = nullcontext() if is_counted else working(self.progress, f"reading {path.name}")
        with waiting, ProgressLine(self.progress, "texts embedded", done_before=0) as line:
            return read_records(
                path,
                argument,
                vector_column=self.vector,
                text_field=self.text,
                id_column=self.id,
                columns=(*self.others, *self.ignored),
                embed=self.embed,
                lone_vector=self.is_target,
                device=self.device,
                progress=line,
            )


def check_there(path: Path, option: str) -> None:
    """A file that is not there is a mistake in the command."""
    if not path.exists():
        raise UsageError(f"{option}: there is no file {str(path)!r}.")


def read_values(path: Path | None, option: str, records: "Records | None") -> "np.ndarray | None":
    """One value per row, from a file of its own."""
    if path is None:
        return None
    if records is None:
        raise UsageError(f"{option} needs --targets.")
    check_there(path, option)
    from tellmost.cli.labels import read_labels

    return read_labels(path, option, records)


def read_labels(
    path: Path | None, column: str | None, option: str, records: "Records"
) -> "np.ndarray | None":
    """Labels of a file of their own, or a column of the records' file."""
    if path is None:
        return None if column is None else records.column(column)
    from tellmost.cli.labels import read_labels as read

    return read(path, option, records, column=column)


def choose_values(
    path: Path | None, column: str | None, option: str, records: "Records"
) -> "np.ndarray | None":
    """One value per pool row, from a file of its own or from a column of the pool's."""
    if path is not None and column is not None:
        raise UsageError(f"give {option} (a file) or a column of the pool's file, not both.")
    if column is None:
        return read_values(path, option, records)
    return records.numbers(column) if option == "--cost" else records.column(column)


def read_noise(text: str | None, records: "Records") -> Any:
    """A number, or one for each row from a file."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return read_values(Path(text), "--noise-std", records)


def read_kernel(text: str | None) -> "Kernel | None":
    if text is None:
        return None
    from tellmost.kernels.written import read_kernel as read

    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"--kernel: {error}") from error


def find_candidates(
    candidates: Sequence[Path] | None, exclude: Sequence[Path] | None, records: "Records"
) -> "np.ndarray | None":
    """Rows that may be picked: those named, less those excluded; None for all."""
    if not candidates and not exclude:
        return None
    import numpy as np

    may = np.full(len(records), not candidates)
    may[find_rows(candidates, "--candidates", records)] = True
    may[find_rows(exclude, "--exclude", records)] = False
    if not may.any():
        raise ValueError("no row may be picked: --candidates and --exclude leave none.")
    return may


def find_observed(paths: Sequence[Path] | None, records: "Records") -> Any:
    """An earlier selection with all it knew, or the rows that files name."""
    if not paths:
        return None
    if len(paths) > 1:
        return find_rows(paths, "--observed", records)
    check_there(paths[0], "--observed")
    from tellmost.cli.labels import read_observed

    return read_observed(paths[0], records, "--observed")


def find_rows(paths: Sequence[Path] | None, option: str, records: "Records") -> "np.ndarray":
    """Numbers of the rows that files name by id, each once."""
    import numpy as np

    from tellmost.cli.labels import match_ids

    found = [np.empty(0, dtype=np.int64)]
    for path in paths or ():
        check_there(path, option)
        found.append(match_ids(path, records, option))
    return np.unique(np.concatenate(found))


def check_choices(
    rule: str,
    *,
    has_targets: bool,
    normalize: str | None = None,
    noise: tuple[Any, Any] = (None, None),
    conditional: bool = True,
    k: int | None = None,
    budget: float | None = None,
    min_gain: float | None = None,
    min_gain_share: float | None = None,
    replace: bool = False,
    floor: bool = False,
    has_cost: bool = False,
) -> None:
    """The library's own checks of what needs no data; their errors are about usage."""
    from tellmost.selecting.arguments import check_combination
    from tellmost.selecting.limits import check_bounds

    known = read_rule(rule)
    if k is budget is min_gain is min_gain_share is None:
        raise UsageError(
            "say how much to pick: -k 100, --budget with --cost-column, or --min-gain-share."
        )
    try:
        check_combination(known, has_targets, replace, conditional, floor)
        check_bounds(k, budget, min_gain, min_gain_share, known, conditional)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    check_normalize(normalize)
    check_noise(*noise)
    if budget is not None and not has_cost:
        raise UsageError("--budget needs costs: --cost-column, or --cost with a file.")


def check_noise(ratio: float | None, std: str | None) -> None:
    """A ratio, or a standard deviation, which may be the name of a file."""
    if ratio is not None and std is not None:
        raise UsageError("give --noise-ratio or --noise-std, not both.")
    if ratio is not None and not 0 < ratio < inf:
        raise UsageError(f"--noise-ratio must be a positive number; got {ratio}.")
    with suppress(TypeError, ValueError):  # not given, or a file
        if not 0 < float(std) < inf:  # type: ignore[arg-type]
            raise UsageError(f"--noise-std must be a positive number, or a file; got {std}.")


def check_machine(device: str | None, memory: str | None) -> None:
    """Whether there is such a device, and whether the memory is a size."""
    from tellmost.selecting.arguments import check_device, check_memory

    try:
        check_memory(memory)
        if device is not None:
            check_device(device)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(str(error)) from error


def read_rule(text: str) -> "Rule":
    """A rule by its name, or as in Python, such as MMR(relevance=0.7)."""
    from tellmost import rules

    try:
        return rules.read_rule(text) if "(" in text else rules.get(text)
    except ValueError as error:
        raise UsageError(f"--rule: {error}") from error


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def split_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(name) for name in split_names(text)]
    except ValueError as error:
        raise UsageError(
            f"{option} must be whole numbers by commas, such as 10,20; got {text!r}."
        ) from error


def check_normalize(normalize: str | None) -> None:
    from tellmost.selecting.arguments import NORMALIZATIONS

    if normalize is not None and normalize not in NORMALIZATIONS:
        raise UsageError(f"--normalize must be {', '.join(NORMALIZATIONS)}; got {normalize!r}.")
