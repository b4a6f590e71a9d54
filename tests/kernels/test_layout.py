"""Memory of the compiled kernels: aligned, used again when nobody looks at it, and never while somebody does."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from evref.kernels import layout

F8 = np.dtype(np.float64)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.fixture(autouse=True)
def empty_pool(monkeypatch):
    monkeypatch.setattr(layout, "_pool", layout.Pool())


def test_arrays_sit_on_cache_lines():
    for n in (0, 1, 7, 1000):
        assert n == 0 or address(layout.aligned_empty((n, 3), F8)) % 64 == 0


def test_memory_comes_back_when_it_is_free():
    first = address(layout.aligned_empty((50, 7), F8))
    assert address(layout.aligned_empty((7, 50), F8)) == first


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a,
        lambda a: a[3:5],
        lambda a: a.T,
        lambda a: a.view(np.int64),
        memoryview,
        lambda a: {"x": [a.ravel()]},
    ],
    ids=["array", "slice", "transpose", "view", "buffer", "nested"],
)
def test_memory_in_use_is_left_alone(hold):
    array = layout.aligned_empty((50, 7), F8)
    array.fill(1)
    held = hold(array)
    where = address(array)
    del array
    other = layout.aligned_empty((50, 7), F8)
    other.fill(2)
    assert address(other) != where
    del held
    again = [layout.aligned_empty((50, 7), F8) for _ in range(2)]
    assert where in [address(a) for a in again]


def test_each_thread_has_its_own():
    mine, theirs = address(layout.aligned_empty((50, 7), F8)), []
    keep = []

    def work() -> None:
        keep.append(layout.aligned_empty((50, 7), F8))
        theirs.append(address(keep[0]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert theirs != [mine]


def test_the_pool_is_bounded(monkeypatch):
    monkeypatch.setattr(layout, "POOL_BYTES", 10_000)
    monkeypatch.setattr(layout, "POOLED_BYTES", 4_000)
    layout.aligned_empty((1000,), F8)  # too large to keep
    assert layout._pool.n_bytes == 0
    for n in range(1, 400):
        layout.aligned_empty((n,), F8)
        assert layout._pool.n_bytes <= 10_000
    assert layout._pool.n_bytes == sum(size * len(blocks) for size, blocks in layout._pool.blocks.items())


def test_a_workspace_is_the_same_memory_while_it_is_large_enough(monkeypatch):
    monkeypatch.setattr(layout, "_workspaces", layout._Workspaces())
    first = layout.workspace("test", (5, 3), F8)
    assert first.shape == (5, 3) and first.dtype == F8
    assert address(first) % 64 == 0
    assert address(layout.workspace("test", (3, 5), F8)) == address(first)
    assert address(layout.workspace("test", (5, 6), np.dtype(np.float32))) == address(first)
    assert address(layout.workspace("other", (5, 3), F8)) != address(first)
    larger = layout.workspace("test", (50, 3), F8)
    assert address(layout.workspace("test", (5, 3), F8)) == address(larger) != address(first)
    monkeypatch.setattr(layout, "POOLED_BYTES", 100)
    held = layout.workspace("test", (50, 5), F8)  # too large to keep
    assert address(layout.workspace("test", (5, 3), F8)) == address(larger) != address(held)


def test_many_arrays_in_use_do_not_fill_the_pool():
    held = [layout.aligned_empty((50,), F8) for _ in range(100)]
    assert len({address(a) for a in held}) == 100
    assert len(layout._pool.blocks[400]) == layout.SAME_SIZE


def test_release_gives_everything_back_but_what_is_held():
    held = layout.aligned_empty((50, 7), F8)
    held.fill(3)
    layout.workspace("test", (5, 3), F8)
    layout.release()
    assert layout._pool.blocks == {} and layout._pool.n_bytes == 0 and layout._workspaces.blocks == {}
    other = layout.aligned_empty((50, 7), F8)
    other.fill(4)
    assert (held == 3).all()
