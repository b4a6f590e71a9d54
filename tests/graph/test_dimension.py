"""How many spectral filters are local (R8): the proved bounds, the counts in the documentation, the counterexamples."""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

import evref as ev
from evref.graph import RepeatedEigenvaluesWarning, fourier_basis, shift_invariant_basis
from evref.verify.paper import local_polynomials as local
from evref.verify.paper.dimensions import counterexamples
from evref.verify.paper.spectral import families

DOCS = Path(__file__).parents[2] / "docs"


def quiet(graph, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedEigenvaluesWarning)
        return shift_invariant_basis(graph, **options)


def connected_atlas():
    """The 995 connected graphs of 2 to 7 nodes."""
    nx = pytest.importorskip("networkx")
    return [g for g in nx.graph_atlas_g() if len(g) >= 2 and nx.is_connected(g)]


def supports():
    return [(len(g), frozenset(tuple(sorted(edge)) for edge in g.edges)) for g in connected_atlas()]


# ---- proved --------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(seed=st.integers(0, 2**20), n_nodes=st.integers(3, 9), density=st.floats(0.3, 1), directed=st.booleans())
def test_counting_bound(seed, n_nodes, density, directed):
    """d >= N - equations: a non-adjacent pair is one for symmetric S, a zero entry is one for any."""
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < density)
    S = S if directed else np.triu(S) + np.triu(S).T
    np.fill_diagonal(S, np.arange(n_nodes) * 3.0)  # keeps the eigenvalues apart
    graph = ev.Graph(S)
    try:
        basis = quiet(graph)
    except ev.graph.NotDiagonalizable:
        return
    off = ~((S != 0) | np.eye(n_nodes, dtype=bool))
    equations = off.sum() if directed and not graph.is_symmetric else off.sum() // 2
    assert basis.dimension >= max(2, n_nodes - equations)


def test_free_diagonal_attains_the_bound_on_every_small_support():
    """One instance that attains a proved lower bound proves the value for generic weights."""
    rng = random.Random(8)
    found = [local.dimension(local.random_shift(n, p, rng), p) == local.lower_bound(n, p) for n, p in supports()]
    assert len(found) == 995 and all(found)


def test_zero_diagonal_attains_the_bound_or_never_has_distinct_eigenvalues():
    from scipy.sparse.csgraph import structural_rank

    rng = random.Random(8)
    counts, above = Counter(), {}
    for n, pairs in supports():
        d = local.dimension(local.random_shift(n, pairs, rng, free_diagonal=False), pairs)
        counts["repeated" if d is None else d == local.lower_bound(n, pairs, free_diagonal=False)] += 1
        if d is None:  # whatever the weights, 0 is an eigenvalue twice: no minor of size N - 1 has a term
            i, j = np.array(sorted(pairs)).T
            pattern = coo_array((np.ones(2 * i.size), (np.r_[i, j], np.r_[j, i])), (n, n)).tocsr()
            pattern.indices, pattern.indptr = (
                a.astype(np.int32) for a in (pattern.indices, pattern.indptr)
            )  # SciPy 1.13
            assert structural_rank(pattern) <= n - 2
        if d is not None and d > local.lower_bound(n, pairs):
            above[n, len(pairs)] = d
    assert counts == {True: 956, "repeated": 39}
    # only the bipartite bound explains these: C4, K23, K33 less an edge, K33, K34 less an edge, K34
    assert above == {(4, 4): 3, (5, 6): 3, (6, 8): 3, (6, 9): 4, (7, 11): 3, (7, 12): 4}


def test_elimination_modulo_the_prime():
    assert local.rank([]) == 0
    assert local.rank([[0, 0], [0, 0]]) == 0
    assert local.rank([[1, 2], [2, 4], [0, 1]]) == 2
    assert local.rank([[local.PRIME, 1], [1, 0]]) == local.rank([[0, 1], [1, 0]]) == 2
    path = frozenset({(0, 1), (1, 2)})
    assert local.dimension([[0, 1, 0], [1, 0, 1], [0, 1, 0]], path) == 2
    star = frozenset({(0, 1), (0, 2), (0, 3)})
    assert local.dimension([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], star) is None


