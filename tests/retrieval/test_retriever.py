"""Each query's picks are those of the slow version and of select, however queries are batched."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import oracle_retrieval
import tellmost as tm

RULES = ("vtl", "itl", "itl-y", "mm-itl", "ctl", "mmr", "cosine", "top-k")
seeds = st.integers(0, 2**32 - 1)


def make_pool(seed: int, n: int, d: int, dtype=np.float64) -> np.ndarray:
    """Rows of unequal lengths; the last tenth repeats the first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(0.5 * rng.standard_normal((n, 1))) + 0.3
    X[n - n // 10 :] = X[: n // 10]
    return X.astype(dtype)


def make_queries(seed: int, count: int, m: int, d: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed + 1)
    return [rng.standard_normal((m, d)) for _ in range(count)]


def by_select(X, targets, k, rule, noise, candidates, **more):
    return tm.select(
        X,
        targets,
        k,
        rule=rule,
        kernel=tm.kernels.Linear(),
        noise_std=noise**0.5,
        candidates=candidates,
        **more,
    )


def check_against_oracle(problem, rule, gains, indices) -> None:
    """Each pick is the best that the slow version finds after the same picks before."""
    eligible, first = oracle.Eligible(problem), None
    for index, gain in zip(indices, gains, strict=True):
        mask = eligible.mask()
        if index == -1:
            assert np.isnan(gain) and not mask.any()
            return
        expected = oracle.RULES[rule](problem, eligible.picks)
        first = np.abs(expected[mask]).max() if first is None else first
        assert mask[index]
        assert gain == pytest.approx(expected[index], rel=1e-7, abs=1e-10 * first)
        assert gain >= expected[mask].max() - 1e-7 * abs(gain) - 1e-10 * first
        eligible.picks.append(int(index))


@pytest.mark.parametrize("rule", RULES)
@given(
    seed=seeds,
    d=st.sampled_from([3, 12]),
    m=st.sampled_from([1, 3]),
    normalize=st.sampled_from([None, "unit", "center", "center+unit"]),
    count=st.sampled_from([6, 25, None]),
    k=st.sampled_from([1, 4, 12]),
    ratio=st.sampled_from([0.1, 1.0, 10.0]),
    observed=st.booleans(),
    some_allowed=st.booleans(),
)
@settings(max_examples=12)
def test_picks_are_those_of_the_slow_version(
    rule, seed, d, m, normalize, count, k, ratio, observed, some_allowed
):
    pool = make_pool(seed, 40, d)
    queries = make_queries(seed, 3, m, d)
    rng = np.random.default_rng(seed)
    seen = rng.choice(40, 2, replace=False) if observed else np.empty(0, dtype=int)
    allowed = np.sort(rng.choice(40, 20, replace=False)) if some_allowed else np.arange(40)
    r = tm.Retriever(pool, rule=rule, normalize=normalize, noise_ratio=ratio, candidates=count)
    gains, indices = r.search(
        queries,
        k,
        allowed=allowed if some_allowed else None,
        observed=[seen] * 3 if observed else None,
    )
    X = oracle_retrieval.normalized(pool, pool, normalize)
    noise = ratio * np.square(X).sum(axis=1).mean()
    for b, query in enumerate(queries):
        A = oracle_retrieval.normalized(query, pool, normalize)
        rows = np.setdiff1d(allowed, seen)
        if count is not None:
            score = oracle_retrieval.scores(X, A, rule, noise)
            order = rows[np.lexsort((rows, -score[rows]))]
            best = [row for row in order[:count] if score[row] >= 0]
            nearest = score[order]
            assume(np.abs(score).min() > 1e-9)  # a sign or a cut that rounding decides
            is_cut = len(order) > count and nearest[count - 1] > 0
            assume(not is_cut or not 0 < nearest[count - 1] - nearest[count] < 1e-9)
            rows = np.array(best, dtype=int)
        problem = oracle_retrieval.problem(X, A, rule, noise, rows, seen)
        check_against_oracle(problem, rule, gains[b], indices[b])


@pytest.mark.filterwarnings("ignore:.*exact copies of other picks:UserWarning")
@pytest.mark.parametrize("normalize", [None, "auto"])
@pytest.mark.parametrize("k", [5, 60])
def test_picks_are_those_of_select_among_the_nearest_rows(normalize, k):
    pool, queries = make_pool(0, 2_000, 24, np.float32), make_queries(0, 25, 1, 24)
    r = tm.Retriever(pool, normalize=normalize, noise_ratio=0.1)
    gains, indices = r.search(np.concatenate(queries), k)
    how = "center+unit" if normalize == "auto" else None
    X = oracle_retrieval.normalized(pool.astype(np.float64), pool.astype(np.float64), how)
    noise = 0.1 * np.square(X).sum(axis=1).mean()
    for b, query in enumerate(queries):
        A = oracle_retrieval.normalized(query, pool.astype(np.float64), how)
        score = oracle_retrieval.scores(X, A, "vtl", noise)
        candidates = np.lexsort((np.arange(len(X)), -score))[:200]
        chosen = by_select(X, A, k, "vtl", noise, candidates)
        np.testing.assert_array_equal(indices[b], chosen.indices)
        np.testing.assert_allclose(gains[b], chosen.gains, rtol=1e-9)


@pytest.mark.parametrize("rule", ["vtl", "itl", "mmr"])
def test_with_one_target_these_rules_pick_the_same_rows_as_without_refresh(rule):
    """Searching again changes the candidates; all rows as candidates leave nothing to search."""
    pool, queries = make_pool(1, 150, 8), make_queries(1, 6, 1, 8)
    whole = tm.Retriever(pool, rule=rule, candidates=None, noise_ratio=0.2)
    again = tm.Retriever(pool, rule=rule, candidates=7 * 150, refresh=True, noise_ratio=0.2)
    expected, found = whole.search(queries, 20), again.search(queries, 20)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-12)


