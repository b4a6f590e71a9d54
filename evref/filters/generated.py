"""One edge-variant step whose weights are not free but generated from what is known of each edge: ECC and MoNet.

A family writes the generator (`_generate`, `_generate_backward`, `_generate_jvp`); what is done with the weights, and
its adjoint and tangent, is the edge-variant recursion of order 1 and stands here once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from .. import checks, kernels
from ..contract import Parameters
from ..graph import Graph
from .base import Filter
from .edge_variant import EdgeVariant

Aggregation = Literal["sum", "mean"]


class GeneratedEdgeVariant(Filter):
    r"""A filter bank of order 1 with a generated parameter matrix, eq. (evConv, 9) with K = 1:

    .. math::

        y_f = \sum_g \Phi_{fg} x_g, \qquad
        [\Phi_{fg}]_{ij} = \chi_{ij} \, \varphi_{fg}(u_{ij}; \theta) + [i = j] \, \Theta_{fg},

    on the support of I + S. :math:`u_{ij}` is what is known of the entry, :math:`\varphi(\cdot; \theta)` the generator
    of the family; :math:`\chi_{ij}` is fixed (aggregation: 1, or 1 over the number of terms of row i; 0 for an entry
    that takes no part), and :math:`\Theta`, with ``root=True``, a learnable weight for the node itself.

    Adjoint: :math:`\bar\Phi_{fg,ij} = \sum_{\text{batch}} \bar y_{f,i} x_{g,j}` is the gradient of :math:`\Phi`, as in
    every edge-variant step; :math:`\bar\varphi = \chi \bar\Phi` goes into the generator, and
    :math:`\partial L / \partial \Theta_{fg} = \sum_i \bar\Phi_{fg,ii}`. Tangent:
    :math:`\dot y_f = \sum_g \Phi_{fg} \dot x_g + \dot\Phi_{fg} x_g`.
    """

    equivariant = True  # where u moves with the nodes, as it does for what is made of the graph alone

    def __init__(
        self,
        graph: Graph,
        in_features: int,
        out_features: int,
        aggregation: Aggregation,
        root: bool,
        self_entries: bool,
        bias: bool,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.aggregation: Aggregation = checks.as_choice("aggregation", aggregation, Aggregation)
        self.root = checks.as_flag("root", root)
        self.self_entries = checks.as_flag("self_entries", self_entries)
        takes_part = np.ones(graph.nnz)
        if not self.self_entries:  # a self-loop of S is an edge and stays
            takes_part[graph.diagonal] = graph.S.diagonal() != 0
        if self.aggregation == "mean":
            terms = np.add.reduceat(takes_part, graph.indptr[:-1])  # rows of I + S are never empty
            takes_part /= np.repeat(np.maximum(terms, 1), np.diff(graph.indptr))
        self._scale = takes_part  # chi, (nnz,)

    @property
    def reach(self) -> int:
        return 1

    # ---- what a family writes ---------------------------------------------------------------------------------------
    @abstractmethod
    def _generator_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter of the generator, as a new dict."""

    @abstractmethod
    def _generate(self, params: Parameters) -> tuple[np.ndarray, Any]:
        """varphi at every entry of the support, (F, G, nnz), and whatever its adjoint needs."""

    @abstractmethod
    def _generate_backward(self, params: Parameters, saved: Any, grad: np.ndarray) -> Parameters:
        """Gradients of the generator's parameters from the cotangent (F, G, nnz) of varphi, as a new dict."""

    @abstractmethod
    def _generate_jvp(self, params: Parameters, dparams: Parameters) -> np.ndarray:
        """Tangent of varphi, (F, G, nnz)."""

    @property
    @abstractmethod
    def n_generation_operations(self) -> int:
        """Multiply-adds that make Phi, once per pass however many samples it serves."""

    # ---- the edge-variant step --------------------------------------------------------------------------------------
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = self._generator_shapes()
        if self.root:
            shapes["root"] = (self.out_features, self.in_features)
        return shapes

    def _phi(self, generated: np.ndarray, root: np.ndarray | None) -> np.ndarray:
        """Phi, (1, F, G, nnz), of what the generator made: the map is linear, so that it serves tangents as well."""
        phi = generated * self._scale.astype(generated.dtype)
        if root is not None:
            phi[..., self.graph.diagonal] += root[..., None]
        return phi[None]

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        kernel = kernels.current()
        generated, saved_generator = self._generate(params)
        phi = self._phi(generated, params.get("root"))
        y, saved = kernel.ev_forward(self.graph, phi, None, x)
        return y, (kernel, phi, saved, saved_generator)

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        kernel, phi, saved_x, saved_generator = saved
        grad_phi, _, grad_x = kernel.ev_backward(self.graph, phi, None, saved_x, grad_y)
        grad_phi = grad_phi[0]  # (F, G, nnz)
        grads = self._generate_backward(params, saved_generator, grad_phi * self._scale.astype(grad_phi.dtype))
        if self.root:
            grads["root"] = grad_phi[..., self.graph.diagonal].sum(axis=-1)
        return grads, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        phi = self._phi(self._generate(params)[0], params.get("root"))
        dphi = self._phi(self._generate_jvp(params, dparams), dparams.get("root"))
        return kernels.current().ev_jvp(self.graph, phi, None, x, dphi, None, dx)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """The edge-variant filter of order 1, zeroth="none", with the generated Phi: always exact."""
        params = self._checked_parameters(params)
        dtype = np.result_type(*params.values())
        params = {name: value.astype(dtype, copy=False) for name, value in params.items()}
        embedded = {"phi": self._phi(self._generate(params)[0], params.get("root"))}
        if self.bias:
            embedded["bias"] = params["bias"]
        return EdgeVariant(self.graph, 1, self.in_features, self.out_features, zeroth="none", bias=self.bias), embedded

    def n_operations(self, batch: int = 1) -> int:
        """F G (M + N) multiply-adds per sample; making Phi comes on top, once: `n_generation_operations`."""
        return checks.as_count("batch", batch) * self.out_features * self.in_features * self.graph.nnz

    # ---- for `matrix`, which is independent of the above ------------------------------------------------------------
    def _terms(self) -> list[tuple[int, int, int, float]]:
        """(position, i, j, c_ij) of every entry that takes part, counted out one by one."""
        graph, loops = self.graph, self.graph.S.diagonal()
        found = []
        for i in range(graph.n_nodes):
            members = [(p, int(graph.indices[p])) for p in range(graph.indptr[i], graph.indptr[i + 1])]
            if not self.self_entries:
                members = [(p, j) for p, j in members if j != i or loops[i] != 0]
            c = 1 / len(members) if self.aggregation == "mean" and members else 1.0
            found += [(p, i, j, c) for p, j in members]
        return found

    def _matrix_of(self, entry: Any, params: Parameters) -> np.ndarray:
        """Dense H from `entry(position)`, which gives the F x G block of one entry."""
        F, G, N = self.out_features, self.in_features, self.graph.n_nodes
        checks.require_room(f"the matrix of {type(self).__name__}", F, G, N, N)
        H = np.zeros((F, G, N, N), np.result_type(*params.values()))
        for p, i, j, c in self._terms():
            H[:, :, i, j] += c * entry(p)
        if self.root:
            H += params["root"][:, :, None, None] * np.eye(N)
        return H


