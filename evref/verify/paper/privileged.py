"""What the paper says of privileged nodes: node-variant (R5) and hybrid filters (R11), and their counts (R14)."""

from __future__ import annotations

import numpy as np

from ...contract import NotRepresentable
from ...filters import HybridEdgeVariant, NodeVariant
from ...graph import Graph, generators, selection
from ..claims import Outcome, claim


# ---- R5: node-variant filters are edge-variant -----------------------------------------------------------------------
def no_second_order_recursion(support: np.ndarray, H: np.ndarray) -> bool:
    """Whether it is *proved* that no EV recursion of order 2 equals H: no D, A, B with H = D + A B.

    H = (I + (I + Phi2) Phi1) Phi0, so that with D = Phi0 (diagonal), A = I + Phi2 and B = Phi1 Phi0 the question is
    H = D + A B with A and B on the support and column j of B zero where D_j is. The proof decides, step by step, which
    unknowns must be zero and which must not: an entry of H with a single product left says so. True means that it met
    a contradiction; False means nothing.
    """
    N = len(H)
    entries = [(i, j) for i in range(N) for j in range(N) if support[i, j]]
    known: dict[tuple, bool] = {}  # unknown -> is it different from zero?
    products = {
        (i, j): [[("A", i, m), ("B", m, j)] for m in range(N) if support[i, m] and support[m, j]]
        + ([[("D", i)]] if i == j else [])
        for i in range(N)
        for j in range(N)
    }
    while True:
        before = len(known)
        facts: list[tuple[tuple, bool]] = []
        for i, j in entries:
            if known.get(("B", i, j)):
                facts.append((("D", j), True))
            if known.get(("D", j)) is False:
                facts.append((("B", i, j), False))
        for place, sums in products.items():
            left = [factors for factors in sums if all(known.get(f) is not False for f in factors)]
            if not left and H[place] != 0:
                return True
            if len(left) != 1:
                continue
            if H[place] != 0:
                facts += [(factor, True) for factor in left[0]]
            else:
                open_ = [factor for factor in left[0] if factor not in known]
                if not open_:
                    return True
                facts += [(open_[0], False)] if len(open_) == 1 else []
        for unknown, value in facts:
            if known.setdefault(unknown, value) != value:
                return True
        if len(known) == before:
            return False


def only_a_limit() -> tuple[NodeVariant, dict[str, np.ndarray]]:
    """The ring 0 -> 1 -> 2 -> 0 with a tail 1 -> 3, order 2, every coefficient 1 but those of node 2, which are 0."""
    filt = NodeVariant(Graph.from_edges(4, source=[0, 1, 2, 1], target=[1, 2, 0, 3]), order=2)
    phi = np.ones((3, 1, 1, 4))
    phi[..., 2] = 0
    return filt, {"phi": phi}


def _embedding_error(filt: NodeVariant, params: dict) -> float:
    ev_filt, ev_params = filt.to_edge_variant(params)
    H = filt.matrix(params)
    return float(np.abs(ev_filt.matrix(ev_params) - H).max() / np.abs(H).max())


