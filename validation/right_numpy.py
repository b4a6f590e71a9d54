"""Right layers in NumPy, backward pass by hand: forward(params, x) -> (y, tape), backward(params, tape, grad_y).

Three shapes cover what is written here: a sum of given matrices with one coefficient each, a recursion with dense Phi,
and the iterations of ARMA. The other filters (`WITHOUT`) have no second backward pass by hand.

    x, y   (batch, features, nodes)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import peers_privileged
from right_layers import support, weights
from right_spectral import eigenbasis, kernel_of

Array = np.ndarray
Params = Mapping[str, Array]
Grads = tuple[dict[str, Array], Array]


def powers(S: Array, order: int) -> Array:
    """I, S, ..., S^K."""
    return np.stack([np.linalg.matrix_power(S, k) for k in range(order + 1)])


def chebyshev(S: Array, order: int) -> Array:
    found = [np.eye(len(S)), S][: order + 1]
    for _ in range(2, order + 1):
        found.append(2 * S @ found[-1] - found[-2])
    return np.stack(found)


class Sum:
    """y_f = sum_m sum_g c[m, f, g] M_m x_g with matrices M (m, N, N); `fold` brings c into the parameter's shape."""

    def __init__(self, key: str, matrices: Array, shape: tuple[int, ...] | None = None, order: str = "mfg") -> None:
        self.key, self.matrices, self.shape, self.order = key, matrices, shape, order

    def forward(self, params: Params, x: Array) -> tuple[Array, Array]:
        states = np.einsum("mij,bgj->mbgi", self.matrices.astype(x.dtype), x)
        y = np.einsum(f"{self.order},mbgi->bfi", self._coefficients(params), states)
        return y + params["bias"][:, None] if "bias" in params else y, states

    def backward(self, params: Params, states: Array, grad_y: Array) -> Grads:
        back = np.einsum("mij,bfi->mbfj", self.matrices.astype(grad_y.dtype), grad_y)
        grads = {self.key: np.einsum(f"bfi,mbgi->{self.order}", grad_y, states).reshape(params[self.key].shape)}
        if "bias" in params:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        return grads, np.einsum(f"{self.order},mbfj->bgj", self._coefficients(params), back)

    def _coefficients(self, params: Params) -> Array:
        c = params[self.key]
        return c if self.shape is None else c.reshape(self.shape)


class PerNode:
    """y_f = sum_k sum_g diag(C phi[k, f, g]) S^k x_g."""

    def __init__(self, copies: Array, matrices: Array) -> None:
        self.copies, self.matrices = copies, matrices

    def forward(self, params: Params, x: Array) -> tuple[Array, Array]:
        states = np.einsum("kij,bgj->kbgi", self.matrices.astype(x.dtype), x)
        c = params["phi"] @ self.copies.astype(x.dtype).T
        y = np.einsum("kfgi,kbgi->bfi", c, states)
        return y + params["bias"][:, None] if "bias" in params else y, states

    def backward(self, params: Params, states: Array, grad_y: Array) -> Grads:
        C = self.copies.astype(grad_y.dtype)
        grads = {"phi": np.einsum("bfi,kbgi->kfgi", grad_y, states) @ C}
        if "bias" in params:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        grad_states = np.einsum("kfgi,bfi->kbgi", params["phi"] @ C.T, grad_y)
        return grads, np.einsum("kij,kbgi->bgj", self.matrices.astype(grad_y.dtype), grad_states)


class Recursion:
    """y_f = sum_g sum_k Phi^(k) ... Phi^(1) Phi^(0) x_g, every Phi = sum_e p_e family_e dense."""

    def __init__(self, key: str, family: Array, zeroth: str, copies: int = 1) -> None:
        self.key, self.family, self.zeroth, self.copies = key, family, zeroth, copies

    def _dense(self, p: Array) -> Array:
        return np.einsum("kfge,eij->kfgij", p, self.family.astype(p.dtype))

    def forward(self, params: Params, x: Array) -> tuple[Array, Any]:
        x = np.concatenate([x] * self.copies, axis=1)
        w = np.repeat(x[:, None], params[self.key].shape[1], axis=1)
        states = [params["phi0"] * w if "phi0" in params else w]
        for Phi in self._dense(params[self.key]):
            states.append(np.einsum("fgij,bfgj->bfgi", Phi, states[-1]))
        added = states[1:] if self.zeroth == "none" else states
        y = sum(state.sum(axis=2) for state in added)
        return y + params["bias"][:, None] if "bias" in params else y, (x, states)

    def backward(self, params: Params, tape: Any, grad_y: Array) -> Grads:
        x, states = tape
        p = params[self.key]
        Phi, family = self._dense(p), self.family.astype(p.dtype)
        spread = np.repeat(grad_y[:, :, None], x.shape[1], axis=2)
        grad_w, grad_p = np.zeros_like(spread), np.zeros_like(p)
        for k in range(len(p), 0, -1):
            grad_w = grad_w + spread
            grad_p[k - 1] = np.einsum("bfgi,bfgj,eij->fge", grad_w, states[k - 1], family, optimize=True)
            grad_w = np.einsum("fgij,bfgi->bfgj", Phi[k - 1], grad_w)
        grad_w = grad_w if self.zeroth == "none" else grad_w + spread
        grads = {self.key: grad_p}
        if "phi0" in params:
            grads["phi0"] = np.einsum("bfgi,bgi->fgi", grad_w, x)
            grad_w = params["phi0"] * grad_w
        if "bias" in params:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        grad_x = grad_w.sum(axis=1)
        return grads, sum(np.split(grad_x, self.copies, axis=1))


