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
from queue import SimpleQueue
from typing import Any, NamedTuple

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
POOL_BYTES = 2**29  # of all blocks of one thread's pool, free or in use


class Block(NamedTuple):
    """Memory, and where it begins: to ask an array for its address takes as long as to make a small one."""

    memory: np.ndarray  # (bytes,) of uint8
    address: int


class Lease:
    """Owns a block of memory for as long as an array lives in it, then gives it back to the pool.

    `np.asarray(lease)` is an array in the block, and the lease is its `base`. Every view of that array, and everything
    else that NumPy lets share its memory, keeps the base alive. So the end of the lease is the end of the last user:
    nothing has to be counted.
    """

    __slots__ = ("__array_interface__", "block", "free")

    def __init__(self, block: Block, free: SimpleQueue[Block], shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.block = block
        self.free = free
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (block.address, False)}

    def __del__(self) -> None:
        self.free.put(self.block)  # SimpleQueue.put may be called from a finaliser, in any thread


class Pool(threading.local):
    """Blocks of memory that are used again.

    Fresh memory costs the system about as long to provide as the kernels need to fill it, and a step of training asks
    for the same sizes each time: medium graphs are 1.4 times as fast with used blocks, huge ones 1.2 to 1.9 times. Each
    thread has a pool of its own; a block goes back to the pool it came from, whichever thread drops it.
    """

    def __init__(self) -> None:
        self.free: dict[int, SimpleQueue[Block]] = {}  # by number of bytes: blocks that nobody uses
        self.n_bytes = 0  # of all blocks of the pool, those in use among them

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        n_bytes = prod(shape) * dtype.itemsize
        free = self.free.get(n_bytes)
        if free is None or free.empty():
            if n_bytes > POOLED_BYTES or not self._make_place(n_bytes):
                return np.ndarray(shape, dtype, _fresh(n_bytes).memory)
            free = self.free.setdefault(n_bytes, SimpleQueue())
            block = _fresh(n_bytes)
            self.n_bytes += n_bytes
        else:
            block = free.get_nowait()  # nobody else takes from this queue
        return np.asarray(Lease(block, free, shape, dtype))

    def _make_place(self, n_bytes: int) -> bool:
        """Whether the pool may grow by `n_bytes`, if necessary after it has let go of all its free blocks."""
        if self.n_bytes + n_bytes > POOL_BYTES:
            self.release()
        return self.n_bytes + n_bytes <= POOL_BYTES

    def release(self) -> None:
        """Give the free blocks back to the system. Blocks in use stay, and come back here later."""
        for n_bytes, free in self.free.items():
            while not free.empty():
                free.get_nowait()
                self.n_bytes -= n_bytes


_pool = Pool()


def _fresh(n_bytes: int) -> Block:
    """New memory that begins on a cache line."""
    memory = np.empty(n_bytes + ALIGNMENT, np.uint8)
    address = memory.__array_interface__["data"][0]
    start = -address % ALIGNMENT
    return Block(memory[start : start + n_bytes], address + start)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """np.empty whose first byte sits on a cache line, in memory that was used before if there is any."""
    return _pool.empty(shape, dtype)


class _Workspaces(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[str, np.ndarray] = {}
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
        return np.ndarray(shape, dtype, _fresh(n_bytes).memory)
    blocks, arrays = _workspaces.blocks, _workspaces.arrays
    too_small = name not in blocks or blocks[name].size < n_bytes
    if too_small:
        blocks[name] = _fresh(n_bytes).memory
    if too_small or len(arrays) >= MANY:
        arrays.clear()  # among them those in the block that went
    arrays[name, shape, dtype] = np.ndarray(shape, dtype, blocks[name])
    return arrays[name, shape, dtype]


def workspaces(key: tuple, make: Callable[[], tuple]) -> tuple:
    """Several of them at once: what make() returned when it was last asked for `key`, one look for all."""
    arrays = _workspaces.arrays.get(key)
    if arrays is None:
        arrays = make()
        _workspaces.arrays[key] = arrays
    return arrays


def release() -> None:
    """Give back what this thread keeps for the next call; what somebody still uses stays."""
    _pool.release()
    _workspaces.blocks.clear()
    _workspaces.arrays.clear()


def empty_tiles(batch: int, features: int, nodes: int, dtype: np.dtype) -> np.ndarray:
    width = tile_width(batch, dtype)
    return aligned_empty((-(-batch // width), features, nodes, width), dtype)
