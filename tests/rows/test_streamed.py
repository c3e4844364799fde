"""A pool that is read block by block gives the picks of the same pool in memory."""

import os
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tellmost as tm
from problems import sizes_of_blocks, targets_for
from tellmost import numerics
from tellmost.rows.pool import Fingerprint, Pool

KERNELS = {
    "linear": tm.kernels.Linear(),
    "latent": tm.kernels.Linear(torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64).diag()),
    "gaussian": tm.kernels.Gaussian(2.0),
    "features": tm.kernels.FeatureMap(lambda x: torch.cat([x, x.square()], dim=1)),
}
FIELDS = ("indices", "gains", "uncertainty", "target_variance")


@pytest.fixture
def streamed(monkeypatch):
    """No pool is small enough to be held, and blocks have a few rows."""
    monkeypatch.setattr("tellmost.running.memory.HELD_SHARE", 0.0)
    monkeypatch.setattr(numerics, "LEAST_BLOCK_ROWS", 1)
    monkeypatch.setattr(numerics, "BLOCK_BYTES", 8 * 4 * 8)


class Blocks:
    """Blocks of a given size, made again at each iteration."""

    def __init__(self, rows, size=5):
        self.rows, self.size = rows, size

    def __iter__(self):
        for start in range(0, len(self.rows), self.size):
            yield self.rows[start : start + self.size]


def rows_of(seed, n, d=4):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def save(folder, rows, name="pool.npy"):
    np.save(folder / name, rows)
    return folder / name


def save_parquet(folder, rows):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = arrow.array(list(rows), type=arrow.list_(arrow.float32(), rows.shape[1]))
    parquet.write_table(arrow.table({"v": column}), folder / "pool.parquet", row_group_size=6)
    return folder / "pool.parquet"


def save_safetensors(folder, rows):
    pytest.importorskip("safetensors.numpy").save_file({"v": rows}, folder / "pool.safetensors")
    return folder / "pool.safetensors"


FORMS = {
    "npy": save,
    "mapped": lambda folder, rows: np.load(save(folder, rows), mmap_mode="r"),
    "safetensors": save_safetensors,
    "parquet": save_parquet,
    "shards": lambda folder, rows: [
        save(folder, rows[:3], "0.npy"),
        save(folder, rows[3:], "1.npy"),
    ],
    "iterable": lambda folder, rows: Blocks(rows),
}


def same(chosen, expected):
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    for name in FIELDS[1:]:
        np.testing.assert_allclose(
            getattr(chosen, name), getattr(expected, name), rtol=1e-9, atol=1e-12
        )
    assert chosen.fingerprint == expected.fingerprint


@pytest.mark.parametrize("form", FORMS)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(12, 60),
    block_rows=st.sampled_from([1, 2, 4, 16, 64]),
    rule=st.sampled_from([name for name in tm.rules.names() if name != "itl-y"]),
    kernel=st.sampled_from(list(KERNELS)),
    normalize=st.sampled_from([None, "unit", "center", "center+unit"]),
    some=st.booleans(),
    known=st.booleans(),
)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_picks_do_not_depend_on_where_the_rows_are(
    form, seed, n, block_rows, rule, kernel, normalize, some, known, tmp_path, monkeypatch
):
    pool, targets = rows_of(seed, n), rows_of(seed + 1, 3)
    arguments = {
        "k": 5, "rule": rule, "kernel": KERNELS[kernel], "normalize": normalize,
        "noise_ratio": 0.5, "observed": [n - 1, 2] if known else None,
        "candidates": np.arange(1, n, 2)[-10:] if some else None,
    }  # fmt: skip
    if some and known:
        arguments["observed"] = [0, 2]
    targets = targets_for(rule, pool, targets, arguments["candidates"])
    expected = tm.select(pool, targets, **arguments)
    with monkeypatch.context() as patch:
        patch.setattr("tellmost.running.memory.HELD_SHARE", 0.0)
        patch.setattr(numerics, "LEAST_BLOCK_ROWS", 1)
        patch.setattr(numerics, "BLOCK_BYTES", 8 * 4 * block_rows)
        patch.setattr("tellmost.posterior.problem.KEEP_BYTES", 0)
        chosen = tm.select(FORMS[form](tmp_path, pool), targets, **arguments)
    assert chosen.settings["pool"] == ("held" if form == "mapped" else "streamed")
    same(chosen, expected)