class Hops:
    """DCNN: one weight per hop and feature, the outputs of all hops side by side."""

    def __init__(self, matrices: Array) -> None:
        self.matrices = matrices

    def forward(self, params: Params, x: Array) -> tuple[Array, Array]:
        states = np.einsum("kij,bgj->bkgi", self.matrices.astype(x.dtype), x)
        y = (params["weight"][:, :, None] * states).reshape(len(x), -1, x.shape[-1])
        return y + params["bias"][:, None] if "bias" in params else y, states

    def backward(self, params: Params, states: Array, grad_y: Array) -> Grads:
        by_hop = grad_y.reshape(states.shape)
        grads = {"weight": np.einsum("bkgi,bkgi->kg", by_hop, states)}
        if "bias" in params:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        back = params["weight"][:, :, None] * by_hop
        return grads, np.einsum("kij,bkgi->bgj", self.matrices.astype(grad_y.dtype), back)


class Iterations:
    """ARMA: X <- W S X + V X_0 in every stack, T times, then the mean of the stacks."""

    def __init__(self, S: Array, iterations: int) -> None:
        self.S, self.iterations = S, iterations

    def forward(self, params: Params, x: Array) -> tuple[Array, list[Array]]:
        S, state, shifted = self.S.astype(x.dtype), x[None], []
        for t in range(self.iterations):
            shifted.append(state @ S.T)
            W = params["w0"] if t == 0 else params["w"][min(t - 1, len(params["w"]) - 1)]
            V = params["v"][min(t, len(params["v"]) - 1)]
            state = W[:, None] @ shifted[-1] + V[:, None] @ x
        y = state.mean(axis=0)
        return y + params["bias"][:, None] if "bias" in params else y, [x, *shifted]

    def backward(self, params: Params, tape: list[Array], grad_y: Array) -> Grads:
        x, *shifted = tape
        P = len(params["w0"])
        grads = {name: np.zeros_like(p) for name, p in params.items()}
        if "bias" in params:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        grad_x = np.zeros_like(x)
        grad_state = np.broadcast_to(grad_y / grad_y.dtype.type(P), (P, *grad_y.shape))
        for t in range(self.iterations - 1, -1, -1):
            at = min(t, len(params["v"]) - 1)
            grads["v"][at] += np.einsum("pbfi,bgi->pfg", grad_state, x)
            grad_x = grad_x + np.einsum("pfg,pbfi->bgi", params["v"][at], grad_state)
            before = np.broadcast_to(shifted[t], (P, *shifted[t].shape[1:]))
            grad_W = np.einsum("pbfi,pbgi->pfg", grad_state, before)
            if t == 0:
                grads["w0"] += grad_W
                W = params["w0"]
            else:
                place = min(t - 1, len(params["w"]) - 1)
                grads["w"][place] += grad_W
                W = params["w"][place]
            grad_state = np.einsum("pfg,pbfi->pbgi", W, grad_state) @ self.S.astype(x.dtype)
        return grads, grad_x + grad_state.sum(axis=0)


# ---- what each filter is made of -------------------------------------------------------------------------------------
def _entries(target: Array, source: Array, n: int) -> Array:
    family = np.zeros((len(target), n, n))
    family[np.arange(len(target)), target, source] = 1
    return family


def _selection(reference: Any) -> Sum:
    n = reference.graph.n_nodes
    inside, kept = np.zeros(n), np.zeros(n)
    inside[reference.nodes_in], kept[reference.nodes_out] = 1, 1
    return Sum("phi", kept[:, None] * powers(weights(reference), reference.order) * inside)


def _spectral(reference: Any) -> Sum:
    lam, U, U_inverse = eigenbasis(weights(reference))
    return Sum("b", np.einsum("in,nm,nj->mij", U, kernel_of(reference, lam), U_inverse).real)


def _edge_variant(reference: Any) -> Recursion:
    ends = support(weights(reference), getattr(reference, "self_loops", True))
    family = _entries(*ends, reference.graph.n_nodes)
    return Recursion("phi", family, reference.zeroth, getattr(reference, "terms", 1))


def _shift_invariant(reference: Any) -> Recursion:
    U, B = (np.array(a, np.complex128) for a in (reference.basis.fourier.U, reference.basis.B))
    return Recursion("mu", np.einsum("in,nd,nj->dij", U, B, np.linalg.inv(U)).real, reference.zeroth)


MADE: dict[str, Callable[[Any], Any]] = {
    "polynomial": lambda f: Sum("phi", powers(weights(f), f.order)),
    "tagcn": lambda f: Sum("phi", powers(weights(f), f.order)),
    "chebyshev": lambda f: Sum("theta", chebyshev(weights(f), f.order)),
    "gcn": lambda f: Sum("theta", weights(f)[None], (1, f.out_features, f.in_features)),
    "dcnn": lambda f: Hops(powers(weights(f), f.order)),
    "selection_gcnn": _selection,
    "node_variant": lambda f: PerNode(peers_privileged._copies(f), powers(weights(f), f.order)),
    "edge_variant": _edge_variant,
    "parallel_edge_variant": _edge_variant,
    "arma": lambda f: Iterations(weights(f), f.iterations),
    "spectral": _spectral,
    "shift_invariant_edge_variant": _shift_invariant,
}


def right(reference: Any) -> Any:
    """An object with forward and backward that computes what `reference` does; for the filters in `MADE`."""
    return MADE[reference.name](reference)
