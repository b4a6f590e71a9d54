"""Nonlinearities: pointwise ones for signals of any shape, and two that look at a node's neighbourhood.

A pointwise activation is one function of one number, so forward, backward and jvp need only its value and its
derivative, and those stand side by side in `_value_and_derivative`. Complex numbers are ordered by their real part:
the complex-step check passes through here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks, kernels
from ..contract import Module, Parameters
from ..graph import Graph, as_graph

Array = np.ndarray


class Pointwise(Module):
    """y = f(x), entry by entry.

    Adjoint: grad_x = f'(x) grad_y. The tape holds f'(x), so the caller's x may change meanwhile.
    """

    @classmethod
    def examples(cls, graph: Any = None, rng: Any = None) -> Iterator[Self]:
        """One small instance; neither the graph nor the generator is needed."""
        yield cls()

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        raise TypeError(f"{type(self).__name__} defines no _value_and_derivative")

    def _forward(self, params: Parameters, x: Array) -> tuple[Array, Array]:
        return self._value_and_derivative(x)

    def _backward(self, params: Parameters, saved: Array, grad_y: Array) -> tuple[Parameters, Array]:
        return {}, saved * grad_y

    def _jvp(self, params: Parameters, x: Array, dparams: Parameters, dx: Array) -> Array:
        return self._value_and_derivative(x)[1] * dx


class Identity(Pointwise):
    """y = x.

    Adjoint: grad_x = grad_y.

    Shapes: any.

    >>> Identity().forward({}, [1.0, -2.0])[0]
    array([ 1., -2.])
    """

    name = "identity"

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        return x.copy(), np.ones_like(x)


class ReLU(Pointwise):
    """y = max(x, 0).

    Adjoint: grad_x = grad_y where x > 0, else 0. At x = 0 the derivative is 0 by convention (torch's).

    Shapes: any.

    >>> layer = ReLU()
    >>> y, tape = layer.forward({}, [-1.0, 0.0, 2.0])
    >>> y
    array([0., 0., 2.])
    >>> layer.backward({}, tape, [5.0, 5.0, 5.0])[1]
    array([0., 0., 5.])
    """

    name = "relu"

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        return kernels.for_learning(x.dtype).relu(x)

    def _backward(self, params: Parameters, saved: Array, grad_y: Array) -> tuple[Parameters, Array]:
        return {}, kernels.for_learning(grad_y.dtype).relu_backward(saved, grad_y)


class LeakyReLU(Pointwise):
    """y = x where x > 0, else slope * x.

    Adjoint: grad_x = grad_y where x > 0, else slope * grad_y (at x = 0 as well).

    Shapes: any.

    Parameters
    ----------
    slope : float
        Slope on the negative side.

    >>> LeakyReLU(slope=0.5).forward({}, [-4.0, 2.0])[0]
    array([-2.,  2.])
    """

    name = "leaky_relu"

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = checks.as_number("slope", slope)

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        derivative = np.where(x.real > 0, 1.0, self.slope).astype(x.dtype)
        return derivative * x, derivative


class Tanh(Pointwise):
    """y = tanh(x).

    Adjoint: grad_x = (1 - y^2) grad_y.

    Shapes: any.

    >>> Tanh().forward({}, [0.0])[0]
    array([0.])
    """

    name = "tanh"

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        y = np.tanh(x)
        return y, 1 - y * y


class Sigmoid(Pointwise):
    """y = 1 / (1 + exp(-x)).

    Adjoint: grad_x = e / (1 + e)^2 grad_y with e = exp(-|x|), which neither overflows nor cancels for any x.

    Shapes: any.

    >>> Sigmoid().forward({}, [-1000.0, 0.0, 1000.0])[0]
    array([0. , 0.5, 1. ])
    """

    name = "sigmoid"

    def _value_and_derivative(self, x: Array) -> tuple[Array, Array]:
        positive = x.real >= 0
        e = np.exp(np.where(positive, -x, x))
        return np.where(positive, 1, e) / (1 + e), e / (1 + e) ** 2


class Neighborhood(Module):
    """Base of the activations that pick values out of neighbourhoods of growing radius; see the two below.

    Forward keeps which nodes were picked; both derivatives follow the picks and treat them as fixed.
    """

    kind: ClassVar[str]  # as the kernel calls it

    def __init__(self, graph: Graph, features: int = 1, hops: int = 1) -> None:
        self.graph = as_graph(graph)
        self.features = checks.as_count("features", features, minimum=1)
        self.hops = checks.as_count("hops", hops, minimum=1)
        checks.require_room(f"the weight of {self.hops} hops", self.hops + 1)
        self._lists = _neighbourhoods(graph, self.hops)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Small instances: 2 features, 2 hops and 1."""
        yield cls(graph, features=2, hops=2)
        yield cls(graph, features=2, hops=1)

    @property
    def in_shape(self) -> tuple[int, int]:
        return self.features, self.graph.n_nodes

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.hops + 1,)}

    def _init_scale(self, name: str) -> float:
        return (self.hops + 1) ** -0.5

    def n_operations(self, batch: int = 1) -> int:
        """Multiply-adds of the weighted sum; the comparisons are not counted."""
        return (self.hops + 1) * batch * self.features * self.graph.n_nodes

    def _picks(self, x: Array) -> list[tuple[Array, ...]]:
        """For k = 1..hops, the nodes whose mean is the value: one for a maximum, two for a median."""
        ranks = kernels.current().neighborhood_ranks
        values = np.ascontiguousarray(x.real)
        picks: list[tuple[Array, ...]] = []
        for indptr, indices in self._lists:
            low, high = ranks(indptr, indices, values, self.kind)  # each (batch, features, nodes)
            picks.append((low,) if self.kind == "max" else (low, high))
        return picks

    def _forward(self, params: Parameters, x: Array) -> tuple[Array, Any]:
        picks = self._picks(x)
        y = params["weight"][0] * x
        for weight, nodes in zip(params["weight"][1:], picks, strict=True):
            y += weight * _gather(x, nodes)
        return y, (x.copy(), picks)

    def _backward(self, params: Parameters, saved: Any, grad_y: Array) -> tuple[Parameters, Array]:
        x, picks = saved
        grad_weight = np.empty_like(params["weight"])
        grad_weight[0] = np.sum(grad_y * x)
        grad_x = np.multiply(params["weight"][0], grad_y, order="C")
        for k, nodes in enumerate(picks, start=1):
            grad_weight[k] = np.sum(grad_y * _gather(x, nodes))
            _scatter(grad_x, nodes, params["weight"][k] * grad_y)
        return {"weight": grad_weight}, grad_x

    def _jvp(self, params: Parameters, x: Array, dparams: Parameters, dx: Array) -> Array:
        dy = params["weight"][0] * dx + dparams["weight"][0] * x
        for k, nodes in enumerate(self._picks(x), start=1):
            dy += params["weight"][k] * _gather(dx, nodes) + dparams["weight"][k] * _gather(x, nodes)
        return dy


