"""From the user's layout (batch, feature, node) to tiles (tile, feature, node, width) and back."""

from __future__ import annotations

from .jit import inner
from .layout import ALIGNMENT
from .vectors import ask_for, load, store, turn

BLOCK = 8  # numbers on the side of a square that is turned in registers
AHEAD = 32  # rows somewhere in memory that are asked for before it is their turn
ASKED = 2**15  # bytes: no more than the first cache holds


@inner
def ask_to_write(tile, lo, hi):
    """Rows that the thread of another core read last: fetched one by one as they are written, each is a long wait."""
    width = tile.shape[1]
    for place in range(lo * width, hi * width, ALIGNMENT // tile.itemsize):
        ask_for(tile, place, True)


@inner
def ask_to_read(tile, lo, hi):
    """Rows that the thread of another core wrote last."""
    width = tile.shape[1]
    for place in range(lo * width, hi * width, ALIGNMENT // tile.itemsize):
        ask_for(tile, place, False)


@inner
def turn_blocks(source, first, stride, target, start, step, rows, columns):
    """All whole blocks of a rows x columns matrix, transposed."""
    for r in range(0, rows, BLOCK):
        for c in range(0, columns, BLOCK):
            turn(source, first + r * stride + c, stride, target, start + c * step + r, step, BLOCK)


@inner
def pack_tile(x, t, g, tile, row, lo, hi):
    """x[t-th tile of the batch, g, lo..hi-1] into the rows from `row` on of `tile`, zeros past the batch"""
    B, G, N = x.shape
    width = tile.shape[1]
    first = t * width
    full = min(width, B - first)
    ask_to_write(tile, row, row + min(hi - lo, ASKED // (width * tile.itemsize)))
    samples = full // BLOCK * BLOCK  # in whole blocks; numbers at the edges go one by one
    nodes = (hi - lo) // BLOCK * BLOCK
    turn_blocks(x, (first * G + g) * N + lo, G * N, tile, row * width, width, samples, nodes)
    for i in range(hi - lo):
        for s in range(samples if i < nodes else 0, full):
            tile[row + i, s] = x[first + s, g, lo + i]
        for s in range(full, width):
            tile[row + i, s] = 0


@inner
def unpack_tile(tile, row, x, t, g, lo, hi):
    """The way back"""
    B, G, N = x.shape
    width = tile.shape[1]
    first = t * width
    full = min(width, B - first)
    samples = full // BLOCK * BLOCK
    nodes = (hi - lo) // BLOCK * BLOCK
    turn_blocks(tile, row * width, width, x, (first * G + g) * N + lo, G * N, nodes, samples)
    for i in range(hi - lo):
        for s in range(samples if i < nodes else 0, full):
            x[first + s, g, lo + i] = tile[row + i, s]


@inner
def pack_nodes(x, t, g, tile, places, few, zero, lo, hi):
    """pack_tile where node i has the row places[i], its own if `places` is empty; `few` rows, a block, on their way"""
    if places.size == 0:
        pack_tile(x, t, g, tile, lo, lo, hi)
        return
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        pack_tile(x, t, g, few, 0, first, last)
        for i in range(first, last):
            ask_for(tile, places[min(i + AHEAD, hi - 1)] * tile.shape[1], True)
            store(tile, places[i], load(few, i - first, zero))


@inner
def unpack_nodes(tile, x, t, g, places, few, zero, lo, hi):
    """The way back"""
    if places.size == 0:
        unpack_tile(tile, lo, x, t, g, lo, hi)
        return
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        for i in range(first, last):
            ask_for(tile, places[min(i + AHEAD, hi - 1)] * tile.shape[1], False)
            store(few, i - first, load(tile, places[i], zero))
        unpack_tile(few, 0, x, t, g, first, last)
