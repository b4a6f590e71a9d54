"""Graphs on which wrong readings differ, and the shifts that a filter is usually run on.

A single graph hides mistakes: an undirected one a transposed S, weights of 1 a square, a regular one the degree. Each
graph here shows what another hides; one of them, regular on purpose, hides several readings and shows that it does.
"""

from __future__ import annotations

import numpy as np

from ..graph import Graph, generators

PLAIN = ""  # S is the matrix of weights
SHIFTS: dict[str, tuple[str, ...]] = {  # by the name in the catalogue: what the publications run the filter on
    "polynomial": (PLAIN, "normalized_adjacency"),
    "node_variant": (PLAIN, "normalized_adjacency"),
    "hybrid_edge_variant": (PLAIN, "normalized_adjacency"),
    "critical_edge": (PLAIN, "normalized_adjacency"),
    "selection_gcnn": (PLAIN, "normalized_adjacency"),
    "chebyshev": ("scaled_laplacian", PLAIN),
    "gcn": ("gcn", PLAIN),
    "tagcn": ("symmetric_adjacency", PLAIN),
    "dcnn": ("random_walk", PLAIN),
    "arma": ("symmetric_adjacency", PLAIN),
    "cayley": ("normalized_laplacian", PLAIN),
    "spectral": ("normalized_laplacian", PLAIN),
    "shift_invariant_edge_variant": (PLAIN, "normalized_adjacency"),
}


def revealing_graphs() -> dict[str, Graph]:
    """Small graphs on which wrong readings of a graph filter differ, by what is special about each.

    New objects at every call, the same numbers each time. Edges run as everywhere in evref: S[i, j] weighs j -> i.

    ====================  ============================================================================================
    directed              no two weights alike, no symmetry, no self-loop; its eigenvectors are well conditioned
    asymmetric weights    edges in both directions with different weights; a self-loop
    negative weights      directed, of both signs
    source and sink       a node that hears nobody, and one that nobody hears
    undirected            different degrees, weights other than 0 and 1, an odd cycle: lambda_max of the Laplacian is
                          below 2
    self-loop             undirected; a node has a self-loop already
    isolated node         undirected; a node without an edge
    two components        undirected, of different sizes
    no edges              three nodes
    one node              with a self-loop
    regular               a ring of six, weights 1: it hides a transposed S, the choice of degrees, of lambda_max
    ====================  ============================================================================================

    Examples
    --------
    >>> graphs = revealing_graphs()
    >>> graphs["source and sink"]
    Graph(5 nodes, 6 edges, directed)
    >>> [name for name, graph in graphs.items() if graph.is_symmetric]
    ['undirected', 'self-loop', 'isolated node', 'two components', 'no edges', 'one node', 'regular']
    """
    ring = [(0, 3), (3, 1), (1, 5), (5, 2), (2, 4), (4, 0)]
    chords = [(0, 1), (5, 0), (3, 4)]
    both_ways = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3), (2, 2)]
    flow = [(0, 1), (1, 2), (2, 3), (3, 1), (2, 4), (0, 3)]  # from node 0, around a triangle, into node 4
    house = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)]
    return {
        "directed": _weighted(6, ring + chords, [1.1, 0.9, 1.2, 0.8, 1.3, 0.7, 0.4, 0.3, 0.5]),
        "asymmetric weights": _weighted(4, both_ways, [0.5, 1.4, 0.8, 0.3, 1.7, 0.6, 1.1, 0.9, 0.7]),
        "negative weights": _weighted(4, both_ways, [0.5, -1.4, 0.8, 1.3, -0.7, 0.6, 1.1, -0.9, 0.4]),
        "source and sink": _weighted(5, flow, [0.6, 1.3, 0.7, 0.9, 1.5, 0.4]),
        "undirected": _weighted(6, [*house, (2, 5)], [0.5, 1.2, 0.8, 1.5, 0.7, 0.4, 1.1], undirected=True),
        "self-loop": _weighted(4, [(0, 1), (1, 2), (2, 0), (2, 3), (1, 1)], [0.6, 1.3, 0.8, 1.4, 0.9], undirected=True),
        "isolated node": _weighted(5, [(0, 1), (1, 3), (3, 0), (3, 4)], [0.7, 1.2, 0.5, 1.6], undirected=True),
        "two components": _weighted(5, [(0, 2), (2, 4), (4, 0), (1, 3)], [0.8, 0.6, 1.3, 0.4], undirected=True),
        "no edges": Graph(np.zeros((3, 3))),
        "one node": Graph([[0.7]]),
        "regular": generators.cycle(6),
    }


def _weighted(n: int, edges: list[tuple[int, int]], weights: list[float], undirected: bool = False) -> Graph:
    """Edges from the first node to the second; both ways if `undirected`."""
    S = np.zeros((n, n))
    for (source, target), weight in zip(edges, weights, strict=True):
        S[target, source] = weight
        if undirected:
            S[source, target] = weight
    return Graph(S)


def in_words(graph: Graph, most: int = 6) -> str:
    """A small graph with its edges and their weights.

    >>> in_words(Graph([[0, 0], [2, 0]]))
    '2 nodes with the edge 0 → 1 (2)'
    """
    count = f"{graph.n_nodes} node{'s' if graph.n_nodes > 1 else ''}"
    S = graph.S.tocoo()
    entries = {(int(j), int(i)): float(w) for i, j, w in zip(S.row, S.col, S.data, strict=True) if w}
    edges = []
    for (source, target), weight in entries.items():
        two_way = source != target and entries.get((target, source)) == weight
        if not two_way or source < target:
            edges.append(f"{source} {'—' if two_way else '→'} {target} ({weight:.3g})")
    if not edges:
        return f"{count} without edges"
    if len(edges) > most:
        return f"{count} with {len(edges)} edges"
    return f"{count} with the edge{'s' if len(edges) > 1 else ''} {', '.join(edges)}"
