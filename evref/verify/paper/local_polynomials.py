"""How many polynomials of S have the support of I + S, exactly: in integers modulo a prime, without a threshold.

A symmetric S with random weights modulo a prime stands for generic weights on its support. A rank can only be lower at
one instance, and modulo a prime, than it is for generic real weights. So the dimension found here is an upper bound for
generic weights, and where it equals :func:`lower_bound`, which holds for every S, it is proved to be their value.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import combinations

PRIME = 2**61 - 1
Matrix = list[list[int]]
Pairs = frozenset[tuple[int, int]]  # (i, j) with i < j


def absent(n_nodes: int, pairs: Pairs) -> list[tuple[int, int]]:
    """The non-adjacent pairs."""
    return [pair for pair in combinations(range(n_nodes), 2) if pair not in pairs]


def lower_bound(n_nodes: int, pairs: Pairs, free_diagonal: bool = True) -> int:
    """What the dimension is at least, for a connected support of 2 nodes and more, symmetric S, distinct eigenvalues.

    I and S are two. A transfer function has N values, and each non-adjacent pair is one linear equation for them:
    N - |absent|. On a bipartite support with zero diagonal the eigenvalues are N // 2 pairs of opposite sign (and 0).
    The odd transfer functions give matrices with entries between the two sides only, so that each non-adjacent pair
    *across* is an equation for N // 2 values; and I is not among them.
    """
    missing = absent(n_nodes, pairs)
    bounds = [2, n_nodes - len(missing)]
    side = None if free_diagonal else _sides(n_nodes, pairs)
    if side is not None:
        bounds.append(1 + n_nodes // 2 - sum(side[i] != side[j] for i, j in missing))
    return max(bounds)


def random_shift(n_nodes: int, pairs: Pairs, rng: random.Random, free_diagonal: bool = True) -> Matrix:
    """Symmetric, random nonzero weights on the pairs; the diagonal random too, or zero."""
    S = [[0] * n_nodes for _ in range(n_nodes)]
    for i, j in sorted(pairs):
        S[i][j] = S[j][i] = rng.randrange(1, PRIME)
    for i in range(n_nodes if free_diagonal else 0):
        S[i][i] = rng.randrange(PRIME)
    return S


def dimension(S: Matrix, pairs: Pairs) -> int | None:
    """Dimension of {p(S) on the support of I + S}; None if the eigenvalues of S are not distinct.

    The unknowns are the coefficients of I, S, ..., S^(N-1); each non-adjacent pair is one equation.
    """
    N = len(S)
    powers: list[Matrix] = [[[int(i == j) for j in range(N)] for i in range(N)]]
    for _ in range(2 * N - 2):
        columns = list(zip(*powers[-1], strict=True))
        powers.append([[sum(a * b for a, b in zip(row, c, strict=True)) % PRIME for c in columns] for row in S])
    traces = [sum(P[i][i] for i in range(N)) % PRIME for P in powers]
    # the determinant of this Hankel matrix is the product of the squared differences of the eigenvalues
    if rank([traces[a : a + N] for a in range(N)]) < N:
        return None
    return N - rank([[powers[k][i][j] for k in range(N)] for i, j in absent(N, pairs)])


def rank(rows: Iterable[list[int]]) -> int:
    """Rank modulo PRIME, by elimination."""
    left, found = [[a % PRIME for a in row] for row in rows], 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((i for i in range(found, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[found], left[pivot] = left[pivot], left[found]
        inverse = pow(left[found][column], -1, PRIME)
        for i in range(found + 1, len(left)):
            factor = left[i][column] * inverse % PRIME
            if factor:
                left[i] = [(a - factor * b) % PRIME for a, b in zip(left[i], left[found], strict=True)]
        found += 1
    return found


def connected_supports(n_nodes: int) -> Iterator[Pairs]:
    """Every connected undirected graph on the nodes 0, ..., n_nodes - 1 (numbered: isomorphic ones come repeatedly)."""
    everything = list(combinations(range(n_nodes), 2))
    for n_edges in range(n_nodes - 1, len(everything) + 1):
        for chosen in combinations(everything, n_edges):
            if len(_distances(n_nodes, chosen)) == n_nodes:
                yield frozenset(chosen)


def _distances(n_nodes: int, pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Hops from node 0 to every node that it reaches."""
    neighbours: list[list[int]] = [[] for _ in range(n_nodes)]
    for i, j in pairs:
        neighbours[i].append(j)
        neighbours[j].append(i)
    hops, queue = {0: 0}, [0]
    for node in queue:
        for other in neighbours[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops


def _sides(n_nodes: int, pairs: Pairs) -> list[int] | None:
    """0 or 1 for each node of a connected bipartite graph; None if it is not bipartite."""
    hops = _distances(n_nodes, pairs)
    side = [hops[i] % 2 for i in range(n_nodes)]
    return None if any(side[i] == side[j] for i, j in pairs) else side
