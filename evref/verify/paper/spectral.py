"""What the paper says of transfer functions: R6, R7, R9, R10; and the graphs on which R8 is measured."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np

from ...filters import ShiftInvariantEdgeVariant, SpectralGCNN
from ...graph import Graph, RepeatedEigenvaluesWarning, fourier_basis, generators, shift_invariant_basis
from ...graph.nullspace import khatri_rao
from ..claims import Outcome, claim


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def _directed(n_nodes: int = 12) -> Graph:
    """A directed graph whose eigenvectors are far from orthogonal, and complex."""
    return generators.erdos_renyi(n_nodes, 0.4, rng=1, directed=True)


def quiet_basis(graph: Graph, **options: Any) -> Any:
    """The null-space basis without the warning that it is a choice: R9 says it in figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedEigenvaluesWarning)
        return shift_invariant_basis(graph, **options)


@claim(
    "R6",
    "eq. (lamLin, 14)",
    "vec(U diag(l) V) = (V^T * U) l with V = U^-1; U^H in its place is right only for normal S",
    "fails as printed",
)
def khatri_rao_form() -> Outcome:
    from scipy.linalg import khatri_rao as column_wise

    rng = np.random.default_rng(6)

    def errors(graph: Graph) -> tuple[float, float, float]:
        fourier = fourier_basis(graph)
        U, V = fourier.U, fourier.U_inverse
        lam = rng.standard_normal(graph.n_nodes)
        vec = ((U * lam) @ V).ravel(order="F")
        mended = _distance(khatri_rao(fourier) @ lam, vec)
        adjoint = _distance(column_wise(U.conj(), U) @ lam, vec)  # V replaced by U^H
        letter = _distance(column_wise(U, U.conj().T) @ lam, vec)  # the factors as printed
        return mended, adjoint, letter

    directed = errors(_directed())
    normal = [errors(generators.cycle(7, directed=True)), errors(generators.erdos_renyi(12, 0.3, rng=1))]
    mended = max(directed[0], *(e[0] for e in normal))
    with_adjoint = max(e[1] for e in normal)
    letter = min(e[2] for e in normal)
    return Outcome(
        passed=mended < 1e-12 and directed[1] > 0.01 and with_adjoint < 1e-12 and letter > 0.01,
        figure=f"(V^T * U) to {mended:.0e} everywhere; with U^H for V off by {directed[1]:.2f} on a directed graph, to "
        f"{with_adjoint:.0e} on normal S; factors as printed, U * U^H, off by {letter:.2f} or more even there",
        values={"mended": mended, "adjoint_directed": directed[1], "adjoint_normal": with_adjoint, "letter": letter},
        counterexample="a random directed graph of 12 nodes; for the order of the factors a ring and an undirected one",
    )


@claim(
    "R7",
    "eq. (evResp, 12)",
    "h = sum_k prod_{kappa<=k} L^(kappa); the printed L^(k) inside the product is a slip of the index",
    "fails as printed",
)
def index_of_the_response() -> Outcome:
    rng = np.random.default_rng(7)
    mended, printed = 0.0, np.inf
    for graph in (generators.grid(3, 4), _directed()):
        filt = ShiftInvariantEdgeVariant(graph, order=3)
        params = {"mu": rng.standard_normal(filt.parameter_shapes()["mu"])}
        x = rng.standard_normal(graph.n_nodes)
        fourier, y = filt.basis.fourier, filt.forward(params, x)[0]
        Lambda = params["mu"][:, 0, 0] @ filt.basis.B.T  # (K, N)
        letter = sum(Lambda[k - 1] ** k for k in (1, 2, 3))
        mended = max(mended, _distance(fourier.filter(filt.response(params)[0, 0], x), y))
        printed = min(printed, _distance(fourier.filter(letter, x), y))
    return Outcome(
        passed=mended < 1e-12 and printed > 0.01,
        figure=f"against the recursion in the vertex domain: L^(kappa) to {mended:.0e}, L^(k) off by {printed:.2f}",
        values={"kappa": mended, "k": printed},
        counterexample="K = 3 on a grid and on a directed graph",
    )


