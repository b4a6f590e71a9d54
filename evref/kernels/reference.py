"""The kernels as the equations have them, in NumPy and SciPy: what a student reads, what the compiled twin must equal.

Arrays (everywhere in this file)

    x, y          (batch, features, nodes)      signals
    graph         pattern of every Phi^(k): the support of I + S, or of the edges alone (without self-loops)
    phi           (K, F, G, nnz)                entries of Phi^(k)_fg on that pattern, in CSR order
    phi0          (F, G, nodes) or None         diagonal of Phi^(0)_fg; None: there is no k = 0 term

Inside `checks.complex_allowed()` complex values pass through, without conjugation: the complex-step check
differentiates these functions.
"""

from __future__ import annotations

import numpy as np

from ..graph.pattern import Pattern

Array = np.ndarray


# Not a word of inf * 0: whoever asked for finite numbers finds it out from the result, with the name of the argument.
silent = np.errstate(invalid="ignore")


def _states(graph: Pattern, phi: Array, phi0: Array | None, x: Array, f: int, g: int) -> list[Array]:
    """w^(0), ..., w^(K) of the filter H_fg, each (nodes, batch): w^(k) = Phi^(k) w^(k-1), eq. (stateEV, 5)."""
    w = x[:, g].T  # (nodes, batch)
    if phi0 is not None:
        w = phi0[f, g][:, None] * w
    states = [w]
    for k in range(len(phi)):
        states.append(graph.to_csr(phi[k, f, g]) @ states[-1])
    return states


@silent
def ev_forward(graph: Pattern, phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Array]:
    """y_f = sum_g sum_k w^(k)_fg, eq. (evConv, 9); the sum starts at k = 0 if there is a Phi^(0), else at k = 1.

    The second value is what `ev_backward` wants to see again.
    """
    _, F, G, _ = phi.shape
    y = np.zeros((len(x), F, graph.n_nodes), x.dtype)
    for f in range(F):
        for g in range(G):
            states = _states(graph, phi, phi0, x, f, g)
            for w in states[1:] if phi0 is None else states:
                y[:, f] += w.T
    return y, x.copy()  # a copy: the caller may reuse x before the backward pass


@silent
def ev_backward(
    graph: Pattern, phi: Array, phi0: Array | None, saved: Array, grad_y: Array, input_gradient: bool = True
) -> tuple[Array, Array | None, Array | None]:
    """Adjoint of `ev_forward`. The cotangent grad_w^(k) of the state w^(k), `lam` below, obeys, with `v` for grad_y_f,

    grad_w^(K) = grad_y_f,    grad_w^(k) = grad_y_f + Phi^(k+1)^T grad_w^(k+1)   (1 <= k < K),
    dL/dPhi^(k)_ij = sum_batch grad_w^(k)_i w^(k-1)_j  on the support,
    grad_w^(0) = [grad_y_f if k = 0 is in the sum] + Phi^(1)^T grad_w^(1),

    and grad_w^(0) goes to x through Phi^(0): dL/dphi0_i = sum_batch grad_w^(0)_i x_i, grad_x += phi0 * grad_w^(0).

    In training nobody reads the gradient of a network's input: with input_gradient=False it is None.
    """
    x = saved
    K, F, G, _ = phi.shape
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))  # (nnz,) row of each entry
    columns = graph.indices
    grad_phi = np.zeros_like(phi)
    grad_phi0 = None if phi0 is None else np.zeros_like(phi0)
    grad_x = np.zeros_like(x)
    for f in range(F):
        v = grad_y[:, f].T  # (nodes, batch)
        for g in range(G):
            w = _states(graph, phi, phi0, x, f, g)
            lam = v  # lam^(K)
            for k in range(K, 0, -1):
                grad_phi[k - 1, f, g] = np.einsum("pb,pb->p", lam[rows], w[k - 1][columns])
                back = graph.to_csr(phi[k - 1, f, g]).T @ lam
                lam = v + back if k > 1 or phi0 is not None else back
            if phi0 is None:
                grad_x[:, g] += lam.T
            else:
                grad_phi0[f, g] = np.einsum("ib,ib->i", lam, x[:, g].T)  # type: ignore[index]
                grad_x[:, g] += (phi0[f, g][:, None] * lam).T
    return grad_phi, grad_phi0, grad_x if input_gradient else None


def ev_jvp(
    graph: Pattern, phi: Array, phi0: Array | None, x: Array, dphi: Array, dphi0: Array | None, dx: Array
) -> Array:
    """Tangent of `ev_forward`: dw^(k) = Phi^(k) dw^(k-1) + dPhi^(k) w^(k-1), dy_f = sum_g sum_k dw^(k)_fg."""
    K, F, G, _ = phi.shape
    dy = np.zeros((len(x), F, graph.n_nodes), x.dtype)
    for f in range(F):
        for g in range(G):
            w = _states(graph, phi, phi0, x, f, g)
            dw = dx[:, g].T
            if phi0 is not None:
                dw = phi0[f, g][:, None] * dw + dphi0[f, g][:, None] * x[:, g].T  # type: ignore[index]
                dy[:, f] += dw.T
            for k in range(1, K + 1):
                dw = graph.to_csr(phi[k - 1, f, g]) @ dw + graph.to_csr(dphi[k - 1, f, g]) @ w[k - 1]
                dy[:, f] += dw.T
    return dy


def neighborhood_ranks(indptr: Array, indices: Array, x: Array, kind: str) -> tuple[Array, Array]:
    """Which neighbour a `"max"` or `"median"` over each neighbourhood picks.

    x is (batch, features, nodes); the result is two integer arrays of the same shape, the nodes of the lower and the
    upper middle rank (equal for max, and for neighbourhoods of odd size). Ties go to the first in list order. Values
    are ordered by their real part, so that complex tangents ride along.
    """
    low = np.empty(x.shape, np.int32)
    high = np.empty(x.shape, np.int32)
    for i in range(x.shape[-1]):
        members = indices[indptr[i] : indptr[i + 1]]
        order = np.argsort(x.real[..., members], axis=-1, kind="stable")
        size = len(members)
        if kind == "max":
            best = np.argmax(x.real[..., members], axis=-1)
            low[..., i] = high[..., i] = members[best]
        else:
            low[..., i] = members[order[..., (size - 1) // 2]]
            high[..., i] = members[order[..., size // 2]]
    return low, high