def test_rules_about_one_target_agree_in_all_but_the_unit():
    pool, queries = make_pool(2, 400, 10), make_queries(2, 5, 1, 10)
    found = {
        rule: tm.Retriever(pool, rule=rule, noise_ratio=0.5).search(queries, 8)
        for rule in ("vtl", "itl", "itl-y", "mm-itl")
    }
    for rule in ("itl", "itl-y", "mm-itl"):
        np.testing.assert_array_equal(found[rule][1], found["vtl"][1])
        assert not np.allclose(found[rule][0], found["vtl"][0])


def test_searching_again_keeps_nearly_all_of_what_the_whole_pool_can_tell():
    pool, queries = make_pool(3, 3_000, 128, np.float32), make_queries(3, 8, 1, 128)
    kept = {}
    for name, options in {
        "nearest": {},
        "again": {"refresh": True},
        "whole": {"candidates": None},
    }.items():
        gains, _ = tm.Retriever(pool, noise_ratio=0.3, **options).search(queries, 40)
        kept[name] = gains.sum(axis=1).mean()
    assert kept["again"] > 0.99 * kept["whole"]
    assert kept["nearest"] < 0.97 * kept["whole"]


@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("k", [3, 30])
def test_no_batch_and_no_number_of_threads_changes_a_bit(refresh, k):
    pool, queries = make_pool(4, 1_500, 40, np.float32), make_queries(4, 70, 1, 40)
    queries[5], queries[11] = np.repeat(queries[5], 2, axis=0), queries[11] * 1e-3
    r = tm.Retriever(pool, refresh=refresh)
    gains, indices = r.search(queries, k)
    order = np.random.default_rng(0).permutation(70)
    shuffled = r.search([queries[i] for i in order], k)
    np.testing.assert_array_equal(shuffled[0], gains[order])
    np.testing.assert_array_equal(shuffled[1], indices[order])
    alone = [r.search([query], k) for query in queries[:12]]
    np.testing.assert_array_equal(np.concatenate([each[0] for each in alone]), gains[:12])
    np.testing.assert_array_equal(np.concatenate([each[1] for each in alone]), indices[:12])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        threaded = r.search(queries, k)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(threaded[0], gains)
    np.testing.assert_array_equal(threaded[1], indices)


@pytest.mark.process
def test_the_threads_of_numpy_change_no_bit_and_are_left_as_they_were():
    code = (
        "import hashlib, numpy as np, tellmost as tm\n"
        "from tellmost.retrieval.retriever import thread_setting\n"
        "setting = thread_setting()\n"
        "before = setting and setting[0]()\n"
        "rng = np.random.default_rng(0)\n"
        "pool, queries = rng.standard_normal((3_000, 256)), rng.standard_normal((70, 256))\n"
        "found = [tm.Retriever(pool, refresh=again).search(queries, 40) for again in (0, 1)]\n"
        "assert setting is None or setting[0]() == before\n"
        "print(hashlib.sha1(np.array(found).tobytes()).hexdigest())\n"
    )
    printed = {
        subprocess.check_output(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": number, "OMP_NUM_THREADS": number},
        )
        for number in ("1", "2")
    }
    assert len(printed) == 1


