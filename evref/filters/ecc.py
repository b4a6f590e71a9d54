"""ECC: the weight of an edge is what a small network makes of the edge's attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from .. import checks
from ..contract import Parameters
from ..graph import Graph
from .generated import Aggregation, GeneratedEdgeVariant, as_entry_values, edge_attributes

Activation = Literal["tanh", "relu"]


class ECC(GeneratedEdgeVariant):
    r"""Edge-conditioned convolution (Simonovsky & Komodakis 2017), one edge-variant step, eq. (evConv, 9) with K = 1:

    .. math::

        y_{f,i} = \sum_g \sum_{j \in \mathcal{N}_i \cup i} \chi_{ij} \, \varphi_{fg}(u_{ij}) \, x_{g,j}
        \; [+ \Theta_{fg} x_{g,i}],

    where :math:`\varphi` is a network from the attributes :math:`u_{ij}` of an edge to an F x G matrix,

    .. math::

        \zeta^{(0)} = u_{ij}, \qquad \varphi^{(l)} = W_l \zeta^{(l)} + \beta_l, \qquad
        \zeta^{(l+1)} = \sigma(\varphi^{(l)}) \quad (l < m), \qquad \mathrm{vec}\, \varphi = \varphi^{(m)} .

    The publication takes the mean, :math:`\chi_{ij} = 1 / |\mathcal{N}_i \cup i|`, counts i among its own neighbours,
    and has no :math:`\Theta`; here that is ``aggregation="mean"``. The entry (i, i) has a row of attributes like any
    other; with ``self_entries=False`` it takes part only where S has a self-loop, as in PyG's `NNConv`, whose
    `root_weight` is ``root=True``.

    Adjoint: with :math:`\bar\varphi_{fg,ij} = \chi_{ij} \sum_{\text{batch}} \bar y_{f,i} x_{g,j}` and, for each edge,
    :math:`\bar\varphi^{(m)} = \mathrm{vec}\, \bar\varphi`,

    .. math::

        \frac{\partial L}{\partial W_l} = \sum_{ij} \bar\varphi^{(l)} \zeta^{(l)\top}, \qquad
        \frac{\partial L}{\partial \beta_l} = \sum_{ij} \bar\varphi^{(l)}, \qquad
        \bar\varphi^{(l-1)} = \sigma'(\varphi^{(l-1)}) \odot W_l^\top \bar\varphi^{(l)} ;

    tangent :math:`\dot\varphi^{(l)} = \dot W_l \zeta^{(l)} + \dot\beta_l + W_l \dot\zeta^{(l)}`,
    :math:`\dot\zeta^{(l+1)} = \sigma'(\varphi^{(l)}) \odot \dot\varphi^{(l)}`. Line by line: ``docs/generated.md``.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["w<l>"] : (width of layer l, width before it); the last is (out_features * in_features, .), row f G + g
    params["b<l>"] : (width of layer l,), :math:`\beta_l`
    params["root"] : (out_features, in_features), only with root=True
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    attributes : array_like, shape (nnz, n), optional
        u, n numbers for each entry of I + S in CSR order (`evref.filters.generated.on_support` brings an edge list into
        it). By default the weight S_ij and the degree coordinates, which move with the nodes: then the filter is
        equivariant.
    hidden : sequence of int
        Widths of the hidden layers; () makes the weights affine in the attributes.
    in_features, out_features : int
        G and F.
    aggregation : {"sum", "mean"}
    activation : {"tanh", "relu"}
        sigma.
    root : bool
        Whether there is a Theta.
    self_entries : bool
        Whether (i, i) counts as an edge where S has no self-loop.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For attributes of another shape, or NaN or inf in them; for widths that are no positive integers.

    Examples
    --------
    Weights affine in one attribute, the length of the edge, on a directed path 0 -> 1 -> 2:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> length = np.array([[0.0], [5.0], [0.0], [7.0], [0.0]])  # entries (0, 0), (1, 0), (1, 1), (2, 1), (2, 2)
    >>> filt = ev.ECC(graph, length, hidden=())
    >>> filt.forward({"w0": [[2.0]], "b0": [0.0]}, np.array([1.0, 1.0, 0.0]))[0]
    array([ 0., 10., 14.])
    """

    name = "ecc"
    axes: ClassVar[dict[str, str]] = {"root": "fg"}

    def __init__(
        self,
        graph: Graph,
        attributes: Any = None,
        hidden: Sequence[int] = (8,),
        in_features: int = 1,
        out_features: int = 1,
        *,
        aggregation: Aggregation = "sum",
        activation: Activation = "tanh",
        root: bool = False,
        self_entries: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, aggregation, root, self_entries, bias)
        self.attributes = as_entry_values(
            "attributes", edge_attributes(graph) if attributes is None else attributes, graph
        )
        if isinstance(hidden, (str, bytes)) or not isinstance(hidden, (Sequence, np.ndarray)):
            raise TypeError(
                f"hidden is {hidden!r} ({type(hidden).__name__}); expected a sequence of widths such as (8,)"
            )
        self.hidden = tuple(checks.as_count(f"hidden[{i}]", n, minimum=1) for i, n in enumerate(hidden))
        self.activation: Activation = checks.as_choice("activation", activation, Activation)
        self._widths = (self.attributes.shape[1], *self.hidden, self.out_features * self.in_features)

    @property
    def _layers(self) -> range:
        return range(len(self._widths) - 1)

    def _generator_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for l in self._layers:
            shapes[f"w{l}"] = (self._widths[l + 1], self._widths[l])
            shapes[f"b{l}"] = (self._widths[l + 1],)
        return shapes

    def _init_scale(self, name: str) -> float:
        """1/sqrt(fan-in) for each layer of the network; the last, root and bias see G features more."""
        if name in ("root", "bias"):
            return self.in_features**-0.5
        layer = int(name[1:])
        last = layer == len(self._widths) - 2
        return (self._widths[layer] * (self.in_features if last else 1)) ** -0.5

    def _generate(self, params: Parameters) -> tuple[np.ndarray, Any]:
        h = [self.attributes.astype(params["w0"].dtype)]  # each (nnz, width)
        for l in self._layers:
            z = h[-1] @ params[f"w{l}"].T + params[f"b{l}"]
            h.append(self._sigma(z) if l < self._layers[-1] else z)
        return h.pop().T.reshape(self.out_features, self.in_features, -1), h

    def _generate_backward(self, params: Parameters, saved: Any, grad: np.ndarray) -> Parameters:
        delta = grad.reshape(self._widths[-1], -1).T  # (nnz, F G)
        grads: Parameters = {}
        for l in reversed(self._layers):
            grads[f"w{l}"] = delta.T @ saved[l]
            grads[f"b{l}"] = delta.sum(axis=0)
            if l > 0:
                delta = self._slope(saved[l]) * (delta @ params[f"w{l}"])
        return grads

    def _generate_jvp(self, params: Parameters, dparams: Parameters) -> np.ndarray:
        h = self.attributes.astype(params["w0"].dtype)
        dh = np.zeros_like(h)  # the attributes are given, not learnt
        for l in self._layers:
            z = h @ params[f"w{l}"].T + params[f"b{l}"]
            dh = dh @ params[f"w{l}"].T + h @ dparams[f"w{l}"].T + dparams[f"b{l}"]
            if l < self._layers[-1]:
                h = self._sigma(z)
                dh = self._slope(h) * dh
        return dh.T.reshape(self.out_features, self.in_features, -1)

    def _sigma(self, z: np.ndarray) -> np.ndarray:
        return np.tanh(z) if self.activation == "tanh" else z * (z.real > 0)

    def _slope(self, h: np.ndarray) -> np.ndarray:
        """sigma' where sigma is h: both activations tell their slope by their value."""
        return 1 - h * h if self.activation == "tanh" else (h.real > 0).astype(h.dtype)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """[H_fg]_ij = c_ij varphi_fg(u_ij) + [i = j] Theta_fg, one edge at a time."""
        params = self._checked_parameters(params)

        def block(p: int) -> np.ndarray:
            h = self.attributes[p]
            for l in self._layers:
                h = params[f"w{l}"] @ h + params[f"b{l}"]
                if l < self._layers[-1]:
                    h = np.tanh(h) if self.activation == "tanh" else np.where(h.real > 0, h, 0)
            return h.reshape(self.out_features, self.in_features)

        return self._matrix_of(block, params)

    @property
    def n_generation_operations(self) -> int:
        return self.graph.nnz * sum(self._widths[l] * self._widths[l + 1] for l in self._layers)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Mean and sum, tanh and ReLU, no, one and two hidden layers, with and without root and self-entries."""
        sizes: dict[str, Any] = {"in_features": 2, "out_features": 3}
        yield cls(graph, hidden=(4,), aggregation="mean", root=True, bias=True, **sizes)
        yield cls(graph, hidden=(3, 4), activation="relu", **sizes)
        yield cls(graph, hidden=(), self_entries=False, **sizes)
        yield cls(graph, hidden=(3,), aggregation="mean", self_entries=False, root=True, **sizes)
