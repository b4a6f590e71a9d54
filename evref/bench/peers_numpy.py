"""NumPy and SciPy, gradients by hand: what a careful user without evref would write."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from . import peers_shifts
from .cases import Array, Contender, Problem, Skipped
from .clock import fastest
from .peers_evref import named

CHECKED = True
NAMES = {
    "edge-variant": ("numpy dense", "scipy CSR"),
    "polynomial": ("numpy dense", "scipy+BLAS"),
    "node-variant": ("numpy dense", "scipy+BLAS"),
}

Triple = tuple[Array, Array, Array]


def prepare(threads: int) -> None:
    """BLAS reads its number of threads from the environment when it is loaded."""


def contender(name: str, p: Problem) -> Contender:
    if name == "numpy dense" and not p.case.is_small:
        raise Skipped(f"dense {p.case.N}×{p.case.N} matrices")
    if p.case.kind != "edge-variant":
        run = min(peers_shifts.forms(p, dense=name == "numpy dense"), key=fastest)
        return Contender(run, named(run))
    return edge_variant_dense(p) if name == "numpy dense" else edge_variant_csr(p)


def edge_variant_dense(p: Problem) -> Contender:
    """Dense matrices: everything is a batched BLAS product."""
    phi, N, B = p["phi"], p.case.N, p.case.B
    K, F, G, _ = phi.shape
    place = p.rows * N + p.indices

    def run() -> Triple:
        Phi = np.zeros((K, F, G, N * N), p.dtype)
        Phi[..., place] = phi
        Phi = Phi.reshape(K, F, G, N, N)
        x = np.ascontiguousarray(p["x"].transpose(1, 2, 0))  # (G, N, B)
        v = np.ascontiguousarray(p["grad_y"].transpose(1, 2, 0))  # (F, N, B)
        states = [np.broadcast_to(x, (F, G, N, B))]
        for k in range(K):
            states.append(Phi[k] @ states[-1])
        y = sum(w.sum(1) for w in states[1:])
        grad_phi = np.empty_like(phi)
        lam = np.broadcast_to(v[:, None], (F, G, N, B))
        for k in range(K - 1, -1, -1):
            outer = lam @ states[k].swapaxes(-1, -2)
            grad_phi[k] = outer.reshape(F, G, N * N)[..., place]
            lam = Phi[k].swapaxes(-1, -2) @ lam
            if k:
                lam += v[:, None]
        return y.transpose(2, 0, 1), grad_phi, lam.sum(0).transpose(2, 0, 1)

    return Contender(run, named(run))


def edge_variant_csr(p: Problem) -> Contender:
    """CSR products: one pair of matrices made once, their values changed for every filter and step."""
    phi, N = p["phi"], p.case.N
    K, F, G, _ = phi.shape
    indices, indptr = p.indices.astype(np.int32), p.indptr.astype(np.int32)
    matrix = sparse.csr_array((phi[0, 0, 0], indices, indptr), shape=(N, N))
    transposed = sparse.csc_array((phi[0, 0, 0], indices, indptr), shape=(N, N))  # the same arrays, read by columns

    def sampled(lam: Array, w: Array) -> Array:
        """(lam w^T)_ij on the support: all of the product where that is cheaper than picking rows."""
        if p.case.is_small:
            return (lam @ w.T)[p.rows, p.indices]
        if lam.shape[1] == 1:
            return lam[p.rows, 0] * w[p.indices, 0]
        return np.einsum("pb,pb->p", lam[p.rows], w[p.indices])

    def run() -> Triple:
        x = np.ascontiguousarray(p["x"].transpose(1, 2, 0))  # (G, N, B)
        v = np.ascontiguousarray(p["grad_y"].transpose(1, 2, 0))  # (F, N, B)
        y, grad_x, grad_phi = np.zeros_like(v), np.zeros_like(x), np.empty_like(phi)
        for f in range(F):
            for g in range(G):
                states = [x[g]]
                for k in range(K):
                    matrix.data = phi[k, f, g]
                    states.append(matrix @ states[-1])
                    y[f] += states[-1]
                lam = v[f]
                for k in range(K - 1, -1, -1):
                    grad_phi[k, f, g] = sampled(lam, states[k])
                    transposed.data = phi[k, f, g]
                    lam = transposed @ lam
                    if k:
                        lam += v[f]
                grad_x[g] += lam
        return y.transpose(2, 0, 1), grad_phi, grad_x.transpose(2, 0, 1)

    return Contender(run, named(run))
