"""Where a sparse matrix may have entries: what the kernels walk over."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .. import checks


class Pattern:
    """The places (i, j) of a square matrix at which parameters sit, by rows and by columns; immutable.

    A :class:`~evref.graph.support.Graph` is the pattern of I + S. The same without the diagonal is another, its
    :attr:`~evref.graph.support.Graph.edge_pattern`.

    Attributes
    ----------
    n_nodes : int
        N.
    indptr, indices : ndarray of int64 (N + 1,) and of int32 (nnz,)
        Column indices row by row, rising in each.
    column_indptr, row_indices : ndarray of int64 (N + 1,) and of int32 (nnz,)
        The same places by columns.
    transpose : ndarray of int32 (int64 from 2³¹ entries on), shape (nnz,)
        transpose[p] is the position in `indices` of the p-th entry in column order.
    """

    n_nodes: int
    indptr: np.ndarray
    indices: np.ndarray
    column_indptr: np.ndarray
    row_indices: np.ndarray
    transpose: np.ndarray

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, order: np.ndarray | None = None) -> None:
        """Of rows given as in a CSR matrix, sorted. `order` is a layout, as in ``Graph.with_local_layout``."""
        n_nodes = len(indptr) - 1
        position = np.arange(len(indices), dtype=np.int32 if len(indices) < 2**31 else np.int64)
        by_columns = sparse.csr_array((position, indices, indptr), shape=(n_nodes, n_nodes)).tocsc()
        arrays: dict[str, np.ndarray] = {
            "indptr": indptr.astype(np.int64),
            "indices": indices.astype(np.int32),
            "column_indptr": by_columns.indptr.astype(np.int64),
            "row_indices": by_columns.indices.astype(np.int32),
            "transpose": by_columns.data,
        }
        for array in arrays.values():
            array.setflags(write=False)
        self.__dict__.update(n_nodes=n_nodes, _order=order, **arrays)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable: {name} cannot be set")

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return self.indices.size

    def to_csr(self, values: Any) -> sparse.csr_array:
        """The matrix with `values` (nnz,) at these places, zeros kept as entries.

        Its index arrays may be this object's own, which are read-only: copy it before changing its structure.
        """
        values = checks.as_floating("values", values)
        if values.shape != (self.nnz,):
            raise ValueError(f"values has shape {values.shape}; expected ({self.nnz},), {self._entries}")
        matrix = sparse.csr_array((values, self.indices, self.indptr), shape=(self.n_nodes, self.n_nodes))
        matrix.has_canonical_format = True  # known; SciPy would otherwise walk the indices to find out
        return matrix

    _entries = "one per entry"  # of the error message above

    @property
    def _layout(self) -> np.ndarray | None:
        """Nodes in the order in which the compiled kernels keep their signals; None: by their numbers."""
        return self.__dict__.get("_order")

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        """What the compiled kernels derive from the pattern when first asked: walks, shares of nodes."""
        return {}
