"""Raw graph input to one canonical form, or an error that names the argument.

Everything that can be wrong with a matrix or an edge list is found here, before SciPy's or our own compiled loops
follow its indices: SciPy checks little, and nothing at all once a caller has changed `.indices` by hand.

The canonical form is a fresh `scipy.sparse.csr_array` with sorted column indices, no duplicates (they are summed), no
explicit zeros, finite values of float32 or float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .. import checks
from .names import named_matrix

MAX_NODES = 2**31 - 1  # node numbers are stored as int32


def canonical(name: str, matrix: Any) -> sparse.csr_array:
    """`matrix`, dense or sparse of any format, as a canonical csr_array that shares no memory with it.

    Of a DataFrame the columns come in the order of the rows, by name.

    >>> canonical("S", [[0, 2], [0, 0]]).toarray()
    array([[0., 2.],
           [0., 0.]])
    >>> canonical("S", [[0, 2, 1]])
    Traceback (most recent call last):
    ...
    ValueError: S has shape (1, 3); expected a square matrix (nodes, nodes)
    """
    if sparse.issparse(matrix):
        return _from_sparse(name, matrix)
    if hasattr(matrix, "nodes") and hasattr(matrix, "edges"):
        raise TypeError(
            f"{name} is {type(matrix).__name__}; expected a matrix (Graph.from_networkx takes such a graph)"
        )
    array = _values(name, named_matrix(name, matrix, None)[0])
    n_nodes = _square(name, array.shape)
    rows, columns = np.nonzero(array)
    return assemble(name, n_nodes, rows, columns, array[rows, columns])


def assemble(name: str, n_nodes: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> sparse.csr_array:
    """Canonical csr_array from triples whose indices are known to be in range."""
    S = sparse.coo_array((values, (rows, columns)), shape=(n_nodes, n_nodes)).tocsr()
    S.sum_duplicates()
    S.eliminate_zeros()
    # Checked after the sum, so that duplicates which overflow together are found as well.
    bad = np.flatnonzero(~np.isfinite(S.data))
    if bad.size:
        row = int(np.searchsorted(S.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"{name} has {bad.size} value(s) that are not finite, the first {S.data[bad[0]]} "
            f"at [{row}, {S.indices[bad[0]]}]; expected finite weights"
        )
    return S


def from_pairs(
    n_nodes: Any,
    source: Any,
    target: Any,
    weight: Any = None,
    *,
    undirected: bool = False,
    names: tuple[str, str, str] = ("source", "target", "weight"),
) -> sparse.csr_array:
    """Canonical S of an edge list: the edge source → target lands in S[target, source].

    With `undirected`, parallel edges are summed once and then mirrored, which keeps S symmetric to the last bit.
    """
    n_nodes = as_n_nodes("n_nodes", n_nodes)
    source = as_nodes(names[0], source, n_nodes)
    target = as_nodes(names[1], target, n_nodes)
    if source.size != target.size:
        raise ValueError(
            f"{names[0]} has {source.size} entries and {names[1]} has {target.size}; expected one of each per edge"
        )
    values = np.ones(source.size) if weight is None else _values(names[2], weight)
    if values.shape != source.shape:
        raise ValueError(f"{names[2]} has shape {values.shape}; expected ({source.size},), one weight per edge")
    if not undirected:
        return assemble(names[2], n_nodes, target, source, values)
    low, high = np.minimum(source, target), np.maximum(source, target)
    key = low * n_nodes + high  # below 2**62
    both = np.intersect1d(key[source < target], key[source > target])
    if both.size:
        i, j = divmod(int(both[0]), n_nodes)
        raise ValueError(f"{names[0]} and {names[1]} hold the pair ({i}, {j}) in both orders; expected each pair once")
    half = assemble(names[2], n_nodes, low, high, values)
    return sparse.csr_array(half + sparse.triu(half, k=1).T)


def as_n_nodes(name: str, value: Any) -> int:
    """A number of nodes: at least 1 and small enough for int32 node numbers."""
    count = checks.as_count(name, value, minimum=1)
    if count > MAX_NODES:
        raise ValueError(f"{name} is {count}; expected at most 2**31 - 1 = {MAX_NODES}, the range of a node number")
    return count


def as_nodes(name: str, value: Any, n_nodes: int) -> np.ndarray:
    """A one-dimensional int64 array of node numbers in 0..n_nodes-1."""
    nodes = checks.as_array(name, value)
    if nodes.ndim != 1:
        raise ValueError(f"{name} has shape {nodes.shape}; expected one dimension of node numbers")
    return _indices(name, nodes, n_nodes)


def is_symmetric(W: sparse.csr_array) -> bool:
    """Whether a canonical W equals its transpose exactly: nearly symmetric weights are two directions that differ."""
    T = W.T.tocsr()  # sorted, for conversion goes through the columns in order
    return bool(
        np.array_equal(W.indptr, T.indptr) and np.array_equal(W.indices, T.indices) and np.array_equal(W.data, T.data)
    )


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _values(name: str, value: Any) -> np.ndarray:
    """Weights as float32 or float64 in native byte order; complex is never a weight, not even for a complex step."""
    array = checks.as_array(name, value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "c":
        raise TypeError(f"{name} has dtype {array.dtype}; supported are float32, float64, integers and bools")
    return checks.as_floating(name, array)


def _square(name: str, shape: tuple[int, ...]) -> int:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"{name} has shape {tuple(shape)}; expected a square matrix (nodes, nodes)")
    if shape[0] == 0:
        raise ValueError(f"{name} has shape {tuple(shape)}; expected at least one node")
    return as_n_nodes(f"the number of rows of {name}", shape[0])


def _indices(name: str, value: Any, bound: int) -> np.ndarray:
    """`value` as int64 with every entry in 0..bound-1."""
    indices = checks.as_array(name, value)
    if indices.size == 0:
        return np.zeros(indices.shape, dtype=np.int64)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {indices.dtype}; expected integers")
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= bound:
        raise ValueError(f"{name} holds the index {low if low < 0 else high}; expected 0 <= index < {bound}")
    return indices.astype(np.int64)


def _from_sparse(name: str, matrix: Any) -> sparse.csr_array:
    n_nodes = _square(name, matrix.shape)
    _values(name, np.empty(0, dtype=matrix.dtype))  # a dtype we do not take is refused before anything is converted
    if matrix.format in ("csr", "csc"):
        major, minor = _compressed(name, matrix, n_nodes, n_nodes)
        rows, columns = (major, minor) if matrix.format == "csr" else (minor, major)
        values = _values(f"{name}.data", matrix.data)[: minor.size]
    else:
        _check_format(name, matrix, n_nodes)
        try:
            coo = matrix.tocoo()
        except (ValueError, IndexError) as error:
            raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None
        rows = _indices(f"{name}, rows:", coo.row, n_nodes)
        columns = _indices(f"{name}, columns:", coo.col, n_nodes)
        values = _values(f"{name}.data", coo.data)
        if not rows.shape == columns.shape == values.shape:
            raise ValueError(
                f"{name} has {rows.size} row indices, {columns.size} column indices and {values.size} values; "
                "expected the same number of each"
            )
    return assemble(name, n_nodes, rows, columns, values)


def _compressed(name: str, matrix: Any, n_major: int, n_minor: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column (for csc, column and row) of every stored entry of a csr, csc or bsr matrix, all in range."""
    indptr = np.asarray(matrix.indptr)
    n_stored = len(matrix.indices)
    if np.ndim(matrix.indices) != 1 or len(matrix.data) != n_stored:
        raise ValueError(
            f"{name} has {n_stored} indices and {len(matrix.data)} values; expected the same number of each"
        )
    if indptr.shape != (n_major + 1,):
        raise ValueError(f"{name}.indptr has shape {indptr.shape}; expected ({n_major + 1},)")
    indptr = _indices(f"{name}.indptr", indptr, n_stored + 1)
    counts = np.diff(indptr)
    if indptr[0] != 0 or (counts < 0).any():
        where = 0 if indptr[0] != 0 else int(np.argmax(counts < 0)) + 1
        raise ValueError(
            f"{name}.indptr holds {indptr[where]} at position {where}; expected 0 first and no falling value"
        )
    # Entries past indptr[-1] are spare room, which SciPy allows: they are no part of the matrix.
    minor = _indices(f"{name}.indices", matrix.indices[: indptr[-1]], n_minor)
    return np.repeat(np.arange(n_major), counts), minor