@pytest.mark.parametrize("seed", range(4))
def test_exact_and_rounded_dimension_agree(seed):
    """Small integer weights are the same numbers in both arithmetics."""
    rng = random.Random(seed)
    n = 7
    pairs = frozenset(pair for pair in combinations(range(n), 2) if rng.random() < 0.75)
    S = [[0] * n for _ in range(n)]
    for i, j in pairs:
        S[i][j] = S[j][i] = rng.randrange(1, 50)
    for i in range(n):
        S[i][i] = rng.randrange(50)
    assert local.dimension(S, pairs) == quiet(ev.Graph(np.array(S, float))).dimension


@pytest.mark.parametrize("name", counterexamples())
def test_counterexamples(name):
    graph, expected = counterexamples()[name]
    assert quiet(graph).dimension == expected


def test_components_add_up():
    from scipy.linalg import block_diag

    rng = np.random.default_rng(0)
    parts = {
        "isolated": np.zeros((1, 1)),
        "edge": np.array([[0, 1.3], [1.3, 0]]),
        "triangle": np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]]),
        "random": ev.generators.erdos_renyi(8, 0.6, rng=3, weights="uniform").S.toarray(),
    }
    alone = {name: quiet(ev.Graph(S)).dimension for name, S in parts.items()}
    assert (alone["isolated"], alone["edge"], alone["triangle"]) == (1, 2, 3)
    for size in (2, 3, 4):
        for names in combinations(parts, size):
            order = rng.permutation(sum(len(parts[name]) for name in names))
            whole = block_diag(*(parts[name] for name in names))[np.ix_(order, order)]
            assert quiet(ev.Graph(whole)).dimension == sum(alone[name] for name in names), names
    twice = ev.Graph(block_diag(parts["random"], parts["random"]))  # tied: one polynomial for both copies
    assert quiet(twice, repeated="tied").dimension == alone["random"]


def test_components_that_share_eigenvalues_need_not_add_up():
    """Two edges: eigenvectors that mix them leave I and S, out of 2 + 2."""
    edges = ev.Graph.from_edges(4, source=[0, 2], target=[1, 3], undirected=True)
    mixed = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / 2
    apart = np.kron(np.eye(2), [[1, 1], [1, -1]])
    for eigenvectors, expected in ((mixed, 2), (apart, 4)):
        assert quiet(edges, fourier=fourier_basis(edges, eigenvectors=eigenvectors)).dimension == expected


def test_joined_twins_need_equal_diagonal_entries():
    S = np.zeros((4, 4))
    S[[0, 0, 1, 2], [1, 2, 2, 3]] = 1  # 0 and 1 are joined twins
    assert quiet(ev.Graph(S + S.T)).dimension == 3
    assert quiet(ev.Graph(S + S.T + np.diag([0.7, 0, 0, 0]))).dimension == 2


def test_twelve_nodes_without_five_pairs():
    def dimensions(weights):
        for seed in range(100):
            rng = np.random.default_rng(seed)
            S = np.triu(rng.uniform(0.5, 1.5, (12, 12)) if weights else np.ones((12, 12)), 1)
            i, j = np.nonzero(S)
            missing = rng.choice(i.size, 5, replace=False)
            S[i[missing], j[missing]] = 0
            yield quiet(ev.Graph(S + S.T)).dimension

    assert set(dimensions(weights=True)) == {7}
    assert 7 <= min(dimensions(weights=False)) < max(dimensions(weights=False))


def local_degrees(graph, highest):
    """The degrees m <= highest for which some polynomial of degree exactly m in S has the support of I + S."""
    S = graph.S.toarray()
    S = S / np.abs(np.linalg.eigvals(S)).max()
    off = graph.to_csr(np.ones(graph.nnz)).toarray() == 0
    columns = np.stack([np.linalg.matrix_power(S, k)[off] for k in range(highest + 1)], axis=1)
    found = []
    for m in range(highest + 1):
        distance = (
            columns[:, m] - columns[:, :m] @ np.linalg.lstsq(columns[:, :m], columns[:, m], rcond=None)[0] if m else 0
        )
        if np.linalg.norm(distance) < 1e-10:
            found.append(m)
    return found


