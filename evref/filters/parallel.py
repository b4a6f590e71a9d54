"""A sum of edge-variant recursions side by side: what a filter is when one recursion is not enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import Parameters
from ..graph import Graph
from .base import Filter
from .edge_variant import EdgeVariant, Zeroth


class ParallelEdgeVariant(Filter):
    r"""H_fg = sum over p of the edge-variant filter number p from g to f:

    .. math:: H_{fg}(S) = \sum_{p=1}^{P} \sum_k \Phi^{(k)}_{f,pg} \cdots \Phi^{(0)}_{f,pg} .

    One recursion multiplies what it has done so far; a sum of two, such as eq. (HEV, 18), is in general no single
    recursion of the same order. It *is* one bank of recursions that hears every input P times: the input features are
    repeated, and feature p G + g of the bank is the p-th copy of feature g.

    Adjoint: that of the bank, with the cotangents of the P copies of an input added. Tangent: the tangent is repeated
    like the input.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (order, out_features, terms * in_features, nnz)
    params["phi0"] : (out_features, terms * in_features, nodes), only with zeroth="diagonal"

    Parameters
    ----------
    graph, order, in_features, out_features, zeroth, bias
        As for :class:`EdgeVariant`.
    terms : int
        P, at least 1; with 1 this is `EdgeVariant` itself.

    Examples
    --------
    >>> import numpy as np, evref as ev
    >>> filt = ev.ParallelEdgeVariant(ev.generators.path(3), order=1, terms=2)
    >>> params = {"phi": np.stack([np.ones(7), -np.ones(7)]).reshape(1, 1, 2, 7)}  # two filters that cancel
    >>> filt.forward(params, np.array([1.0, 2.0, 3.0]))[0]
    array([0., 0., 0.])
    """

    name = "parallel_edge_variant"
    axes: ClassVar[dict[str, str]] = {"phi": "kfge", "phi0": "fgn"}

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        terms: int = 2,
        *,
        zeroth: Zeroth = "none",
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.terms = checks.as_count("terms", terms, minimum=1)
        self._bank = EdgeVariant(graph, order, self.terms * self.in_features, self.out_features, zeroth=zeroth)
        self.order, self.zeroth = self._bank.order, self._bank.zeroth

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return self._bank._shapes()

    def _init_scale(self, name: str) -> float:
        return self._bank._init_scale(name)

    def _copies(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x] * self.terms, axis=1)

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        return self._bank._apply(params, self._copies(x))

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        grads, grad_copies = self._bank._apply_backward(params, saved, grad_y)
        batch, _, nodes = grad_copies.shape
        return grads, grad_copies.reshape(batch, self.terms, self.in_features, nodes).sum(axis=1)

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        return self._bank._apply_jvp(params, self._copies(x), dparams, self._copies(dx))

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        params = self._checked_parameters(params)
        H = self._bank.matrix({name: params[name] for name in self._shapes()})
        return H.reshape(self.out_features, self.terms, self.in_features, *H.shape[2:]).sum(axis=1)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant | ParallelEdgeVariant, Parameters]:
        """With one term, that term; otherwise itself, for a sum of recursions is in general no single one."""
        params = self._checked_parameters(params)
        if self.terms == 1:
            filt = EdgeVariant(
                self.graph, self.order, self.in_features, self.out_features, zeroth=self.zeroth, bias=self.bias
            )
            return filt, params
        return self, params

    def n_operations(self, batch: int = 1) -> int:
        return self._bank.n_operations(batch)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Every `zeroth`, and a single term."""
        yield cls(graph, order=2, in_features=2, out_features=2, terms=2, zeroth="diagonal", bias=True)
        yield cls(graph, order=2, in_features=1, out_features=2, terms=2, zeroth="none")
        yield cls(graph, order=2, in_features=1, out_features=2, terms=2, zeroth="identity")
        yield cls(graph, order=1, in_features=2, out_features=1, terms=1, zeroth="none")