@claim(
    "R5",
    "section III-C, after eq. (nodeV, 17)",
    "NV is EV of the same order if the degrees of the nodes' polynomials differ by at most 2; otherwise in the limit",
    "holds under a condition",
)
def node_variant_is_edge_variant() -> Outcome:
    rng = np.random.default_rng(5)
    graph = generators.erdos_renyi(10, 0.3, rng=rng)

    # as printed: is there a Phi^(2) on the support with Phi^(2) (c0 + c1 S) = c2 S^2? Row by row, by least squares
    c0, c1, c2 = rng.uniform(0.5, 1, (3, 10))
    S = graph.S.toarray()
    first, target = np.diag(c0) + c1[:, None] * S, c2[:, None] * (S @ S)
    printed = 0.0
    for i in range(10):
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        weights = np.linalg.lstsq(first[row].T, target[i], rcond=None)[0]
        printed = max(printed, float(np.abs(weights @ first[row] - target[i]).max()))
    printed /= float(np.abs(target).max())

    exact, zeros = 0.0, 0.0
    for order in range(5):
        filt = NodeVariant(graph, order, nodes=selection.by_degree(graph)[:4])
        phi = rng.uniform(-1, 1, filt.parameter_shapes()["phi"])
        exact = max(exact, _embedding_error(filt, {"phi": phi}))
        for k in range(order):  # coefficients that monomial telescoping divides by
            spoilt = phi.copy()
            spoilt[k, ..., rng.integers(4)] = 0
            zeros = max(zeros, _embedding_error(filt, {"phi": spoilt}))

    filt, params = only_a_limit()
    try:
        filt.to_edge_variant(params)
        refused = False
    except NotRepresentable:
        refused = True
    support = filt.graph.to_csr(np.ones(filt.graph.nnz)).toarray() != 0
    proved = no_second_order_recursion(support, filt.matrix(params)[0, 0])
    mended = {"phi": np.ones((3, 1, 1, 4))}
    no_false_proof = not no_second_order_recursion(support, filt.matrix(mended)[0, 0])
    epsilons = [1e-1, 1e-2, 1e-3, 1e-4]
    limits = [filt.limit_embedding(params, epsilon) for epsilon in epsilons]
    distances = [distance for *_, distance in limits]
    largest = [float(np.abs(p["phi"]).max()) for _, p, _ in limits]
    linear = np.allclose(np.array(distances) / epsilons, distances[0] / epsilons[0], rtol=1e-6)
    grows = bool(np.allclose(np.array(largest) * epsilons, 1, rtol=0.2))
    return Outcome(
        passed=printed > 0.01
        and max(exact, zeros) < 1e-11
        and refused
        and proved
        and no_false_proof
        and linear
        and grows,
        figure=f"the printed Phi^(2) misses by {printed:.2f}; Newton form to {exact:.0e}, with zero coefficients to "
        f"{zeros:.0e}; 4-node case: no recursion (proved), error {distances[0]:.0e} .. {distances[-1]:.0e} for epsilon "
        f"1e-1 .. 1e-4",
        values={"printed": printed, "exact": exact, "zeros": zeros, "distances": distances, "largest_phi": largest},
        counterexample="ring 0 -> 1 -> 2 -> 0 with a tail 1 -> 3, K=2, all coefficients 1 and those of node 2 zero",
    )


# ---- R11: the hybrid filter ------------------------------------------------------------------------------------------
def _alive(filt: HybridEdgeVariant, draws: int = 4) -> dict[str, np.ndarray]:
    """Parameters that had a gradient in at least one of a few draws of parameters, signals and cotangents."""
    rng = np.random.default_rng(11)
    alive = {name: np.zeros(shape, bool) for name, shape in filt.parameter_shapes().items()}
    for _ in range(draws):
        params = {name: rng.uniform(0.5, 1, shape) for name, shape in filt.parameter_shapes().items()}
        y, tape = filt.forward(params, rng.uniform(0.5, 1, (2, *filt.in_shape)))
        for name, grad in filt.backward(params, tape, rng.uniform(0.5, 1, y.shape))[0].items():
            alive[name] |= grad != 0
    return {name: value.reshape(filt.live_parameters()[name].shape) for name, value in alive.items()}


@claim(
    "R11",
    "eq. (HEV, 18)",
    "as printed every phi_ij^(k) with j outside B is dead; the text's reading revives those of k=1, and only those",
    "fails as printed",
)
def dead_parameters_of_the_hybrid() -> Outcome:
    rng = np.random.default_rng(12)
    counted: dict[str, tuple[int, int]] = {}
    agree, as_said = True, True
    cases = [(generators.path(5), np.array([1, 3]))]
    cases += [(generators.erdos_renyi(12, 0.25, rng=rng, directed=d), rng.permutation(12)[:4]) for d in (False, True)]
    for graph, nodes in cases:
        for reading in ("text", "equation", "authors_code"):
            filt = HybridEdgeVariant(graph, order=3, nodes=nodes, reading=reading)
            live, alive = filt.live_parameters(), _alive(filt)
            agree &= all(np.array_equal(live[name], alive[name]) for name in live)
            columns = selection.edge_list(graph, filt.positions)[:, 0]
            inside = np.isin(columns, nodes)
            expected = {
                "equation": np.stack([inside, inside, inside]),
                "text": np.stack([np.ones_like(inside), inside, inside]),
            }
            as_said &= reading == "authors_code" or np.array_equal(live["phi"], expected[reading])
            as_said &= reading != "authors_code" or bool((~live["phi"][0] == ~inside).all())
            counted.setdefault(reading, (int((~live["phi"]).sum()), live["phi"].size))
    full = HybridEdgeVariant(generators.path(5), order=3)
    none_dead = all(value.all() for value in full.live_parameters().values())
    words = ", ".join(f"{reading} {dead} of {total}" for reading, (dead, total) in counted.items())
    return Outcome(
        passed=agree and as_said and none_dead and counted["equation"] == (12, 18),
        figure=f"dead edge parameters, path of 5 nodes, B = {{1, 3}}, K = 3: {words}; none with B = all nodes",
        values={reading: list(pair) for reading, pair in counted.items()},
        counterexample="path of 5 nodes, B = {1, 3}: phi_10, phi_12, phi_32, phi_34 never matter in eq. (HEV, 18)",
    )


