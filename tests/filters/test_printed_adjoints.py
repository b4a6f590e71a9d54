"""The adjoints of docs/rational.md as they are printed there, in complex NumPy, against `backward`.

Nothing of the filters' code is used: a formula that is wrong on the page fails here. Names are those of the page.
"""

from __future__ import annotations

import numpy as np
import pytest
from strategies import close

import evref as ev

GRAPHS = {
    "undirected": ev.generators.erdos_renyi(7, 0.5, rng=1).with_shift("laplacian"),
    "directed": ev.generators.erdos_renyi(7, 0.4, rng=2, directed=True, weights="uniform"),
}
BATCH, G, F = 3, 2, 4


def problem(filt, seed=0):
    rng = np.random.default_rng(seed)
    params = {name: rng.standard_normal(shape) for name, shape in filt.parameter_shapes().items()}
    x, y_bar = rng.standard_normal((BATCH, G, 7)), rng.standard_normal((BATCH, F, 7))
    _, tape = filt.forward(params, x)
    grads, grad_x = filt.backward(params, tape, y_bar)
    return params, x, y_bar, grads, grad_x


def transposed(c, y_bar):
    """c^T y_bar over the features, c of shape (F, G)."""
    return np.einsum("fg,bfn->bgn", c, y_bar)


def on_nodes(A, z):
    return np.einsum("mn,bgn->bgm", A, z)


def solved(A, b):
    return np.linalg.solve(A, b.reshape(-1, 7).T).T.reshape(b.shape)


def inner(a, b):
    """Re a^H b, summed over everything."""
    return np.vdot(a, b).real


def of_features(y_bar, z):
    """<y_bar_f, z_g>: (F, G)."""
    return np.einsum("bfn,bgn->fg", y_bar, z)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("iterations", [None, 0, 1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_cayley(name, iterations, order):
    graph = GRAPHS[name]
    filt = ev.CayleyNet(graph, order, G, F, iterations=iterations)
    params, x, y_bar, grads, grad_x = problem(filt)
    K, eta, S, eye = order, params["h"][0], graph.S.toarray(), np.eye(7)
    c = [params["c0"], *(params["c_re"] + 1j * params["c_im"])]
    Delta = np.diag(np.diag(S))
    O = S - Delta

    z, iterates = [x.astype(complex)], [None]
    for _ in range(K):
        b = on_nodes(eta * S - 1j * eye, z[-1])
        if iterations is None:
            z.append(solved(eta * S + 1j * eye, b))
            continue
        steps = [np.zeros_like(b)]  # z^(-1), then z^(0), ..., z^(J)
        for _ in range(iterations + 1):
            steps.append(solved(eta * Delta + 1j * eye, b - eta * on_nodes(O, steps[-1])))
        z.append(steps[-1])
        iterates.append(steps)

    z_bar = 2 * transposed(c[K].conj(), y_bar)
    grad_eta = 0.0
    for k in range(K, 0, -1):
        if iterations is None:
            b_bar = solved((eta * S + 1j * eye).conj().T, z_bar)
            grad_eta += inner(b_bar, on_nodes(S, z[k - 1] - z[k]))
        else:
            b_bar, step_bar = 0, z_bar
            for t in range(iterations, -1, -1):
                q = solved(eta * Delta - 1j * eye, step_bar)
                b_bar = b_bar + q
                grad_eta -= inner(q, on_nodes(Delta, iterates[k][t + 1]) + on_nodes(O, iterates[k][t]))
                step_bar = -eta * on_nodes(O.T, q)
            grad_eta += inner(b_bar, on_nodes(S, z[k - 1]))
        returned = on_nodes((eta * S - 1j * eye).conj().T, b_bar)
        if k >= 2:
            z_bar = 2 * transposed(c[k - 1].conj(), y_bar) + returned
    close(grad_x, transposed(c[0], y_bar) + returned.real, rtol=1e-11)
    close(grads["h"], np.array([grad_eta]), rtol=1e-10)
    close(grads["c0"], of_features(y_bar, x), rtol=1e-11)
    for k in range(1, K + 1):
        close(grads["c_re"][k - 1], 2 * of_features(y_bar, z[k].real), rtol=1e-10)
        close(grads["c_im"][k - 1], -2 * of_features(y_bar, z[k].imag), rtol=1e-10)


@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("name", GRAPHS)
def test_arma(name, iterations):
    graph = GRAPHS[name]
    filt = ev.ARMA(graph, iterations, G, F, stacks=3)
    params, x, y_bar, grads, grad_x = problem(filt)
    S, T, P = graph.S.toarray(), iterations, 3
    expected = {name: np.zeros_like(value) for name, value in grads.items()}
    expected_x = np.zeros_like(x)
    for p in range(P):
        W0, V = params["w0"][p], params["v"][0, p]
        W = params["w"][0, p] if T > 1 else None
        for b in range(BATCH):
            X = [x[b]]
            X.append(W0 @ X[0] @ S.T + V @ X[0])
            for _ in range(T - 1):
                X.append(W @ X[-1] @ S.T + V @ X[0])
            X_bar = {T: y_bar[b] / P}
            for t in range(T - 1, 0, -1):
                X_bar[t] = W.T @ X_bar[t + 1] @ S
            for t in range(1, T):
                expected["w"][0, p] += X_bar[t + 1] @ (X[t] @ S.T).T
            expected["v"][0, p] += sum(X_bar[t] @ X[0].T for t in range(1, T + 1))
            expected["w0"][p] += X_bar[1] @ (X[0] @ S.T).T
            expected_x[b] += W0.T @ X_bar[1] @ S + sum(V.T @ X_bar[t] for t in range(1, T + 1))
    close(grad_x, expected_x, rtol=1e-11)
    for key, value in expected.items():
        close(grads[key], value, rtol=1e-11)
