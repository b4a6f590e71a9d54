"""Filters that use one shift S for all parameters: states w^(k) = p_k(S) x, then a weighted sum of them.

Arrays (everywhere in this file)

    x, y          (batch, features, nodes)      signals
    states        (taps, G, nodes, batch)       w^(k) of every input feature
    weights       (taps, F, G)                  how much of w^(k) of feature g goes into output feature f

    groups        whose coefficients each node uses, where they differ: weights is then (taps, F, G, groups)

With the batch last a product with S reads whole rows, and with taps and features first the sum over both is one matrix
product, (F, taps G) times (taps G, nodes batch). Complex values pass through without conjugation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.support import Graph
from .groups import Groups
from .reference import silent

Array = np.ndarray


@silent
def shift_forward(
    graph: Graph, weights: Array, x: Array, *, chebyshev: bool = False, groups: Groups | None = None, first: int = 0
) -> tuple[Array, Any]:
    """y and the states; `first` is the tap of weights[0], the taps before it do not enter the sum."""
    states = shift_states(graph, x, first + len(weights) - 1, chebyshev)
    return mix(weights, states[first:], groups), states


@silent
def shift_backward(
    graph: Graph, weights: Array, saved: Any, grad_y: Array, *,
    chebyshev: bool = False, groups: Groups | None = None, first: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """Gradients of the weights and of x."""
    grad_weights, grad_states = mix_adjoint(weights, saved[first:], grad_y, groups)
    if first:
        grad_states = np.concatenate([np.zeros_like(saved[:first]), grad_states])
    return grad_weights, shift_states_adjoint(graph, grad_states, chebyshev)


def shifted(S: Any, x: Array) -> Array:
    """S times the last axis of x, the nodes; S may be any sparse matrix, square or not."""
    flat = S @ x.reshape(-1, x.shape[-1]).T
    return np.ascontiguousarray(flat.T).reshape(*x.shape[:-1], S.shape[0])


def shift_states(graph: Graph, x: Array, order: int, chebyshev: bool = False) -> Array:
    """w^(0) = x, ..., w^(K): w^(k) = S w^(k-1), or Chebyshev's w^(k) = 2 S w^(k-1) - w^(k-2) from k = 2 on."""
    S = graph.S.astype(x.dtype, copy=False)
    B, G, N = x.shape
    w = np.empty((order + 1, G, N, B), x.dtype)
    w[0] = x.transpose(1, 2, 0)
    for k in range(1, order + 1):
        for g in range(G):
            w[k, g] = S @ w[k - 1, g]
        if chebyshev and k >= 2:
            w[k] *= 2
            w[k] -= w[k - 2]
    return w


def shift_states_adjoint(graph: Graph, grad_states: Array, chebyshev: bool = False) -> Array:
    """Adjoint of `shift_states`. With tilde_w^(k) = grad_states[k], what the output alone wants of w^(k), the
    cotangents of the states, `b` below, are

    grad_w^(k) = tilde_w^(k) + S^T grad_w^(k+1)                       (Horner),
    grad_w^(k) = tilde_w^(k) + 2 S^T grad_w^(k+1) - grad_w^(k+2)      (Clenshaw; S^T once, not twice, into grad_w^(0)),

    downwards from grad_w^(K) = tilde_w^(K); grad_w^(0) is grad_x.
    """
    back = graph.S.astype(grad_states.dtype, copy=False).T
    b, above = grad_states[-1], None  # grad_w^(k+1), grad_w^(k+2)
    for k in range(len(grad_states) - 2, -1, -1):
        below = np.empty_like(b)
        for g in range(len(b)):
            below[g] = back @ b[g]
        if chebyshev and k > 0:
            below *= 2
        below += grad_states[k]
        if chebyshev and above is not None:
            below -= above
        b, above = below, b
    return np.ascontiguousarray(b.transpose(2, 0, 1))


def mix(weights: Array, states: Array, groups: Groups | None = None) -> Array:
    """y_f = sum_k sum_g weights[k, f, g] w_g^(k), as one matrix product; node by node where the weights differ."""
    taps, F, G = weights.shape[:3]
    _, _, N, B = states.shape
    if groups is None:
        y = _flat(weights) @ states.reshape(taps * G, N * B)
    else:
        y = np.einsum("kfgn,kgnb->fnb", weights[..., groups.copied], states)
    return np.ascontiguousarray(y.reshape(F, N, B).transpose(2, 0, 1))


def mix_adjoint(weights: Array, states: Array, grad_y: Array, groups: Groups | None = None) -> tuple[Array, Array]:
    """Gradients of the weights, sum over nodes and batch of grad_y_f w_g^(k), and of states, sum_f weights grad_y_f."""
    taps, F, G = weights.shape[:3]
    _, _, N, B = states.shape
    v = np.ascontiguousarray(grad_y.transpose(1, 2, 0))
    if groups is None:
        v = v.reshape(F, N * B)
        grad_weights = (v @ states.reshape(taps * G, N * B).T).reshape(F, taps, G).transpose(1, 0, 2)
        grad_states = (_flat(weights).T @ v).reshape(taps, G, N, B)
    else:
        per_node = np.einsum("fnb,kgnb->kfgn", v, states)
        grad_weights = np.add.reduceat(per_node[..., groups.order], groups.starts, axis=-1)  # C_B^T: group by group
        grad_states = np.einsum("kfgn,fnb->kgnb", weights[..., groups.copied], v)
    return np.ascontiguousarray(grad_weights), grad_states


def _flat(weights: Array) -> Array:
    """(taps, F, G) as a matrix (F, taps G)."""
    taps, F, G = weights.shape
    return weights.transpose(1, 0, 2).reshape(F, taps * G)
