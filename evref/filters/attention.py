"""Graph attention: the weights of the one edge-variant step are made of the signal itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from .base import Filter
from .edge_variant import EdgeVariant

Array = np.ndarray


class GraphAttention(Filter):
    r"""Graph attention (Velickovic et al. 2018): one edge-variant step with weights made of the signal. Per head,

    .. math::

        z_i = W x_i, \qquad e_{ij} = a_\text{source} \cdot z_j + a_\text{target} \cdot z_i, \qquad
        \alpha_{ij} = \frac{\exp \sigma(e_{ij})}{\sum_{k \in \mathcal{N}_i \cup i} \exp \sigma(e_{ik})}, \qquad
        y_i = \sum_{j \in \mathcal{N}_i \cup i} \alpha_{ij} z_j,

    with :math:`\sigma` the leaky ReLU. Row i of I + S says whom node i hears: its in-neighbours and itself. The weights
    of S play no part. Heads are concatenated: out_features is their total. Not linear in x; at one given x it is the
    edge-variant filter with :math:`\Phi_{fg} = W_{fg} \, \alpha(x)`.

    Adjoint, with :math:`\bar y` = `grad_y` of the head:

    .. math::

        \bar\alpha_{ij} = \bar y_i \cdot z_j, \qquad
        \bar e_{ij} = \sigma'(e_{ij}) \, \alpha_{ij} \Big(\bar\alpha_{ij} - \sum_k \alpha_{ik} \bar\alpha_{ik}\Big),

    .. math::

        \bar z_j = \sum_i \alpha_{ij} \bar y_i + a_\text{source} \sum_i \bar e_{ij}
        + a_\text{target} \sum_k \bar e_{jk}, \qquad \bar a_\text{source} = \sum_{ij} \bar e_{ij} z_j, \quad
        \bar a_\text{target} = \sum_{ij} \bar e_{ij} z_i, \quad
        \bar W = \sum_i \bar z_i x_i^\top, \quad \bar x_i = W^\top \bar z_i ,

    and sums over the batch for the parameters. Tangent: :math:`\dot e_{ij}` by the product rule,
    :math:`\dot\alpha_{ij} = \alpha_{ij} (\sigma'_{ij} \dot e_{ij} - \sum_k \alpha_{ik} \sigma'_{ik} \dot e_{ik})`,
    :math:`\dot y_i = \sum_j \dot\alpha_{ij} z_j + \alpha_{ij} \dot z_j`. Line by line: ``docs/generated.md``.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["weight"] : (heads, out_features / heads, in_features), W; y has the features of head 0, then those of head 1
    params["source"] : (heads, out_features / heads), a_source, for the node that is heard
    params["target"] : (heads, out_features / heads), a_target, for the node that hears
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    in_features, out_features : int
        G and F, all heads together.
    heads : int
        A divisor of out_features.
    slope : float
        Of the leaky ReLU below zero, in [0, 1]. With 1 the softmax cancels a_target: the target has no say.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For heads that do not divide out_features, or a slope outside [0, 1].
    NotRepresentable
        From `matrix` and `to_edge_variant` without an x.

    Examples
    --------
    With a_source = a_target = 0 every neighbour counts alike, and the output is the mean over N(i) and i:

    >>> import numpy as np, evref as ev
    >>> filt = ev.GraphAttention(ev.Graph.from_edges(3, source=[0, 1], target=[1, 2]))
    >>> params = {"weight": np.ones((1, 1, 1)), "source": np.zeros((1, 1)), "target": np.zeros((1, 1))}
    >>> filt.forward(params, np.array([2.0, 4.0, 8.0]))[0]
    array([2., 3., 6.])
    """

    name = "attention"
    axes: ClassVar[dict[str, str]] = {"weight": "hfg", "source": "hf", "target": "hf"}
    linear = False
    equivariant = True

    def __init__(
        self,
        graph: Graph,
        in_features: int = 1,
        out_features: int = 1,
        *,
        heads: int = 1,
        slope: float = 0.2,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.heads = checks.as_count("heads", heads, minimum=1)
        if self.out_features % self.heads:
            raise ValueError(
                f"heads is {self.heads} with out_features {self.out_features}; expected a divisor of it, "
                "for the heads are concatenated"
            )
        self.slope = checks.as_number("slope", slope, 0, 1)
        self._rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))  # row of each entry

    @property
    def reach(self) -> int:
        return 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width = self.out_features // self.heads
        return {
            "weight": (self.heads, width, self.in_features),
            "source": (self.heads, width),
            "target": (self.heads, width),
        }

    def _init_scale(self, name: str) -> float:
        """1/sqrt of the number of terms that are added up."""
        return (self.out_features // self.heads if name in ("source", "target") else self.in_features) ** -0.5

    # ---- sums over the support; rows and columns of I + S are never empty -------------------------------------------
    def _over_row(self, entries: Array) -> Array:
        """(..., nnz) -> (..., N): for each i the sum over j."""
        return np.add.reduceat(entries, self.graph.indptr[:-1], axis=-1)

    def _over_column(self, entries: Array) -> Array:
        """(..., nnz) -> (..., N): for each j the sum over i."""
        return np.add.reduceat(entries[..., self.graph.transpose], self.graph.column_indptr[:-1], axis=-1)

    def _scores(self, params: Parameters, x: Array) -> tuple[Array, Array, Array]:
        """z (batch, heads, F / heads, N), alpha and sigma'(e) (batch, heads, nnz)."""
        z = np.einsum("hfg,bgn->bhfn", params["weight"], x)
        from_source = np.einsum("hf,bhfn->bhn", params["source"], z)
        from_target = np.einsum("hf,bhfn->bhn", params["target"], z)
        e = from_source[..., self.graph.indices] + from_target[..., self._rows]
        slope = np.where(e.real > 0, 1, self.slope).astype(z.dtype)
        score = slope * e
        top = np.maximum.reduceat(score.real, self.graph.indptr[:-1], axis=-1)  # a constant: it cancels in alpha
        alpha = np.exp(score - top[..., self._rows])
        alpha /= self._over_row(alpha)[..., self._rows]
        return z, alpha, slope

    # ---- forward, adjoint, tangent ----------------------------------------------------------------------------------
    def _apply(self, params: Parameters, x: Array) -> tuple[Array, Any]:
        z, alpha, slope = self._scores(params, x)
        y = np.empty_like(z)
        for f in range(z.shape[2]):  # one feature at a time: an array (batch, heads, F, nnz) could be huge
            y[:, :, f] = self._over_row(alpha * z[:, :, f, self.graph.indices])
        return y.reshape(len(x), *self.out_shape), (x.copy(), z, alpha, slope)

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: Array) -> tuple[Parameters, Array]:
        x, z, alpha, slope = saved
        grad = grad_y.reshape(z.shape)
        grad_alpha, grad_z = np.zeros_like(alpha), np.empty_like(z)
        for f in range(z.shape[2]):
            heard = grad[:, :, f, self._rows]
            grad_alpha += heard * z[:, :, f, self.graph.indices]
            grad_z[:, :, f] = self._over_column(alpha * heard)
        mean = self._over_row(alpha * grad_alpha)
        grad_e = slope * alpha * (grad_alpha - mean[..., self._rows])
        to_source, to_target = self._over_column(grad_e), self._over_row(grad_e)  # (batch, heads, N)
        for to, a in ((to_source, params["source"]), (to_target, params["target"])):
            grad_z += a[:, :, None] * to[:, :, None]
        grads = {
            "weight": np.einsum("bhfn,bgn->hfg", grad_z, x),
            "source": np.einsum("bhn,bhfn->hf", to_source, z),
            "target": np.einsum("bhn,bhfn->hf", to_target, z),
        }
        return grads, np.einsum("hfg,bhfn->bgn", params["weight"], grad_z)

    def _apply_jvp(self, params: Parameters, x: Array, dparams: Parameters, dx: Array) -> Array:
        z, alpha, slope = self._scores(params, x)
        dz = np.einsum("hfg,bgn->bhfn", params["weight"], dx) + np.einsum("hfg,bgn->bhfn", dparams["weight"], x)
        d_source, d_target = (
            np.einsum("hf,bhfn->bhn", params[end], dz) + np.einsum("hf,bhfn->bhn", dparams[end], z)
            for end in ("source", "target")
        )
        dscore = slope * (d_source[..., self.graph.indices] + d_target[..., self._rows])
        dalpha = alpha * (dscore - self._over_row(alpha * dscore)[..., self._rows])
        dy = np.empty_like(z)
        for f in range(z.shape[2]):
            heard = (slice(None), slice(None), f, self.graph.indices)
            dy[:, :, f] = self._over_row(dalpha * z[heard] + alpha * dz[heard])
        return dy.reshape(len(x), *self.out_shape)

    # ---- at one signal it is an edge-variant filter -----------------------------------------------------------------
    def _one_sample(self, x: Any, what: str) -> Array:
        if x is None:
            raise NotRepresentable(
                f"GraphAttention is not linear: its Phi depends on the signal, so that {what} exists only at a given "
                f"one; pass x of one sample, shape ({self.in_features}, {self.graph.n_nodes})"
            )
        batch = self._as_batch("x", self._by_name("x", x, self.in_shape))
        if len(batch) != 1:
            raise ValueError(f"x has {len(batch)} samples; expected one, for every signal has a Phi of its own")
        return batch[0]

    def matrix(self, params: Mapping[str, Any], x: Any = None) -> Array:
        """H at the signal `x` of one sample, y = H(x) x: [H_fg]_ij = alpha_ij W_fg, one node at a time.

        Without `x` there is no such matrix: NotRepresentable.
        """
        params = self._checked_parameters(params)
        x = self._one_sample(x, "the matrix H")
        N, width = self.graph.n_nodes, self.out_features // self.heads
        checks.require_room(f"the matrix of {type(self).__name__}", self.out_features, self.in_features, N, N)
        H = np.zeros((self.out_features, self.in_features, N, N), np.result_type(x, *params.values()))
        for h in range(self.heads):
            W, a_s, a_t = params["weight"][h], params["source"][h], params["target"][h]
            for i in range(N):
                heard = self.graph.indices[self.graph.indptr[i] : self.graph.indptr[i + 1]]
                e = np.array([a_s @ (W @ x[:, j]) + a_t @ (W @ x[:, i]) for j in heard])
                score = np.where(e.real > 0, e, self.slope * e)
                alpha = np.exp(score - score.real.max())
                H[h * width : (h + 1) * width, :, i, heard] = np.multiply.outer(W, alpha / alpha.sum())
        return H

    def to_edge_variant(self, params: Mapping[str, Any], x: Any = None) -> tuple[EdgeVariant, Parameters]:
        """The edge-variant filter of order 1 that is the same map at the signal `x` of one sample, Phi = alpha(x) W.

        Same output at that x, and at no other. Derivatives are not shared: those of the edge-variant filter take Phi
        for fixed, those of attention move it. Without `x`: NotRepresentable.
        """
        params = self._checked_parameters(params)
        sample = self._one_sample(x, "an edge-variant filter")
        dtype = np.result_type(sample, *params.values())
        params = {name: value.astype(dtype, copy=False) for name, value in params.items()}
        _, alpha, _ = self._scores(params, sample[None].astype(dtype, copy=False))
        phi = np.einsum("hfg,hp->hfgp", params["weight"], alpha[0])
        embedded = {"phi": phi.reshape(1, self.out_features, self.in_features, -1)}
        if self.bias:
            embedded["bias"] = params["bias"]
        return EdgeVariant(self.graph, 1, self.in_features, self.out_features, zeroth="none", bias=self.bias), embedded

    def n_operations(self, batch: int = 1) -> int:
        """F G N for W x, 2 F N for the scores, F (M + N) for the weighted sums; the softmax is not counted."""
        per_feature = (self.in_features + 2) * self.graph.n_nodes + self.graph.nnz
        return checks.as_count("batch", batch) * self.out_features * per_feature

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Several heads and one; leaky scores, and scores that ReLU cuts off."""
        yield cls(graph, in_features=2, out_features=4, heads=2, bias=True)
        yield cls(graph, in_features=2, out_features=3, heads=1)
        yield cls(graph, in_features=2, out_features=2, heads=2, slope=0.0)
