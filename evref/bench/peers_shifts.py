"""Polynomial and node-variant filters by NumPy and SciPy, gradients by hand, in several layouts: the fastest counts.

y_f = sum_k sum_g c[k,f,g] S^k x_g,    c[k,f,g] a number, or a diagonal that a few privileged nodes share
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .cases import Array, Problem

Triple = tuple[Array, Array, Array]


def forms(p: Problem, dense: bool) -> list[Callable[[], Triple]]:
    S = p.S.astype(p.dtype)
    S, ST = (S.toarray(), np.ascontiguousarray(S.T.toarray())) if dense else (S, S.T.tocsr())
    if p.case.kind == "node-variant":
        return [by_sample(p, S, ST), by_node(p, S, ST)]
    return [by_sample(p, S, ST), by_feature(p, S, ST), *([by_matrix(p, S)] if dense else [])]


def group_sums(p: Problem) -> Any:
    """(privileged, N): adds up what the nodes that copy the same one ask for."""
    N = p.case.N
    return sparse.csr_array((np.ones(N, p.dtype), (p["copied"], np.arange(N))), shape=(p.case.privileged, N))


def by_sample(p: Problem, S: Any, ST: Any) -> Callable[[], Triple]:
    """States (N, B G): one product shifts all of them, and (N B, G) is the same memory, mixed by (G, F)."""
    phi, N, B, F, G = p["phi"], p.case.N, p.case.B, p.case.F, p.case.G
    groups = group_sums(p) if p.case.kind == "node-variant" else None

    def run() -> Triple:
        v = np.ascontiguousarray(p["grad_y"].transpose(2, 0, 1))  # (N, B, F)
        states = [np.ascontiguousarray(p["x"].transpose(2, 0, 1))]  # (N, B, G)
        for _ in range(p.case.K):
            states.append((S @ states[-1].reshape(N, -1)).reshape(N, B, G))
        if groups is None:  # c (K + 1, G, F): one product over all nodes and samples
            v = v.reshape(N * B, F)
            states = [z.reshape(N * B, G) for z in states]
            c = phi.transpose(0, 2, 1)
        else:  # c (K + 1, N, G, F): a product for every node
            c = np.ascontiguousarray(phi[..., p["copied"]].transpose(0, 3, 2, 1))
        y = sum(z @ c_k for z, c_k in zip(states, c, strict=True))
        grad_c = np.stack([z.swapaxes(-1, -2) @ v for z in states])
        lam = v @ c[-1].swapaxes(-1, -2)
        for c_k in c[-2::-1]:
            lam = (ST @ lam.reshape(N, -1)).reshape(lam.shape)
            lam += v @ c_k.swapaxes(-1, -2)
        if groups is None:
            grad_phi = grad_c.transpose(0, 2, 1)
        else:
            sums = np.stack([groups @ part.reshape(N, -1) for part in grad_c])  # (K + 1, privileged, G F)
            grad_phi = sums.reshape(*sums.shape[:2], G, F).transpose(0, 3, 2, 1)
        return y.reshape(N, B, F).transpose(1, 2, 0), grad_phi, lam.reshape(N, B, G).transpose(1, 2, 0)

    return run


def by_feature(p: Problem, S: Any, ST: Any) -> Callable[[], Triple]:
    """States (K + 1, G, N, B): a shift for every feature, one product (F, (K + 1) G)((K + 1) G, N B) to mix."""
    phi, N, B, F, G, K = p["phi"], p.case.N, p.case.B, p.case.F, p.case.G, p.case.K

    def run() -> Triple:
        w = np.empty((K + 1, G, N, B), p.dtype)
        w[0] = p["x"].transpose(1, 2, 0)
        for k in range(1, K + 1):
            for g in range(G):
                w[k, g] = S @ w[k - 1, g]
        c, states = phi.transpose(1, 0, 2).reshape(F, -1), w.reshape(-1, N * B)
        y = (c @ states).reshape(F, N, B).transpose(2, 0, 1)
        v = np.ascontiguousarray(p["grad_y"].transpose(1, 2, 0)).reshape(F, N * B)
        grad_phi = (v @ states.T).reshape(F, K + 1, G).transpose(1, 0, 2)
        lam = (c.T @ v).reshape(K + 1, G, N, B)
        for k in range(K - 1, -1, -1):
            for g in range(G):
                lam[k, g] += ST @ lam[k + 1, g]
        return y, grad_phi, lam[0].transpose(2, 0, 1)

    return run


def by_node(p: Problem, S: Any, ST: Any) -> Callable[[], Triple]:
    """States (N, (K + 1) G, B): one shift for all features, one product (F, (K + 1) G) for every node."""
    phi, N, B, F, G, K = p["phi"], p.case.N, p.case.B, p.case.F, p.case.G, p.case.K
    groups, copied = group_sums(p), p["copied"]

    def run() -> Triple:
        w = np.empty((N, K + 1, G * B), p.dtype)
        z = np.ascontiguousarray(p["x"].transpose(2, 1, 0)).reshape(N, -1)
        w[:, 0] = z
        for k in range(1, K + 1):
            z = S @ z
            w[:, k] = z
        c, states = phi.transpose(3, 1, 0, 2).reshape(-1, F, (K + 1) * G)[copied], w.reshape(N, -1, B)
        y = (c @ states).transpose(2, 1, 0)
        v = np.ascontiguousarray(p["grad_y"].transpose(2, 1, 0))  # (N, F, B)
        sums = groups @ (v @ states.swapaxes(1, 2)).reshape(N, -1)
        grad_phi = sums.reshape(-1, F, K + 1, G).transpose(2, 1, 3, 0)
        u = (c.swapaxes(1, 2) @ v).reshape(N, K + 1, -1)
        lam = np.ascontiguousarray(u[:, -1])
        for k in range(K - 1, -1, -1):
            lam = ST @ lam
            lam += u[:, k]
        return y, grad_phi, lam.reshape(N, G, B).transpose(2, 1, 0)

    return run


def by_matrix(p: Problem, S: Array) -> Callable[[], Triple]:
    """Powers of S made once, H = sum_k c_k S^k for every call, then products in the user's own layout."""
    phi, N, B, F, G, K = p["phi"], p.case.N, p.case.B, p.case.F, p.case.G, p.case.K
    powers = np.stack([np.linalg.matrix_power(S, k) for k in range(K + 1)]).reshape(K + 1, N * N)

    def run() -> Triple:
        x, v = p["x"].reshape(B, G * N), p["grad_y"].reshape(B, F * N)
        H = (phi.transpose(1, 2, 0).reshape(F * G, K + 1) @ powers).reshape(F, G, N, N)
        H = np.ascontiguousarray(H.transpose(1, 3, 0, 2)).reshape(G * N, F * N)
        grad_H = (x.T @ v).reshape(G, N, F, N).transpose(2, 0, 3, 1).reshape(F * G, N * N)
        grad_phi = (grad_H @ powers.T).reshape(F, G, K + 1).transpose(2, 0, 1)
        return (x @ H).reshape(B, F, N), grad_phi, (v @ H.T).reshape(B, G, N)

    return run