def _neighbourhoods(graph: Graph, hops: int) -> list[tuple[Array, Array]]:
    """`graph.neighborhoods(k)` for k = 1..hops; the sum of their sizes is checked on the way."""
    lists: list[tuple[Array, Array]] = []
    size = 0
    for found in islice(graph.growing_neighborhoods(), hops + 1):
        size += found[1].size
        checks.require_room(f"the list of neighbours within {len(lists)} hops", size)
        lists.append(found)
    return lists[1:] + lists[-1:] * (hops + 1 - len(lists))


def _gather(x: Array, nodes: tuple[Array, ...]) -> Array:
    """Mean over `nodes` of x at those nodes, shaped like x."""
    values = [np.take_along_axis(x, picked, axis=-1) for picked in nodes]
    return values[0] if len(values) == 1 else 0.5 * values[0] + 0.5 * values[1]


def _scatter(grad_x: Array, nodes: tuple[Array, ...], grad: Array) -> None:
    """Adjoint of `_gather`, added to grad_x. One thread, in memory order: the same bits every time."""
    n_nodes = grad_x.shape[-1]
    signal = np.arange(grad_x.size // n_nodes).reshape(*grad_x.shape[:-1], 1) * n_nodes  # where each signal starts
    flat = grad_x.reshape(-1)  # a view, for grad_x was born in C order
    for picked in nodes:
        np.add.at(flat, (signal + picked).reshape(-1), (grad / len(nodes)).reshape(-1))


class MaxActivation(Neighborhood):
    """Weighted maxima over growing neighbourhoods (Ruiz, Gama, Marques, Ribeiro, ICASSP 2019),

        y_i = weight_0 x_i + sum_{k=1..hops} weight_k max_{j within k hops of i} x_j.

    The weights are shared by all features. Adjoint: with j(i, k) the node picked for node i at radius k,
    grad_x_j = weight_0 grad_y_j + sum_k weight_k sum_{i: j(i, k) = j} grad_y_i, and
    grad_weight_k = sum over batch, features and nodes of grad_y_i x_{j(i, k)}. Ties go to the first node.

    Shapes
        x, y (batch, features, nodes); weight (hops + 1,)

    Parameters
    ----------
    graph : Graph
        A neighbourhood holds the nodes from which a signal reaches i in at most k steps, i included.
    features : int
        Features of the signal.
    hops : int
        Largest radius.

    >>> from evref.graph import Graph
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> layer = MaxActivation(path)
    >>> layer.forward({"weight": [0.0, 1.0]}, [1.0, 2.0, 5.0])[0]
    array([2., 5., 5.])
    """

    name = "max_activation"
    kind = "max"


class MedianActivation(Neighborhood):
    """Weighted medians over growing neighbourhoods (Ruiz, Gama, Marques, Ribeiro, ICASSP 2019),

        y_i = weight_0 x_i + sum_{k=1..hops} weight_k median_{j within k hops of i} x_j,

    where the median of an even number of values is the mean of the two in the middle. Adjoint: as for
    :class:`MaxActivation`, with half of the cotangent to each of the two.

    Shapes
        x, y (batch, features, nodes); weight (hops + 1,)

    Parameters
    ----------
    graph : Graph
        A neighbourhood holds the nodes from which a signal reaches i in at most k steps, i included.
    features : int
        Features of the signal.
    hops : int
        Largest radius.

    >>> from evref.graph import Graph
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> layer = MedianActivation(path)
    >>> layer.forward({"weight": [0.0, 1.0]}, [1.0, 2.0, 5.0])[0]
    array([1.5, 2. , 3.5])
    """

    name = "median_activation"
    kind = "median"
