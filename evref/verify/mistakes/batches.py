"""Known mistakes with batches: only the first sample goes through the graph.

What happens to the others depends on how it came about. Where (batch, nodes, features) was flattened and the edges
speak of the first N rows, they are on a graph without edges; or with self-loops alone, where a layer adds those itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from ...filters import CayleyNet, EdgeVariant, GraphAttention
from ...filters.base import Filter
from ...filters.generated import GeneratedEdgeVariant
from ...graph import Graph
from .generated import alone
from .models import Array, Arrays, Linear, Mapped, Model, entrywise, on_entry
from .polynomials import coefficients
from .shifts import on_graph, takes_any_shift
from .terms import plain, put_together, terms_of, with_bias_of
from .variants import Variant, only_first

FIRST = "only the first sample of a batch is convolved"


def first_sample(module: Any) -> Iterator[Variant]:
    yield Variant("only the first sample of a batch is computed; the others are zero", FirstSample(module))
    yield Variant("every sample of a batch gets the output of the first", FirstForAll(module))
    if not isinstance(module, Filter):
        return
    if module.bias:
        model: Model = with_bias_of(module, FirstSample(plain(module)))
        yield Variant(f"{FIRST}; the others are the bias alone", model)
    terms = terms_of(module)
    for says, change in (
        ("as on a graph without edges", without_edges),
        ("as on a graph with self-loops alone", with_loops_alone),
        ("the term k = 0 alone", zeroth_alone),
    ):
        others = [change(term.core) for term in terms]
        found = [other for other in others if other is not None]
        if len(found) == len(terms):
            model = FirstSample(plain(module), put_together(terms, found))
            yield Variant(f"{FIRST}; the others are {says}", with_bias_of(module, model))


def without_edges(core: Any) -> Model | None:
    """What `core` is where there are no edges; None where that is zero, or not known."""
    if takes_any_shift(core):
        return on_graph(core, Graph(sparse.csr_array(core.graph.S.shape)))
    if isinstance(core, EdgeVariant):
        return _entries(core, np.zeros(core.pattern.nnz))
    if isinstance(core, GeneratedEdgeVariant) and core.root:
        return alone(core, self_entries=False)
    return None


def with_loops_alone(core: Any) -> Model | None:
    if takes_any_shift(core):
        return on_graph(core, Graph(sparse.eye_array(core.graph.n_nodes, format="csr")))
    if isinstance(core, EdgeVariant) and core.self_loops:
        return _entries(core, (core.pattern.rows == core.pattern.indices).astype(float))
    if isinstance(core, GeneratedEdgeVariant) and core.self_entries:
        return alone(core, self_entries=True)
    if isinstance(core, GraphAttention):
        return GraphAttention(Graph(sparse.csr_array(core.graph.S.shape)), **core.config())
    return None


def zeroth_alone(core: Any) -> Model | None:
    """Where that is not what a graph without edges gives: T_2 = 2 S^2 - I does not vanish there."""
    if isinstance(core, CayleyNet):
        zero = Linear(np.zeros_like, np.zeros_like)
        return Mapped(Mapped(core, on_entry("c_re", zero)), on_entry("c_im", zero))
    name = coefficients(core)
    return Mapped(core, on_entry(name, only_first())) if name == "theta" else None


def _entries(core: EdgeVariant, values: Array) -> Model:
    return Mapped(core, on_entry("phi", entrywise(values)))


class FirstForAll:
    """y_b = model(x)_0 for every sample b."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        first, tape = self.model.forward(params, x[:1])
        return np.repeat(first, len(x), axis=0), (tape, x.shape)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, shape = tape
        grads, first = self.model.backward(params, tape, grad_y.sum(axis=0, keepdims=True))
        grad_x = np.zeros(shape)
        grad_x[:1] = first
        return grads, grad_x


class FirstSample:
    """y_0 = model(x)_0; the others are what `rest` makes of them, zero without it."""

    def __init__(self, model: Model, rest: Model | None = None) -> None:
        self.model, self.rest = model, rest

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        first, tape = self.model.forward(params, x[:1])
        y, rest_tape = np.zeros((len(x), *first.shape[1:])), None
        y[:1] = first
        if self.rest is not None and len(x) > 1:
            y[1:], rest_tape = self.rest.forward(params, x[1:])
        return y, (tape, rest_tape, x.shape)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, rest_tape, shape = tape
        grads, first = self.model.backward(params, tape, grad_y[:1])
        grad_x = np.zeros(shape)
        grad_x[:1] = first
        if self.rest is not None and len(grad_y) > 1:
            more, grad_x[1:] = self.rest.backward(params, rest_tape, grad_y[1:])
            grads = {name: grad + more[name] for name, grad in grads.items()}
        return grads, grad_x
