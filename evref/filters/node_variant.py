"""The node-variant graph filter: every node weighs its own shifts, and most nodes copy a privileged one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks, kernels
from ..contract import NotRepresentable, Parameters
from ..graph import Graph, selection
from ..kernels.groups import group_nodes
from .base import Filter
from .edge_variant import EdgeVariant
from .newton import spectral_bound


class NodeVariant(Filter):
    r"""Node-variant filter bank, eq. (nodeV, 17) (Segarra, Marques and Ribeiro 2017; as a layer Gama et al. 2018):

    .. math::

        y_f = \sum_{g=1}^{G} \sum_{k=0}^{K} \operatorname{diag}(\phi^{(k)}_{fg})\, w^{(k)}_g, \qquad
        \phi^{(k)}_{fg} = C_\mathcal{B}\, \phi^{(k)}_{\mathcal{B},fg}, \qquad
        w^{(0)}_g = x_g, \quad w^{(k)}_g = S w^{(k-1)}_g .

    Row i of H(S) is row i of the polynomial :math:`p_i(S) = \sum_k \phi^{(k)}_i S^k`. Nodes of the privileged set B
    have a polynomial each; C_B says whose the others use. By default it has one 1 per row: a node copies the polynomial
    of a privileged node that is close (:func:`evref.graph.selection.nearest_privileged`). The paper allows any binary
    matrix, and so does `mapping`: with several ones in its row a node uses the sum of those polynomials, with none its
    output is zero. With one privileged node the filter is a polynomial, with all of them every node has its own.

    Adjoint, with :math:`\bar y_f` = `grad_y` of feature f, by Horner's scheme from k = K down:

    .. math::

        \frac{\partial L}{\partial \phi^{(k)}_{\mathcal{B},fg}} = C_\mathcal{B}^\top
        \sum_{\text{batch}} \bar y_f \odot w^{(k)}_g, \qquad
        \bar w^{(k)}_g = \sum_f \phi^{(k)}_{fg} \odot \bar y_f + S^\top \bar w^{(k+1)}_g, \qquad
        \frac{\partial L}{\partial x_g} = \bar w^{(0)}_g .

    Tangent: :math:`\dot y_f = \sum_g \sum_k \dot \phi^{(k)}_{fg} \odot w^{(k)}_g + \phi^{(k)}_{fg} \odot S^k \dot x_g`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (K + 1, out_features, in_features, len(nodes)), coefficients in the order of `nodes`
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S is the shift.
    order : int
        K, the highest power of S.
    in_features, out_features : int
        G and F.
    nodes : array_like of int, optional
        B, the privileged nodes, best first; all nodes by default. See :mod:`evref.graph.selection`.
    mapping : array_like or scipy.sparse, shape (N, len(nodes)), optional
        C_B, of zeros and ones. A column without a 1 belongs to a coefficient that nobody uses: its gradient is zero.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError
        B is empty (the filter would have no parameters), names a node twice, or one that is not there; `mapping` has
        another shape or holds anything but zeros and ones.

    Examples
    --------
    On the directed path 0 -> 1 -> 2, node 2 listens one hop away and the others, copying node 0, to themselves:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> filt = ev.NodeVariant(graph, order=1, nodes=[0, 2])
    >>> phi = np.array([[1.0, 0.0], [0.0, 1.0]]).reshape(2, 1, 1, 2)  # k = 0, k = 1
    >>> filt.forward({"phi": phi}, np.array([1.0, 2.0, 4.0]))[0]
    array([1., 2., 2.])

    With a mapping of one's own node 1 adds both polynomials, x_1 + (S x)_1:

    >>> filt = ev.NodeVariant(graph, order=1, nodes=[0, 2], mapping=[[1, 0], [1, 1], [0, 1]])
    >>> filt.forward({"phi": phi}, np.array([1.0, 2.0, 4.0]))[0]
    array([1., 3., 2.])
    """

    name = "node_variant"
    axes: ClassVar[dict[str, str]] = {"phi": "kfgb"}

    _plain_to_see = ()  # k = 0, as in polynomials

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        nodes: Any = None,
        bias: bool = False,
        mapping: Any = None,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.order = checks.as_count("order", order)
        self.nodes = selection.as_privileged("nodes", nodes, graph.n_nodes)
        if self.nodes.size == 0:
            raise ValueError(
                "nodes is empty: a node-variant filter without privileged nodes has no parameters; expected at least "
                "one (a single node gives the polynomial filter, None every node its own coefficients)"
            )
        # Nodes with the same row of C_B form a group and have one polynomial: `_rows` has a row of C_B for each group,
        # or is None where that is the identity, and `_copied`, (N,), says which group a node is in.
        self._rows: np.ndarray | None = None
        if mapping is None:
            self.mapping = None
            self._copied = selection.nearest_privileged(graph, self.nodes)
        else:
            self.mapping = selection.as_mapping("mapping", mapping, graph.n_nodes, self.nodes.size)
            self._rows, copied = np.unique(self.mapping, axis=0, return_inverse=True)
            self._copied = copied.reshape(-1)
        self._groups = group_nodes(self._copied, self.nodes.size if self._rows is None else len(self._rows))

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"phi": (self.order + 1, self.out_features, self.in_features, self.nodes.size)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G (K + 1) |B|), the authors' choice."""
        return (self.in_features * (self.order + 1) * self.nodes.size) ** -0.5

    def _by_group(self, phi: np.ndarray) -> np.ndarray:
        """Coefficients (taps, F, G, |B|) of the privileged nodes as those of the groups, (taps, F, G, groups)."""
        if self._rows is None:
            return phi
        with np.errstate(invalid="ignore"):  # of NaN and inf, which who lets them in wants to see in the result
            return phi @ self._rows.T.astype(phi.dtype)

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        shift = kernels.for_shifts(x.dtype)
        y, states = shift.shift_forward(self.graph, self._by_group(params["phi"]), x, groups=self._groups)
        return y, (shift, states)  # the adjoint is that of the kernels that went forward

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        shift, states = saved
        weights = self._by_group(params["phi"])
        grad_weights, grad_x = shift.shift_backward(self.graph, weights, states, grad_y, groups=self._groups)
        if self._rows is not None:
            with np.errstate(invalid="ignore"):
                grad_weights = grad_weights @ self._rows.astype(grad_y.dtype)  # C_B^T of the equation
        return {"phi": grad_weights}, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        shift = kernels.for_shifts(x.dtype)
        pairs = (self._by_group(dparams["phi"]), x), (self._by_group(params["phi"]), dx)
        return sum(shift.shift_forward(self.graph, phi, signal, groups=self._groups)[0] for phi, signal in pairs)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H_fg = sum_k diag(C_B phi^(k)_fg) S^k, with dense matrices."""
        phi = self._checked_parameters(params)["phi"]
        N = self.graph.n_nodes
        S = self.graph.dense_shift(self.in_features * self.out_features).astype(np.float64)
        C = self.mapping
        if C is None:
            C = np.zeros((N, self.nodes.size))
            C[np.arange(N), self._copied] = 1
        H = np.zeros((self.out_features, self.in_features, N, N), np.result_type(phi, np.float64))
        for f in range(self.out_features):
            for g in range(self.in_features):
                for k in range(self.order + 1):
                    H[f, g] += np.diag(C @ phi[k, f, g]) @ np.linalg.matrix_power(S, k)
        return H.astype(phi.dtype, copy=False)

    # ---- the map into the edge-variant recursion ---------------------------------------------------------------------
    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        r"""One recursion of the same order, with a diagonal Phi^(0), if no polynomial is more than 2 degrees short.

        Write the polynomials of all nodes on common Newton nodes s_0, s_1, ...:
        :math:`p_i(S) = \sum_{k \le K} c^{(k)}_i \pi_k(S)`, with
        :math:`\pi_k(S) = \prod_{j<k} (S - s_j I)` and :math:`s_{K-1} = 0`. Then

        .. math::

            \Phi^{(0)} &= \operatorname{diag}(c^{(0)}), \\
            \Phi^{(k)} &= \operatorname{diag}(c^{(k)}) (S - s_{k-1} I) \operatorname{diag}(c^{(k-1)})^{-1},
            \quad 1 \le k \le K - 2, \\
            \Phi^{(K-1)} &= (S - s_{K-2} I) \operatorname{diag}(c^{(K-2)})^{-1}, \\
            \Phi^{(K)} &= \operatorname{diag}(c^{(K-1)} - 1) + \operatorname{diag}(c^{(K)}) S .

        The last two steps give :math:`(I + \Phi^{(K)}) \Phi^{(K-1)} \cdots = (c^{(K-1)} + c^{(K)} S) \pi_{K-1}(S)`
        without a division by a coefficient of order K-1 or K. The other s_j are free, and with all but a few values of
        theirs no :math:`c^{(k)}_i` is zero unless p_i has a degree below k. So what is asked is a degree of at least
        K - 2 from every p_i. If every degree is below K the recursion may stop at the largest of them, m, and m - 2 is
        enough.

        Raises
        ------
        NotRepresentable
            For some pair (f, g) the degrees of two nodes differ by more than 2 (a zero polynomial counts as degree
            -1). Then :meth:`limit_embedding` comes as close as one likes; on some graphs nothing is exact
            (``docs/node_variant.md``).
        """
        params = self._checked_parameters(params)
        return self._embedding(self._by_group(params["phi"]), params)

    def _embedding(self, phi: np.ndarray, params: Parameters) -> tuple[EdgeVariant, Parameters]:
        """The recursion for the groups' coefficients `phi` (K + 1, F, G, groups)."""
        graph, K, F, G = self.graph, self.order, self.out_features, self.in_features
        wide = np.result_type(phi, np.float64)
        bound = spectral_bound(graph)
        ev_params = {
            "phi": np.zeros((K, F, G, graph.nnz), wide),
            "phi0": np.zeros((F, G, graph.n_nodes), wide),
        }
        for f in range(F):
            for g in range(G):
                coefficients = phi[:, f, g].astype(wide)  # (K + 1, groups)
                m = self._recursion_order(coefficients, f, g)
                d, s, last = _newton_form(coefficients[: m + 1], bound)
                d, last = d[:, self._copied], last[:, self._copied]  # one polynomial per node
                ev_params["phi0"][f, g] = d[0] if m != 1 else 1
                for k in range(1, m + 1):
                    ev_params["phi"][k - 1, f, g] = self._step(k, m, d, s, last)
        filt = EdgeVariant(graph, K, G, F, zeroth="diagonal", bias=self.bias)
        ev_params = {key: value.astype(phi.dtype, copy=False) for key, value in ev_params.items()}
        return filt, ev_params | ({"bias": params["bias"]} if self.bias else {})

    def _step(self, k: int, m: int, d: np.ndarray, s: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Phi^(k) of a recursion of order m on the support of I + S."""
        graph = self.graph
        rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
        values = graph.shift_values().astype(d.dtype)
        if k == m:
            values = last[1, rows] * values
            values[graph.diagonal] += last[0] - 1
            return values
        values[graph.diagonal] -= s[k - 1]
        left = 1 if k == m - 1 else d[k, rows]
        return left * values / d[k - 1, graph.indices]

    def _recursion_order(self, coefficients: np.ndarray, f: int, g: int) -> int:
        """m, the order at which the recursion can end, or NotRepresentable."""
        nonzero = coefficients.real != 0
        degree = np.where(nonzero.any(axis=0), self.order - np.argmax(nonzero[::-1], axis=0), -1)  # (groups,)
        if degree.min() >= self.order - 2:
            return self.order
        m = max(int(degree.max()), 0)
        if degree.min() < m - 2:
            low, high = (self._node_of(int(group)) for group in (np.argmin(degree), np.argmax(degree)))
            raise NotRepresentable(
                f"filter ({f}, {g}): the polynomial of node {low} has degree {degree.min()} and that of "
                f"node {high} degree {m}; one recursion is known for degrees that differ "
                "by at most 2 (a zero polynomial counts as -1); limit_embedding comes as close as one likes"
            )
        if (coefficients[m + 1 :] != 0).any():  # real parts are zero, a complex step asks for the derivative
            raise NotRepresentable(
                f"filter ({f}, {g}): all degrees are at most {m}, and the map has no derivative in higher coefficients"
            )
        return m

    def _node_of(self, group: int) -> int:
        """A node with the polynomial of `group`: the privileged one, or with a mapping the first."""
        return int(self.nodes[group] if self._rows is None else np.argmax(self._copied == group))

    def limit_embedding(self, params: Mapping[str, Any], epsilon: float) -> tuple[EdgeVariant, Parameters, float]:
        """An edge-variant filter within O(epsilon), for any parameters, and its distance max |H_EV - H|.

        A polynomial that is too short gets the coefficient epsilon at the power it lacks. The parameters grow like
        1 / epsilon where only the limit exists.
        """
        epsilon = checks.as_number("epsilon", epsilon, 0, open_low=True)
        params = self._checked_parameters(params)
        phi = self._by_group(params["phi"]).copy()
        for f in range(self.out_features):
            for g in range(self.in_features):
                try:
                    self._recursion_order(phi[:, f, g], f, g)
                except NotRepresentable:
                    lacking = np.flatnonzero((phi[:, f, g] != 0).any(axis=1)).max() - 2
                    short = (phi[lacking:, f, g] == 0).all(axis=0)
                    phi[lacking, f, g, short] = epsilon
        filt, ev_params = self._embedding(phi, params)
        return filt, ev_params, float(np.abs(filt.matrix(ev_params) - self.matrix(params)).max())

    def n_operations(self, batch: int = 1) -> int:
        """K shifts of G features, one multiply-add per entry of S, and (K + 1) F G N for the coefficients."""
        shifts = self.order * self.in_features * self.graph.S.nnz
        weights = (self.order + 1) * self.out_features * self.in_features * self.graph.n_nodes
        return checks.as_count("batch", batch) * (shifts + weights)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """All nodes of a small graph, in a larger one all but one; every second node; one node for all; any C_B."""
        nodes = np.arange(graph.n_nodes)[::-1]
        own = nodes[:-1] if len(nodes) > 6 else nodes
        yield cls(graph, order=3, in_features=2, out_features=3, nodes=own, bias=True)
        yield cls(graph, order=2, in_features=2, out_features=3, nodes=nodes[::2])
        yield cls(graph, order=2, in_features=2, out_features=3, nodes=nodes[:1], bias=True)
        mapping = np.indices((graph.n_nodes, own.size)).sum(axis=0) % 3 != 0  # several ones in a row, or none
        yield cls(graph, order=1, in_features=1, out_features=2, nodes=own, mapping=mapping)


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _newton_form(coefficients: np.ndarray, bound: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Polynomials (m + 1, n) on m - 1 common Newton nodes: d (m - 1, n), s (m - 1,), and what is left, (2, n).

    Each node is the point of a grid on [-bound, bound] where the smallest of the d, relative to what it could be, is
    largest; 0, which keeps the coefficients as they are, unless another point is much better. Real parts decide.
    """
    m, n = len(coefficients) - 1, coefficients.shape[1]
    if m == 0:
        return coefficients, np.empty(0), np.zeros((2, n), coefficients.dtype)
    grid = bound * np.concatenate([[0.0], np.cos(np.linspace(0, np.pi, 8 * m + 33))])
    q = coefficients.copy()
    d, s = [], []
    for _ in range(m - 1):
        powers = grid[:, None] ** np.arange(len(q))
        size = (bound ** np.arange(len(q))) @ np.abs(q.real)
        worth = (np.abs(powers @ q.real) / size).min(axis=1)
        point = 0 if worth[0] > 0.1 * worth.max() else int(np.argmax(worth))
        s.append(grid[point])
        for i in range(len(q) - 2, -1, -1):  # synthetic division by (variable - s)
            q[i] += s[-1] * q[i + 1]
        d.append(q[0])
        q = q[1:]
    return np.array(d, dtype=q.dtype).reshape(-1, n), np.array(s), q