def _check_format(name: str, matrix: Any, n_nodes: int) -> None:
    """What SciPy's own conversion to coo takes on trust, in the formats other than csr and csc."""
    if matrix.format == "bsr":
        block = np.shape(matrix.data)[1:]
        if len(block) != 2 or any(size == 0 or n_nodes % size for size in block):
            raise ValueError(f"{name} has blocks of shape {block}; expected two sizes that divide {n_nodes}")
        _compressed(name, matrix, n_nodes // block[0], n_nodes // block[1])
    elif matrix.format == "dia":
        if np.ndim(matrix.data) != 2 or np.shape(matrix.offsets) != (len(matrix.data),):
            raise ValueError(
                f"{name} has data of shape {np.shape(matrix.data)} and offsets of shape {np.shape(matrix.offsets)}; "
                "expected one row of data per offset"
            )
        if np.asarray(matrix.offsets).dtype.kind not in "iu":
            raise TypeError(f"{name}.offsets has dtype {np.asarray(matrix.offsets).dtype}; expected integers")
    elif matrix.format == "lil":
        lengths = [len(row) for row in matrix.rows]
        if len(lengths) != n_nodes or lengths != [len(row) for row in matrix.data]:
            raise ValueError(f"{name} has rows and data of different lengths; expected one value per column index")
