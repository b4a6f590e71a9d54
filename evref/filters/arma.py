"""ARMA filters: a recursion with feedback whose limit has a rational transfer function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from ..graph.shifts import largest_eigenvalue
from ..kernels.shift_reference import shifted
from .base import Filter
from .edge_variant import EdgeVariant
from .newton import newton_embedding
from .polynomial import graph_frequencies


class ARMA(Filter):
    r"""Auto-regressive moving-average filter bank (Bianchi, Grattarola, Livi, Alippi 2019; Remark 1 of the paper):

    .. math::

        X_p^{(1)} = W^0_p X S^\top + V_p X, \qquad X_p^{(t+1)} = W_p X_p^{(t)} S^\top + V_p X, \qquad
        Y = \frac1P \sum_{p=1}^{P} X_p^{(T)},

    with signals as rows (features, nodes): every feature is shifted by S, then the features are mixed. P *stacks* run
    side by side for T iterations. The first iteration has weights of its own because it goes from G to F features.

    The recursion here is linear: it is the graph filter that Remark 1 speaks of. Bianchi et al. put a nonlinearity
    after every iteration; with one stack and one iteration that layer is ``Network([ARMA(...), ReLU()])``.

    After T iterations the transfer function is a polynomial of order T,

    .. math:: h_T(\lambda) = \frac1P \sum_p \Big( \sum_{t<T} \lambda^t W_p^t V_p + \lambda^T W_p^{T-1} W^0_p \Big),

    and for T to infinity it tends to :math:`h(\lambda) = \frac1P \sum_p (I - \lambda W_p)^{-1} V_p` exactly if the
    spectral radii satisfy :math:`\rho(W_p)\,\rho(S) < 1` for every stack (up to starts that the recursion annihilates).
    The first weights play no part in the limit. A single stack is already rational of order F, one pole for each
    eigenvalue of W; Bianchi's order P is that of scalar weights.

    Adjoint, with :math:`\bar Y` = `grad_y` and :math:`\bar X^{(t)}` the cotangent of :math:`X^{(t)}` in one stack:

    .. math::

        \bar X^{(T)} = \tfrac1P \bar Y, \quad
        \bar X^{(t)} = W^\top \bar X^{(t+1)} S, \quad
        \frac{\partial L}{\partial W} = \sum_{t \ge 1} \bar X^{(t+1)} S X^{(t)\top}, \quad
        \frac{\partial L}{\partial W^0} = \bar X^{(1)} S X^\top, \quad
        \frac{\partial L}{\partial V} = \sum_t \bar X^{(t)} X^\top, \quad
        \frac{\partial L}{\partial X} = W^{0\top} \bar X^{(1)} S + \sum_t V^\top \bar X^{(t)},

    summed over the batch (and over stacks for X); without sharing, each t keeps its own term. Tangent:
    :math:`\dot X^{(t+1)} = W \dot X^{(t)} S^\top + \dot W X^{(t)} S^\top + V \dot X + \dot V X`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["w0"] : (stacks, F, G), first weights
    params["w"] : (1 or T - 1, stacks, F, F), feedback; absent with one iteration
    params["v"] : (1 or T, stacks, F, G), the input in every iteration
    params["bias"] : (F,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S as it is. Bianchi's is :math:`D^{-1/2} A D^{-1/2}`, without self-loops:
        ``Graph(-graph.with_shift("scaled_laplacian", lambda_max=2).S)`` where no node is isolated.
    iterations : int
        T, at least 1: order and reach of the finite filter.
    in_features, out_features : int
        G and F.
    stacks : int
        P, at least 1.
    shared : bool
        One W and one V per stack for all iterations, as in the equation (leading axis 1), or others in each.
    bias : bool
        One learnable constant per output feature, after the mean over stacks.

    Raises
    ------
    ValueError, TypeError
        For counts below 1 or not integers.

    Examples
    --------
    A delta on a directed path, halved with every step: 1, 1/2, 1/4.

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> filt = ev.ARMA(graph, iterations=2, stacks=1)
    >>> params = {"w0": [[[0.5]]], "w": [[[[0.5]]]], "v": [[[[1.0]]]]}
    >>> filt.forward(params, np.array([1.0, 0.0, 0.0]))[0]
    array([1.  , 0.5 , 0.25])
    >>> filt.exact_matrix(params)[0, 0, :, 0]  # the limit: nothing is left to change on a path of 3 nodes
    array([1.  , 0.5 , 0.25])
    """

    name = "arma"
    axes: ClassVar[dict[str, str]] = {"w0": "pfg", "w": "kpfg", "v": "kpfg"}
    equivariant = True

    def __init__(
        self,
        graph: Graph,
        iterations: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        stacks: int = 2,
        shared: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.iterations = checks.as_count("iterations", iterations, minimum=1)
        self.stacks = checks.as_count("stacks", stacks, minimum=1)
        self.shared = checks.as_flag("shared", shared)

    @property
    def reach(self) -> int:
        return self.iterations

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        T, P, F, G = self.iterations, self.stacks, self.out_features, self.in_features
        shapes: dict[str, tuple[int, ...]] = {"w0": (P, F, G)}
        if T > 1:
            shapes["w"] = (1 if self.shared else T - 1, P, F, F)
        return {**shapes, "v": (1 if self.shared else T, P, F, G)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(F) for the feedback: its spectral radius starts near 0.6, so that S with radius 1 contracts."""
        return (self.out_features if name == "w" else self.in_features * (self.iterations + 1)) ** -0.5

    def _weights(self, params: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """W (P, F, F) of iterations 1..T-1 and V (P, F, G) of iterations 0..T-1."""
        W, V = list(params.get("w", ())), list(params["v"])
        return (W * (self.iterations - 1), V * self.iterations) if self.shared else (W, V)

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        states, arriving = self._states(params, x)
        return states.mean(axis=0), (x.copy(), arriving)

    def _states(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """X^(T) of every stack, and what the weights met: S X, S X^(1), ..., S X^(T-1)."""
        S = self.graph.S.astype(x.dtype)
        W, _ = self._weights(params)
        root = [mixed(v, x) for v in params["v"]]  # one for all iterations where V is shared
        arriving = [shifted(S, x)[None]]  # (1, batch, G, N), then (P, batch, F, N)
        state = mixed(params["w0"], arriving[0]) + root[0]
        for t in range(1, self.iterations):
            arriving.append(shifted(S, state))
            state = mixed(W[t - 1], arriving[t]) + root[0 if self.shared else t]
        return state, arriving

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        x, arriving = saved
        S_T = self.graph.S.T.astype(x.dtype)
        W, V = self._weights(params)
        grads = {name: np.zeros_like(params[name]) for name in self._shapes()}
        grad_state = np.broadcast_to(grad_y / self.stacks, (self.stacks, *grad_y.shape))  # (P, batch, F, N)
        grad_x = np.zeros_like(x)
        for t in range(self.iterations - 1, 0, -1):
            grads["v"][0 if self.shared else t] += outer(grad_state, x)
            grads["w"][0 if self.shared else t - 1] += outer(grad_state, arriving[t])
            grad_x += mixed(V[t].swapaxes(1, 2), grad_state).sum(axis=0)
            grad_state = shifted(S_T, mixed(W[t - 1].swapaxes(1, 2), grad_state))
        grads["v"][0] += outer(grad_state, x)
        grads["w0"] += outer(grad_state, arriving[0])
        grad_x += mixed(V[0].swapaxes(1, 2), grad_state).sum(axis=0)
        return grads, grad_x + shifted(S_T, mixed(params["w0"].swapaxes(1, 2), grad_state).sum(axis=0))

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        S = self.graph.S.astype(x.dtype)
        (W, V), (dW, dV) = self._weights(params), self._weights(dparams)
        _, arriving = self._states(params, x)
        dstate = mixed(params["w0"], shifted(S, dx)) + mixed(dparams["w0"], arriving[0])
        dstate = dstate + mixed(V[0], dx) + mixed(dV[0], x)
        for t in range(1, self.iterations):
            dstate = mixed(W[t - 1], shifted(S, dstate)) + mixed(dW[t - 1], arriving[t])
            dstate = dstate + mixed(V[t], dx) + mixed(dV[t], x)
        return dstate.mean(axis=0)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """The recursion for matrices: X^(t+1)_fg = sum_f' W_ff' S X^(t)_f'g + V_fg I, in dense NumPy."""
        params = self._checked_parameters(params)
        S = self.graph.dense_shift(self.in_features * self.out_features)
        eye = np.eye(len(S))
        W, V = self._weights(params)
        total = 0
        for p in range(self.stacks):
            X = np.einsum("fg,ij->fgij", params["w0"][p], S) + np.einsum("fg,ij->fgij", V[0][p], eye)
            for t in range(1, self.iterations):
                X = np.einsum("fe,ij,egjk->fgik", W[t - 1][p], S, X) + np.einsum("fg,ij->fgij", V[t][p], eye)
            total = total + X
        return np.asarray(total) / self.stacks

    # ---- as a polynomial -------------------------------------------------------------------------------------------
    def coefficients(self, params: Mapping[str, Any]) -> np.ndarray:
        """Coefficients of 1, lambda, ..., lambda^T in the finite filter, shape (T + 1, F, G).

        The input of iteration t passes through the feedback of all later ones:
        c_k = W^(T-1) ... W^(T-k) V^(T-1-k) for k < T, and c_T = W^(T-1) ... W^(1) W^0; the mean over stacks.
        """
        params = self._checked_parameters(params)
        W, V = self._weights(params)
        passed = np.broadcast_to(np.eye(self.out_features), (self.stacks, self.out_features, self.out_features))
        taps = []
        for t in range(self.iterations - 1, -1, -1):
            taps.append((passed @ V[t]).mean(axis=0))
            passed = passed @ (W[t - 1] if t else params["w0"])
        return np.stack([*taps, passed.mean(axis=0)])

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """A polynomial in S of order T, hence an edge-variant filter of order T (see `newton_embedding`)."""
        params = self._checked_parameters(params)
        return newton_embedding(self.graph, self.coefficients(params), bias=params.get("bias"))

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_T at the eigenvalues of S (or at `frequencies`), shape (F, G, number of them)."""
        lam = graph_frequencies(self.graph, frequencies)
        return np.einsum("kfg,kn->fgn", self.coefficients(params), lam ** np.arange(self.iterations + 1)[:, None])

    # ---- its limit -------------------------------------------------------------------------------------------------
    def convergence_rate(self, params: Mapping[str, Any]) -> float:
        """max over stacks of rho(W) rho(S): the limit exists where it is below 1, and errors fall by it."""
        W = self._feedback(self._checked_parameters(params))
        return float(np.abs(np.linalg.eigvals(W)).max() * largest_eigenvalue(self.graph))

    def _feedback(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """W (P, F, F) of a recursion that can go on for ever."""
        if not self.shared or self.iterations == 1:
            raise NotRepresentable(
                f"the recursion has no limit: shared={self.shared}, iterations={self.iterations}; expected weights "
                "shared between at least 2 iterations"
            )
        return params["w"][0]

    def _limit(self, params: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """W and V, where the recursion converges."""
        params = self._checked_parameters(params)
        rate = self.convergence_rate(params)
        if rate >= 1:
            raise NotRepresentable(f"the recursion diverges: rho(W) rho(S) = {rate:.6g} in a stack; expected below 1")
        return self._feedback(params), params["v"][0]

    def exact_response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """The rational limit, mean over stacks of (I - lambda W)^-1 V, shape (F, G, number of frequencies)."""
        W, V = self._limit(params)
        lam = graph_frequencies(self.graph, frequencies)[:, None, None, None]
        h = np.linalg.solve(np.eye(self.out_features) - lam * W, np.broadcast_to(V, (len(lam), *V.shape)))
        return np.moveaxis(h.mean(axis=1), 0, -1)

    def exact_matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """The limit H: X = W X S^T + V x solved as (I - W kron S) vec X = (V kron I) vec x, shape (F, G, N, N)."""
        W, V = self._limit(params)
        N, F = self.graph.n_nodes, self.out_features
        S = self.graph.dense_shift(F * F)  # I - W kron S has F² such blocks
        H = [np.linalg.solve(np.eye(F * N) - np.kron(w, S), np.kron(v, np.eye(N))) for w, v in zip(W, V, strict=True)]
        return np.mean(H, axis=0).reshape(F, N, self.in_features, N).swapaxes(1, 2)

    def n_operations(self, batch: int = 1) -> int:
        """Shifts of G features once and of P F features T - 1 times; one product with each W (or W^0) and V met."""
        T, P, F, G, N = self.iterations, self.stacks, self.out_features, self.in_features, self.graph.n_nodes
        shifts = (G + (T - 1) * P * F) * self.graph.S.nnz
        mixes = P * N * F * (G + (1 if self.shared else T) * G + (T - 1) * F)
        return checks.as_count("batch", batch) * (shifts + mixes)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Weights shared between the iterations, or not; one iteration, which has no feedback."""
        yield cls(graph, iterations=3, in_features=2, out_features=3, stacks=2, bias=True)
        yield cls(graph, iterations=3, in_features=2, out_features=3, stacks=2, shared=False)
        yield cls(graph, iterations=1, in_features=2, out_features=3, stacks=1)


def mixed(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Features of x (..., batch, G, N) mixed by weight (P, F, G), stack by stack: (P, batch, F, N)."""
    return weight[:, None] @ x


def outer(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Gradient of a mix: sum over batch and nodes of grad_f x_g, shape (P, F, G)."""
    return (grad @ x.swapaxes(-1, -2)).sum(axis=1)
