"""Which nodes and edges get parameters of their own: rankings of nodes, critical edges, and who copies whom.

A ranking is an array of all node numbers, best first; the privileged set B of a node-variant or hybrid filter is its
head, ``selection.by_degree(graph)[:5]``. Each ranking is a function of the graph and not of the numbers its nodes
carry: the same graph renumbered gives the same nodes, as long as they can be told apart. Ties are broken by degree and
by the degrees found one, two and three hops away, and only what is left after that by the node number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .. import checks
from . import convert
from .argument import as_graph
from .support import Graph

TIE = 1e-8  # scores and singular values closer than this, relative to the largest, are called equal


# ---- rankings --------------------------------------------------------------------------------------------------------
def by_degree(graph: Graph) -> np.ndarray:
    """Nodes by falling degree: the number of in-neighbours, a self-loop and the weights left out.

    What the paper calls "the nodes with the highest degree". In a directed graph it is |N_i|, the number of nodes that
    i hears. Equal degrees are ordered by the sum of the in-neighbours' degrees, then the sum of those sums, and so on
    for three hops; last by number.

    Returns
    -------
    ndarray of int64, shape (N,)

    Examples
    --------
    >>> from evref import generators
    >>> by_degree(generators.star(4)).tolist()
    [0, 1, 2, 3]
    >>> by_degree(generators.path(5)).tolist()  # three of degree 2; the middle one has the better neighbours
    [2, 1, 3, 0, 4]
    """
    A = _neighbors(as_graph(graph))
    keys: list[np.ndarray] = [A.sum(axis=1)]  # whole numbers: ties are exact
    for _ in range(3):
        keys.append(A @ keys[-1])
    return np.lexsort([-key for key in reversed(keys)]).astype(np.int64)


class Proxies(NamedTuple):
    """What :func:`spectral_proxies` found, one entry per node chosen."""

    order: np.ndarray  # (count,) nodes, best first
    cutoff: np.ndarray  # (count,) sigma_min^(1/k): the estimated cut-off frequency before each choice
    gap: np.ndarray  # (count,) distance of sigma_min to the next singular value that differs, over the largest of all
    margin: np.ndarray  # (count,) lead of the node chosen over the best that was not tied with it, 0 to 1


def spectral_proxies(
    graph: Graph, k: int = 2, count: int | None = None, *, details: bool = False
) -> np.ndarray | Proxies:
    r"""Nodes by spectral proxies of order k (Anis, Gadde and Ortega, 2016), through singular values.

    A signal that vanishes on the nodes chosen so far has a k-th proxy frequency of at least

    .. math:: \min_{x} (\|S^k x\| / \|x\|)^{1/k} \quad \text{over all } x \text{ that vanish there,}

    which is the k-th root of the smallest singular value of the columns of S^k that belong to the other nodes. The next
    node is the one on which the minimiser, the last right singular vector, is largest. S is the graph's own shift; take
    ``graph.with_shift("laplacian")`` for the original's notion of frequency.

    The textbook form asks for the smallest eigenvalue of that block of :math:`(S^\top)^k S^k`, the square of this
    singular value. With k = 8 on a shift of norm 1 most eigenvalues fall below rounding, and the set that is chosen
    depends on how the nodes are numbered. Three things keep it well posed here. It takes singular values instead of
    their squares. Those within 1e-8 (of the norm of S^k) of the smallest count as equal to it and share one subspace;
    the score of a node is the squared length of its projection onto that, which no choice of basis changes. And k is
    small by default. `details` says how firm each choice is: one with a `gap` not far above 1e-8 rests on where that
    line is drawn, one with a `margin` near 0 on a node that was only just ahead.

    Parameters
    ----------
    graph : Graph
    k : int
        Order of the proxies, at least 1.
    count : int, optional
        Stop after so many nodes; all N by default. Each one costs a dense singular value decomposition.
    details : bool
        Return :class:`Proxies` instead of the order alone.

    Returns
    -------
    ndarray of int64, shape (count,), or Proxies

    Examples
    --------
    >>> from evref import generators
    >>> spectral_proxies(generators.path(5).with_shift("laplacian"), count=2).tolist()
    [2, 0]
    """
    N = as_graph(graph).n_nodes
    k = checks.as_count("k", k, minimum=1)
    count = N if count is None else checks.as_count("count", count)
    if count > N:
        raise ValueError(f"count is {count}; expected at most {N}, the number of nodes")
    details = checks.as_flag("details", details)
    S = graph.dense_shift().astype(np.float64)
    size = float(np.linalg.norm(S, 2))
    power = np.linalg.matrix_power(S / size if size > 0 else S, k)  # of norm at most 1: no power overflows
    scale = float(np.linalg.norm(power, 2))
    rank = _places(by_degree(graph))

    order = np.empty(count, np.int64)
    cutoff, gap, margin = np.empty((3, count))
    rest = np.arange(N)
    for step in range(count):
        _, sigma, Vt = np.linalg.svd(power[:, rest], full_matrices=False)
        tied = sigma <= sigma[-1] + TIE * scale
        score = (Vt[tied] ** 2).sum(axis=0)
        best = score >= score.max() * (1 - TIE)
        chosen = rest[best][np.argmin(rank[rest[best]])]
        order[step] = chosen
        cutoff[step] = size * sigma[-1] ** (1 / k)
        apart = sigma[~tied]
        gap[step] = (apart[-1] - sigma[-1]) / scale if apart.size else 1.0
        margin[step] = 1 - score[~best].max() / score.max() if not best.all() else 1.0
        rest = rest[rest != chosen]
    return Proxies(order, cutoff, gap, margin) if details else order


def by_experimental_design(graph: Graph, *, threshold: float = 0.1) -> np.ndarray:
    r"""Nodes by the sampling scores of experimentally designed sampling (Varma, Chen and Kovačević, 2015).

    The score of node i is the length of row i of the singular vectors of S (for a symmetric S: eigenvectors) whose
    singular value is at least `threshold` times the largest: how much of the strong part of the spectrum the node sees.
    The original draws nodes at random in proportion to the scores; here they come in falling order, which is the same
    every time. For a directed graph the left singular vectors are taken, which span what S can produce.

    Parameters
    ----------
    graph : Graph
    threshold : float
        In (0, 1].

    Examples
    --------
    >>> from evref import generators
    >>> by_experimental_design(generators.star(4)).tolist()  # eigenvalues ±√3, 0, 0
    [0, 1, 2, 3]
    """
    as_graph(graph)
    threshold = checks.as_number("threshold", threshold, 0, 1, open_low=True)
    U, sigma, _ = np.linalg.svd(graph.dense_shift().astype(np.float64))
    strong = sigma >= (threshold - TIE) * sigma[0]  # the line does not cut through equal singular values
    score = (U[:, strong] ** 2).sum(axis=1)
    falling = np.argsort(-score, kind="stable")
    group = np.empty(graph.n_nodes, np.int64)
    group[falling] = np.cumsum(np.diff(-score[falling], prepend=-score[falling[0]]) > TIE)
    return np.lexsort([_places(by_degree(graph)), group]).astype(np.int64)


SELECTIONS: dict[str, Callable[..., Any]] = {
    "degree": by_degree,
    "spectral_proxies": spectral_proxies,
    "experimental_design": by_experimental_design,
}


# ---- who copies whom -------------------------------------------------------------------------------------------------
def as_mapping(name: str, mapping: Any, n_nodes: int, n_privileged: int) -> np.ndarray:
    """C_B, (N, |B|) of zeros and ones, as a read-only array of uint8; dense or sparse."""
    array = checks.as_floating(name, mapping.toarray() if hasattr(mapping, "toarray") else mapping)
    if array.shape != (n_nodes, n_privileged):
        raise ValueError(
            f"{name} has shape {array.shape}; expected ({n_nodes}, {n_privileged}): a row for each node, a column for "
            "each privileged node"
        )
    wrong = np.argwhere((array != 0) & (array != 1))
    if wrong.size:
        index = tuple(int(i) for i in wrong[0])
        raise ValueError(f"{name} has {array[index]} at index {index}; expected zeros and ones")
    binary = array.astype(np.uint8)
    binary.setflags(write=False)
    return binary


def nearest_privileged(graph: Graph, nodes: Any) -> np.ndarray:
    """The map C_B of a node-variant filter: whose coefficients each node uses.

    A privileged node uses its own. Any other node copies the highest-ranked privileged node within one hop, if there is
    none the highest-ranked within two, and so on. Hops are counted along the edges *towards* the node, as everywhere: j
    is within one hop of i if i hears j (:meth:`Graph.neighborhoods`), so that a node copies from one it listens to. A
    node that no privileged node reaches copies the first-ranked.

    Parameters
    ----------
    graph : Graph
    nodes : array_like of int
        The privileged nodes, best first; at least one, none twice.

    Returns
    -------
    ndarray of int64, shape (N,)
        Place in `nodes`: node i uses the coefficients of nodes[result[i]].

    Examples
    --------
    >>> from evref import generators
    >>> nearest_privileged(generators.path(6), [4, 1]).tolist()  # 2 and 3 are next to one each, 0 and 5 too
    [1, 1, 1, 0, 0, 0]
    """
    nodes = as_privileged("nodes", nodes, as_graph(graph).n_nodes)
    if nodes.size == 0:
        raise ValueError("nodes is empty; expected at least one privileged node to copy from")
    unknown = nodes.size
    place = np.full(graph.n_nodes, unknown, np.int64)
    place[nodes] = np.arange(nodes.size)
    targets = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    while True:  # one hop at a time: the best place among the in-neighbours, for nodes that have none yet
        heard = np.full(graph.n_nodes, unknown, np.int64)
        np.minimum.at(heard, targets, place[graph.indices])
        new = (place == unknown) & (heard < unknown)
        if not new.any():
            break
        place[new] = heard[new]
    place[place == unknown] = 0
    return place


def as_privileged(name: str, nodes: Any, n_nodes: int) -> np.ndarray:
    """A list of different nodes as an int64 array; None stands for all of them."""
    if nodes is None:
        return np.arange(n_nodes)
    nodes = convert.as_nodes(name, nodes, n_nodes).astype(np.int64)
    found, counts = np.unique(nodes, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{name} has node {found[np.argmax(counts > 1)]} more than once; expected different nodes")
    return nodes


# ---- critical edges --------------------------------------------------------------------------------------------------
def bridges(graph: Graph) -> np.ndarray:
    """Edges without which a weakly connected component falls apart.

    Directions are ignored: the edges i → j and j → i are one connection, and where that is a bridge both are given.
    Depth-first search with low points (Tarjan), in time proportional to nodes and edges, without recursion.

    Returns
    -------
    ndarray of int64
        Positions on the support of I + S, rising: the edge goes from graph.indices[p] to the row of p.

    Examples
    --------
    Two triangles joined by one edge:

    >>> graph = Graph.from_edges(6, [0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3], undirected=True)
    >>> edge_list(graph, bridges(graph)).tolist()
    [[3, 2], [2, 3]]
    """
    A = _neighbors(as_graph(graph))
    both = (A + A.T).tocsr()
    indptr, indices = both.indptr.tolist(), both.indices.tolist()
    N = graph.n_nodes
    enter, low, parent = [-1] * N, [0] * N, [-1] * N
    following = indptr[:N]  # next neighbour to look at
    found = set()
    clock = 0
    for root in range(N):
        if enter[root] >= 0:
            continue
        stack = [root]
        enter[root] = low[root] = clock
        clock += 1
        while stack:
            i = stack[-1]
            if following[i] < indptr[i + 1]:
                j = indices[following[i]]
                following[i] += 1
                if enter[j] < 0:
                    parent[j] = i
                    enter[j] = low[j] = clock
                    clock += 1
                    stack.append(j)
                elif j != parent[i]:
                    low[i] = min(low[i], enter[j])
                continue
            stack.pop()
            if stack:
                up = stack[-1]
                low[up] = min(low[up], low[i])
                if low[i] > enter[up]:  # nothing below i leads back above it
                    found.add((up, i))
    pairs = edge_list(graph, np.arange(graph.nnz)).tolist()
    return np.array([p for p, (j, i) in enumerate(pairs) if (i, j) in found or (j, i) in found], dtype=np.int64)


def edge_list(graph: Graph, positions: Any) -> np.ndarray:
    """Source and target of entries of the support of I + S, shape (n, 2)."""
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    positions = np.asarray(positions, dtype=np.int64)
    return np.stack([graph.indices[positions].astype(np.int64), rows[positions]], axis=1)


def as_positions(name: str, edges: Any, graph: Graph) -> np.ndarray:
    """Edges as rising positions on the support of I + S: given so (one dimension), or as (source, target) pairs."""
    given = checks.as_array(name, edges)
    if given.ndim == 2 and given.shape[1] == 2:
        source, target = (convert.as_nodes(f"{name}[:, {c}]", given[:, c], graph.n_nodes) for c in (0, 1))
        keys = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr)) * graph.n_nodes + graph.indices
        wanted = target.astype(np.int64) * graph.n_nodes + source
        positions = np.searchsorted(keys, wanted)
        missing = keys[np.minimum(positions, keys.size - 1)] != wanted
        if missing.any():
            e = int(np.argmax(missing))
            raise ValueError(f"{name} has {source[e]} -> {target[e]}, which is no edge; expected edges of the graph")
    elif given.ndim == 1:
        positions = convert.as_nodes(name, given, graph.nnz)  # whole numbers below a bound, as nodes are
    else:
        raise ValueError(
            f"{name} has shape {given.shape}; expected positions on the support, shape (n,), "
            "or (source, target) pairs, shape (n, 2)"
        )
    if np.unique(positions).size != positions.size:
        raise ValueError(f"{name} names an edge more than once; expected different edges")
    return np.sort(positions).astype(np.int64)


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _neighbors(graph: Graph) -> sparse.csr_array:
    """A[i, j] = 1 where i hears j, j other than i."""
    ones = np.ones(graph.nnz, np.int64)
    ones[graph.diagonal] = 0
    A = sparse.csr_array((ones, graph.indices.copy(), graph.indptr.copy()), shape=graph.S.shape)
    A.eliminate_zeros()
    return A


def _places(order: np.ndarray) -> np.ndarray:
    """Rank of each node in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return place
