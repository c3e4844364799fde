"""Retriever: for every query the few rows that together say most about it."""

import ctypes
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tellmost.posterior.problem import AMONG_CANDIDATES, STATE_FIELDS
from tellmost.retrieval.answers import Work
from tellmost.retrieval.nearest import ExactSearch, IndexSearch, NearestRows
from tellmost.retrieval.queries import Batch, Queries
from tellmost.retrieval.stored_rows import StoredRows, open_rows
from tellmost.rows.checks import check_features, check_positive, check_whole, check_word
from tellmost.rows.sources import NamedArray
from tellmost.rules import Rule, is_random, read_rule, targets_in_pool
from tellmost.running.reading import open_archive, refusing_damage
from tellmost.running.workers import each
from tellmost.running.writing import written_whole
from tellmost.selecting.arguments import NORMALIZATIONS, check_rule
from tellmost.selecting.limits import check_stop
from tellmost.shapes import Float, Int

DEFAULT_RETRIEVAL_NOISE_RATIO = 1.0  # see docs/retrieval.md

FORMAT = "tellmost retriever 1"

READABLE = STATE_FIELDS - {
    AMONG_CANDIDATES,
    "squared_distance_to_targets",
    "squared_distance_to_chosen",
}
"""Rules may read these fields of a state."""

NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
"""How the setting is called in the libraries that come with numpy."""

_lock = threading.Lock()
_searches = [0, 0]  # how many run, and the setting before the first of them


