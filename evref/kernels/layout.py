"""Signals as the compiled kernels want them: batch-last tiles (tile, feature, node, width).

A row, one node of one feature for `width` samples, is then contiguous, aligned to a cache line and a whole number of
registers long; the last tile is padded with zeros. `width` is as close to the batch as registers allow, at most seven
registers (one is needed for the neighbour's row, so that eight fit the sixteen or thirty-two a machine has twice).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

ALIGNMENT = 64  # bytes: a cache line
PARTS = (1, 2, 4, 7)  # registers in a row; few choices, because each width is compiled on its own


@cache
def tile_width(batch: int, dtype: np.dtype) -> int:
    """Samples in a row: the next power of two for a few samples, else the choice that needs the least work.

    An entry of Phi costs one multiply-add per register and, whatever the width, about two more for its bookkeeping.
    """
    lanes = ALIGNMENT // dtype.itemsize
    if batch <= lanes:  # part of a register: on large graphs zeros would cost as much memory as numbers
        return 1 << max(batch - 1, 0).bit_length()
    return lanes * min(PARTS, key=lambda parts: -(-batch // (lanes * parts)) * (parts + 2))


POOLED_BYTES = 2**28  # of one block; larger arrays come from the system each time
POOL_BYTES = 2**29  # of all blocks of a thread
SAME_SIZE = 16  # blocks of one size: the search for a free one stays short however many outputs somebody holds


class Pool(threading.local):
    """Blocks of memory that come back when no array lives in them any more.

    Fresh memory costs the system about as long to provide as the kernels need to fill it, and a step of training asks
    for the same sizes each time. A block is free when nothing but the pool refers to it: NumPy arrays refer to the
    block they live in, so an output or a tape that somebody still holds is never handed out again. Each thread has its
    own pool.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, list[tuple[np.ndarray, int]]] = {}  # size: blocks and where their cache lines begin
        self.n_bytes = 0

    def take(self, n_bytes: int) -> tuple[np.ndarray, int]:
        same_size = self.blocks.get(n_bytes, ())
        for block, start in same_size:
            if getrefcount(block) == _UNUSED:
                return block, start
        block, start = _fresh(n_bytes)
        if n_bytes <= POOLED_BYTES and len(same_size) < SAME_SIZE:
            if self.n_bytes + n_bytes > POOL_BYTES:
                self.blocks, self.n_bytes = {}, 0
            self.blocks.setdefault(n_bytes, []).append((block, start))
            self.n_bytes += n_bytes
        return block, start


_UNUSED = 3  # references: the pool's, the loop's, getrefcount's own
_pool = Pool()


def _fresh(n_bytes: int) -> tuple[np.ndarray, int]:
    block = np.empty(n_bytes + ALIGNMENT, np.uint8)
    return block, -block.__array_interface__["data"][0] % ALIGNMENT


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """np.empty whose first byte sits on a cache line, in memory that was used before if there is any."""
    block, start = _pool.take(prod(shape) * dtype.itemsize)
    return np.ndarray(shape, dtype, block, start)


class _Workspaces(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[str, tuple[np.ndarray, int]] = {}  # with where their cache lines begin
        self.arrays: dict[tuple, Any] = {}  # in the blocks, by what was asked for: a look instead of a new array


_workspaces = _Workspaces()
MANY = 256  # arrays


def workspace(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Scratch memory for the length of one call: what this thread had under that name last time, if it is large enough.

    Never part of a result. Cheaper than `aligned_empty`, and the same cache lines every time.
    """
    key = name, shape, dtype
    array = _workspaces.arrays.get(key)
    return _new_workspace(*key) if array is None else array


def _new_workspace(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    n_bytes = prod(shape) * dtype.itemsize
    if n_bytes > POOLED_BYTES:
        return np.ndarray(shape, dtype, *_fresh(n_bytes))
    blocks, arrays = _workspaces.blocks, _workspaces.arrays
    too_small = name not in blocks or blocks[name][0].size < n_bytes + ALIGNMENT
    if too_small:
        blocks[name] = _fresh(n_bytes)
    if too_small or len(arrays) >= MANY:
        arrays.clear()  # among them those in the block that went
    arrays[name, shape, dtype] = np.ndarray(shape, dtype, *blocks[name])
    return arrays[name, shape, dtype]


def workspaces(key: tuple, make: Callable[[], tuple]) -> tuple:
    """Several of them at once: what make() returned when it was last asked for `key`, one look for all."""
    arrays = _workspaces.arrays.get(key)
    if arrays is None:
        arrays = make()
        _workspaces.arrays[key] = arrays
    return arrays


def release() -> None:
    """Give back what this thread keeps for the next call; what somebody holds stays his."""
    _pool.blocks, _pool.n_bytes = {}, 0
    _workspaces.blocks.clear()
    _workspaces.arrays.clear()


def empty_tiles(batch: int, features: int, nodes: int, dtype: np.dtype) -> np.ndarray:
    width = tile_width(batch, dtype)
    return aligned_empty((-(-batch // width), features, nodes, width), dtype)