# ---- what is known of an entry ---------------------------------------------------------------------------------------
def degree_coordinates(graph: Graph) -> np.ndarray:
    """u_ij = (1/sqrt(deg i), 1/sqrt(deg j)) on the support of I + S, shape (nnz, 2) (Monti et al. 2017, for graphs).

    deg i counts the edges that arrive at the hearing node i, deg j those that leave the heard node j: the nonzero
    entries of row i and of column j of S, a self-loop among them. The weights play no part. On an undirected graph both
    are the usual degree. An isolated node has only its own entry, with u = (1, 1).

    >>> from evref import Graph
    >>> star = Graph.from_edges(5, source=[1, 2, 3, 4], target=[0, 0, 0, 0])
    >>> degree_coordinates(star)[1].tolist()  # the entry (0, 1): four edges arrive at node 0, one leaves node 1
    [0.5, 1.0]
    """
    arriving = np.maximum(np.diff(graph.S.indptr), 1)
    leaving = np.maximum(np.bincount(graph.S.indices, minlength=graph.n_nodes), 1)
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    return np.stack([arriving[rows] ** -0.5, leaving[graph.indices] ** -0.5], axis=1)


def edge_attributes(graph: Graph) -> np.ndarray:
    """(S_ij, 1/sqrt(deg i), 1/sqrt(deg j)) on the support of I + S, shape (nnz, 3): weight and degree coordinates."""
    return np.concatenate([graph.shift_values().astype(np.float64)[:, None], degree_coordinates(graph)], axis=1)


