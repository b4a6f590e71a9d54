"""Memory of the compiled kernels: aligned, used again when nobody looks at it, and never while somebody does."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

import evref as ev
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
    assert layout._pool.n_bytes == sum(size * free.qsize() for size, free in layout._pool.free.items())


def test_what_is_in_use_counts_and_what_comes_back_beyond_the_limit_does_not_exist(monkeypatch):
    monkeypatch.setattr(layout, "POOL_BYTES", 10_000)
    held = [layout.aligned_empty((100,), F8) for _ in range(100)]  # 80 kB in use, 9.6 kB of it from the pool
    assert len({address(a) for a in held}) == 100
    assert layout._pool.n_bytes == 9_600
    del held
    assert layout._pool.free[800].qsize() == 12


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


def test_a_block_dropped_by_another_thread_comes_back_to_its_pool():
    held = [layout.aligned_empty((50, 7), F8)]
    where = address(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert address(layout.aligned_empty((50, 7), F8)) == where


def test_a_cycle_of_references_gives_its_block_back_when_it_is_collected():
    array = layout.aligned_empty((50, 7), F8)
    where = address(array)
    cycle: dict = {"array": array}
    cycle["self"] = cycle
    del array, cycle
    gc.collect()
    assert address(layout.aligned_empty((50, 7), F8)) == where


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.complex128])
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1,), (4, 5, 6)])
def test_arrays_are_as_asked_for(shape, dtype):
    array = layout.aligned_empty(shape, np.dtype(dtype))
    assert array.shape == shape and array.dtype == dtype
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned


def test_an_output_is_nobody_elses_memory():
    """The next call must not write where the first call's results live, for as long as anything refers to them."""
    filt = ev.EdgeVariant(ev.generators.cycle(6), order=2, zeroth="diagonal", bias=True)
    params = {name: np.ones_like(value) for name, value in filt.init(0).items()}
    ones = np.ones((4, 1, 6))
    y, tape = filt.forward(params, ones)
    grads, grad_x = filt.backward(params, tape, ones)
    results = [y, grad_x, *grads.values()]
    kept = [result.copy() for result in results]
    views = [result.ravel()[::2] for result in results]
    _, later_tape = filt.forward(params, 100 * ones)
    filt.backward(params, later_tape, 100 * ones)
    assert all(map(np.array_equal, results, kept))
    del results, y, grad_x, grads
    filt.backward(params, filt.forward(params, 10 * ones)[1], 10 * ones)
    assert all(np.array_equal(view, old.ravel()[::2]) for view, old in zip(views, kept, strict=True))
    again, _ = filt.backward(params, tape, ones)  # the tape kept its own numbers too
    assert np.array_equal(again["phi"], kept[2])


def test_nothing_is_decided_by_a_reference_count():
    for path in Path(ev.__file__).parent.rglob("*.py"):
        assert "getrefcount" not in path.read_text(encoding="utf-8"), path


def test_release_gives_everything_back_but_what_is_held():
    held = layout.aligned_empty((50, 7), F8)
    held.fill(3)
    layout.workspace("test", (5, 3), F8)
    layout.release()
    assert all(free.empty() for free in layout._pool.free.values()) and layout._workspaces.blocks == {}
    assert layout._pool.n_bytes == held.nbytes
    other = layout.aligned_empty((50, 7), F8)
    other.fill(4)
    assert (held == 3).all()
