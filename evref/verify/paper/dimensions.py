"""R8: how large the shift-invariant family is. What is proved, what is measured, and graphs against easy guesses."""

from __future__ import annotations

import random

import numpy as np

from ...graph import Graph, generators
from ..claims import Outcome, claim
from . import local_polynomials as local
from .spectral import families, nullspace_dimensions, quiet_basis, side_by_side


def counterexamples() -> dict[str, tuple[Graph, int]]:
    """Graphs with their dimension, each against a sentence that one would like to be true."""

    def undirected(n_nodes: int, edges: str) -> Graph:
        source, target = (np.array([int(edge[end]) for edge in edges.split()]) for end in (0, 1))
        return Graph.from_edges(n_nodes, source, target, undirected=True)

    rng = np.random.default_rng(8)
    weights = np.triu(rng.uniform(0.5, 1.5, (12, 12)), 1)
    i, j = np.nonzero(weights)
    missing = rng.choice(i.size, 5, replace=False)
    weights[i[missing], j[missing]] = 0
    triangle = Graph([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    return {
        # "2 without special structure": dense graphs leave N - (missing pairs)
        "12 nodes, weighted, 5 pairs missing": (Graph(weights + weights.T), 7),
        "house": (undirected(5, "01 03 04 12 23 34"), 3),  # sparse, no joined twins, distinct eigenvalues
        # "2 per component"
        "isolated node and path": (side_by_side(Graph([[0.0]]), generators.path(4)), 3),
        "weighted triangle and path": (side_by_side(triangle, generators.path(4)), 5),
        # "joined twins: 3"; 1 and 5 are the only ones here, and all eigenvalues are distinct
        "one pair of joined twins": (undirected(6, "01 02 04 05 12 15 23 25 34"), 4),
        # "every eigenvector that lives on a clique adds one": both do
        "one edge": (generators.path(2), 2),
    }


def _decided_by_the_bound() -> tuple[int, int]:
    """Connected supports of 2 to 5 numbered nodes, and on how many of them a random S attains the lower bound."""
    rng, count, attained = random.Random(8), 0, 0
    for n_nodes in range(2, 6):
        for pairs in local.connected_supports(n_nodes):
            count += 1
            found = local.dimension(local.random_shift(n_nodes, pairs, rng), pairs)
            attained += found == local.lower_bound(n_nodes, pairs)
    return count, attained


def _bound_holds(graph: Graph, dimension: int) -> bool:
    """d >= N - zero entries; of a symmetric S with real eigenvectors they come in pairs that count once. I, S: 2."""
    zeros = graph.n_nodes**2 - graph.nnz
    return dimension >= max(min(2, graph.n_nodes), graph.n_nodes - (zeros // 2 if graph.is_symmetric else zeros))


@claim(
    "R8",
    "rank(B_{U,I}) << N, after eq. (lamLin, 14)",
    "the rank d is at least max(2, N - non-adjacent pairs) for symmetric S with distinct eigenvalues, and that is its "
    "value for generic S with a free diagonal on small supports: 2 on most sparse graphs, up to N on dense ones",
    "holds under a condition",
)
def dimensions() -> Outcome:
    rows = {row["family"]: row for row in nullspace_dimensions()}
    special = {"adjacent twins": 3, "grid 3 x 4": 3, "complete": 8, "two components": 4, "three components": 6}
    as_expected = all(row["free"] == special.get(name, 2) for name, row in rows.items())
    against = {name: quiet_basis(graph).dimension for name, (graph, _) in counterexamples().items()}
    as_expected &= all(against[name] == expected for name, (_, expected) in counterexamples().items())
    bound = all(_bound_holds(graph, rows[name]["free"]) for name, graph in families().items())
    bound &= all(_bound_holds(graph, against[name]) for name, (graph, _) in counterexamples().items())
    count, attained = _decided_by_the_bound()
    # proved: with D + 1 distinct eigenvalues and off-diagonals of one sign every polynomial in S has degree <= D, and
    # 2 <= degree <= D is out
    minimal = [row for row in rows.values() if row["distinct"] == row["diameter"] + 1 and row["components"] == 1]
    proved = all(row["tied"] == 2 for row in minimal) and len(minimal) >= 5
    nothing_cancels = all(row["cancelled"] > 0 for row in rows.values())
    gap = min(row["gap"] for row in rows.values())
    sparse = sum(row["free"] == 2 for row in rows.values())
    return Outcome(
        passed=bool(as_expected and bound and attained == count and proved and nothing_cancels and gap > 1e6),
        figure=f"the bound holds on all {len(rows) + len(against)} graphs and is attained, in exact arithmetic, on all "
        f"{attained} connected supports of 2-5 numbered nodes; 2 on {sparse} of {len(rows)} families, 3 on the house, "
        f"7 of 12 with 5 pairs missing, 8 of 8 on the complete graph; every gap above {gap:.0e}",
        values={"rows": list(rows.values()), "counterexamples": against, "supports": count, "attained": attained},
        counterexample="complete graph: rank = N; " + "; ".join(f"{name}: {d}" for name, d in against.items()),
    )
