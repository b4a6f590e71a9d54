"""From the user's layout (batch, feature, node) to tiles (tile, feature, node, width) and back."""

from __future__ import annotations

from numba.extending import register_jitable

from .layout import ALIGNMENT
from .vectors import ask_for, turn

BLOCK = 8  # numbers on the side of a square that is turned in registers
ASKED = 2**15  # bytes: no more than the first cache holds


@register_jitable
def ask_to_write(tile, lo, hi):
    """Rows that the thread of another core read last: fetched one by one as they are written, each is a long wait."""
    width = tile.shape[1]
    for place in range(lo * width, hi * width, ALIGNMENT // tile.itemsize):
        ask_for(tile, place, True)


@register_jitable
def ask_to_read(tile, lo, hi):
    """Rows that the thread of another core wrote last."""
    width = tile.shape[1]
    for place in range(lo * width, hi * width, ALIGNMENT // tile.itemsize):
        ask_for(tile, place, False)


@register_jitable
def turn_blocks(source, first, stride, target, start, step, rows, columns):
    """All whole blocks of a rows x columns matrix, transposed."""
    for r in range(0, rows, BLOCK):
        for c in range(0, columns, BLOCK):
            turn(source, first + r * stride + c, stride, target, start + c * step + r, step, BLOCK)


@register_jitable
def pack_tile(x, t, g, tile, lo, hi):
    """x[t-th tile of the batch, g, lo..hi-1] into the rows lo..hi-1 of `tile`, zeros past the batch"""
    B, G, N = x.shape
    width = tile.shape[1]
    first = t * width
    full = min(width, B - first)
    ask_to_write(tile, lo, min(hi, lo + ASKED // (width * tile.itemsize)))
    samples = full // BLOCK * BLOCK  # in whole blocks; numbers at the edges go one by one
    nodes = (hi - lo) // BLOCK * BLOCK
    turn_blocks(x, (first * G + g) * N + lo, G * N, tile, lo * width, width, samples, nodes)
    for i in range(lo, hi):
        for s in range(samples if i < lo + nodes else 0, full):
            tile[i, s] = x[first + s, g, i]
        for s in range(full, width):
            tile[i, s] = 0


@register_jitable
def unpack_tile(tile, x, t, g, lo, hi):
    """The way back"""
    B, G, N = x.shape
    width = tile.shape[1]
    first = t * width
    full = min(width, B - first)
    samples = full // BLOCK * BLOCK
    nodes = (hi - lo) // BLOCK * BLOCK
    turn_blocks(tile, lo * width, width, x, (first * G + g) * N + lo, G * N, nodes, samples)
    for i in range(lo, hi):
        for s in range(samples if i < lo + nodes else 0, full):
            x[first + s, g, i] = tile[i, s]
