"""Known mistakes in ARMA and Cayley filters: iterations, the term c_0, signs and factors of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import ARMA, CayleyNet
from ...filters.arma import mixed, outer
from ...kernels.shift_reference import shifted
from ...learn.activations import Pointwise
from .models import Array, Arrays, Linear, Mapped, Model, on_entry, scaled
from .terms import plain
from .variants import Variant, without_slice


def iterations(core: Any) -> Iterator[Variant]:
    """One iteration too few or too many, where iterations share their weights."""
    if isinstance(core, ARMA) and core.shared and core.iterations > 1:
        counts = [core.iterations - 1, core.iterations + 1]
        for count in counts:
            model: Model = plain(core, iterations=count)
            if count == 1:  # without feedback there is no w
                model = Mapped(model, Linear(lambda p: {k: v for k, v in p.items() if k != "w"}, _with_zero_w(core)))
            yield Variant(f"{count} iterations for {core.iterations}", model)
    if isinstance(core, CayleyNet):
        if core.iterations is not None:
            for count in (core.iterations - 1, core.iterations + 1):
                if count >= 0:
                    yield Variant(f"{count} Jacobi iterations for {core.iterations}", plain(core, iterations=count))
        for name, part in (("c_re", "c_im"),):
            last = Mapped(core, on_entry(name, without_slice(-1)))
            yield Variant("the last term k = K is missing", Mapped(last, on_entry(part, without_slice(-1))))


def _with_zero_w(core: ARMA) -> Any:
    shape = core.parameter_shapes()["w"]
    return lambda grads: {**grads, "w": np.zeros(shape)}


def zeroth(core: Any) -> Iterator[Variant]:
    if isinstance(core, CayleyNet):
        for factor, says in ((0.0, "the term c_0 is missing"), (2.0, "the term c_0 counts twice")):
            yield Variant(says, Mapped(core, on_entry("c0", scaled(factor))))


def signs(core: Any) -> Iterator[Variant]:
    """Cayley: (S + i) / (S - i), and 2 Re without the 2."""
    if isinstance(core, CayleyNet):
        model = Mapped(core, on_entry("c_im", scaled(-1.0)))
        yield Variant("(hS + iI)(hS - iI)^-1 for (hS - iI)(hS + iI)^-1, the sign of i", model)
        model = Mapped(Mapped(core, on_entry("c_re", scaled(0.5))), on_entry("c_im", scaled(0.5)))
        yield Variant("Re instead of 2 Re: the factor 2 is missing", model)


def inputs(core: Any) -> Iterator[Variant]:
    """The input V x, which belongs into every iteration, in the first alone, in all but the first, in none."""
    if not isinstance(core, ARMA) or core.iterations < 2:
        return
    first = np.arange(core.iterations) == 0
    for says, kept in (
        ("V x is added in the first iteration alone", first),
        ("V x is added in every iteration but the first", ~first),
    ):
        yield Variant(says, Mapped(plain(core, shared=False), _with_inputs(core, kept)))
    yield Variant("V x is missing in every iteration", Mapped(core, on_entry("v", scaled(0.0))))


def _with_inputs(core: ARMA, kept: Array) -> Linear:
    """Weights of every iteration of their own, V zero in those that are not `kept`."""
    factor = kept[:, None, None, None].astype(float)

    def apply(params: Arrays) -> Arrays:
        w = np.repeat(params["w"], core.iterations - 1, axis=0) if core.shared else params["w"]
        return {**params, "w": w, "v": factor * params["v"]}

    def adjoint(grads: Arrays) -> Arrays:
        own = {"w": grads["w"], "v": factor * grads["v"]}
        return {**grads, **({name: g.sum(axis=0, keepdims=True) for name, g in own.items()} if core.shared else own)}

    return Linear(apply, adjoint)


def detached_iterations(core: Any) -> Iterator[Variant]:
    if isinstance(core, ARMA) and core.iterations > 1:
        yield Variant("the gradient is cut between the iterations: every state is detached", DetachedIterations(core))


class DetachedIterations:
    """ARMA whose gradient goes through the last iteration alone, X^(T) = W S X^(T-1) + V X^(0).

    With X^(T-1) constant, grad_W = grad_y (S X^(T-1))^T, grad_V = grad_y X^(0)T, and x has the gradient V^T grad_y;
    each stack has 1/P of grad_y.
    """

    def __init__(self, core: ARMA) -> None:
        self.core = core

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        core, S = self.core, self.core.graph.S.toarray()
        state = np.einsum("pfg,bgj,ij->pbfi", params["w0"], x, S) + self._input(params, x, 0)
        for t in range(1, core.iterations):
            shifted = state @ S.T
            state = np.einsum("pfg,pbgi->pbfi", params["w"][min(t - 1, len(params["w"]) - 1)], shifted)
            state = state + self._input(params, x, t)
        return state.mean(axis=0), (x, shifted)

    def _input(self, params: Arrays, x: Array, t: int) -> Array:
        return np.einsum("pfg,bgi->pbfi", params["v"][min(t, len(params["v"]) - 1)], x)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        x, shifted = tape
        grads = {name: np.zeros_like(array) for name, array in params.items()}
        grad = grad_y / self.core.stacks
        grads["w"][-1] = np.einsum("bfi,pbgi->pfg", grad, shifted)
        grads["v"][-1] = np.einsum("bfi,bgi->fg", grad, x)
        return grads, np.einsum("pfg,bfi->bgi", params["v"][-1], grad)


class ActivatedIterations:
    r"""X^(t+1) = f(W S X^(t) + V x) in every stack, X^(1) = f(W^0 S x + V x), y the mean of X^(T) over stacks.

    Without `last` the f of the last iteration is left out. Adjoint, with G^(T) = grad_y / P and D^(t) = f' G^(t):
    grad_W = sum D^(t+1) (S X^(t))^T, grad_V = sum D^(t) x^T, G^(t) = S^T W^T D^(t+1), and x has V^T D^(t) of every t
    and S^T W^0T D^(1).
    """

    def __init__(self, core: ARMA, activation: Pointwise, last: bool = True) -> None:
        self.core, self.activation, self.last = core, activation, last

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        core, S = self.core, self.core.graph.S.astype(x.dtype)
        W, V = core._weights(params)
        state, arriving, slopes = x[None], [], []
        for t, (w, v) in enumerate(zip([params["w0"], *W], V, strict=True), start=1):
            arriving.append(shifted(S, state))
            state, slope = mixed(w, arriving[-1]) + mixed(v, x), np.ones(1)
            if t < core.iterations or self.last:
                state, slope = self.activation._value_and_derivative(state)
            slopes.append(slope)
        return state.mean(axis=0), (x, arriving, slopes)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        x, arriving, slopes = tape
        core, S_T = self.core, self.core.graph.S.T.astype(x.dtype)
        W, V = core._weights(params)
        grads = {name: np.zeros_like(array) for name, array in params.items()}
        grad_x = np.zeros_like(x)
        grad = np.broadcast_to(grad_y / core.stacks, (core.stacks, *grad_y.shape))
        for t in reversed(range(core.iterations)):
            inner = slopes[t] * grad
            grads["v"][min(t, len(grads["v"]) - 1)] += outer(inner, x)
            grad_x += mixed(V[t].swapaxes(1, 2), inner).sum(axis=0)
            weight = W[t - 1] if t else params["w0"]
            own = grads["w"][min(t - 1, len(grads["w"]) - 1)] if t else grads["w0"]
            own += outer(inner, arriving[t])
            grad = shifted(S_T, mixed(weight.swapaxes(1, 2), inner))
        return grads, grad_x + grad.sum(axis=0)
