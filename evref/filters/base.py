"""What every filter has: a graph, in and out features, an optional bias, and its place in the edge-variant family.

A new family subclasses :class:`Filter` and writes

    _shapes()                              its parameters (without the bias)
    _init_scale(name)                      the half-width of their uniform start
    _apply, _apply_backward, _apply_jvp    forward, adjoint and tangent, one above the other
    _apply_parameter_gradients             only where the adjoint costs less without grad_x (training does not read it)
    matrix, to_edge_variant                what the equations call H(S), and its map into the EV recursion
    reach, n_operations, examples

and adds one line to the catalogue in :mod:`evref.filters`. Gradient checks, property tests, the table in the
documentation and the command line follow from the catalogue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import Module, NotRepresentable, Parameters
from ..graph import Graph, as_graph

if TYPE_CHECKING:
    from .edge_variant import EdgeVariant
    from .parallel import ParallelEdgeVariant


class Filter(Module, ABC):
    """Base of all filters: y_f = sum_g H_fg(S) x_g [+ bias_f]."""

    graph: Graph
    linear: ClassVar[bool] = True  # in x, apart from the bias
    equivariant: ClassVar[bool] = False  # the same parameters on a renumbered graph are the renumbered filter

    # A letter for each axis of a parameter that mixes features or steps: what `evref.compare` calls a place, and what
    # the known mistakes exchange. k step or power, f output feature, g input feature, h head, p stack, m basis
    # function, r kernel, d coordinate, e edge or self-loop, n node, b privileged node.
    axes: ClassVar[dict[str, str]] = {}

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """Hops beyond which an output does not hear an input; None where there is no such bound."""

    def __init__(self, graph: Graph, in_features: int, out_features: int, bias: bool) -> None:
        self.graph = as_graph(graph)
        self.in_features = checks.as_count("in_features", in_features, minimum=1)
        self.out_features = checks.as_count("out_features", out_features, minimum=1)
        self.bias = checks.as_flag("bias", bias)

    @property
    def in_shape(self) -> tuple[int, int]:
        return self.in_features, self.graph.n_nodes

    @property
    def out_shape(self) -> tuple[int, int]:
        return self.out_features, self.graph.n_nodes

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = self._shapes()
        if self.bias:
            shapes["bias"] = (self.out_features,)
        return shapes

    # ---- the bias, around what the family writes -------------------------------------------------------------------
    def _forward(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        y, saved = self._apply(params, x)
        if self.bias:
            y += params["bias"][:, None]
        return y, saved

    def _backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        grads, grad_x = self._apply_backward(params, saved, grad_y)
        return self._with_bias(grads, grad_y), grad_x

    def _parameter_gradients(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> Parameters:
        return self._with_bias(self._apply_parameter_gradients(params, saved, grad_y), grad_y)

    def _with_bias(self, grads: Parameters, grad_y: np.ndarray) -> Parameters:
        if self.bias:
            grads["bias"] = grad_y.sum(axis=(0, 2))
        return grads

    def _jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        dy = self._apply_jvp(params, x, dparams, dx)
        if self.bias:
            dy += dparams["bias"][:, None]
        return dy

    # ---- what a family writes --------------------------------------------------------------------------------------
    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter but the bias, as a new dict."""

    @abstractmethod
    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        """New array y (batch, F, N) and whatever the adjoint needs (nothing that shares memory with x)."""

    @abstractmethod
    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        """Gradients of every parameter but the bias, as a new dict, and grad_x."""

    def _apply_parameter_gradients(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> Parameters:
        """`_apply_backward` without grad_x, which nobody reads in training; for families that save work by it."""
        return self._apply_backward(params, saved, grad_y)[0]

    @abstractmethod
    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        """New array dy (batch, F, N)."""

    @abstractmethod
    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """Dense H(S), shape (F, G, N, N): y_f = sum_g H[f, g] @ x_g, before the bias."""

    @abstractmethod
    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant | ParallelEdgeVariant, Parameters]:
        """The edge-variant filter, or sum of them, that is the same map; else NotRepresentable and why."""

    @classmethod
    @abstractmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """A small instance on `graph`, several features wide, of every configuration that has code of its own.

        Gradient checks, tests, docs and outside checkers iterate over them. The first is the typical one; how many
        there are does not depend on the graph.
        """

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """Transfer function h_fg(lambda) at the graph frequencies or at those given, where the filter has one.

        A filter whose h is defined at the eigenvalues of S alone raises NotRepresentable where `frequencies` are given.
        """
        raise NotRepresentable(
            f"{type(self).__name__} has no transfer function: its H(S) need not share the eigenvectors of S"
        )