def test_rows_of_negative_cosine_come_only_on_request():
    pool, queries = make_pool(5, 300, 6), make_queries(5, 10, 1, 6)
    options = {"noise_ratio": 0.01, "normalize": "unit"}
    _, indices = tm.Retriever(pool, **options).search(queries, 40)
    cosine = np.concatenate(queries) @ pool.T
    assert (np.take_along_axis(cosine, indices, axis=1) >= 0).all()
    _, indices = tm.Retriever(pool, refresh=True, **options).search(queries, 40)
    assert (np.take_along_axis(cosine, indices, axis=1) < 0).any(axis=1).all()


def test_allowed_rows_are_what_is_searched():
    pool, queries = make_pool(6, 900, 8), make_queries(6, 4, 1, 8)
    rng = np.random.default_rng(6)
    masks = rng.random((4, 900)) < 0.1
    r = tm.Retriever(pool, candidates=20, normalize=None, noise_ratio=0.5)
    gains, indices = r.search(queries, 10, allowed=masks)
    as_numbers = r.search(queries, 10, allowed=[np.flatnonzero(mask) for mask in masks])
    np.testing.assert_array_equal(as_numbers[1], indices)
    for b, mask in enumerate(masks):
        rows = np.flatnonzero(mask)
        alone = tm.Retriever(pool[rows], candidates=20, normalize=None, noise_std=r._noise**0.5)
        found = alone.search(queries[b], 10)
        np.testing.assert_array_equal(rows[found[1][0]], indices[b])
        np.testing.assert_array_equal(found[0][0], gains[b])


def test_an_answer_can_be_continued():
    """What a query has already is conditioned on: the second half is that of a longer answer."""
    pool, queries = make_pool(7, 500, 12), make_queries(7, 6, 1, 12)
    r = tm.Retriever(pool, candidates=None, noise_ratio=0.3)
    gains, indices = r.search(queries, 12)
    _, first = r.search(queries, 5)
    np.testing.assert_array_equal(first, indices[:, :5])
    more, second = r.search(queries, 7, observed=first)
    np.testing.assert_array_equal(second, indices[:, 5:])
    np.testing.assert_allclose(more, gains[:, 5:], rtol=1e-9)
    _, unequal = r.search(queries[:2], 3, observed=[first[0], []])
    np.testing.assert_array_equal(unequal, [indices[0, 5:8], indices[1, :3]])


def test_a_query_stops_where_its_gains_no_longer_reach_the_share():
    pool, queries = make_pool(8, 400, 8), make_queries(8, 9, 1, 8)
    r = tm.Retriever(pool, noise_ratio=0.2)
    gains, indices = r.search(queries, 15)
    fewer, picked = r.search(queries, 15, min_gain_share=0.3)
    goes_on = np.logical_and.accumulate(gains >= 0.3 * gains[:, :1], axis=1)
    assert 0 < goes_on.sum() < goes_on.size
    np.testing.assert_array_equal(picked, np.where(goes_on, indices, -1))
    np.testing.assert_array_equal(fewer, np.where(goes_on, gains, np.nan))


def test_a_query_stops_where_more_compute_no_longer_pays():
    pool, queries = make_pool(9, 400, 8), make_queries(9, 9, 1, 8)
    r = tm.Retriever(pool, noise_ratio=0.2)
    gains, indices = r.search(queries, 15)
    _, picked = r.search(queries, 15, alpha=1.0)
    left = np.sqrt(1.0 - np.cumsum(gains, axis=1))  # of rows of length one
    pays = left <= 1.0 / np.arange(1, 16)
    goes_on = np.logical_and.accumulate(np.c_[np.ones(9, bool), pays[:, :-1]], axis=1)
    assert 9 < goes_on.sum() < goes_on.size
    np.testing.assert_array_equal(picked, np.where(goes_on, indices, -1))


