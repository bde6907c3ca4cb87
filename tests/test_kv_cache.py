"""edgegpt.runtime.kv_cache: positions in use, room, rewind and fork."""

import numpy as np
import pytest
from conftest import Refused

from edgegpt.errors import CacheError
from edgegpt.runtime import KVCache


@pytest.fixture
def cache() -> KVCache:
    """One with 7 of 10 positions in use."""
    cache = KVCache(n_layer=3, n_kv_head=2, capacity=10, head_dim=8)
    for n, array in enumerate(cache.arrays):
        array[:, :, :7] = n + 1
    cache.append(7)
    return cache


def test_a_cache_holds_keys_and_values_of_every_layer_and_knows_its_bytes(cache: KVCache) -> None:
    assert [array.shape for array in cache.arrays] == [(1, 2, 10, 8)] * 6
    assert {array.dtype for array in cache.arrays} == {np.dtype(np.float32)}
    assert cache.bytes == 6 * 2 * 10 * 8 * 4


def test_length_and_room_follow_append_and_rewind(cache: KVCache) -> None:
    assert (cache.length, cache.room) == (7, 3)
    cache.append(3)
    assert cache.room == 0
    cache.rewind(2)
    assert (cache.length, cache.room) == (2, 8)


def test_positions_that_a_cache_does_not_have_are_refused(cache: KVCache, refused: Refused) -> None:
    for n in (4, -1):
        with refused(CacheError, n, 7, 10):
            cache.append(n)
    for n in (8, -1):
        with refused(CacheError, n, 7):
            cache.rewind(n)
    assert cache.length == 7
    with refused(CacheError, 0):
        KVCache(n_layer=3, n_kv_head=2, capacity=0, head_dim=8)


def test_a_fork_has_the_same_content_and_its_own_memory(cache: KVCache) -> None:
    fork = cache.fork()
    assert (fork.length, fork.capacity) == (7, 10)
    for ours, theirs in zip(cache.arrays, fork.arrays, strict=True):
        assert (ours[:, :, :7] == theirs[:, :, :7]).all()
        theirs[:] = -1
        assert ours[0, 0, 0, 0] != -1
    fork.append(1)
    assert cache.length == 7
