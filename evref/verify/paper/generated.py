"""What the paper says in Remark 1 of ECC and MoNet, and what holds of them (part of R13)."""

from __future__ import annotations

import numpy as np

from ...filters import ECC, GraphAttention, MoNet
from ...filters.generated import GeneratedEdgeVariant
from ...graph import Graph, generators
from ..claims import Outcome, claim

Parameters = dict[str, np.ndarray]


def _graph() -> Graph:
    """Undirected, connected, eigenvalues all different: there "polynomial in S" is a question with a sharp answer."""
    return generators.erdos_renyi(12, 0.4, rng=np.random.default_rng(5)).with_shift("normalized_adjacency")


def _lively(filt: GeneratedEdgeVariant | GraphAttention, rng: np.random.Generator) -> Parameters:
    """Parameters of size one; widths away from zero."""
    params = {name: rng.standard_normal(shape) for name, shape in filt.parameter_shapes().items()}
    if "sigma" in params:
        params["sigma"] = 0.2 + np.abs(params["sigma"])
    return params


def _embedding_error(filt: GeneratedEdgeVariant, params: Parameters, x: np.ndarray, u: np.ndarray) -> float:
    """Worst relative error of output, grad_x and matrix between a filter and its edge-variant form."""
    free, phi = filt.to_edge_variant(params)
    y, tape = filt.forward(params, x)
    z, free_tape = free.forward(phi, x)
    pairs = [
        (y, z),
        (filt.backward(params, tape, u)[1], free.backward(phi, free_tape, u)[1]),
        (filt.matrix(params), free.matrix(phi)),
    ]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def distance_to_polynomials(H: np.ndarray, S: np.ndarray) -> float:
    """min over all polynomials p of |H - p(S)| / |H| (Frobenius), for symmetric S with distinct eigenvalues.

    p(S) = U diag(p(lambda)) U^T, and any values at distinct lambda are those of some p: what is left of H is what
    U^T H U has off its diagonal.
    """
    _, U = np.linalg.eigh(S)
    rotated = U.T @ H @ U
    return float(np.linalg.norm(rotated - np.diag(np.diag(rotated))) / np.linalg.norm(rotated))


def commuting_dimension(graph: Graph) -> int:
    """Dimension of {Phi with the support of I + S : Phi S = S Phi}."""
    S = graph.S.toarray()
    commutators = []
    for p in range(graph.nnz):
        E = graph.to_csr(np.eye(graph.nnz)[p]).toarray()
        commutators.append((E @ S - S @ E).ravel())
    return graph.nnz - int(np.linalg.matrix_rank(np.array(commutators), tol=1e-9))


@claim(
    "remark-1-generated",
    "Remark 1 (part of R13)",
    "ECC and MoNet are one edge-variant step with a generated Phi, exactly; they are polynomials in the given S, "
    "eq. (polFilt, 10), only if every Phi_fg commutes with S: where the null space of R8 has dimension 2, only if the "
    "weights are b S_ij on edges and a + b S_ii on nodes",
    "fails as printed",
)
def generated_weights() -> Outcome:
    rng = np.random.default_rng(6)
    graph = _graph()
    S = graph.S.toarray()
    x, u = rng.standard_normal((2, 3, 2, graph.n_nodes))
    gap = float(np.diff(np.linalg.eigvalsh(S)).min())

    filters = {"ECC": ECC(graph, in_features=2, out_features=2), "MoNet": MoNet(graph, in_features=2, out_features=2)}
    exact, away, commutator = 0.0, {}, {}
    for name, filt in filters.items():
        params = _lively(filt, rng)
        exact = max(exact, _embedding_error(filt, params, x, u))
        H = filt.matrix(params)[0, 0]
        away[name] = distance_to_polynomials(H, S)
        commutator[name] = float(np.linalg.norm(H @ S - S @ H) / (np.linalg.norm(H) * np.linalg.norm(S)))

    # the condition met, and the measure sees a polynomial; no other Phi of this support would do
    dimension = commuting_dimension(graph)
    own = np.zeros(graph.nnz)
    own[graph.diagonal] = 1.0
    affine = ECC(graph, np.stack([own, graph.shift_values()], axis=1), hidden=())
    H = affine.matrix({"w0": np.array([[2.0, -3.0]]), "b0": np.zeros(1)})[0, 0]
    met = max(distance_to_polynomials(H, S), float(np.abs(H - 2 * np.eye(len(S)) + 3 * S).max()))

    # two numbers refute it by hand: a polynomial in a symmetric S is symmetric
    path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    table = ECC(path, hidden=())  # attributes S_ij, 1/sqrt(deg i), 1/sqrt(deg j)
    by_hand = table.matrix({"w0": np.array([[0.0, 1.0, 0.0]]), "b0": np.zeros(1)})[0, 0]
    return Outcome(
        passed=exact < 1e-13
        and gap > 1e-3
        and min(away.values()) > 0.01
        and min(commutator.values()) > 1e-3
        and met < 1e-13
        and dimension == 2
        and bool(by_hand[0, 1] != by_hand[1, 0]),
        figure=f"one EV step to {exact:.0e}; nearest polynomial in S: ECC off by {away['ECC']:.2f}, MoNet by "
        f"{away['MoNet']:.2f}; aI + bS to {met:.0e}; Phi on the support that commute with S: dimension {dimension} of "
        f"{graph.nnz}",
        values={
            "embedding": exact,
            "ecc_to_polynomials": away["ECC"],
            "monet_to_polynomials": away["MoNet"],
            "ecc_commutator": commutator["ECC"],
            "monet_commutator": commutator["MoNet"],
            "affine_to_polynomials": met,
            "commuting_dimension": dimension,
            "support": graph.nnz,
            "smallest_eigenvalue_gap": gap,
        },
        counterexample="path of 3 nodes, S its adjacency matrix, weight 1/sqrt(deg i): "
        f"H_01 = {by_hand[0, 1]:.2f}, H_10 = {by_hand[1, 0]:.2f}, and every p(S) is symmetric",
    )


@claim(
    "attention",
    "Velickovic et al. 2018, beside the paper",
    "graph attention is an edge-variant step of order 1 at each signal, with a Phi of its own for every signal: same "
    "output, not the same gradient; no one Phi serves two signals",
    "holds under a condition",
)
def attention() -> Outcome:
    rng = np.random.default_rng(7)
    graph = generators.erdos_renyi(12, 0.3, rng=rng, directed=True)
    filt = GraphAttention(graph, in_features=2, out_features=4, heads=2)
    params = _lively(filt, rng)
    x, other = rng.standard_normal((2, 2, graph.n_nodes))
    u = rng.standard_normal((4, graph.n_nodes))
    free, phi = filt.to_edge_variant(params, x)
    (y, tape), (z, free_tape) = filt.forward(params, x), free.forward(phi, x)
    here = float(np.abs(y - z).max() / np.abs(y).max())
    y_other = filt.forward(params, other)[0]
    there = float(np.abs(y_other - free.forward(phi, other)[0]).max() / np.abs(y_other).max())
    moving, held = filt.backward(params, tape, u)[1], free.backward(phi, free_tape, u)[1]
    apart = float(np.abs(moving - held).max() / np.abs(moving).max())
    return Outcome(
        passed=here < 1e-13 and there > 0.01 and apart > 0.01,
        figure=f"at its own signal to {here:.0e}; the same Phi at another signal off by {there:.2f}; grad_x with Phi "
        f"held fixed off by {apart:.2f}",
        values={"own_signal": here, "other_signal": there, "gradient_with_fixed_phi": apart},
    )