class Retriever:
    """Choose, for each of many queries, the rows of a pool that together say most about it.

    It is ``tm.select`` for every query with itself as target, batched over queries: SIFT (Hübotter
    et al., arXiv 2410.08020) is rule VTL. Nothing is remembered between searches, and several
    threads may search at once.
    """

    def __init__(
        self,
        pool: Any,
        *,
        rule: str | Rule = "vtl",
        noise_ratio: float | None = None,
        noise_std: float | None = None,
        normalize: str | None = "auto",
        index: Any = None,
        candidates: int | None = 200,
        refresh: bool = False,
        column: str | Sequence[str] | None = None,
    ) -> None:
        """Read the pool once.

        Args:
            pool: (n, d) rows: an array, a tensor, a memory map, a frame, a Dataset or a path.
                Arrays stay where they are, in their own dtype; the file of a path is read.
            rule: vtl, itl, itl-y, mm-itl, ctl, mmr, cosine or top-k, or an object from
                ``tm.rules``.
            noise_ratio: noise variance over the rows' mean prior variance. A small ratio spreads
                the picks, a large one keeps them near the query.
            noise_std: in place of the ratio, a standard deviation in the unit of y.
            normalize: None, "unit", "center" or "center+unit", for rows and queries alike;
                "auto" is center+unit.
            index: finds the candidates: anything with ``search(queries, c) -> (scores, ids)``,
                such as an index of faiss that holds the rows as ``normalize`` makes them. None
                for an exact search.
            candidates: how many rows, the nearest of the query, are looked at. None for all.
            refresh: search again for what is left to learn, in both directions, while picking;
                for test-time training, where variance is what counts.
            column: the column of vectors in a table, or a list of columns of numbers, as in
                ``select``; of rows that are added and of queries too, where they have it.
        """
        self._rule = check_retrieval_rule(rule)
        how = check_retrieval_normalize(normalize, index)
        self._candidates = None if candidates is None else check_whole(candidates, "candidates")
        self._refresh = bool(refresh)
        if candidates is None and (refresh or index is not None):
            what = "refresh=True" if refresh else "index"
            raise ValueError(f"{what} has no meaning with candidates=None, which takes all rows.")
        values, columns = open_rows(NamedArray(pool, column), "pool")
        self._column = column or columns or None
        rows = StoredRows.normalized_by(values, how)
        self._noise = find_noise(noise_ratio, noise_std, rows)
        self._index = index
        self._nearest = self._search_of(rows)

    def search(
        self,
        queries: Any,
        k: int,
        *,
        allowed: Any = None,
        observed: Any = None,
        min_gain_share: float | None = None,
        alpha: float | None = None,
    ) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
        """The gains and the rows of k picks for each query, in the order of the queries.

        A query that has fewer than k picks is filled up with NaN and -1. That happens where it
        has too few candidates, or by ``min_gain_share`` or ``alpha``.

        Args:
            queries: (nq, d), (d,) for one, or a list of (m, d) arrays for several targets each.
            k: how many rows to pick for each query.
            allowed: the rows that may be picked, as a mask or row numbers: for all queries, or
                one for each. Other rows are no candidates.
            observed: row numbers for each query, of what it has already, such as the rows of an
                earlier answer. They are conditioned on first and not picked again.
            min_gain_share: stop a query below this share of its first gain.
            alpha: stop a query that has n picks once the standard deviation at its targets is
                above 1 / (alpha n) of what it was: the compute no longer pays (SIFT).
        """
        stop = check_stop(k, None, None, min_gain_share, self._rule, True)
        assert stop.picks is not None
        nearest = self._nearest  # a search keeps to the rows that it began with
        asked = Queries(self._named(queries), allowed, observed, nearest.rows)
        gains = np.full((len(asked), stop.picks), np.nan)
        indices = np.full((len(asked), stop.picks), -1, dtype=np.int64)
        work = Work(
            rule=self._rule,
            noise_variance=self._noise,
            picks=stop.picks,
            min_gain_share=stop.min_gain_share,
            alpha=None if alpha is None else check_positive(alpha, "alpha"),
            nearest=nearest,
            most_candidates=self._candidates,
            refresh=self._refresh,
        )

        def answer(batch: Batch) -> None:
            gains[batch.numbers], indices[batch.numbers] = work.answer(batch)

        together = work.queries_together
        with single_products():
            each(asked.batches(together), answer, count=-(-len(asked) // together))
        return gains, indices

    def add(self, rows: Any) -> None:
        """Append rows to the pool, which is copied into memory, and to the index if there is one.

        What is subtracted from rows, and the noise, stay those of the first pool. A search that
        runs meanwhile does not see the new rows. To remove rows, leave them out of ``allowed``.
        """
        (new, _), old = open_rows(self._named(rows), "rows"), self._nearest.rows
        check_features(new.shape, "rows", old.values.shape)
        if not np.can_cast(new.dtype, old.values.dtype, "same_kind"):
            raise TypeError(
                f"rows must have numbers that the pool's dtype {old.values.dtype} can hold; got "
                f"{new.dtype}. Convert them, or make the Retriever of a pool of {new.dtype}."
            )
        values = np.concatenate([old.values, new.astype(old.values.dtype)])
        rows = StoredRows.of(values, old.inverse_length is not None, old.mean)
        if self._index is not None:
            self._index.add(rows.take(slice(len(old), None)).astype(np.float32))
        self._nearest = self._search_of(rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write settings, and the index if it is one of faiss, into a file; the pool is not."""
        rows = self._nearest.rows
        settings = {
            "format": FORMAT,
            "rule": repr(self._rule),
            "noise_variance": self._noise,
            "candidates": self._candidates,
            "refresh": self._refresh,
            "to_unit": rows.inverse_length is not None,
            "has_index": self._index is not None,
            "fingerprint": rows.fingerprint,
        }
        arrays = {"settings": np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)}
        if rows.mean is not None:
            arrays["mean"] = rows.mean
        if type(self._index).__module__.partition(".")[0] == "faiss":
            import faiss

            arrays["index"] = faiss.serialize_index(self._index)
        with written_whole(Path(path)) as unfinished, unfinished.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        pool: Any,
        *,
        index: Any = None,
        column: str | Sequence[str] | None = None,
    ) -> "Retriever":
        """The Retriever that was saved, over the same pool, with all rows that were added.

        An index that is not one of faiss has to be given again, and so has ``column``.
        """
        with (
            refusing_damage(f"{str(path)!r} is no file that Retriever.save wrote"),
            open_archive(path) as archive,
        ):
            arrays = {name: stored.read() for name, stored in archive.items()}
            settings = json.loads(arrays["settings"].tobytes())
            if settings["format"] != FORMAT:
                raise ValueError(f"its format is {settings['format']!r}")
            made = cls.__new__(cls)
            made._rule = check_retrieval_rule(read_rule(settings["rule"]))
            made._noise, made._candidates = settings["noise_variance"], settings["candidates"]
            made._refresh, to_unit = settings["refresh"], settings["to_unit"]
            fingerprint, has_index = settings["fingerprint"], settings["has_index"]
        values, columns = open_rows(NamedArray(pool, column), "pool")
        rows = StoredRows.of(values, to_unit, arrays.get("mean"))
        if rows.fingerprint != fingerprint:
            raise ValueError(
                f"pool must be the one that {str(path)!r} was saved with, with all rows that were "
                f"added; this one, of shape {rows.values.shape}, is another."
            )
        if "index" in arrays and index is None:
            import faiss

            index = faiss.deserialize_index(arrays["index"])
        if has_index and index is None:
            raise ValueError(f"index must be given, because {str(path)!r} could not hold it.")
        made._index, made._column = index, column or columns or None
        made._nearest = made._search_of(rows)
        return made

    def _named(self, rows: Any) -> Any:
        """Rows with the column that is meant, where they are a table that has it."""
        is_plain = self._column is None or isinstance(rows, list | tuple)
        return rows if is_plain else NamedArray(rows, self._column, required=False)

    def _search_of(self, rows: StoredRows) -> NearestRows:
        noise = 0.0 if self._rule.is_signed else self._noise  # those rules are about correlation
        scale = np.sqrt(rows.prior_variance + noise)
        discount = np.divide(1.0, scale, where=scale > 0, out=np.zeros_like(scale))
        if self._index is None:
            return NearestRows(rows, discount, ExactSearch(rows, discount))
        return NearestRows(rows, discount, IndexSearch(self._index, len(rows)))


def check_retrieval_rule(rule: str | Rule) -> Rule:
    """Refuse rules that choose without a query, or by what is not known of single queries."""
    checked = check_rule(rule)
    is_local = not is_random(checked) and targets_in_pool(checked) is None
    if checked.needs_targets and is_local and checked.needs <= READABLE:
        return checked
    raise ValueError(
        f"rule must be one that compares rows with a query: vtl, itl, itl-y, mm-itl, ctl, mmr, "
        f"cosine or top-k; got {checked.name!r}."
    )


def check_retrieval_normalize(normalize: str | None, index: Any) -> str | None:
    if normalize == "auto":
        if index is not None:
            raise ValueError(
                "normalize must be given with an index, which holds rows as somebody made them: "
                "None if it holds the rows of the pool as they are, 'unit' if of unit length."
            )
        return "center+unit"
    check_word(normalize, "normalize", ("auto", *NORMALIZATIONS))
    return normalize


def find_noise(noise_ratio: Any, noise_std: Any, rows: StoredRows) -> float:
    """The noise variance of an observation."""
    if noise_ratio is not None and noise_std is not None:
        raise ValueError(
            "give noise_ratio (noise variance / mean prior variance) or noise_std (in the unit of "
            "y), not both."
        )
    if noise_std is not None:
        return check_positive(noise_std, "noise_std") ** 2
    ratio = DEFAULT_RETRIEVAL_NOISE_RATIO if noise_ratio is None else noise_ratio
    return check_positive(ratio, "noise_ratio") * (float(rows.prior_variance.mean()) or 1.0)


@contextmanager
def single_products() -> Iterator[None]:
    """In here numpy's products have one thread. Without OpenBLAS nothing is changed.

    The threads of OpenBLAS would share every small product. They wait for one another, and another
    number of them rounds differently, while batches are shared among threads of our own. There is
    one setting for the whole process, so it is 1 while any search runs, and then what it was.
    """
    setting = thread_setting()
    if setting is None:
        yield
        return
    get, put = setting
    with _lock:
        if _searches[0] == 0:
            _searches[1] = get()
            put(1)
        _searches[0] += 1
    try:
        yield
    finally:
        with _lock:
            _searches[0] -= 1
            if _searches[0] == 0:
                put(_searches[1])


@cache
def thread_setting() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Functions that read and write the setting; None where numpy brings no OpenBLAS."""
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for path in (path for folder in folders for path in folder.glob("*openblas*")):
        library = ctypes.CDLL(str(path))
        for name in NAMES:
            if hasattr(library, name.format("set")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