@pytest.mark.parametrize("shift", ["adjacency", "laplacian", "minus", "loops"])
@pytest.mark.parametrize("name", ["random, weighted", "directed, weighted", "tree", "ring", "grid 3 x 4", "Petersen"])
def test_no_local_polynomial_of_degree_2_to_the_diameter(name, shift):
    """Off-diagonals of one sign are enough: Laplacians, -S, and any diagonal."""
    from scipy.sparse.csgraph import shortest_path

    graph = families()[name]
    A = graph.S.toarray()
    diagonal = np.random.default_rng(2).standard_normal(len(A))
    S = {"adjacency": A, "laplacian": np.diag(A.sum(1)) - A, "minus": -A, "loops": A + np.diag(diagonal)}[shift]
    distance = shortest_path(A != 0, unweighted=True)
    diameter = int(distance[np.isfinite(distance)].max())
    assert diameter >= 2
    assert local_degrees(ev.Graph(S), diameter) == [0, 1]


def test_mixed_signs_break_the_theorem():
    S = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)
    S[0, 3] = S[3, 0] = -1.0
    np.testing.assert_array_equal(S @ S, 2 * np.eye(4))  # degree 2, diameter 2, on the support
    assert local_degrees(ev.Graph(S), 2) == [0, 1, 2]


def joined_twins(A):
    return [
        (i, j)
        for i, j in combinations(range(len(A)), 2)
        if A[i, j] and np.array_equal(np.delete(A[i], (i, j)), np.delete(A[j], (i, j)))
    ]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**20))
def test_eigenvectors_on_cliques_give_at_least(seed):
    """d >= min(c + 2, r): c simple eigenvalues with eigenvectors on a clique, r distinct eigenvalues."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((7, 7)) < 0.6, 1).astype(float)
    A[0, 1], A[0, 2:] = 1, A[1, 2:]  # 0 and 1 become joined twins
    graph = ev.Graph(A + A.T)
    basis = shift_invariant_basis(graph, repeated="tied")
    fourier, pattern = basis.fourier, (graph.S.toarray() != 0) | np.eye(7, dtype=bool)
    c = sum(
        int((fourier.groups == fourier.groups[n]).sum() == 1 and pattern[np.ix_(*[np.abs(u) > 1e-9] * 2)].all())
        for n, u in enumerate(fourier.U.T)
    )
    assert basis.dimension >= min(c + 2, int(fourier.groups.max()) + 1)


# ---- measured ------------------------------------------------------------------------------------------------------
@cache
def unweighted():
    """Counts over the unweighted connected graphs of 3 to 7 nodes that are not complete."""
    nx = pytest.importorskip("networkx")
    counts = Counter()
    for g in connected_atlas():
        A = nx.to_numpy_array(g)
        if len(A) < 3 or A.sum() == len(A) * (len(A) - 1):
            continue
        graph = ev.Graph(A)
        fourier = fourier_basis(graph)
        tied = quiet(graph, fourier=fourier, repeated="tied").dimension
        if not joined_twins(A):
            counts["without twins"] += 1
            counts["tied above 2"] += tied > 2
            counts["free above 2"] += quiet(graph, fourier=fourier).dimension > 2
        elif np.isclose(fourier.eigenvalues, -1, atol=1e-8).sum() == 1:  # e_i - e_j has the eigenvalue -1
            counts["twins, simple"] += 1
            counts[f"twins, {tied}"] += 1
    return counts


def test_counts_over_the_unweighted_graphs():
    counts = unweighted()
    assert (counts["without twins"], counts["tied above 2"]) == (583, 80)
    assert (counts["twins, simple"], counts["twins, 3"], counts["twins, 4"]) == (236, 218, 18)
    assert counts["free above 2"] >= 80  # 88 with the eigenvectors that LAPACK returned; another LAPACK, another count


@pytest.mark.parametrize("page", ["readings.md", "spectral.md"])
def test_the_pages_print_these_counts(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for number in ("995", "583", "80", "88", "236", "18"):
        assert re.search(rf"\b{number}\b", text), number
    for old in ("2 per component", "2 per connected component", "without special", "clique.{0,30}adds one"):
        assert not re.search(old, text), old
