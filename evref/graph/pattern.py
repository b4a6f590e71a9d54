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

    @cached_property
    def rows(self) -> np.ndarray:
        """Row of each entry, int64 (nnz,), beside `indices`, which are the columns."""
        rows = np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))
        rows.setflags(write=False)
        return rows

    def phi_to_dense(self, phi: Any) -> Any:
        """Entries (..., nnz) as dense matrices (..., N, N), zero elsewhere: for layers that are written densely.

        `phi` may also be a torch tensor or a JAX array; gradients go through.

        Parameters
        ----------
        phi : array, shape (..., nnz)
            Entries in CSR order, as in the parameters of an edge-variant filter.

        Returns
        -------
        array of the kind of `phi`, shape (..., N, N)

        Raises
        ------
        ValueError
            Another number of entries, or matrices that would not fit (:func:`evref.checks.require_room`).

        Examples
        --------
        >>> from evref import Graph
        >>> Graph.from_edges(2, source=[0], target=[1]).phi_to_dense(np.array([1.0, 2.0, 3.0]))
        array([[1., 0.],
               [2., 3.]])
        """
        phi = phi if hasattr(phi, "shape") else checks.as_floating("phi", phi)
        N = self.n_nodes
        if not phi.shape or phi.shape[-1] != self.nnz:
            raise ValueError(f"phi has shape {tuple(phi.shape)}; expected (..., {self.nnz}), {self._entries}")
        shape = (*phi.shape[:-1], N, N)
        checks.require_room("the dense Phi", *shape)
        if hasattr(phi, "new_zeros"):  # torch
            dense = phi.new_zeros(shape)
            dense[..., self.rows, self.indices.astype(np.int64)] = phi
            return dense
        zeros = phi.__array_namespace__().zeros(shape, phi.dtype)
        if isinstance(zeros, np.ndarray):
            zeros[..., self.rows, self.indices] = phi
            return zeros
        return zeros.at[..., self.rows, self.indices].set(phi)  # JAX

    def dense_to_phi(self, dense: Any) -> Any:
        """The entries (..., nnz) of dense matrices (..., N, N) at these places; what lies elsewhere is not looked at.

        The transpose of `phi_to_dense`, hence also what takes a gradient with respect to dense matrices to one with
        respect to `phi`.

        Examples
        --------
        >>> from evref import Graph
        >>> Graph.from_edges(2, source=[0], target=[1]).dense_to_phi(np.array([[1.0, 7.0], [2.0, 3.0]]))
        array([1., 2., 3.])
        """
        dense = dense if hasattr(dense, "shape") else checks.as_floating("dense", dense)
        N = self.n_nodes
        if tuple(dense.shape[-2:]) != (N, N):
            raise ValueError(f"dense has shape {tuple(dense.shape)}; expected (..., {N}, {N})")
        return dense[..., self.rows, self.indices.astype(np.int64)]

    @property
    def _layout(self) -> np.ndarray | None:
        """Nodes in the order in which the compiled kernels keep their signals; None: by their numbers."""
        return self.__dict__.get("_order")

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        """What the compiled kernels derive from the pattern when first asked: walks, shares of nodes."""
        return {}