# ---- how large the family is (R8) ------------------------------------------------------------------------------------
def _petersen() -> Graph:
    outer = np.arange(5)
    source = np.concatenate([outer, outer, outer + 5])
    target = np.concatenate([(outer + 1) % 5, outer + 5, (outer + 2) % 5 + 5])
    return Graph.from_edges(10, source, target, undirected=True)


def _tree(n_nodes: int = 15) -> Graph:
    child = np.arange(1, n_nodes)
    return Graph.from_edges(n_nodes, (child - 1) // 2, child, undirected=True)


def _twins() -> Graph:
    """Nodes 0 and 1 are joined and have the same other neighbour, 2, from which a path goes on to 6."""
    return Graph.from_edges(7, [0, 0, 1, 2, 3, 4, 5], [1, 2, 2, 3, 4, 5, 6], undirected=True)


def side_by_side(*graphs: Graph) -> Graph:
    from scipy.sparse import block_diag

    return Graph(block_diag([graph.S for graph in graphs], format="csr"))


def families() -> dict[str, Graph]:
    """Graphs on which the dimension of the null space is measured."""
    graphs = {
        "random": generators.erdos_renyi(12, 0.3, rng=1),
        "random, weighted": generators.erdos_renyi(12, 0.4, rng=2, weights="uniform"),
        "random, directed": _directed(),
        "directed, weighted": generators.erdos_renyi(12, 0.4, rng=3, directed=True, weights="uniform"),
        "block model": generators.stochastic_block_model(30, 3, 0.7, 0.1, rng=0)[0],
        "block model, scaled": generators.stochastic_block_model(30, 3, 0.7, 0.1, rng=0)[0].with_shift("gcn"),
        "geometric": generators.random_geometric(25, 0.35, rng=2)[0],
        "path": generators.path(9),
        "tree": _tree(),
        "ring": generators.cycle(9),
        "ring, directed": generators.cycle(9, directed=True),
        "star": generators.star(8),
        "Petersen": _petersen(),
        "adjacent twins": _twins(),
        "grid 3 x 4": generators.grid(3, 4),
        "grid 4 x 5": generators.grid(4, 5),
        "two components": side_by_side(generators.path(5), generators.cycle(6)),
        "three components": side_by_side(generators.path(5), generators.star(5), _petersen()),
        "complete": generators.complete(8),
    }
    with contextlib.suppress(ImportError):  # networkx is an extra
        graphs["karate"] = generators.karate()
    return graphs


def nullspace_dimensions() -> list[dict[str, Any]]:
    """One row per family: nodes, components, distinct eigenvalues, largest distance, dimension free and tied, gap."""
    from scipy.sparse.csgraph import connected_components, shortest_path

    rows = []
    for name, graph in families().items():
        fourier = fourier_basis(graph)
        free, tied = (quiet_basis(graph, fourier=fourier, repeated=repeated) for repeated in ("free", "tied"))
        distance = shortest_path((graph.dense_shift() != 0).astype(float), unweighted=True)
        rows.append(
            {
                "family": name,
                "nodes": graph.n_nodes,
                "components": int(connected_components(graph.S, directed=False)[0]),
                "distinct": int(fourier.groups.max()) + 1,
                "diameter": int(distance[np.isfinite(distance)].max()),
                "free": free.dimension,
                "tied": tied.dimension,
                "gap": min(free.gap, tied.gap),
                "cancelled": _smallest_at_distance(graph, distance),
            }
        )
    return rows


def _smallest_at_distance(graph: Graph, distance: np.ndarray) -> float:
    """min over m of the smallest |(S^m)_ij| at distance m, relative to the largest entry: above 0, nothing cancels."""
    S, power, smallest = graph.S.toarray(), np.eye(graph.n_nodes), np.inf
    for m in range(1, int(distance[np.isfinite(distance)].max()) + 1):
        power = S @ power
        smallest = min(smallest, float(np.abs(power[distance == m]).min() / np.abs(power).max()))
    return smallest


@claim(
    "R9",
    "B_{U,I}, 'a basis that spans the null space'",
    "the family is one of S for distinct eigenvalues; with repeated ones it depends on the choice of U",
    "holds under a condition",
)
def choice_of_eigenvectors() -> Outcome:
    ring = generators.cycle(9)
    dft = np.exp(2j * np.pi * np.outer(np.arange(9), np.arange(9)) / 9)
    grid = generators.grid(4, 5)
    tensor = np.kron(fourier_basis(generators.path(4)).U, fourier_basis(generators.path(5)).U)
    found = {}
    for name, graph, other in (("ring", ring, dft), ("grid 4 x 5", grid, tensor)):
        found[name] = (
            quiet_basis(graph).dimension,
            quiet_basis(graph, fourier=fourier_basis(graph, eigenvectors=other)).dimension,
            shift_invariant_basis(graph, repeated="tied").dimension,
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shift_invariant_basis(ring)
    warned = any(issubclass(w.category, RepeatedEigenvaluesWarning) for w in caught)
    rng = np.random.default_rng(9)  # distinct eigenvalues: only scale and sign of a column are free
    graph = generators.erdos_renyi(12, 0.3, rng=1)
    scaled = fourier_basis(graph).U * rng.choice([-2.0, 3.0], 12)
    same = _distance(quiet_basis(graph, fourier=fourier_basis(graph, eigenvectors=scaled)).B, quiet_basis(graph).B)
    return Outcome(
        passed=found == {"ring": (2, 3, 2), "grid 4 x 5": (2, 3, 2)} and warned and same < 1e-12,
        figure=f"ring: {found['ring'][0]} with LAPACK's real eigenvectors, {found['ring'][1]} with the Fourier basis; "
        f"4 x 5 grid: {found['grid 4 x 5'][0]}, and {found['grid 4 x 5'][1]} with products of path eigenvectors; "
        f"distinct eigenvalues: the same B to {same:.0e}",
        values={"ring": found["ring"], "grid": found["grid 4 x 5"], "distinct": same},
        counterexample="ring of 9 nodes, 4 x 5 grid",
    )


@claim(
    "R10",
    "'obtained by setting K = 1, B_{U,I} = B, mu^(1) = b'",
    "for any B the transfer functions are equal; the filter is local only if B lies in the null space",
    "holds under a condition",
)
def spectral_as_order_one() -> Outcome:
    rng = np.random.default_rng(10)
    graph = generators.grid(3, 4)
    recursion = ShiftInvariantEdgeVariant(graph, order=1)
    basis = recursion.basis
    outside = graph.to_csr(np.ones(graph.nnz)).toarray() == 0

    def share_outside(H: np.ndarray) -> float:
        return float(np.linalg.norm(H[outside]) / np.linalg.norm(H))

    spline = SpectralGCNN(graph, n_basis=5)
    b = {"b": rng.standard_normal((5, 1, 1))}
    H = spline.matrix(b)[0, 0]
    Lambda = spline.B @ b["b"][:, 0, 0]  # Phi^(1) = U diag(B b) U^-1: the response of a recursion with K = 1
    any_kernel = _distance(spline.response(b)[0, 0], Lambda)
    vertex = _distance(basis.fourier.matrix(Lambda), H)

    local = SpectralGCNN(graph, n_basis=basis.dimension, kernel=basis.B)
    mu = rng.standard_normal(basis.dimension)
    b, params = {"b": mu.reshape(-1, 1, 1)}, {"mu": mu.reshape(1, 1, 1, -1)}
    equal = _distance(local.matrix(b), recursion.matrix(params))
    x = rng.standard_normal(graph.n_nodes)
    outputs = _distance(local.forward(b, x)[0], recursion.forward(params, x)[0])
    far, near = share_outside(H), share_outside(local.matrix(b)[0, 0])
    return Outcome(
        passed=max(any_kernel, vertex, equal, outputs) < 1e-12 and far > 0.01 and near < 1e-12,
        figure=f"equal to {max(any_kernel, vertex):.0e} for a spline kernel, {far:.0%} of it (in norm) outside the "
        f"support of I + S; with B in the null space {near:.0e} is, and the filters agree to {max(equal, outputs):.0e}",
        values={"transfer": any_kernel, "outside_spline": far, "outside_null_space": near, "filters": equal},
        counterexample="cubic spline kernel, b = 5, on the 3 x 4 grid",
    )
