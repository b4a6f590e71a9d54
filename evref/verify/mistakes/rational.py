"""Known mistakes in ARMA and Cayley filters: iterations, the term c_0, signs and factors of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import ARMA, CayleyNet
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
