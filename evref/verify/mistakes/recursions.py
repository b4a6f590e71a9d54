"""Known mistakes in the edge-variant recursion w^(k) = Phi^(k) w^(k-1), y = sum of the states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import EdgeVariant, HybridEdgeVariant
from ...graph.pattern import Pattern
from .models import Array, Arrays, Linear, Mapped, Model, Sum, entrywise, on_entry
from .terms import Commuting, plain, with_bias_of
from .variants import Variant, without_slice

DENSE_NODES = 200  # up to here products are also tried as dense matrices


def transposed(core: Any) -> Iterator[Variant]:
    """Every Phi^(k) transposed: a message runs from i to j where it should run from j to i."""
    if isinstance(core, EdgeVariant) and core.order:
        yield Variant("S is transposed (every Phi is)", on_transposed_graph(core), alike="S is transposed")


def on_transposed_graph(core: EdgeVariant) -> Model:
    """The recursion with Phi^T for Phi: the same numbers on the reversed graph, entry (i, j) at (j, i)."""
    graph = core.graph.transposed()
    filt = EdgeVariant(graph, **core.config())
    order = core.pattern.transpose  # entry p of the transposed pattern, in CSR order, is entry order[p] of this one
    back = np.argsort(order)
    phi = Linear(lambda a: np.ascontiguousarray(a[..., order]), lambda a: a[..., back])
    return Mapped(filt, on_entry("phi", phi))


def product_order(core: Any) -> Iterator[Variant]:
    if not isinstance(core, EdgeVariant) or core.order < 2:
        return
    if not isinstance(core, Commuting):
        yield Variant("the products run Phi(1) ... Phi(k) instead of Phi(k) ... Phi(1)", OldestFirst(core))
    reverse = Linear(lambda a: np.ascontiguousarray(a[::-1]), lambda a: a[::-1])
    yield Variant("the steps are taken in reverse order, Phi(K) first", Mapped(core, on_entry("phi", reverse)))
    K = core.order
    apart = Linear(lambda a: a.sum(axis=0, keepdims=True), lambda a: np.repeat(a, K, axis=0))
    one_step = EdgeVariant(core.graph, **{**core.config(), "order": 1})
    model = Mapped(one_step, on_entry("phi", apart))
    yield Variant("the products are not accumulated: every Phi(k) is applied to x", model)


def terms(core: Any) -> Iterator[Variant]:
    """The order off by one: a state that is left out, or the last one alone."""
    if not isinstance(core, EdgeVariant) or core.order < 1:
        return
    shorter = Mapped(core, on_entry("phi", without_slice(-1)))
    yield Variant("the last step k = K is missing", shorter, alike="the last term k = K is missing")
    yield Variant("only the last state is returned, not the sum of the states", Sum([(1.0, core), (-1.0, shorter)]))


def zeroth(core: Any) -> Iterator[Variant]:
    """Readings R1 and R3: what the term k = 0 is, and where Phi^(0) stands."""
    if not isinstance(core, EdgeVariant):
        return
    if core.zeroth == "none":
        other = EdgeVariant(core.graph, **{**core.config(), "zeroth": "identity"})
        yield Variant("the term k = 0 is added (zeroth='identity' for 'none')", other)
        return
    if core.zeroth == "identity":
        start: Model = Identity(core)
        if core.order:
            other = EdgeVariant(core.graph, **{**core.config(), "zeroth": "none"})
            yield Variant("the term k = 0 is missing (zeroth='none' for 'identity')", other)
    else:
        diagonal = EdgeVariant(core.graph, **{**core.config(), "order": 0})
        start = Mapped(diagonal, Linear(lambda p: {**p, "phi": p["phi"][:0]}, _with_zero_phi(core)))
        yield Variant("the term k = 0 is missing from the sum", Sum([(1.0, core), (-1.0, start)]))
        if core.order:
            none = EdgeVariant(core.graph, **{**core.config(), "zeroth": "none"})
            unused = np.zeros(core.parameter_shapes()["phi0"])
            alone = Mapped(none, Linear(lambda p: {"phi": p["phi"]}, lambda g: {**g, "phi0": unused}))
            model = Sum([(1.0, alone), (1.0, start)])
            yield Variant("Phi(0) is a term of its own instead of the first factor of every product", model)
            yield Variant("the term k = 0 and Phi(0) are missing (zeroth='none')", alone)
    yield Variant("the term k = 0 counts twice", Sum([(1.0, core), (1.0, start)]))


def _with_zero_phi(core: EdgeVariant) -> Any:
    shape = core.parameter_shapes()["phi"]
    return lambda grads: {**grads, "phi": np.zeros(shape)}


def readings(filt: Any) -> Iterator[Variant]:
    """Reading R11: the hybrid of another reading, on those of its parameters that the other reading has.

    "equation" starts every product at Phi(0), "text" does not, and of "authors_code" both have the rows in B alone.
    That "text" stands for the others where the entries are the same is told by :func:`zeroth`.
    """
    if not isinstance(filt, HybridEdgeVariant) or not filt.order or not filt.nodes.size:
        return
    if filt.reading == "text":
        says = "every product starts at Phi(0), as eq. (HEV, 18) is printed (reading='equation' for 'text')"
        yield Variant(says, with_bias_of(filt, plain(filt, reading="equation")))
    if filt.reading == "authors_code":
        for reading, start in (("equation", ""), ("text", ", and Phi(0) is a term of its own")):
            other: Any = plain(filt, reading=reading)
            if other.positions.size < filt.positions.size:
                says = f"only the rows of privileged nodes have entries{start} (reading='{reading}' for 'authors_code')"
                model = Mapped(other, on_entry("phi", _chosen(filt.positions, other.positions)))
                yield Variant(says, with_bias_of(filt, model))


def _chosen(positions: Array, kept: Array) -> Linear:
    """Of an array whose last axis runs over `positions` the part at `kept`, some of them."""
    places = np.searchsorted(positions, kept)

    def back(grad: Array) -> Array:
        out = np.zeros((*grad.shape[:-1], positions.size))
        out[..., places] = grad
        return out

    return Linear(lambda a: np.ascontiguousarray(a[..., places]), back)


def self_entries(core: Any) -> Iterator[Variant]:
    if not isinstance(core, EdgeVariant) or not core.self_loops or not core.order:
        return
    for factor, says in ((0.0, "the self-loops are missing: no Phi has a diagonal"), (2.0, "self-loops count twice")):
        scale = np.ones(core.graph.nnz)
        scale[core.graph.diagonal] = factor
        yield Variant(says, Mapped(core, on_entry("phi", entrywise(scale))))


def weights_of_S(core: Any) -> Iterator[Variant]:
    """phi_ij S_ij for phi_ij, as in layers that pass messages with the weights of the edges."""
    if not isinstance(core, EdgeVariant) or not core.self_loops or not core.order:
        return
    for own, says in ((1.0, "1 for a node's own entry"), (None, "S_ii for a node's own entry")):
        values = core.graph.shift_values().copy()
        if own is not None:
            values[core.graph.diagonal] = own
        says = f"every phi_ij is multiplied by S_ij, {says}"
        yield Variant(says, Mapped(core, on_entry("phi", entrywise(values))))


def mean_over_neighbours(core: Any) -> Iterator[Variant]:
    if not isinstance(core, EdgeVariant) or not core.order:
        return
    counts = np.diff(core.pattern.indptr).astype(float)
    entries = np.repeat(1 / np.maximum(counts, 1), np.diff(core.pattern.indptr))
    yield Variant("the mean over a node's entries for their sum", Mapped(core, on_entry("phi", entrywise(entries))))
    if core.self_loops:
        entries = np.repeat(1 / np.maximum(counts - 1, 1), np.diff(core.pattern.indptr))
        model = Mapped(core, on_entry("phi", entrywise(entries)))
        yield Variant("the sum over a node's entries is divided by its number of neighbours", model)


def outside_support(core: Any) -> Iterator[Variant]:
    """The mask of a dense Phi multiplies the products instead of the factors."""
    if not isinstance(core, EdgeVariant) or core.order < 2 or core.graph.n_nodes > DENSE_NODES:
        return
    yield Variant(
        "the mask is applied to every product Phi(k) ... Phi(1), which is then carried on", Masked(core, True)
    )
    yield Variant("the mask is applied to the terms Phi(k) ... Phi(1) of the sum", Masked(core, False))


def detached_steps(core: Any) -> Iterator[Variant]:
    if isinstance(core, EdgeVariant) and core.order >= 2:
        yield Variant("the gradient is cut between the steps: every state w(k-1) is detached", DetachedSteps(core))


# ---- models that are no right filter behind a linear map -------------------------------------------------------------
class Identity:
    """y_f = sum_g x_g, in which no parameter plays a part."""

    def __init__(self, core: EdgeVariant) -> None:
        self.core = core

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        return np.repeat(x.sum(axis=1, keepdims=True), self.core.out_features, axis=1), None

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        grads = {name: np.zeros_like(array) for name, array in params.items()}
        return grads, np.repeat(grad_y.sum(axis=1, keepdims=True), self.core.in_features, axis=1)


def gather(pattern: Pattern, phi: Array, w: Array) -> Array:
    """Phi w for every pair of features: phi (F, G, nnz), w (batch, F, G, N)."""
    out = np.zeros_like(w)
    place: Any = (..., pattern.rows)
    np.add.at(out, place, phi * w[..., pattern.indices])
    return out


def scatter(pattern: Pattern, phi: Array, v: Array) -> Array:
    """Phi^T v."""
    out = np.zeros_like(v)
    place: Any = (..., pattern.indices)
    np.add.at(out, place, phi * v[..., pattern.rows])
    return out


def outer(pattern: Pattern, v: Array, w: Array) -> Array:
    """Gradient of <v, Phi w> with respect to the entries of Phi: sum over the batch of v_i w_j, (F, G, nnz)."""
    return (v[..., pattern.rows] * w[..., pattern.indices]).sum(axis=0)


class _OfPairs:
    """What the recursions below share: signals with an axis for each pair of features."""

    def __init__(self, core: EdgeVariant) -> None:
        self.core = core
        self.first = 1 if core.zeroth == "none" else 0  # k of the first term of the sum

    def _starts(self, params: Arrays, x: Array) -> tuple[Array, Array]:
        """Phi^(0), (F, G, N), and x with an axis for f, (batch, F, G, N)."""
        F, G, N = self.core.out_features, self.core.in_features, self.core.graph.n_nodes
        phi0 = params["phi0"] if "phi0" in params else np.ones((F, G, N))
        return phi0, np.broadcast_to(x[:, None], (len(x), F, G, N))

    def _spread(self, grad_y: Array) -> Array:
        shape = (len(grad_y), self.core.out_features, self.core.in_features, self.core.graph.n_nodes)
        return np.broadcast_to(grad_y[:, :, None], shape)

    def _gathered(self, grad_phi: Array, grad_phi0: Array, params: Arrays, grad_x: Array) -> tuple[Arrays, Array]:
        grads = {"phi": grad_phi}
        if "phi0" in params:
            grads["phi0"] = grad_phi0
        return grads, grad_x


class OldestFirst(_OfPairs):
    r"""y = sum_k Phi^(0) Phi^(1) ... Phi^(k) x, by Horner's scheme from inside out.

    s^(K) = x, v^(k) = Phi^(k) s^(k), s^(k-1) = x + v^(k); y = Phi^(0) s^(0), without x in s^(0) for zeroth="none".
    Adjoint: grad_v^(1) = Phi^(0) grad_y, grad_Phi^(k) = grad_v^(k) s^(k)T, grad_v^(k+1) = Phi^(k)T grad_v^(k), and the
    gradient of x is the sum of what arrives at every s.
    """

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        phi0, start = self._starts(params, x)
        s = [start]
        for k in range(self.core.order, 0, -1):
            v = gather(self.core.pattern, params["phi"][k - 1], s[-1])
            s.append(start + v if k > 1 or not self.first else v)
        s.reverse()  # s[0] is s^(0), s[k] what Phi^(k) is applied to
        return (phi0 * s[0]).sum(axis=2), s

    def backward(self, params: Arrays, s: Any, grad_y: Array) -> tuple[Arrays, Array]:
        phi0, _ = self._starts(params, s[0].sum(axis=1))
        spread = self._spread(grad_y)
        grad_s = phi0 * spread
        grad_phi = np.zeros_like(params["phi"])
        grad_x = np.zeros_like(grad_s) if self.first else grad_s.copy()
        for k in range(1, self.core.order + 1):
            grad_phi[k - 1] = outer(self.core.pattern, grad_s, s[k])
            grad_s = scatter(self.core.pattern, params["phi"][k - 1], grad_s)
            grad_x += grad_s
        return self._gathered(grad_phi, (spread * s[0]).sum(axis=0), params, grad_x.sum(axis=1))


class DetachedSteps(_OfPairs):
    """The right states, but no gradient flows from w^(k) to w^(k-1): backpropagation that is cut at every step."""

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        phi0, start = self._starts(params, x)
        w = [phi0 * start]
        for phi in params["phi"]:
            w.append(gather(self.core.pattern, phi, w[-1]))
        return np.asarray(sum(w[self.first :])).sum(axis=2), (start, w)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        start, w = tape
        spread = self._spread(grad_y)
        grad_phi = np.stack([outer(self.core.pattern, spread, state) for state in w[:-1]])
        phi0, _ = self._starts(params, start[:, 0])
        own = np.zeros_like(spread) if self.first else phi0 * spread
        grad_phi0 = np.zeros(phi0.shape) if self.first else (spread * start).sum(axis=0)
        return self._gathered(grad_phi, grad_phi0, params, own.sum(axis=1))


class Masked(_OfPairs):
    r"""Dense products with the mask M of the support in the wrong place, P^(k) = Phi^(k) P^(k-1).

    `carried`: M o P^(k) enters both the sum and the next product. Otherwise only the sum. Adjoint of the matrices:
    grad_Phi^(k) = grad_P^(k) P^(k-1)T on the support, grad_P^(k-1) = Phi^(k)T grad_P^(k) plus the sum's share.
    """

    def __init__(self, core: EdgeVariant, carried: bool) -> None:
        super().__init__(core)
        self.carried = carried
        pattern = core.pattern
        self.mask = pattern.phi_to_dense(np.ones(pattern.nnz))

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        phi0, _ = self._starts(params, x)
        products = [phi0[..., None] * np.eye(self.core.graph.n_nodes)]
        Phi = self.core.pattern.phi_to_dense(params["phi"])
        for factor in Phi:
            product = factor @ products[-1]
            products.append(self.mask * product if self.carried else product)
        masks = [np.ones_like(self.mask)] + [self.mask] * self.core.order
        H = sum(mask * product for mask, product in list(zip(masks, products, strict=True))[self.first :])
        return np.einsum("fgij,bgj->bfi", H, x), (x, Phi, products, H)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        x, Phi, products, H = tape
        grad_H = np.einsum("bfi,bgj->fgij", grad_y, x)
        grad_phi = np.zeros_like(params["phi"])
        grad_P = self.mask * grad_H
        for k in range(self.core.order, 0, -1):
            grad_phi[k - 1] = self.core.pattern.dense_to_phi(grad_P @ products[k - 1].swapaxes(-1, -2))
            grad_P = Phi[k - 1].swapaxes(-1, -2) @ grad_P
            if k > 1:
                grad_P = self.mask * (grad_H + grad_P) if self.carried else grad_P + self.mask * grad_H
        if not self.first:
            grad_P = grad_P + grad_H
        diagonal = np.einsum("fgii->fgi", grad_P)
        return self._gathered(grad_phi, diagonal, params, np.einsum("fgij,bfi->bgj", H, grad_y))
