"""What the paper says of its first experiment: R15."""

from __future__ import annotations

import numpy as np

from ...graph import generators
from ..claims import Outcome, claim


@claim(
    "R15",
    "section IV-A",
    "one fixed source per community, labelled by its community; to the letter all sources sit in the first community",
    "fails as printed",
)
def sources() -> Outcome:
    """The paper draws i from {1, ..., C}, calls i the community, and puts the delta at node i."""
    n_nodes, n_communities = 50, 5
    graph, community = generators.stochastic_block_model(n_nodes, n_communities, 0.8, 0.2, rng=8)
    letter = np.arange(n_communities)  # nodes 1, ..., C of the paper: the blocks are runs of ten nodes
    degree = np.diff(graph.indptr)
    ours = np.array([max(np.flatnonzero(community == c), key=lambda i: degree[i]) for c in range(n_communities)])

    # time runs from 0 to N: so many different inputs exist, however many are drawn
    S = graph.with_shift("normalized_adjacency").S
    signals = [np.eye(n_nodes)[ours].T]
    for _ in range(n_nodes):
        signals.append(S @ signals[-1])
    distinct = len(np.unique(np.stack(signals).transpose(0, 2, 1).reshape(-1, n_nodes), axis=0))
    covered = [len(set(community[nodes])) for nodes in (letter, ours)]
    return Outcome(
        passed=covered == [1, n_communities] and distinct == n_communities * (n_nodes + 1),
        figure=f"nodes 1..{n_communities} lie in {covered[0]} community, one source each in {covered[1]}; "
        f"{distinct} different inputs exist, so that 10,000 training samples hold every test sample",
        values={"communities_letter": covered[0], "communities_ours": covered[1], "inputs": distinct},
        counterexample="blocks of ten consecutive nodes, as the text's numbering suggests",
    )