@pytest.mark.parametrize("form", FORMS)
def test_a_small_pool_is_held_and_read_once(form, tmp_path):
    pool, targets = rows_of(0, 40), rows_of(1, 3)
    chosen = tm.select(FORMS[form](tmp_path, pool), targets, k=5, kernel="linear")
    assert chosen.settings["pool"] == "held"
    assert chosen.settings["reads"] == {"mapped": 0.0, "iterable": 2.0}.get(form, 1.0)
    same(chosen, tm.select(pool, targets, k=5, kernel="linear"))


@pytest.mark.usefixtures("streamed")
def test_a_file_is_read_once_to_survey_it_and_once_per_pass(tmp_path):
    pool, targets = rows_of(0, 400), rows_of(1, 3)
    chosen = tm.select(save(tmp_path, pool), targets, k=4, kernel="linear")
    passes = 1 + chosen.settings["passes"]
    assert passes <= chosen.settings["reads"] < passes + 1  # and a few rows by themselves
    centred = tm.select(save(tmp_path, pool), targets, k=4, normalize="center", kernel="linear")
    assert centred.settings["reads"] >= passes + 1  # for the mean


@pytest.mark.usefixtures("streamed")
def test_a_streamed_selection_can_be_continued_and_reported(tmp_path):
    pool, targets = rows_of(0, 40), rows_of(1, 3)
    path = save(tmp_path, pool)
    first = tm.select(path, targets, k=3, kernel="linear")
    more = tm.select(Blocks(pool), targets, k=3, observed=first, kernel="linear")
    whole = tm.select(pool, targets, k=6, kernel="linear")
    np.testing.assert_array_equal([*first.indices, *more.indices], whole.indices)
    first.report(tmp_path / "report.html", path, targets)
    assert (tmp_path / "report.html").stat().st_size > 0


@pytest.mark.usefixtures("streamed")
def test_a_data_loader_is_an_iterable_of_blocks_unless_it_shuffles():
    pool, targets = torch.from_numpy(rows_of(0, 40)), rows_of(1, 3)
    loader = torch.utils.data.DataLoader(pool, batch_size=7)
    same(
        tm.select(loader, targets, k=5, kernel="linear"),
        tm.select(pool, targets, k=5, kernel="linear"),
    )
    shuffled = torch.utils.data.DataLoader(pool, batch_size=7, shuffle=True)
    with pytest.raises(ValueError, match=r"starts with another row than at first.*shuffling"):
        tm.select(shuffled, targets, k=5, kernel="linear")


@pytest.mark.usefixtures("streamed")
def test_read_only_blocks_are_taken_without_warnings(recwarn):
    pool, targets = rows_of(0, 40), rows_of(1, 3)
    pool.flags.writeable = False
    same(
        tm.select(Blocks(pool), targets, k=5, kernel="linear"),
        tm.select(pool, targets, k=5, kernel="linear"),
    )
    assert not [w for w in recwarn if "writable" in str(w.message)]


# ---- what goes wrong in the middle


class Disturbed:
    """A rule that does something to the files after some picks."""

    name, unit = "disturbed", "variance"
    needs = frozenset({"variance", "squared_covariance"})
    needs_targets = weighs_targets = True
    gains_only_shrink = is_signed = False

    def __init__(self, act, after=4):
        self.act, self.left = act, after

    def gain(self, state):
        self.left -= 1
        if self.left == 0:
            self.act()
        return tm.rules.VTL().gain(state)


def append(path):
    with path.open("ab") as file:
        file.write(b"more")


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\0")
    os.utime(path, ns=(0, 0))


