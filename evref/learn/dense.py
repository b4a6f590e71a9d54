"""The readout: every output sees every feature at every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Self

import numpy as np

from .. import checks
from ..contract import Module, Parameters

Array = np.ndarray


class Dense(Module):
    """A fully connected layer on the flattened signal, y = W vec(x) + b.

    Adjoint: grad_W = sum_batch grad_y vec(x)^T, grad_b = sum_batch grad_y, vec(grad_x) = W^T grad_y.

    Shapes
        x (batch, *in_shape), flattened in C order: feature by feature, node by node;
        weight (outputs, prod(in_shape)), bias (outputs,); y (batch, outputs)

    Parameters
    ----------
    in_shape : sequence of int
        Shape of one sample, (features, nodes) after a filter, (outputs,) after another Dense.
    outputs : int
        Number of outputs.
    bias : bool
        Whether there is a b.

    Both arrays start uniform in ±1/sqrt(prod(in_shape)).

    >>> layer = Dense((1, 3), outputs=2)
    >>> params = {"weight": [[1, 0, 0], [1, 1, 1]], "bias": [0, 10]}
    >>> y, tape = layer.forward(params, [1, 2, 3])
    >>> y
    array([ 1., 16.])
    >>> layer.backward(params, tape, [1, 1])[1]
    array([2., 1., 1.])
    """

    name = "dense"

    def __init__(self, in_shape: Sequence[int], outputs: int, *, bias: bool = True) -> None:
        if isinstance(in_shape, (str, bytes)) or not isinstance(in_shape, (Sequence, np.ndarray)):
            raise TypeError(
                f"in_shape is {in_shape!r} ({type(in_shape).__name__}); expected a sequence such as (features, nodes)"
            )
        if len(in_shape) == 0:
            raise ValueError(f"in_shape is {in_shape!r}; expected at least one axis, such as (features, nodes)")
        self._in_shape = tuple(checks.as_count(f"in_shape[{i}]", n, minimum=1) for i, n in enumerate(in_shape))
        self.outputs = checks.as_count("outputs", outputs, minimum=1)
        self.bias = checks.as_flag("bias", bias)

    @classmethod
    def examples(cls, graph: Any, rng: Any = None) -> Iterator[Self]:
        """2 features on the graph's nodes, 3 outputs; without a bias; behind another readout."""
        yield cls((2, graph.n_nodes), outputs=3)
        yield cls((2, graph.n_nodes), outputs=3, bias=False)
        yield cls((4,), outputs=3)

    @property
    def in_shape(self) -> tuple[int, ...]:
        return self._in_shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.outputs,)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {"weight": (self.outputs, prod(self.in_shape))}
        if self.bias:
            shapes["bias"] = (self.outputs,)
        return shapes

    def _init_scale(self, name: str) -> float:
        return prod(self.in_shape) ** -0.5

    def n_operations(self, batch: int = 1) -> int:
        return batch * self.outputs * prod(self.in_shape)

    def _flat(self, x: Array) -> Array:
        return x.reshape(len(x), prod(self.in_shape))

    def _forward(self, params: Parameters, x: Array) -> tuple[Array, Array]:
        flat = self._flat(x).copy()  # the caller may reuse x before the backward pass
        y = flat.dot(params["weight"].T)
        if self.bias:
            y += params["bias"]
        return y, flat

    def _parameter_gradients(self, params: Parameters, saved: Array, grad_y: Array) -> Parameters:
        grads = {"weight": grad_y.T.dot(saved)}
        if self.bias:
            grads["bias"] = grad_y.sum(axis=0)
        return grads

    def _backward(self, params: Parameters, saved: Array, grad_y: Array) -> tuple[Parameters, Array]:
        grad_x = grad_y.dot(params["weight"]).reshape(len(grad_y), *self.in_shape)
        return self._parameter_gradients(params, saved, grad_y), grad_x

    def _jvp(self, params: Parameters, x: Array, dparams: Parameters, dx: Array) -> Array:
        dy = self._flat(dx) @ params["weight"].T + self._flat(x) @ dparams["weight"].T
        if self.bias:
            dy += dparams["bias"]
        return dy
