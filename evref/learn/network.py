"""A chain of filters and layers, with the same contract as each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any, Self

import numpy as np

from .. import checks
from ..contract import Module, Parameters
from ..filters import EdgeVariant, Polynomial
from .activations import MaxActivation, Tanh
from .dense import Dense
from .losses import Loss, as_classes

Array = np.ndarray


class Network(Module):
    """y = layer_L(... layer_2(layer_1(x))).

    Adjoint: the cotangent goes through the layers' own adjoints in reverse, each leaving the gradients of its
    parameters on the way.

    Shapes
        x: what the first layer takes; y: what the last one gives. Parameter p of layer i is called "i.p".

    Parameters
    ----------
    layers : iterable of Module
        Filters, activations, readouts, other networks. All that live on a graph must share its support, and the names
        of its nodes where they have some. Signals given as a DataFrame are read by the names of the first.
    classes : sequence, optional
        What the outputs of the readout stand for, as :func:`encode_labels` gives them: different numbers, bools or
        strings, one per output. Nothing is computed with them; files keep them.

    Attributes
    ----------
    classes : ndarray or None
        ``net.classes[net.predict(params, x).argmax(axis=-1)]`` are names.

    Raises
    ------
    ValueError
        Where the output of a layer does not fit the next, two layers live on different graphs, or there are not as many
        classes as outputs.

    >>> net = Network([Dense((2,), outputs=2, bias=False), Tanh(), Dense((2,), outputs=1)])
    >>> net.parameter_shapes()
    {'0.weight': (2, 2), '2.weight': (1, 2), '2.bias': (1,)}
    >>> params = net.init(rng=0)
    >>> y, tape = net.forward(params, [[1.0, 2.0]])
    >>> grads, grad_x = net.backward(params, tape, [[1.0]])
    >>> grad_x.shape
    (1, 2)
    """

    name = "network"

    def __init__(self, layers: Iterable[Module], *, classes: Any = None) -> None:
        self.layers: tuple[Module, ...] = tuple(layers)
        if not self.layers:
            raise ValueError("layers is empty; expected at least one layer")
        for i, layer in enumerate(self.layers):
            if not isinstance(layer, Module):
                raise TypeError(f"layers[{i}] is {type(layer).__name__}; expected a filter, a layer or a network")
        self._in_shape, self._out_shape = self._chain_shapes()
        self.graph = self._common_graph()
        self.classes = None if classes is None else self._checked_classes(classes)
        # (name in the layer, name in the network) for the parameters of each layer
        self._names = [[(p, f"{i}.{p}") for p in layer.parameter_shapes()] for i, layer in enumerate(self.layers)]
        self._first = next((i for i, names in enumerate(self._names) if names), None)  # layer with parameters

    def _label(self, i: int) -> str:
        return f"layer {i} ({type(self.layers[i]).__name__})"

    def _chain_shapes(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Shapes at both ends; None stands for any shape."""
        first = shape = None
        source = 0  # the layer that decided `shape`
        for i, layer in enumerate(self.layers):
            if layer.in_shape is None:
                continue
            if shape is None:
                first = layer.in_shape
            elif shape != layer.in_shape:
                raise ValueError(
                    f"{self._label(source)} gives shape {shape}; {self._label(i)} expects {layer.in_shape} per sample"
                )
            shape, source = layer.out_shape, i
        return first, shape

    def _common_graph(self) -> Any:
        on_graph = [i for i, layer in enumerate(self.layers) if layer.graph is not None]
        if not on_graph:
            return None
        first = named = self.layers[on_graph[0]].graph
        for i in on_graph[1:]:
            other = self.layers[i].graph
            if other.fingerprint != first.fingerprint:
                raise ValueError(
                    f"{self._label(on_graph[0])} lives on graph {first.fingerprint}, {self._label(i)} on graph "
                    f"{other.fingerprint}; expected one support for the whole network"
                )
            if isinstance(named.nodes, range):
                named = other
            elif not isinstance(other.nodes, range) and other.nodes != named.nodes:
                at = next(n for n, (a, b) in enumerate(zip(named.nodes, other.nodes, strict=True)) if a != b)
                raise ValueError(
                    f"node {at} of {self._label(i)} is called {other.nodes[at]!r}, in a layer before it "
                    f"{named.nodes[at]!r}; expected the same names in the whole network"
                )
        return first

    def _checked_classes(self, classes: Any) -> Array:
        names = as_classes("classes", classes)
        if self.out_shape != names.shape:
            raise ValueError(f"classes has {names.size} entries; the network gives shape {self.out_shape} per sample")
        if np.unique(names).size != names.size:
            raise ValueError("classes has an entry more than once; expected different ones")
        names = names.copy()
        names.setflags(write=False)
        return names

    @classmethod
    def examples(cls, graph: Any, rng: Any = None) -> Iterator[Self]:
        """What the paper trains: an edge-variant layer, a nonlinearity, a readout. And one that ends in a filter."""
        yield cls([EdgeVariant(graph, 2, 2, 3, bias=True), Tanh(), Dense((3, graph.n_nodes), outputs=2)])
        yield cls([cls([Polynomial(graph, 2, 2, 3), MaxActivation(graph, 3)]), Tanh(), EdgeVariant(graph, 1, 3, 2)])

    # ---- shapes and identity ---------------------------------------------------------------------------------------
    @property
    def in_shape(self) -> tuple[int, ...] | None:
        return self._in_shape

    @property
    def out_shape(self) -> tuple[int, ...] | None:
        return self._out_shape

    def config(self) -> dict[str, Any]:
        classes = {} if self.classes is None else {"classes": self.classes.tolist()}
        return {"layers": self.layers, **classes}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"{i}.{p}": s for i, layer in enumerate(self.layers) for p, s in layer.parameter_shapes().items()}

    def n_operations(self, batch: int = 1) -> int:
        return sum(layer.n_operations(batch) for layer in self.layers)

    @property
    def signature(self) -> str:
        cached = self.__dict__.get("_signature")
        if cached is None:
            cached = self.__dict__["_signature"] = f"Network({'; '.join(layer.signature for layer in self.layers)})"
        return cached

    def __repr__(self) -> str:
        lines = [f"  {i}: {layer!r}" for i, layer in enumerate(self.layers)]
        return "\n".join(["Network(", *lines, f")  # {self.n_parameters} parameters"])

    # ---- parameters ------------------------------------------------------------------------------------------------
    def init(self, rng: Any = None, *, dtype: Any = np.float64) -> Parameters:
        """Fresh parameters, layer by layer, each as the layer itself draws them."""
        rng = checks.as_rng(rng)
        drawn = [layer.init(rng, dtype=dtype) for layer in self.layers]
        return {full: part[p] for part, names in zip(drawn, self._names, strict=True) for p, full in names}

    def to_vector(self, params: Mapping[str, Any]) -> Array:
        """All parameters in one vector (n_parameters,), in the order of `parameter_shapes`."""
        arrays = self._checked_parameters(params, check_finite=False)
        return np.concatenate([array.ravel() for array in arrays.values()]) if arrays else np.zeros(0)

    def from_vector(self, vector: Any) -> Parameters:
        """The parameters in `vector`, as views into it."""
        vector = checks.as_floating("vector", vector)
        if vector.shape != (self.n_parameters,):
            raise ValueError(
                f"vector has shape {vector.shape}; expected ({self.n_parameters},), a number per parameter"
            )
        params, start = {}, 0
        for name, shape in self.parameter_shapes().items():
            stop = start + prod(shape)
            params[name] = vector[start:stop].reshape(shape)
            start = stop
        return params

    def objective(self, x: Any, target: Any, loss: Loss) -> Callable[[Array], tuple[float, Array]]:
        """The loss on (x, target) as a function of the parameter vector, with its gradient.

        Made for :func:`scipy.optimize.minimize` with `jac=True`.

        >>> import numpy as np
        >>> from scipy.optimize import minimize
        >>> from evref.learn import Dense, MeanSquaredError, Network
        >>> net = Network([Dense((1,), outputs=1)])
        >>> objective = net.objective([[0.0], [1.0]], [[3.0], [5.0]], MeanSquaredError())
        >>> found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B")
        >>> found.x.round(4)  # weight 2, bias 3
        array([2., 3.])
        """

        x, target = self._by_name("x", x, self.in_shape), self._target_by_name("target", target)

        def value_and_gradient(vector: Array) -> tuple[float, Array]:
            params = self.from_vector(vector)
            prediction, tape = self.forward(params, x)
            value, loss_tape = loss.forward(prediction, target)
            grads, _ = self.backward(params, tape, loss.backward(loss_tape))
            return value, self.to_vector(grads)

        return value_and_gradient

    def predict(self, params: Mapping[str, Any], x: Any, *, check_finite: bool = True) -> Array:
        """What calling the network gives, under the name that it has elsewhere."""
        return self(params, x, check_finite=check_finite)

    # ---- the mathematics -------------------------------------------------------------------------------------------
    # Shapes were settled at construction and values on entry: inside, the layers' hooks call each other directly.
    def _part(self, params: Parameters, i: int) -> Parameters:
        return {p: params[full] for p, full in self._names[i]}

    def _forward(self, params: Parameters, x: Array) -> tuple[Array, list[Any]]:
        tapes = []
        for i, layer in enumerate(self.layers):
            x, saved = layer._forward(self._part(params, i), x)
            tapes.append(saved)
        return x, tapes

    def _backward(self, params: Parameters, saved: list[Any], grad_y: Array) -> tuple[Parameters, Array]:
        return self._back_to(0, params, saved, grad_y)

    def _parameter_gradients(self, params: Parameters, saved: list[Any], grad_y: Array) -> Parameters:
        """The cotangent goes no further down than the first layer that learns."""
        i = self._first
        if i is None:
            return {}
        grads, grad_y = self._back_to(i + 1, params, saved, grad_y)
        part = self.layers[i]._parameter_gradients(self._part(params, i), saved[i], grad_y)
        for p, full in self._names[i]:
            grads[full] = part[p]
        return grads

    def _back_to(self, lowest: int, params: Parameters, saved: list[Any], grad_y: Array) -> tuple[Parameters, Array]:
        """Gradients of the layers from `lowest` on, and the cotangent of what went into that one."""
        grads: Parameters = {}
        for i in reversed(range(lowest, len(self.layers))):
            part, grad_y = self.layers[i]._backward(self._part(params, i), saved[i], grad_y)
            for p, full in self._names[i]:
                grads[full] = part[p]
        return grads, grad_y

    def _jvp(self, params: Parameters, x: Array, dparams: Parameters, dx: Array) -> Array:
        for i, layer in enumerate(self.layers):
            part = self._part(params, i)
            dx = layer._jvp(part, x, self._part(dparams, i), dx)
            if i + 1 < len(self.layers):
                x, _ = layer._forward(part, x)
        return dx
