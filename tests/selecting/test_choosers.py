"""However the rows are cut into shards, the first of those that tie with the best is picked."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import seeds
from tellmost.running.processes import Group, Shard
from tellmost.selecting.limits import Stop
from tellmost.selecting.loop import Leaders, find_leaders, tie_width


@dataclass(frozen=True)
class Thread(Group):
    """A process of a group, as a thread: tables are joined through a list that all see."""

    tables: list
    barrier: Barrier

    def join(self, table, about, most):
        assert len(table) <= most
        self.tables[self.rank] = (table, [float(number) for number in about])
        self.barrier.wait()
        joined = list(self.tables)
        self.barrier.wait()
        return torch.cat([table for table, _ in joined]), [about for _, about in joined]


def leaders_of_shards(scores: torch.Tensor, borders: list[int]) -> list[Leaders]:
    size = len(borders) - 1
    tables, barrier = [None] * size, Barrier(size, timeout=20)

    def one(rank: int) -> Leaders:
        group = Thread(None, rank, size, frozenset({"cpu"}), tables, barrier)
        own = scores[borders[rank] : borders[rank + 1]]
        shard = Shard(group, borders[rank], len(own), len(scores), len(scores))
        return find_leaders(own, 1.0, lambda rows: (own[rows],) * 3, shard)

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(one, range(size)))


@given(
    seed=seeds,
    n=st.integers(3, 600),
    spread=st.sampled_from([0.0, 1.2, 3.0, 1e5, 1e9]),
    closed=st.sampled_from([0.0, 0.5, 0.99]),
)
@settings(max_examples=150, deadline=None)
def test_the_first_of_the_ties_is_found_in_any_shards(seed, n, spread, closed):
    """``spread`` is how far scores lie apart, in tie widths: many ties, few, or none."""
    rng = np.random.default_rng(seed)
    scores = 1.0 - spread * tie_width(1.0, 1.0) * rng.uniform(size=n)
    scores[rng.uniform(size=n) < closed] = -np.inf
    scores[rng.integers(n)] = 1.0
    expected = int(np.flatnonzero(scores >= 1.0 - tie_width(1.0, 1.0))[0])
    borders = [0, *sorted(rng.integers(0, n + 1, size=2).tolist()), n]
    found = leaders_of_shards(torch.from_numpy(scores), borders)
    assert [leaders.best(1.0)[0] for leaders in found] == [expected] * 3
    assert found[0] == found[1] == found[2]


def test_a_list_of_ties_that_was_cut_short_is_made_again():
    """The first hundred rows tie with the best of their shard, but not with the best of all."""
    width = tie_width(1.0, 1.0)
    scores = torch.full((400,), 1.0 - 1.3 * width, dtype=torch.float64)
    scores[100:300] = 1.0 - 0.9 * width
    scores[200] = 1.0 - 0.5 * width
    scores[299] = 1.0 - 0.5 * width
    scores[350] = 1.0
    for leaders in leaders_of_shards(scores, [0, 300, 400]):
        assert leaders.best(1.0)[0] == 100


def test_nan_on_one_shard_is_an_error_on_all():
    scores = torch.ones(6, dtype=torch.float64)
    scores[5] = torch.nan
    with pytest.raises(ValueError, match="the rule gave NaN"):
        leaders_of_shards(scores, [0, 3, 6])


def test_no_open_row_means_no_leaders():
    scores = torch.full((4,), -torch.inf, dtype=torch.float64)
    assert find_leaders(scores, None, lambda rows: (scores[rows],) * 3, None).rows == []


def test_an_infinite_gain_is_an_error():
    with pytest.raises(ValueError, match="the rule gave NaN"):
        Leaders([0, 1], [1.0, torch.inf], [1.0, torch.inf], [1.0, torch.inf]).best(None)


def test_drift_is_the_largest_relative_to_the_largest_gain():
    assert Leaders([0, 1, 2], [1.0, 2.0, 4.5], [1.0, 3.0, 5.0], [1.0, 3.0, 5.0]).drift == 0.2


@pytest.mark.parametrize(("first", "said"), [(1.0, "reaches 0.5 of the first"), (0.1, "0.2")])
def test_of_two_least_gains_the_larger_is_named(first, said):
    assert said in Stop(None, min_gain=0.2, min_gain_share=0.5).reason(first)