DISTURBANCES = {
    "vanishes": (lambda path: path.unlink(), FileNotFoundError, "can no longer be opened"),
    "is cut short": (lambda path: os.truncate(path, 200), OSError, "it had 448 bytes and has 200"),
    "grows": (append, OSError, "changed while it was read"),
    "is written to": (overwrite, OSError, "it was written to"),
}


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("tellmost-read-ahead")]


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize(("act", "kind", "said"), DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_file_that_changes_while_it_is_read_is_named(act, kind, said, tmp_path):
    pool, targets = rows_of(0, 40), rows_of(1, 3)
    paths = [save(tmp_path, pool[:20], "part-0.npy"), save(tmp_path, pool[20:], "part-1.npy")]
    with pytest.raises(kind, match=said) as caught:
        tm.select(paths, targets, k=9, rule=Disturbed(lambda: act(paths[1])), kernel="linear")
    message = str(caught.value)
    assert message.startswith("pool: part-1.npy") and "leave them" in message
    assert not readers()


def test_a_file_cut_short_within_a_pass_is_named_with_the_row(tmp_path):
    from tellmost.rows.sources import open_source, spans

    path = save(tmp_path, rows_of(0, 4_000))
    source = open_source(path, "pool")
    stream = source.stream(list(spans(4_000, 10)))
    next(stream)
    os.truncate(path, 30_000)
    with pytest.raises(OSError, match=r"pool\.npy ended while the block from row 1,8\d0 was read"):
        list(stream)
    source.close()


@pytest.mark.parametrize("form", ["npy", "safetensors", "parquet", "shards", "iterable"])
@pytest.mark.parametrize("normalize", [None, "center"])
@pytest.mark.parametrize("is_held", [False, True])
def test_a_bad_number_in_the_last_block_is_named_with_its_place(
    form, normalize, is_held, tmp_path, monkeypatch
):
    monkeypatch.setattr(numerics, "BLOCK_BYTES", 256)
    if not is_held:
        monkeypatch.setattr("tellmost.running.memory.HELD_SHARE", 0.0)
    pool = rows_of(0, 80)
    pool[78, 2] = np.inf
    places = {
        "shards": r"row 75 of 1\.npy \(row 78 of the pool\)",
        "iterable": r"row 3 of block 15 \(row 78 of the pool\)",
    }
    place = places.get(form, rf"row 78 of pool\.{form}")
    sizes = sizes_of_blocks(monkeypatch)
    with pytest.raises(ValueError, match=f"pool must be finite; {place} has a NaN"):
        tm.select(
            FORMS[form](tmp_path, pool), rows_of(1, 2), k=2, normalize=normalize, kernel="linear"
        )
    assert sizes[-5:] == [16] * 5 and not readers()


class Shrinking(Blocks):
    """Has a block less at the fifth iteration."""

    iterations = 0

    def __iter__(self):
        self.iterations += 1
        yield from list(super().__iter__())[: -1 if self.iterations == 5 else None]


@pytest.mark.usefixtures("streamed")
def test_an_iterable_that_shrinks_is_named_with_the_row():
    with pytest.raises(ValueError, match="now ends after 7, at row 35 of the pool"):
        tm.select(
            Shrinking(rows_of(0, 40)),
            rows_of(1, 3),
            k=9,
            rule="vtl",
            columns_ahead=1,
            kernel="linear",
        )


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("form", ["npy", "parquet", "iterable"])
def test_an_interrupt_ends_the_thread_that_reads(form, tmp_path):
    pool = FORMS[form](tmp_path, rows_of(0, 40))
    with pytest.raises(KeyboardInterrupt) as caught:
        tm.select(pool, rows_of(1, 3), k=9, rule=Disturbed(interrupt), kernel="linear")
    assert not readers()  # although the traceback still holds everything
    assert caught.tb is not None


@pytest.mark.usefixtures("streamed")
def test_an_error_in_the_callers_iterable_comes_through_as_it_is():
    class Failing(Blocks):
        def __iter__(self):
            yield from list(super().__iter__())[:4]
            raise RuntimeError("the store is offline")

    with pytest.raises(RuntimeError, match="the store is offline"):
        tm.select(Failing(rows_of(0, 40)), rows_of(1, 3), k=2, kernel="linear")
    assert not readers()


# ---- the fingerprint


def fingerprint(rows, step=1_000):
    sums = Fingerprint(torch.device("cpu"))
    for start in range(0, len(rows), step):
        sums.add(start, torch.from_numpy(rows[start : start + step]).to(torch.float64))
    return sums.name(rows.shape)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), step=st.integers(1, 50))
def test_a_fingerprint_does_not_depend_on_blocks_or_dtype(seed, n, step):
    rows = rows_of(seed, n)
    assert fingerprint(rows, step) == fingerprint(rows) == fingerprint(rows.astype(np.float64))
    assert fingerprint(rows) == Pool.of(torch.from_numpy(rows)).fingerprint()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), data=st.data())
def test_a_fingerprint_depends_on_the_order_of_rows_and_columns_and_on_every_number(seed, n, data):
    rows = rows_of(seed, n)
    i, j = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True))
    swapped = rows.copy()
    swapped[[i, j]] = rows[[j, i]]
    a, b = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True))
    turned = rows.copy()
    turned[:, [a, b]] = rows[:, [b, a]]
    one = rows.copy()
    one[i, a] = np.nextafter(one[i, a], np.float32(9))
    exchanged = rows.copy()
    exchanged[i, a], exchanged[j, a] = rows[j, a], rows[i, a]
    names = {fingerprint(other) for other in (rows, swapped, turned, one, exchanged)}
    assert len(names) == 5


def test_a_fingerprint_tells_shapes_and_zeros_apart():
    zeros = np.zeros((4, 3))
    names = {fingerprint(z) for z in (zeros, zeros.T, zeros[:3], -zeros)}
    assert len(names) == 4
