"""Diffusion-convolution: one weight per hop and feature, nothing mixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import Parameters
from ..graph import Graph, as_graph
from ..kernels import shift_reference as shift
from .base import Filter
from .edge_variant import EdgeVariant
from .newton import newton_embedding
from .polynomial import graph_frequencies


class DCNN(Filter):
    r"""Diffusion-convolutional network (Atwood & Towsley 2016), the linear part of its layer:

    .. math:: y_{kG+g} = \omega_{kg}\, w_g^{(k)}, \qquad w_g^{(k)} = S w_g^{(k-1)}, \qquad w_g^{(0)} = x_g,
        \qquad k = 0, \dots, K, \quad g = 0, \dots, G-1 .

    Every pair of a hop and an input feature is an output feature of its own, with a single weight; features are mixed
    only by the dense layer that follows in the original. S is `graph.S`: a random walk :math:`D^{-1} A`,
    ``graph.with_shift("random_walk")`` (rows sum to 1), which :meth:`on` applies. The
    authors' published code divides by degree + 1 instead, so that no node divides by zero and rows do not sum to 1.

    Adjoint, with :math:`\bar y` = `grad_y`: :math:`\partial L / \partial \omega_{kg} = \sum_{\text{batch}} \langle
    \bar y_{kG+g}, w_g^{(k)} \rangle`, and Horner in :math:`S^\top`, :math:`\bar w_g^{(k)} = \omega_{kg} \bar y_{kG+g} +
    S^\top \bar w_g^{(k+1)}`, :math:`\partial L / \partial x_g = \bar w_g^{(0)}`. Tangent: :math:`\dot y_{kG+g} =
    \dot\omega_{kg} w_g^{(k)} + \omega_{kg} \dot w_g^{(k)}`.

    Edge-variant: the filter from g to (k, g) is the polynomial :math:`\omega_{kg} s^k`, all others are zero. A monomial
    has zero coefficients below its degree, where the telescoping sum fails and the Newton form does not.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, (K + 1) in_features, nodes)
    params["weight"] : (K + 1, in_features)
    params["bias"] : ((K + 1) in_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S is the shift, as it is.
    order : int
        K, the largest number of hops.
    in_features : int
    bias : bool

    Raises
    ------
    ValueError, TypeError
        For an order that is negative or not an integer.

    Examples
    --------
    >>> import numpy as np, evref as ev
    >>> filt = ev.DCNN.on(ev.generators.path(3), order=1)
    >>> filt.forward({"weight": np.array([[1.0], [2.0]])}, np.array([[1.0, 0.0, 0.0]]))[0]
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    name = "dcnn"
    axes: ClassVar[dict[str, str]] = {"weight": "kg"}
    equivariant = True

    def __init__(self, graph: Graph, order: int, in_features: int = 1, *, bias: bool = False) -> None:
        self.order = checks.as_count("order", order)
        in_features = checks.as_count("in_features", in_features, minimum=1)
        super().__init__(graph, in_features, (self.order + 1) * in_features, bias)

    @classmethod
    def on(cls, graph: Graph, *args: Any, **kwargs: Any) -> Self:
        """The filter on ``graph.with_shift("random_walk")``; the other arguments are the constructor's."""
        return cls(as_graph(graph).with_shift("random_walk"), *args, **kwargs)

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.order + 1, self.in_features)}

    def _init_scale(self, name: str) -> float:
        """1: each output has one input and one weight."""
        return 1.0

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        states = shift.shift_states(self.graph, x, self.order)  # (K + 1, G, N, batch)
        return self._flat(params["weight"], states), states

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        v = grad_y.transpose(1, 2, 0).reshape(saved.shape)
        grad_weight = np.einsum("hgib,hgib->hg", v, saved)
        return {"weight": grad_weight}, shift.shift_states_adjoint(self.graph, params["weight"][..., None, None] * v)

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        states, dstates = (shift.shift_states(self.graph, signal, self.order) for signal in (x, dx))
        return self._flat(dparams["weight"], states) + self._flat(params["weight"], dstates)

    def _flat(self, weight: np.ndarray, states: np.ndarray) -> np.ndarray:
        """weight * states with hop and feature as one axis: (batch, (K + 1) G, N)."""
        y = weight[..., None, None] * states
        return np.ascontiguousarray(y.reshape(self.out_features, *y.shape[2:]).transpose(2, 0, 1))

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        P = self.graph.dense_shift(self.in_features * self.out_features)
        powers = np.stack([np.linalg.matrix_power(P, h) for h in range(self.order + 1)])
        return np.einsum("kfg,kij->fgij", self.monomial(params), powers)

    def monomial(self, params: Mapping[str, Any]) -> np.ndarray:
        """The same filters as coefficients of powers of P, (K + 1, F, G): what `Polynomial` takes, nearly all zero."""
        weight = self._checked_parameters(params)["weight"]
        G = self.in_features
        coefficients = np.zeros((self.order + 1, self.out_features, G), weight.dtype)
        for h in range(self.order + 1):
            for g in range(G):
                coefficients[h, h * G + g, g] = weight[h, g]
        return coefficients

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """By the Newton form: exact for all weights; zeroth="diagonal"."""
        return newton_embedding(self.graph, self.monomial(params), bias=params.get("bias"))

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """omega_kg lambda_n^k where f = k G + g, else 0, at :func:`graph_frequencies` or those given, (F, G, N)."""
        powers = graph_frequencies(self.graph, frequencies) ** np.arange(self.order + 1)[:, None]
        return np.einsum("kfg,ki->fgi", self.monomial(params), powers)

    def n_operations(self, batch: int = 1) -> int:
        """Per sample and input feature: K |S| multiply-adds for the states, (K + 1) N for the weights."""
        G, N = self.in_features, self.graph.n_nodes
        return checks.as_count("batch", batch) * G * (self.order * self.graph.S.nnz + (self.order + 1) * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """A random walk on |S|: the weights of a walk are not negative. And no walk at all."""
        yield cls.on(Graph(abs(graph.S)), order=2, in_features=2, bias=True)
        yield cls.on(Graph(abs(graph.S)), order=0, in_features=2)
