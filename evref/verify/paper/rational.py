"""What Remark 1 says of rational filters: cut short they are polynomials; and how far that is from rational."""

from __future__ import annotations

import numpy as np

from ...filters import ARMA, CayleyNet
from ...graph import Graph, generators
from ..claims import Outcome, claim


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference relative to the largest entry of b."""
    return float(np.abs(a - b).max() / np.abs(b).max())


def _parameters(filt: ARMA | CayleyNet) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    return {name: rng.uniform(-1, 1, shape) for name, shape in filt.parameter_shapes().items()}


def _polynomial(S: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """sum_k coefficients[k] S^k, shape (F, G, N, N)."""
    powers = [np.linalg.matrix_power(S, k) for k in range(len(coefficients))]
    return np.einsum("kfg,kij->fgij", coefficients, powers)


def _outside_all_polynomials(S: np.ndarray, H: np.ndarray) -> float:
    """Share of H, in the Frobenius norm, that no polynomial of the symmetric S reaches, whatever its order."""
    lam, U = np.linalg.eigh(S)
    if np.diff(lam).min() < 1e-6:
        raise ValueError("expected distinct eigenvalues: polynomials are then all diagonal matrices in their basis")
    rotated = U.T @ H @ U
    return float(np.linalg.norm(rotated - np.diag(np.diag(rotated))) / np.linalg.norm(rotated))


@claim(
    "remark-1",
    "Remark 1",
    "finite iterations are polynomials of S: ARMA always (order T), Cayley with Jacobi (order r(J+1)) only if the "
    "diagonal of S is constant; otherwise a local filter that does not commute with S, yet a parallel sum of EV ones",
    "holds under a condition",
)
def finite_iterations_are_polynomials() -> Outcome:
    undirected = generators.erdos_renyi(9, 0.4, rng=2)  # no node without edges: diagonal of L constant
    directed = generators.erdos_renyi(9, 0.4, rng=5, directed=True)
    arma = 0.0
    for graph in (undirected, directed):
        for shared in (True, False):
            filt = ARMA(graph, 4, 2, 2, shared=shared)
            params = _parameters(filt)
            H = filt.matrix(params)
            ev_filt, ev_params = filt.to_edge_variant(params)
            polynomial = _polynomial(graph.S.toarray(), filt.coefficients(params))
            arma = max(arma, _distance(polynomial, H), _distance(ev_filt.matrix(ev_params), H))

    constant = 0.0
    for graph in (undirected.with_shift("normalized_laplacian"), directed):  # diagonals 1 and 0
        jacobi = CayleyNet(graph, 2, iterations=2)
        params = _parameters(jacobi)
        constant = max(
            constant, _distance(_polynomial(graph.S.toarray(), jacobi.coefficients(params)), jacobi.matrix(params))
        )

    jacobi = CayleyNet(undirected.with_shift("laplacian"), 2, iterations=1)
    params, S = _parameters(jacobi), jacobi.graph.S.toarray()
    H = jacobi.matrix(params)[0, 0]
    outside, commutator = _outside_all_polynomials(S, H), _distance(H @ S, S @ H)
    parallel, ev_params = jacobi.to_edge_variant(params)
    embedded, terms = _distance(parallel.matrix(ev_params)[0, 0], H), getattr(parallel, "terms", 1)
    return Outcome(
        passed=max(arma, constant, embedded) < 1e-11 and outside > 0.01 and commutator > 0.01,
        figure=f"ARMA, T=4, to {arma:.0e}; Cayley, constant diagonal, to {constant:.0e}; on a Laplacian {outside:.0%} "
        f"lie outside all polynomials of S, but {terms} parallel EV recursions give it to {embedded:.0e}",
        values={
            "arma": arma,
            "cayley_constant_diagonal": constant,
            "cayley_outside_polynomials": outside,
            "cayley_commutator": commutator,
            "cayley_parallel": embedded,
            "parallel_terms": terms,
        },
        counterexample="Cayley, r=2, one Jacobi iteration, on the Laplacian D - W of a random graph of 9 nodes",
    )


@claim(
    "remark-1-limit",
    "Remark 1",
    "the finite recursion tends to the rational filter, at the rate rho(W) rho(S) (ARMA) or rho(h(hD+i)^-1 O) "
    "(Jacobi), exactly if that is below 1; a Laplacian guarantees it for Jacobi, nothing does for ARMA",
    "holds under a condition",
)
def distance_from_the_rational_filter() -> Outcome:
    counts = (1, 2, 4, 8, 16, 32, 64)
    graph = generators.erdos_renyi(15, 0.3, rng=6)
    arma = ARMA(graph.with_shift("normalized_adjacency"), 2, 2, 2)
    params = _parameters(arma)

    def at_rate(rate: float) -> dict[str, np.ndarray]:
        return {**params, "w": params["w"] * (rate / arma.convergence_rate(params))}

    def arma_errors(rate: float) -> list[float]:
        scaled = at_rate(rate)
        w, v = scaled["w"][0], scaled["v"][0]
        S, eye = arma.graph.S.toarray(), np.eye(15)
        # the fixed point of X = W X S + V, which exists beyond the radius too: the recursion does not find it there
        fixed = np.mean(
            [np.linalg.solve(np.eye(30) - np.kron(w[p], S), np.kron(v[p], eye)) for p in range(arma.stacks)], axis=0
        )
        fixed = fixed.reshape(2, 15, 2, 15).swapaxes(1, 2)
        return [_distance(ARMA(arma.graph, T, 2, 2).matrix(scaled), fixed) for T in counts[1:]]

    inside, beyond = arma_errors(0.8), arma_errors(1.2)
    arma_rate = (inside[-1] / inside[-2]) ** (1 / 32)

    def jacobi_errors(on: Graph, h: float) -> tuple[list[float], float]:
        filt = CayleyNet(on, 1, iterations=1)
        zoomed = {**_parameters(filt), "h": np.array([h])}
        exact = filt.exact_matrix(zoomed)
        errors = [_distance(CayleyNet(on, 1, iterations=J).matrix(zoomed), exact) for J in counts]
        return errors, filt.convergence_rate(zoomed)

    laplacian, rate = jacobi_errors(graph.with_shift("normalized_laplacian"), 1.0)
    jacobi_rate = (laplacian[-1] / laplacian[-2]) ** (1 / 32)
    always = max(
        jacobi_errors(graph.with_shift(kind), h)[1]
        for kind in ("laplacian", "normalized_laplacian")
        for h in (0.01, 1.0, 10.0)
    )
    adjacency, adjacency_rate = jacobi_errors(graph, 1.0)
    return Outcome(
        passed=inside[-1] < 1e-4 < 1 < beyond[-1]
        and abs(arma_rate - 0.8) < 0.03
        and abs(jacobi_rate - rate) < 0.03
        and always < 1 < adjacency_rate
        and adjacency[-1] > 1,
        figure=f"ARMA at rate 0.8: {inside[0]:.0e} after 2, {inside[3]:.0e} after 16, {inside[-1]:.0e} after 64; "
        f"at 1.2: {beyond[-1]:.0e}. Jacobi on L, h=1: {laplacian[0]:.0e} after 1, {laplacian[4]:.0e} after 16, "
        f"{laplacian[-1]:.0e} after 64; on A (rate {adjacency_rate:.1f}): {adjacency[-1]:.0e}",
        values={
            "iterations": list(counts),
            "arma_errors": inside,
            "arma_errors_beyond": beyond,
            "arma_rate_measured": arma_rate,
            "jacobi_errors": laplacian,
            "jacobi_rate": rate,
            "jacobi_rate_measured": jacobi_rate,
            "jacobi_largest_rate_on_laplacians": always,
            "jacobi_rate_on_adjacency": adjacency_rate,
        },
        counterexample="ARMA with rho(W) rho(S) = 1.2; Jacobi with h = 1 on an unnormalised adjacency matrix",
    )
