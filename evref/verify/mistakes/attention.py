"""Known mistakes in graph attention: over whom the softmax runs, what goes into it, where the gradient stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...filters import GraphAttention
from .models import Array, Arrays, Linear, Mapped, Model, on_entry, scaled
from .variants import Variant


@dataclass(frozen=True)
class OtherAttention:
    """Graph attention on the entries (i, j) of I + S, with its parts exchangeable. Per head

        s_ij = sign sigma(a_source . z_j + a_target . z_i),   alpha_ij = m_ij exp(s_ij) / sum over its group,
        y_i = sum_j c_ij alpha_ij z_j.

    Right is: the groups are rows, m and c are 1, the sign is +1, nothing is detached. Adjoint, with
    grad_alpha_ij = c_ij grad_y_i . z_j: grad_s = alpha (grad_alpha - sum over the group of alpha grad_alpha), where the
    sum falls away with a detached denominator and all of it with a detached alpha.
    """

    filt: GraphAttention
    groups: Literal["rows", "columns", "none", "scores"] = "rows"
    sign: float = 1.0
    times: Array | None = None  # m, how often an entry counts
    weights: Array | None = None  # c
    detach: Literal["nothing", "alpha", "denominator"] = "nothing"

    def _sum(self, entries: Array, index: Array) -> Array:
        out = np.zeros((*entries.shape[:-1], self.filt.graph.n_nodes))
        place: Any = (..., index)
        np.add.at(out, place, entries)
        return out

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        rows, columns = self.filt.graph.rows, self.filt.graph.indices
        z = np.einsum("hfg,bgn->bhfn", params["weight"], x)
        ends = (np.einsum("hf,bhfn->bhn", params[end], z) for end in ("source", "target"))
        e = sum(of[..., nodes] for of, nodes in zip(ends, (columns, rows), strict=True))
        slope = self.sign * np.where(e > 0, 1.0, self.filt.slope)
        score = slope * e
        m = np.ones(len(rows)) if self.times is None else self.times
        if self.groups == "scores":
            alpha = m * score
        else:
            top = score.max() if self.groups != "none" else 0.0  # cancels, but where nothing is divided by
            alpha = m * np.exp(score - top)
        if self.groups in ("rows", "columns"):
            group = rows if self.groups == "rows" else columns
            alpha = alpha / np.maximum(self._sum(alpha, group), 1e-300)[..., group]
        c = 1.0 if self.weights is None else self.weights
        y = self._sum((c * alpha)[:, :, None] * z[..., columns], rows)
        return y.reshape(len(x), *self.filt.out_shape), (x, z, alpha, slope, m)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        x, z, alpha, slope, m = tape
        rows, columns = self.filt.graph.rows, self.filt.graph.indices
        c = 1.0 if self.weights is None else self.weights
        grad = grad_y.reshape(z.shape)
        grad_alpha = c * (grad[..., rows] * z[..., columns]).sum(axis=2)
        grad_z = self._sum((c * alpha)[:, :, None] * grad[..., rows], columns)
        grad_score = m * grad_alpha if self.groups == "scores" else alpha * grad_alpha
        if self.groups in ("rows", "columns") and self.detach != "denominator":
            group = rows if self.groups == "rows" else columns
            grad_score = grad_score - alpha * self._sum(alpha * grad_alpha, group)[..., group]
        grad_e = slope * grad_score * (self.detach != "alpha")
        grads: Arrays = {}
        for end, nodes in (("source", columns), ("target", rows)):
            to = self._sum(grad_e, nodes)
            grads[end] = np.einsum("bhn,bhfn->hf", to, z)
            grad_z = grad_z + params[end][:, :, None] * to[:, :, None]
        grads["weight"] = np.einsum("bhfn,bgn->hfg", grad_z, x)
        return grads, np.einsum("hfg,bhfn->bgn", params["weight"], grad_z)


def transposed(core: Any) -> Iterator[Variant]:
    if isinstance(core, GraphAttention):
        yield Variant("S is transposed", GraphAttention(core.graph.transposed(), **core.config()))


def direction(core: Any) -> Iterator[Variant]:
    if not isinstance(core, GraphAttention):
        return
    right = OtherAttention(core)
    yield Variant("the softmax runs over outgoing instead of incoming edges", replace(right, groups="columns"))
    exchange = Linear(_exchanged, _exchanged)
    yield Variant("a_source and a_target are exchanged", Mapped(core, exchange))
    both = Mapped(replace(right, groups="columns"), exchange)
    yield Variant("the softmax runs over outgoing edges, with a_source and a_target exchanged", both)
    yield Variant("there is no softmax: exp(score) itself", replace(right, groups="none"))
    yield Variant("there is no softmax: the scores themselves", replace(right, groups="scores"))


def _exchanged(arrays: Arrays) -> Arrays:
    return {**arrays, "source": arrays["target"], "target": arrays["source"]}


def one_vector(core: Any) -> Iterator[Variant]:
    """a . z_i + a . z_j: nothing tells who is heard from who hears."""
    if not isinstance(core, GraphAttention):
        return
    for kept, lost in (("source", "target"), ("target", "source")):
        model = Mapped(core, _copied(kept, lost))
        yield Variant(f"one vector for both ends of an edge: a_{kept} stands for a_{lost} too", model)


def _copied(kept: str, lost: str) -> Linear:
    return Linear(
        lambda p: {**p, lost: p[kept]},
        lambda g: {**g, kept: g[kept] + g[lost], lost: np.zeros_like(g[lost])},
    )


def means(core: Any) -> Iterator[Variant]:
    if not isinstance(core, GraphAttention):
        return
    counts = np.diff(core.graph.indptr)
    share = np.repeat(1 / counts, counts)
    says = "the mean over neighbours of alpha_ij z_j for their sum"
    yield Variant(says, OtherAttention(core, weights=share))
    if core.in_features > 1:
        model = Mapped(core, on_entry("weight", scaled(1 / core.in_features)))
        yield Variant("the mean over input features for their sum", model)


def self_entries(core: Any) -> Iterator[Variant]:
    if not isinstance(core, GraphAttention):
        return
    graph = core.graph
    without, twice, again = (np.ones(graph.nnz) for _ in range(3))
    without[graph.diagonal] = 0
    loops = graph.S.diagonal() != 0
    twice[graph.diagonal] = 2
    again[graph.diagonal] = 1.0 + loops
    right = OtherAttention(core)
    yield Variant("a node does not hear itself: self-loops are missing", replace(right, times=without))
    yield Variant("every self-loop counts twice", replace(right, times=twice))
    if loops.any():
        yield Variant("self-loops that were there are added once more", replace(right, times=again))
        kept = without.copy()
        kept[graph.diagonal[loops]] = 1
        yield Variant("a node hears itself only where S has a self-loop", replace(right, times=kept))


def exponents(core: Any) -> Iterator[Variant]:
    if isinstance(core, GraphAttention):
        yield Variant("the sign in the exponent: exp(-score)", OtherAttention(core, sign=-1.0))


def weights_of_S(core: Any) -> Iterator[Variant]:
    if not isinstance(core, GraphAttention):
        return
    values = core.graph.shift_values().astype(np.float64)
    one = values.copy()
    one[core.graph.diagonal] = 1
    yield Variant("every alpha_ij is multiplied by S_ij", OtherAttention(core, weights=values))
    yield Variant("every alpha_ij is multiplied by S_ij, 1 for the node itself", OtherAttention(core, weights=one))


def slopes(core: Any) -> Iterator[Variant]:
    if not isinstance(core, GraphAttention):
        return
    for slope, says in (
        (1.0, "the leaky ReLU is missing"),
        (0.01, "the leaky ReLU has the slope 0.01, the default of torch"),
        (0.2, "the leaky ReLU has the slope 0.2, as published"),
        (0.0, "ReLU for the leaky ReLU"),
    ):
        if slope != core.slope:
            yield Variant(says, GraphAttention(core.graph, **{**core.config(), "slope": slope}))


def detached(core: Any) -> Iterator[Variant]:
    if isinstance(core, GraphAttention):
        right = OtherAttention(core)
        yield Variant("the attention alpha is detached: no gradient flows through it", replace(right, detach="alpha"))
        says = "the denominator of the softmax is detached"
        yield Variant(says, replace(right, detach="denominator"))


def heads(core: Any) -> Iterator[Variant]:
    """Heads mixed up in the order of the output features."""
    if isinstance(core, GraphAttention) and core.heads > 1:
        H, width = core.heads, core.out_features // core.heads

        def interleave(y: Array) -> Array:
            return y.reshape(len(y), H, width, -1).swapaxes(1, 2).reshape(y.shape)

        def back(y: Array) -> Array:
            return y.reshape(len(y), width, H, -1).swapaxes(1, 2).reshape(y.shape)

        model: Model = Mapped(core, y=Linear(interleave, back))
        yield Variant("heads and features are interleaved: feature by feature instead of head by head", model)