def on_support(graph: Graph, source: Any, target: Any, values: Any, missing: float = 0.0) -> np.ndarray:
    """Values of an edge list, brought into the order of the support of I + S.

    Parameters
    ----------
    graph : Graph
    source, target : array_like of int, shape (edges,)
        The edge source[e] -> target[e] is the entry (target[e], source[e]).
    values : array_like, shape (edges, D) or (edges,)
    missing : float
        What entries get that the list does not name, such as (i, i) of a node without self-loop.

    Returns
    -------
    ndarray, shape (nnz, D)

    Raises
    ------
    ValueError
        An edge is not in the graph or comes twice, or the arrays disagree in length.

    Examples
    --------
    >>> from evref import Graph
    >>> graph = Graph.from_edges(2, source=[0], target=[1])
    >>> on_support(graph, [0], [1], [7.0], missing=-1).ravel().tolist()  # entries (0, 0), (1, 0), (1, 1)
    [-1.0, 7.0, -1.0]
    """
    values = checks.as_floating("values", values)
    values = values[:, None] if values.ndim == 1 else values
    ends = {"source": checks.as_array("source", source), "target": checks.as_array("target", target)}
    for name, nodes in ends.items():
        if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
            raise ValueError(f"{name} has shape {nodes.shape} and dtype {nodes.dtype}; expected integers, (edges,)")
    if values.ndim != 2 or not len(ends["source"]) == len(ends["target"]) == len(values):
        raise ValueError(
            f"source, target and values have shapes {ends['source'].shape}, {ends['target'].shape} and {values.shape}; "
            "expected (edges,), (edges,) and (edges, D)"
        )
    N = graph.n_nodes
    rows = np.repeat(np.arange(N), np.diff(graph.indptr))
    support = rows * N + graph.indices  # rising
    inside = np.ones(len(values), dtype=bool)
    for nodes in ends.values():
        inside &= (nodes >= 0) & (nodes < N)
    wanted = np.where(inside, ends["target"].astype(np.int64) * N + ends["source"].astype(np.int64), 0)
    place = np.minimum(np.searchsorted(support, wanted), graph.nnz - 1)
    inside &= support[place] == wanted
    if not inside.all():
        e = int(np.argmin(inside))
        raise ValueError(f"edge {e}, {ends['source'][e]} -> {ends['target'][e]}, is not in the graph")
    if np.unique(place).size != place.size:
        raise ValueError("an edge comes twice; expected each entry of I + S at most once")
    out = np.full((graph.nnz, values.shape[1]), missing, dtype=values.dtype)
    out[place] = values
    return out


def as_entry_values(name: str, value: Any, graph: Graph) -> np.ndarray:
    """A read-only copy of `value`, (nnz, D) with D at least 1 and every number finite."""
    array = checks.as_floating(name, value)
    if array.ndim != 2 or array.shape[0] != graph.nnz or array.shape[1] == 0:
        hint = ""
        if array.shape[:1] == (graph.n_edges,) and graph.n_edges != graph.nnz:
            hint = "; for one row per edge, see evref.filters.generated.on_support"
        raise ValueError(
            f"{name} has shape {array.shape}; expected ({graph.nnz}, D), one row per entry of I + S in CSR order{hint}"
        )
    checks.require_finite(name, array)
    array = array.copy()
    array.setflags(write=False)
    return array