def test_a_pool_on_disk_is_searched_as_it_is(tmp_path):
    pool, queries = make_pool(10, 700, 16, np.float16), make_queries(10, 5, 1, 16)
    np.save(tmp_path / "pool.npy", pool)
    expected = tm.Retriever(pool.astype(np.float64)).search(queries, 9)
    for given_pool in (np.load(tmp_path / "pool.npy", mmap_mode="r"), tmp_path / "pool.npy"):
        found = tm.Retriever(given_pool).search(queries, 9)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_a_column_of_a_table_is_what_is_searched(tmp_path):
    """Pool, queries and added rows are tables with another column of vectors beside it."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    rows, asked, more = (rng.standard_normal((count, 4)) for count in (50, 3, 5))

    def table(vectors):
        return pandas.DataFrame({"other": list(vectors[:, ::-1]), "emb": list(vectors)})

    found = tm.Retriever(table(rows), column="emb")
    plain = tm.Retriever(rows)
    np.testing.assert_array_equal(found.search(table(asked), 4)[1], plain.search(asked, 4)[1])
    found.add(table(more))
    plain.add(more)
    expected = plain.search(asked, 4)[1]
    np.testing.assert_array_equal(found.search(asked, 4)[1], expected)
    found.save(tmp_path / "r")
    both = pandas.concat([table(rows), table(more)])
    again = tm.Retriever.load(tmp_path / "r", both, column="emb")
    np.testing.assert_array_equal(again.search(table(asked), 4)[1], expected)
    with pytest.raises(ValueError, match="column and id_column name columns of a table"):
        tm.Retriever(rows, column="emb")


def test_rows_can_be_added_and_all_be_saved(tmp_path):
    pool, queries = make_pool(11, 300, 10, np.float32), make_queries(11, 7, 1, 10)
    r = tm.Retriever(pool[:200], rule="itl", noise_ratio=0.3)
    r.add(pool[200:])
    rows = oracle_retrieval.normalized(pool.astype(float), pool[:200].astype(float), "center+unit")
    A = oracle_retrieval.normalized(
        np.concatenate(queries), pool[:200].astype(float), "center+unit"
    )
    same = tm.Retriever(rows, rule="itl", normalize=None, noise_std=r._noise**0.5)
    gains, indices = r.search(queries, 20)
    expected = same.search(A, 20)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(gains, expected[0], rtol=1e-9)
    r.save(tmp_path / "rows.retriever")
    loaded = tm.Retriever.load(tmp_path / "rows.retriever", pool)
    again = loaded.search(queries, 20)
    np.testing.assert_array_equal(again[0], gains)
    np.testing.assert_array_equal(again[1], indices)
    with pytest.raises(ValueError, match="pool must be the one"):
        tm.Retriever.load(tmp_path / "rows.retriever", pool[:200])
    (tmp_path / "rows.retriever").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="is no file that"):
        tm.Retriever.load(tmp_path / "rows.retriever", pool)


@pytest.mark.parametrize("candidates", [50, 200])
def test_blocks_of_any_size_give_the_same_candidates(monkeypatch, candidates):
    pool, queries = make_pool(15, 900, 12, np.float32), make_queries(15, 9, 2, 12)
    pool[100:400] = pool[100]  # more ties than candidates
    r = tm.Retriever(pool, candidates=candidates)
    expected = r.search(queries, 15)
    monkeypatch.setattr("tellmost.retrieval.nearest.BLOCK_SCORES", 500)
    monkeypatch.setattr("tellmost.retrieval.nearest.RESCORED_AT_ONCE", 7)
    monkeypatch.setattr("tellmost.retrieval.answers.MOST_TOGETHER", 4)
    found = r.search(queries, 15)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


class TurnedIndex:
    """An index that answers in float32 and in no order, with -1 where it knows no more."""

    def __init__(self, rows: np.ndarray, known: int) -> None:
        self.rows, self.known = rows.astype(np.float32), known

    def search(self, queries, count):
        scores = queries @ self.rows[: self.known].T
        ids = np.argsort(-scores, axis=1)[:, :count][:, ::-1]
        lacking = np.full((len(queries), max(count - ids.shape[1], 0)), -1)
        return None, np.concatenate([ids, lacking], axis=1)


@pytest.mark.parametrize("refresh", [False, True])
def test_an_index_of_somebody_else_finds_the_same_candidates(refresh):
    pool, queries = make_pool(12, 600, 12, np.float32), make_queries(12, 8, 1, 12)
    unit = oracle_retrieval.normalized(pool, pool, "unit")
    options = {"normalize": "unit", "candidates": 30, "refresh": refresh}
    allowed = np.arange(0, 600, 3)
    own = tm.Retriever(pool, **options)
    other = tm.Retriever(pool, index=TurnedIndex(unit, 600), **options)
    for chosen in (None, allowed):
        expected = own.search(queries, 12, allowed=chosen)
        found = other.search(queries, 12, allowed=chosen)
        np.testing.assert_array_equal(found[1], expected[1])
        np.testing.assert_array_equal(found[0], expected[0])
    few = tm.Retriever(pool, index=TurnedIndex(unit, 9), **options).search(queries, 12)
    assert (few[1] < 9).all() and (few[1][:, 9:] == -1).all()


def test_faiss_can_be_the_index(tmp_path):
    faiss = pytest.importorskip("faiss")
    pool, queries = make_pool(13, 4_000, 16, np.float32), make_queries(13, 6, 1, 16)
    unit = oracle_retrieval.normalized(pool, pool, "unit")
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(16), 16, 20, faiss.METRIC_INNER_PRODUCT)
    index.train(unit)
    index.add(unit)
    index.nprobe = 20  # all lists
    r = tm.Retriever(pool, index=index, normalize="unit")
    expected = tm.Retriever(pool, normalize="unit").search(queries, 10)
    found = r.search(queries, 10)
    np.testing.assert_array_equal(found[1], expected[1])
    index.nprobe = 1
    near = r.search(queries, 10)
    assert (near[1] >= 0).all() and not np.array_equal(near[1], expected[1])
    r.add(-pool[:50])
    assert index.ntotal == 4_050
    r.save(tmp_path / "with.index")
    loaded = tm.Retriever.load(tmp_path / "with.index", np.concatenate([pool, -pool[:50]]))
    np.testing.assert_array_equal(loaded.search(queries, 10)[1], r.search(queries, 10)[1])


def test_an_index_that_cannot_be_kept_must_be_given_again(tmp_path):
    pool, queries = make_pool(14, 100, 6), make_queries(14, 3, 1, 6)
    index = TurnedIndex(pool, 100)
    r = tm.Retriever(pool, index=index, normalize=None)
    r.save(tmp_path / "it")
    with pytest.raises(ValueError, match="index must be given"):
        tm.Retriever.load(tmp_path / "it", pool)
    loaded = tm.Retriever.load(tmp_path / "it", pool, index=index)
    np.testing.assert_array_equal(loaded.search(queries, 4)[1], r.search(queries, 4)[1])


def test_rows_that_are_all_equal_or_zero_are_no_trouble():
    flat = tm.Retriever(np.ones((5, 3)))  # centring leaves nothing
    gains, indices = flat.search(np.eye(3), 3)
    np.testing.assert_array_equal(gains, np.zeros((3, 3)))
    np.testing.assert_array_equal(indices, [[0, 1, 2]] * 3)
    gains, indices = tm.Retriever(np.eye(3), normalize=None).search(np.zeros(3), 5)
    assert (gains[0, :3] == 0).all() and indices[0].tolist() == [0, 1, 2, -1, -1]


@pytest.mark.parametrize(
    ("options", "search", "message"),
    [
        ({"rule": "k-center"}, {}, "rule must be one that compares rows with a query"),
        ({"rule": "truvar"}, {}, "rule must be one that compares"),
        ({"normalize": "whiten"}, {}, "normalize must be 'auto', None, 'unit'"),
        ({"index": SimpleNamespace()}, {}, "normalize must be given with an index"),
        ({"candidates": None, "refresh": True}, {}, "refresh=True has no meaning"),
        ({"candidates": 0}, {}, "candidates must be a whole number"),
        ({"noise_ratio": 1.0, "noise_std": 1.0}, {}, "not both"),
        ({}, {"queries": np.ones((2, 3))}, "share their feature dimension"),
        ({}, {"queries": np.full((2, 4), np.nan)}, "queries must be finite"),
        ({}, {"k": 0}, "k must be a whole number"),
        ({}, {"alpha": -1.0}, "alpha must be a positive"),
        ({}, {"min_gain_share": 2.0}, "at most 1"),
        ({"rule": "ctl"}, {"min_gain_share": 0.5}, "no meaning for rule 'ctl'"),
        ({}, {"allowed": [7]}, "allowed must name rows of the pool"),
        ({}, {"allowed": np.ones(3, dtype=bool)}, "allowed, as a mask"),
        ({}, {"allowed": [[1], [2], [3]]}, "allowed must have an entry per query"),
        ({}, {"observed": [1, 2, 3]}, "observed must have an entry per query"),
        ({}, {"observed": [[1, 1], [2]]}, "observed\\[0\\] has row 1 more than once"),
    ],
)
def test_errors_say_what_is_wrong(options, search, message):
    arguments = {"queries": np.ones((2, 4)), "k": 2, **search}
    with pytest.raises((ValueError, TypeError), match=message):
        tm.Retriever(make_pool(0, 6, 4), **options).search(**arguments)


def test_rows_to_add_must_fit():
    r = tm.Retriever(np.eye(4, dtype=np.int64))
    with pytest.raises(ValueError, match="share their feature dimension"):
        r.add(np.eye(3))
    with pytest.raises(TypeError, match="the pool's dtype int64"):
        r.add(np.eye(4) / 3)
