"""Signals as the compiled kernels want them: batch-last tiles (tile, feature, node, width).

A row, one node of one feature for `width` samples, is then contiguous, aligned to a cache line and a whole number of
registers long; the last tile is padded with zeros. `width` is as close to the batch as registers allow, at most seven
registers (one is needed for the neighbour's row, so that eight fit the sixteen or thirty-two a machine has twice).
"""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

ALIGNMENT = 64  # bytes: a cache line
PARTS = (1, 2, 4, 7)  # registers in a row; few choices, because each width is compiled on its own


@cache
def tile_width(batch: int, dtype: np.dtype) -> int:
    """Samples in a row: 1 for a single sample, else the choice that needs the least work.

    An entry of Phi costs one multiply-add per register and, whatever the width, about two more for its bookkeeping.
    """
    if batch <= 1:
        return 1
    lanes = ALIGNMENT // dtype.itemsize
    return lanes * min(PARTS, key=lambda parts: -(-batch // (lanes * parts)) * (parts + 2))


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """np.empty whose first byte sits on a cache line."""
    n_bytes = prod(shape) * dtype.itemsize
    raw = np.empty(n_bytes + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + n_bytes].view(dtype).reshape(shape)


def empty_tiles(batch: int, features: int, nodes: int, dtype: np.dtype) -> np.ndarray:
    width = tile_width(batch, dtype)
    return aligned_empty((-(-batch // width), features, nodes, width), dtype)
