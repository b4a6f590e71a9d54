"""In which order the compiled kernels walk over the support of a graph; made once per graph.

By the user's numbers, row after row, or by a layout that the graph brings along (``Graph.with_local_layout``): then row
r inside is node order[r] of the user. Only signals are laid out anew, on their way in and out; an entry of Phi stays
where the user has it, a row's entries together, so that parameters and gradients are never copied.

    indptr, indices   rows inside and the rows they read, one after another
    starts[r]         where the entries of row r begin in phi; None where that is indptr[r]
    places[i]         the row of the user's node i; empty where it is i

and the same by columns, with the place of every entry in phi.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..graph.pattern import Pattern
from ..graph.support import spans

Array = np.ndarray


class Walk(NamedTuple):
    by_rows: tuple[Array, Array]  # indptr, indices
    starts: Array | None  # None and not empty: numba compiles without them then
    by_columns: tuple[Array, Array, Array]  # indptr, row indices, transpose
    places: Array
    order: Array | None  # the user's node in each row; None: the row's own number


def walk_of(graph: Pattern, local: bool = False) -> Walk:
    """By the graph's layout if it has one and `local`, else by its numbers."""
    order = graph._layout if local else None
    key = "walk", order is not None
    made = graph._derived.get(key)
    if made is None:
        made = graph._derived[key] = _plain_walk(graph) if order is None else _local_walk(graph, order)
    return made


def _plain_walk(graph: Pattern) -> Walk:
    """Without signs: numba asks of signed indices whether they count from the end, which costs more instructions than
    the multiply-add they lead to."""
    names = ("indptr", "indices", "column_indptr", "row_indices", "transpose")
    indptr, indices, column_indptr, row_indices, transpose = (_unsigned(getattr(graph, name)) for name in names)
    by_columns = column_indptr, row_indices, transpose
    return Walk((indptr, indices), None, by_columns, np.empty(0, np.uint32), None)


def _local_walk(graph: Pattern, order: Array) -> Walk:
    places = np.empty(graph.n_nodes, np.uint32)
    places[order] = np.arange(graph.n_nodes, dtype=np.uint32)
    indptr, entries = _rows_in_order(graph.indptr, order)
    column_indptr, column_entries = _rows_in_order(graph.column_indptr, order)
    return Walk(
        (_unsigned(indptr), places[graph.indices[entries]]),
        _unsigned(graph.indptr[order]),
        (
            _unsigned(column_indptr),
            places[graph.row_indices[column_entries]],
            _unsigned(graph.transpose[column_entries]),
        ),
        places,
        order,
    )


def _rows_in_order(indptr: Array, order: Array) -> tuple[Array, Array]:
    """Rows one after another in `order`: where they begin, and which entries they take."""
    return np.append(0, np.cumsum(np.diff(indptr)[order])), spans(indptr[order], indptr[order + 1])


def _unsigned(indices: Array) -> Array:
    return indices.view(f"u{indices.itemsize}")


def pieces(graph: Pattern, walk: Walk, columns: bool, n: int) -> Array:
    """Rows, or columns, split so that each of n pieces has the same number of entries; made once per graph."""
    key = "pieces", columns, walk.order is not None, n
    made = graph._derived.get(key)
    if made is None:
        upto = (walk.by_columns if columns else walk.by_rows)[0]
        inner = np.searchsorted(upto, [int(upto[-1]) * piece // n for piece in range(1, n)])
        made = graph._derived[key] = np.array([0, *inner, graph.n_nodes])
    return made
