"""Shift operators: matrices made of a graph's weights W that a filter may use as its S.

Every function takes a :class:`Graph`, or weights W in the same convention (W[i, j] weighs the edge j → i), and returns
a `scipy.sparse.csr_array` of the same dtype. Sums and eigenvalues are taken in float64. No operator adds edges: the
support of I + S stays that of I + W, so a filter built for one shift fits the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import sparse

from .. import checks
from . import convert

Shift = Literal[
    "adjacency",
    "normalized_adjacency",
    "symmetric_adjacency",
    "laplacian",
    "normalized_laplacian",
    "scaled_laplacian",
    "random_walk",
    "gcn",
]
LaplacianKind = Literal["normalized", "combinatorial"]
DENSE_UP_TO = 500  # nodes of a component whose eigenvalues are computed densely at once
DENSE_AT_MOST = 3000  # ... and as a last resort when the iterative solver gives up


def adjacency(graph: Any) -> sparse.csr_array:
    """S = W."""
    return _weights(graph).copy()


def normalized_adjacency(graph: Any, *, lambda_max: float | None = None) -> sparse.csr_array:
    """S = W / λ_max, of spectral radius 1.

    Parameters
    ----------
    lambda_max : float, optional
        Largest absolute value of an eigenvalue of W, if it is known; computed otherwise.

    Raises
    ------
    ValueError
        λ_max is zero: the graph has no edges, or none of them lies on a cycle.

    Examples
    --------
    >>> normalized_adjacency([[0, 4], [1, 0]]).toarray()
    array([[0. , 2. ],
           [0.5, 0. ]])
    """
    W = _weights(graph)
    return _like(W / _lambda_max(W, lambda_max), W)


def symmetric_adjacency(graph: Any) -> sparse.csr_array:
    """S = D^(-1/2) W D^(-1/2) with D the diagonal of row sums (TAGCN's shift); W must be symmetric.

    The row of an isolated node is zero.

    >>> symmetric_adjacency([[0, 4], [4, 0]]).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    return _symmetrically_scaled("symmetric_adjacency", _symmetric("symmetric_adjacency", _weights(graph)))


def laplacian(graph: Any) -> sparse.csr_array:
    """L = D - W, with D the diagonal of row sums; W must be symmetric.

    >>> laplacian([[0, 3], [3, 0]]).toarray()
    array([[ 3., -3.],
           [-3.,  3.]])
    """
    W = _symmetric("laplacian", _weights(graph))
    return _like(_diagonal(_degrees(W, axis=1)) - W, W)


def normalized_laplacian(graph: Any) -> sparse.csr_array:
    """L = I - D^(-1/2) W D^(-1/2); W must be symmetric. The row of an isolated node is zero, its diagonal too.

    >>> normalized_laplacian([[0, 3, 0], [3, 0, 0], [0, 0, 0]]).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  0.]])
    """
    W = _symmetric("normalized_laplacian", _weights(graph))
    connected = np.diff(W.indptr) > 0
    return _like(_diagonal(connected.astype(np.float64)) - _symmetrically_scaled("normalized_laplacian", W), W)


def scaled_laplacian(
    graph: Any, *, lambda_max: float | None = None, kind: LaplacianKind = "normalized"
) -> sparse.csr_array:
    """S = 2 L / λ_max - I, ChebNet's shift: the spectrum of L, in [0, λ_max], moves to [-1, 1].

    Parameters
    ----------
    lambda_max : float, optional
        Largest eigenvalue of L, if it is known (2 is a bound for the normalised one); computed otherwise.
    kind : {"normalized", "combinatorial"}
        L = I - D^(-1/2) W D^(-1/2), as in ChebNet, or L = D - W.

    Examples
    --------
    >>> scaled_laplacian([[0, 3], [3, 0]]).toarray()
    array([[ 0., -1.],
           [-1.,  0.]])
    """
    kind = checks.as_choice("kind", kind, LaplacianKind)
    L = normalized_laplacian(graph) if kind == "normalized" else laplacian(graph)
    return _like(L * (2 / _lambda_max(L, lambda_max)) - _diagonal(np.ones(L.shape[0])), L)


def random_walk(graph: Any, *, normalize: Literal["rows", "columns"] = "rows") -> sparse.csr_array:
    """One step of a random walk.

    Parameters
    ----------
    normalize : {"rows", "columns"}
        "rows": S = D_in^(-1) W, rows sum to 1 and a node takes the mean over its in-neighbours (DCNN's D^(-1) A).
        "columns": S = W D_out^(-1), columns sum to 1 and mass moves along the edges.
        A node without edges to divide by keeps its zero row or column.

    Examples
    --------
    >>> random_walk([[0, 1, 3], [1, 0, 0], [0, 0, 0]]).toarray()
    array([[0.  , 0.25, 0.75],
           [1.  , 0.  , 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    W = _weights(graph)
    by_rows = checks.as_choice("normalize", normalize, Literal["rows", "columns"]) == "rows"
    rows, columns = _coordinates(W)
    ends = rows if by_rows else columns
    degrees = _degrees(W, axis=1 if by_rows else 0)
    _refuse("random_walk", degrees, (degrees == 0) & (np.bincount(ends, minlength=degrees.size) > 0), "other than zero")
    return _with_data(W, W.data / degrees[ends])


def gcn(graph: Any) -> sparse.csr_array:
    """S = D~^(-1/2) (W + I) D~^(-1/2) with D~ the row sums of W + I (Kipf & Welling); W must be symmetric.

    >>> gcn([[0, 1], [1, 0]]).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    W = _symmetric("gcn", _weights(graph))
    return _like(_symmetrically_scaled("gcn", convert.canonical("W + I", W + _diagonal(np.ones(W.shape[0])))), W)


SHIFTS: dict[str, Callable[..., sparse.csr_array]] = {
    function.__name__: function
    for function in (
        adjacency, normalized_adjacency, symmetric_adjacency, laplacian, normalized_laplacian, scaled_laplacian,
        random_walk, gcn,
    )
}  # fmt: skip


def largest_eigenvalue(graph: Any) -> float:
    """max |λ| over the eigenvalues of W.

    Taken over the strongly connected components: the matrix is block triangular in them, so the result is the same,
    and a graph without cycles gives exactly 0, where an eigenvalue solver would return the noise of a Jordan block.

    Raises
    ------
    ValueError
        The iterative solver did not converge on a component too large for a dense one.

    Examples
    --------
    >>> largest_eigenvalue([[0, 0], [7, 0]])
    0.0
    """
    from scipy.sparse.csgraph import connected_components

    W = _weights(graph).astype(np.float64)
    _, label = connected_components(W, directed=True, connection="strong")
    rows, columns = _coordinates(W)
    order = np.argsort(label, kind="stable")  # nodes, component by component
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    inside = label[rows] == label[columns]
    blocks = convert.assemble("graph", order.size, place[rows[inside]], place[columns[inside]], W.data[inside])

    size = np.bincount(label)
    start = np.cumsum(size) - size
    bound = np.maximum.reduceat(abs(blocks).sum(axis=1), start)  # no eigenvalue exceeds the largest row sum
    largest = 0.0
    for c in np.argsort(-bound, kind="stable"):
        if bound[c] <= largest:
            break
        a, b = start[c], start[c] + size[c]
        largest = max(largest, _spectral_radius(blocks[a:b, a:b]))
    return largest


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _weights(graph: Any) -> sparse.csr_array:
    S = getattr(graph, "S", None)  # asked of the object: Graph's module imports this one
    return convert.canonical("graph", graph) if S is None else S


def _symmetric(name: str, W: sparse.csr_array) -> sparse.csr_array:
    if not convert.is_symmetric(W):
        raise ValueError(f"{name} needs symmetric weights; graph is directed (S differs from its transpose)")
    return W


def _degrees(W: sparse.csr_array, axis: int) -> np.ndarray:
    return W.astype(np.float64).sum(axis=axis)


def _diagonal(values: np.ndarray) -> sparse.csr_array:
    n_nodes = values.size
    return sparse.csr_array((values, np.arange(n_nodes), np.arange(n_nodes + 1)), shape=(n_nodes, n_nodes))


def _coordinates(W: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(W.shape[0]), np.diff(W.indptr)), W.indices


def _with_data(W: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array((data.astype(W.dtype, copy=False), W.indices.copy(), W.indptr.copy()), shape=W.shape)


def _like(matrix: Any, W: sparse.csr_array) -> sparse.csr_array:
    """`matrix` in the canonical form and in W's dtype."""
    return convert.canonical("the shift operator", sparse.csr_array(matrix).astype(W.dtype, copy=False))


def _refuse(name: str, degrees: np.ndarray, bad: np.ndarray, expected: str) -> None:
    if bad.any():
        node = int(np.argmax(bad))
        raise ValueError(
            f"{name} divides by degrees; node {node} has degree {degrees[node]:g}, expected one {expected}"
        )


def _symmetrically_scaled(name: str, W: sparse.csr_array) -> sparse.csr_array:
    """D^(-1/2) W D^(-1/2) of a symmetric W; one root of the product keeps the result symmetric to the last bit."""
    degrees = _degrees(W, axis=1)
    _refuse(name, degrees, (degrees <= 0) & (np.diff(W.indptr) > 0), "above zero")
    rows, columns = _coordinates(W)
    return _with_data(W, W.data / np.sqrt(degrees[rows] * degrees[columns]))


def _lambda_max(W: sparse.csr_array, given: float | None) -> float:
    if given is not None:
        return checks.as_number("lambda_max", given, 0, open_low=True)
    largest = largest_eigenvalue(W)
    if largest == 0:
        raise ValueError(
            "lambda_max is 0, every eigenvalue is zero (no edges, or none on a cycle); expected one above 0"
        )
    return largest


def _spectral_radius(B: sparse.csr_array) -> float:
    """max |λ| of one strongly connected block."""
    from scipy.linalg import eigvals, eigvalsh

    symmetric = convert.is_symmetric(B)
    if B.shape[0] > DENSE_UP_TO:
        if (B.data >= 0).all():
            # Perron and Frobenius: equal row or column sums are the radius, and regular graphs are slow to solve.
            for axis in (0, 1):
                sums = B.sum(axis=axis)
                if np.ptp(sums) == 0:
                    return float(sums[0])
        radius = _iterative_radius(B, symmetric)
        if radius is not None:
            return radius
        if B.shape[0] > DENSE_AT_MOST:
            raise ValueError(
                f"the largest eigenvalue of a component of {B.shape[0]} nodes did not converge; "
                "expected it to be given as lambda_max"
            )
    solve = eigvalsh if symmetric else eigvals
    return float(np.abs(solve(B.toarray(), check_finite=False)).max())


def _iterative_radius(B: sparse.csr_array, symmetric: bool) -> float | None:
    from scipy.sparse.linalg import ArpackError, eigs, eigsh

    start = np.random.default_rng(0).uniform(0.5, 1.5, B.shape[0])  # fixed, so that the result is
    solve = eigsh if symmetric else eigs
    for ncv in (40,) if B.shape[0] <= DENSE_AT_MOST else (40, 120):  # a second, longer try where no dense one follows
        try:
            found = solve(B, k=1, which="LM", v0=start, ncv=ncv, tol=1e-11, maxiter=300, return_eigenvectors=False)
            return float(np.abs(found).max())
        except ArpackError:  # no convergence among it
            continue
    return None
