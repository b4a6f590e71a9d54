"""Graphs to experiment on, random and regular.

Random generators take `rng` (None, an integer seed or a numpy Generator) and draw edge by edge: memory and time grow
with the number of edges, not with the square of the number of nodes. With ``weights="uniform"`` edges weigh uniformly
in [0.5, 1.5) instead of 1.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .. import checks
from .convert import as_n_nodes
from .support import Graph

MAX_EDGES = 2**28  # expected number of edges past which a random generator refuses to start
MAX_DRAWS = 100  # attempts at a connected graph
Weights = Literal["unit", "uniform"]


def stochastic_block_model(
    n_nodes: int,
    n_blocks: int,
    p_in: float,
    p_out: float,
    *,
    rng: Any = None,
    connected: bool = True,
    weights: Weights = "unit",
) -> tuple[Graph, np.ndarray]:
    """Undirected graph with communities: an edge with probability `p_in` inside a block, `p_out` between blocks.

    Blocks are runs of consecutive nodes whose sizes differ by at most one. With `connected`, the graph is drawn anew
    until it is connected.

    Returns
    -------
    graph : Graph
    labels : ndarray of int64, shape (n_nodes,)
        The block of each node, 0..n_blocks-1.

    Raises
    ------
    ValueError
        No connected graph among 100 draws.

    Examples
    --------
    >>> graph, labels = stochastic_block_model(6, 2, p_in=1, p_out=0.5, rng=0)
    >>> labels
    array([0, 0, 0, 1, 1, 1])
    >>> graph.is_symmetric
    True
    """
    n_nodes, rng = as_n_nodes("n_nodes", n_nodes), checks.as_rng(rng)
    n_blocks = checks.as_count("n_blocks", n_blocks, minimum=1)
    if n_blocks > n_nodes:
        raise ValueError(f"n_blocks is {n_blocks}; expected at most n_nodes = {n_nodes}")
    p_in, p_out = checks.as_number("p_in", p_in, 0, 1), checks.as_number("p_out", p_out, 0, 1)
    connected = checks.as_flag("connected", connected)
    labels = np.arange(n_nodes) * n_blocks // n_nodes
    p = max(p_in, p_out)
    for _ in range(MAX_DRAWS if connected else 1):
        # Draw every pair with the larger probability, then thin out the pairs that have the smaller one.
        i, j = _pairs(n_nodes, p, rng)
        kept = rng.random(i.size) * p < np.where(labels[i] == labels[j], p_in, p_out)
        graph = _undirected(n_nodes, i[kept], j[kept], weights, rng)
        if not connected or _is_connected(graph):
            return graph, labels
    raise ValueError(
        f"no connected graph in {MAX_DRAWS} draws with n_nodes={n_nodes}, n_blocks={n_blocks}, p_in={p_in}, "
        f"p_out={p_out}; expected larger probabilities, or connected=False"
    )


def erdos_renyi(n_nodes: int, p: float, *, rng: Any = None, directed: bool = False, weights: Weights = "unit") -> Graph:
    """Every pair of different nodes (every ordered pair, if `directed`) is an edge with probability `p`.

    >>> erdos_renyi(4, 1.0)
    Graph(4 nodes, 12 edges, undirected)
    """
    n_nodes, rng = as_n_nodes("n_nodes", n_nodes), checks.as_rng(rng)
    p = checks.as_number("p", p, 0, 1)
    if not checks.as_flag("directed", directed):
        return _undirected(n_nodes, *_pairs(n_nodes, p, rng), weights, rng)
    k = _bernoulli(n_nodes * (n_nodes - 1), p, rng)
    target, source = np.divmod(k, max(n_nodes - 1, 1))
    source += source >= target  # the n - 1 other nodes, numbered past the target itself
    return Graph.from_edges(n_nodes, source, target, _weight(weights, k.size, rng))


def random_geometric(
    n_nodes: int, radius: float, *, rng: Any = None, weights: Weights = "unit"
) -> tuple[Graph, np.ndarray]:
    """Undirected graph of points drawn uniformly in the unit square, an edge between any two within `radius`.

    Returns
    -------
    graph : Graph
    positions : ndarray, shape (n_nodes, 2)

    Examples
    --------
    >>> graph, positions = random_geometric(5, radius=1.5, rng=0)
    >>> graph, positions.shape
    (Graph(5 nodes, 20 edges, undirected), (5, 2))
    """
    from scipy.spatial import KDTree

    n_nodes, rng = as_n_nodes("n_nodes", n_nodes), checks.as_rng(rng)
    radius = checks.as_number("radius", radius, 0)
    positions = rng.random((n_nodes, 2))
    # Each point sees at most a disc of area π r² of the square.
    _refuse_too_many(n_nodes * (n_nodes - 1) / 2 * min(1.0, np.pi * radius**2))
    i, j = KDTree(positions).query_pairs(radius, output_type="ndarray").T
    return _undirected(n_nodes, i, j, weights, rng), positions


def random_directed(n_nodes: int, degree: int, *, rng: Any = None, weights: Weights = "unit") -> Graph:
    """Every node has `degree` different in-neighbours, drawn uniformly among the other nodes.

    >>> graph = random_directed(10, degree=3, rng=0)
    >>> graph, np.diff(graph.S.indptr).tolist()
    (Graph(10 nodes, 30 edges, directed), [3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    n_nodes, rng = as_n_nodes("n_nodes", n_nodes), checks.as_rng(rng)
    degree = checks.as_count("degree", degree)
    if degree >= n_nodes:
        raise ValueError(f"degree is {degree}; expected less than n_nodes = {n_nodes}")
    _refuse_too_many(n_nodes * degree)
    # Floyd's sampling without replacement, for all nodes at once: no draw is ever rejected.
    chosen = np.empty((degree, n_nodes), dtype=np.int32)
    for step, last in enumerate(range(n_nodes - 1 - degree, n_nodes - 1)):
        drawn = rng.integers(0, last, size=n_nodes, endpoint=True, dtype=np.int32)
        taken = (chosen[:step] == drawn).any(axis=0)
        chosen[step] = np.where(taken, last, drawn)
    target = np.broadcast_to(np.arange(n_nodes, dtype=np.int32), chosen.shape)
    source = chosen + (chosen >= target)  # the n - 1 other nodes, numbered past the target itself
    return Graph.from_edges(n_nodes, source.ravel(), target.ravel(), _weight(weights, source.size, rng))


def path(n_nodes: int, *, directed: bool = False) -> Graph:
    """0 - 1 - 2 - ..., or 0 → 1 → 2 → ... if `directed`."""
    nodes = np.arange(as_n_nodes("n_nodes", n_nodes))
    return Graph.from_edges(n_nodes, nodes[:-1], nodes[1:], undirected=not checks.as_flag("directed", directed))


def cycle(n_nodes: int, *, directed: bool = False) -> Graph:
    """The path closed to a ring, of at least 3 nodes."""
    nodes = np.arange(checks.as_count("n_nodes", n_nodes, minimum=3))
    return Graph.from_edges(n_nodes, nodes, np.roll(nodes, -1), undirected=not checks.as_flag("directed", directed))


def star(n_nodes: int) -> Graph:
    """Node 0 joined to each of the others."""
    leaves = np.arange(1, as_n_nodes("n_nodes", n_nodes))
    return Graph.from_edges(n_nodes, np.zeros_like(leaves), leaves, undirected=True)


def complete(n_nodes: int) -> Graph:
    """Every two nodes joined."""
    return erdos_renyi(n_nodes, 1.0)


def grid(rows: int, columns: int) -> Graph:
    """Rectangular grid; the node in row r and column c has number r * columns + c.

    >>> grid(2, 3)
    Graph(6 nodes, 14 edges, undirected)
    """
    rows, columns = checks.as_count("rows", rows, minimum=1), checks.as_count("columns", columns, minimum=1)
    number = np.arange(as_n_nodes("rows * columns", rows * columns)).reshape(rows, columns)
    source = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    target = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return Graph.from_edges(rows * columns, source, target, undirected=True)


def karate() -> Graph:
    """Zachary's karate club, 34 members and 78 friendships, unweighted (from networkx)."""
    try:
        import networkx  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError('karate needs networkx: pip install "evref[graphs]"') from None
    return Graph.from_networkx(networkx.karate_club_graph(), weight=None)


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _undirected(n_nodes: int, i: np.ndarray, j: np.ndarray, weights: str, rng: np.random.Generator) -> Graph:
    return Graph.from_edges(n_nodes, i, j, _weight(weights, i.size, rng), undirected=True)


def _weight(weights: str, n_edges: int, rng: np.random.Generator) -> np.ndarray | None:
    return None if checks.as_choice("weights", weights, Weights) == "unit" else rng.uniform(0.5, 1.5, n_edges)


def _is_connected(graph: Graph) -> bool:
    from scipy.sparse.csgraph import connected_components

    return bool(connected_components(graph.S, directed=False, return_labels=False) == 1)


def _refuse_too_many(n_edges: float) -> None:
    if n_edges > MAX_EDGES:
        raise ValueError(f"about {n_edges:.3g} edges would be drawn; expected at most {MAX_EDGES}")


def _bernoulli(n: int, p: float, rng: np.random.Generator) -> np.ndarray:
    """Those of 0..n-1 that come out of independent draws of probability p, rising; the gaps are geometric."""
    _refuse_too_many(n * p)
    if n == 0 or p == 0:
        return np.empty(0, dtype=np.int64)
    size = int(n * p + 4 * np.sqrt(n * p)) + 8
    last, parts = -1, []
    while last < n:
        gaps = np.minimum(rng.geometric(p, size), n + 1)  # a gap past the end may be cut: the sum then cannot overflow
        parts.append(last + np.cumsum(gaps))
        last = int(parts[-1][-1])
    drawn = np.concatenate(parts)
    return drawn[drawn < n]


def _pairs(n_nodes: int, p: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i > j, each with probability p."""
    return _decoded(_bernoulli(n_nodes * (n_nodes - 1) // 2, p, rng))


def _decoded(k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs i > j with the numbers k = i (i - 1) / 2 + j."""
    i = ((1 + np.sqrt(1 + 8 * k.astype(np.float64))) / 2).astype(np.int64)
    i -= i * (i - 1) // 2 > k  # for large k the rounded root may be one off, either way
    i += i * (i + 1) // 2 <= k
    return i, k - i * (i - 1) // 2