# ---- R14: counts -----------------------------------------------------------------------------------------------------
@claim(
    "R14-node-variant",
    "after eq. (nodeV, 17)",
    "NV: (K+1) F G |B| parameters, 'at most (K+1) F^2 |B|' strict for F != G; dead where the group's rows of S^k are 0",
)
def counts_of_node_variant() -> Outcome:
    rng = np.random.default_rng(14)
    block, _ = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=rng)
    ranking = selection.by_degree(block)
    exact, bounded = True, True
    for K, F, G, B in [(4, 5, 1, 5), (4, 5, 5, 5), (1, 2, 1, 2), (0, 2, 3, 50)]:
        for C in (None, rng.integers(0, 2, (block.n_nodes, B))):  # C_B of evref, and any other
            filt = NodeVariant(block, K, G, F, nodes=ranking[:B], mapping=C)
            exact &= filt.n_parameters == (K + 1) * F * G * B
            exact &= filt.n_operations() == K * G * block.n_edges + (K + 1) * F * G * block.n_nodes
        widest = max(F, G)
        bounded &= (filt.n_parameters < (K + 1) * widest**2 * B) == (F != G)
    lonely = NodeVariant(Graph([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), 2, nodes=[0, 2])  # node 2 has no neighbour
    y, tape = lonely.forward({"phi": np.ones((3, 1, 1, 2))}, np.ones(3))
    grad = lonely.backward({"phi": np.ones((3, 1, 1, 2))}, tape, np.ones_like(y))[0]["phi"].reshape(3, 2)
    dead = np.array_equal(grad != 0, [[True, True], [True, False], [True, False]])
    source = NodeVariant(block, 4, 1, 5, nodes=ranking[:5])
    return Outcome(
        passed=exact and bounded and dead,
        figure=f"exact on 4 filters, each with two C_B; source localisation: {source.n_parameters} against 'at most' "
        f"{5 * 25 * 5}; an isolated privileged node leaves its coefficients of k >= 1 dead",
        values={"source_localisation": source.n_parameters, "bound": 5 * 25 * 5},
    )


@claim(
    "R14-hybrid",
    "after eq. (HEV, 18)",
    "HEV: F G ((K+1) + |B| + K sum_B (|N_i| + 1)) parameters; the printed bound forgets phi_ii: up to K|B| too small",
    "fails as printed",
)
def counts_of_hybrid() -> Outcome:
    rng = np.random.default_rng(15)
    block, _ = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=rng)
    exact, mended, ratios = True, True, []
    for graph in (generators.cycle(10), block, generators.erdos_renyi(20, 0.2, rng=rng, directed=True)):
        neighbors = np.diff(graph.indptr) - 1
        for K, F, B in [(2, 1, 3), (4, 5, 5), (1, 2, 2)]:
            nodes = selection.by_degree(graph)[:B]
            for reading in ("text", "equation"):
                filt = HybridEdgeVariant(graph, K, F, F, nodes=nodes, reading=reading)
                exact &= filt.n_parameters == F**2 * ((K + 1) + B + K * int((neighbors[nodes] + 1).sum()))
                mended &= filt.n_parameters <= F**2 * ((K + 1) + B + K * B * (int(neighbors[nodes].max()) + 1))
                ratios.append(filt.n_operations() / (K * F**2 * (2 * graph.n_edges + graph.n_nodes)))
    K, B = 2, 3
    ring = HybridEdgeVariant(generators.cycle(10), K, nodes=[0, 3, 6])
    bound = (K + 1) + B + K * B * 2
    return Outcome(
        passed=exact and mended and ring.n_parameters == bound + K * B and max(ratios) < 2,
        figure=f"ring of 10, K=2, |B|=3: {ring.n_parameters} parameters, 'at most' {bound}; with N_max + 1 the bound "
        f"holds, strictly if degrees in B differ; operations {min(ratios):.2f} to {max(ratios):.2f} of K F^2 (2M + N)",
        values={"ring": ring.n_parameters, "printed_bound": bound, "operations_ratio": max(ratios)},
        counterexample="ring of 10 nodes, K = 2, three privileged nodes, F = 1",
    )
