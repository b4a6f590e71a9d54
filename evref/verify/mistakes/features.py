"""Known mistakes with the features of any filter: weights transposed or shared, means for sums, the bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...filters import (
    ARMA,
    DCNN,
    GCN,
    CayleyNet,
    Chebyshev,
    GraphAttention,
    ParallelEdgeVariant,
    Polynomial,
    SelectionGCNN,
)
from ...filters.base import Filter
from ...learn import Dense
from .models import Array, Arrays, Chain, Linear, Mapped, Model, in_turn, on_entry, scaled
from .terms import axes_of, plain, with_bias_of, without_bias
from .variants import Variant, only_slice, set_slice, swapped


def weights_transposed(filt: Any) -> Iterator[Variant]:
    """[f, g] for [g, f]; a square matrix does not tell by its shape."""
    if not isinstance(filt, Filter) or filt.in_features != filt.out_features or filt.in_features == 1:
        if isinstance(filt, ARMA) and filt.out_features > 1:
            yield from _swap(filt, {"w": "kpfg"})
        elif isinstance(filt, GraphAttention) and filt.out_features == filt.heads * filt.in_features:
            yield from _swap(filt, {"weight": "hfg"})
        return
    axes = {name: letters for name, letters in axes_of(filt).items() if "f" in letters and "g" in letters}
    shapes = filt.parameter_shapes()
    axes = {n: l for n, l in axes.items() if shapes[n][l.index("f")] == shapes[n][l.index("g")]}
    if axes:
        yield from _swap(filt, axes)
        if len(axes) > 1:
            for name in axes:
                yield from _swap(filt, {name: axes[name]})


def _swap(filt: Filter, axes: dict[str, str]) -> Iterator[Variant]:
    model: Model = filt
    shapes = filt.parameter_shapes()
    for name, letters in axes.items():
        if name in shapes:
            model = Mapped(model, on_entry(name, swapped(letters.index("f"), letters.index("g"))))
    if model is not filt:
        names = " and ".join(name for name in axes if name in shapes)
        yield Variant(f"the weights {names} are transposed: [f, g] and [g, f] are exchanged", model)


def flattened_by_nodes(module: Any) -> Iterator[Variant]:
    """In a network: the readout on x^T flattened, node by node, where its weights go feature by feature."""
    layers: list[Any] = list(getattr(module, "layers", ()))
    for i, layer in enumerate(layers):
        if isinstance(layer, Dense) and len(layer.in_shape) == 2 and min(layer.in_shape) > 1:
            model = Mapped(layer, x=_by_nodes(layer.in_shape))
            says = f"layer {i}: the signal is flattened node by node, (nodes, features) instead of (features, nodes)"
            yield Variant(says, Chain([*layers[:i], model, *layers[i + 1 :]]))


def _by_nodes(shape: tuple[int, ...]) -> Linear:
    """Entry n of x^T, in C order, at place n of an array of this shape."""
    features, nodes = shape
    return Linear(
        lambda x: np.swapaxes(x, 1, 2).reshape(len(x), features, nodes),
        lambda g: np.swapaxes(g.reshape(len(g), nodes, features), 1, 2),
    )


ROLES = {"f": "output feature", "g": "input feature", "h": "head", "p": "stack", "r": "kernel", "m": "basis function"}


def shared_filters(filt: Any) -> Iterator[Variant]:
    """The parameters of one feature, head or stack used for all of them."""
    if not isinstance(filt, Filter):
        return
    axes, shapes = axes_of(filt), filt.parameter_shapes()
    for letter, role in ROLES.items():
        model: Model = filt
        for name, letters in axes.items():
            if letter in letters and shapes[name][letters.index(letter)] > 1:
                model = Mapped(model, on_entry(name, only_slice(0, letters.index(letter))))
        if model is not filt:
            yield Variant(f"the parameters of {role} 0 are used for every {role}", model)


def shared_slices(filt: Any) -> Iterator[Variant]:
    """The coefficients of one step or power in the place of another one's."""
    if not isinstance(filt, Filter):
        return
    shapes = filt.parameter_shapes()
    taps = {name: shapes[name][0] for name, letters in axes_of(filt).items() if letters.startswith("k")}
    groups = [("c_re", "c_im")] if isinstance(filt, CayleyNet) else [(name,) for name in taps]
    for names in groups:
        n, words = taps[names[0]], " and ".join(names)
        for k in range(1, n):
            copy = in_turn(*(on_entry(name, set_slice(k, k - 1)) for name in names))
            yield Variant(
                f"one slice is used twice: {words}[{k - 1}] also in the place of {words}[{k}]", Mapped(filt, copy)
            )
        if n > 1:
            first = in_turn(*(on_entry(name, only_slice(0, 0)) for name in names))
            yield Variant(f"{words}[0] is used for every k", Mapped(filt, first))
        if n > 2:
            later = in_turn(*(on_entry(name, set_slice(slice(2, None), 1)) for name in names))
            yield Variant(f"{words}[1] is used for every later k", Mapped(filt, later))


def mean_over_features(filt: Any) -> Iterator[Variant]:
    """A factor between a sum and a mean over input features, stacks or parallel filters."""
    if not isinstance(filt, Filter) or isinstance(filt, (DCNN, GraphAttention)):  # no such sum; within the scores
        return
    core, G = without_bias(filt), filt.in_features
    if isinstance(filt, ARMA):
        if filt.stacks > 1:
            model: Model = Mapped(core, y=scaled(filt.stacks))
            yield Variant("the sum over stacks for their mean", with_bias_of(filt, model))
        factors = {"w0": 1 / G, "v": 1 / G, "w": 1 / filt.out_features}
        if min(factors.values()) < 1:
            means = in_turn(*(on_entry(name, scaled(factor)) for name, factor in factors.items()))
            says = "the mean over features for their sum, in every product"
            yield Variant(says, with_bias_of(filt, Mapped(core, means)))
        return
    counts = {"the mean over input features for their sum": G}
    if isinstance(filt, ParallelEdgeVariant):
        counts["the mean over the parallel filters for their sum"] = filt.terms
        counts["the mean over input features and parallel filters for their sum"] = filt.terms * G
    for says, count in counts.items():
        if count > 1:
            yield Variant(says, with_bias_of(filt, Mapped(core, y=scaled(1 / count))))


# ---- bias ------------------------------------------------------------------------------------------------------------
def bias(filt: Any) -> Iterator[Variant]:
    if not isinstance(filt, Filter) or not filt.bias:
        return
    core = plain(filt)
    yield Variant("the bias is missing", with_bias_of(filt, core, 0.0))
    factors = {"the bias is added twice": 2.0, "the bias has the other sign": -1.0}
    if filt.in_features > 1:
        factors["the bias is added once per input feature"] = float(filt.in_features)
    order = getattr(filt, "order", getattr(filt, "iterations", None))
    if order:
        factors["the bias is added in each of K steps"] = float(order)
        factors["the bias is added in each of K + 1 terms"] = float(order + 1)
    for says, factor in factors.items():
        yield Variant(says, with_bias_of(filt, core, factor))
    if filt.out_features == filt.graph.n_nodes:
        yield Variant("the bias is added per node instead of per feature", BiasPerNode(core))


def bias_inside(filt: Any) -> Iterator[Variant]:
    """The bias where W x is, so that it goes the way of W x: A (X W + b) in a GCN."""
    if not isinstance(filt, Filter) or not filt.bias:
        return
    says = ""
    if isinstance(filt, GCN):
        says = "the bias is added before the shift: S (W x + b)"
    elif isinstance(filt, (Polynomial, Chebyshev)) and not isinstance(filt, SelectionGCNN) and filt.order:
        power = "T_k(S)" if isinstance(filt, Chebyshev) else "S^k"
        says = f"the bias is in every term, before the shifts: the sum of {power} (W_k x + b)"
    elif isinstance(filt, ARMA) and filt.iterations > 1:
        says = "the bias is added in every iteration: W S X + V x + b"
    elif isinstance(filt, GraphAttention):
        says = "the bias is added to W x, before the attention"
    if says:
        yield Variant(says, as_a_feature(filt))


def as_a_feature(filt: Filter, change: Callable[[Any], Model] | None = None) -> Model:
    """`filt` whose bias belongs to one more input feature, which is 1 at every node: what (W, b) is to (x, 1).

    In ARMA the feature belongs to V alone, W^0 has a 0 for it. `change` replaces the filter on G + 1 features.
    """
    core = plain(filt, in_features=filt.in_features + 1)
    mixing = [name for name, letters in axes_of(filt).items() if letters.endswith("fg")]
    names = {"w0": 0.0, "v": 1.0} if isinstance(filt, ARMA) else dict.fromkeys(mixing, 1.0)
    own = (filt.heads, -1) if isinstance(filt, GraphAttention) else (-1,)

    def into(params: Arrays) -> Arrays:
        inner = {name: array for name, array in params.items() if name != "bias"}
        for name, times in names.items():
            column = np.broadcast_to(times * params["bias"].reshape(own), inner[name].shape[:-1])
            inner[name] = np.concatenate([inner[name], column[..., None]], axis=-1)
        return inner

    def back(grads: Arrays) -> Arrays:
        out, total = dict(grads), np.zeros(filt.out_features)
        for name, times in names.items():
            column = times * grads[name][..., -1]
            total += column.sum(axis=tuple(range(column.ndim - len(own)))).ravel()
            out[name] = grads[name][..., :-1]
        return {**out, "bias": total}

    def with_ones(x: Array) -> Array:
        return np.concatenate([x, np.ones_like(x[:, :1])], axis=1)

    return Mapped(core if change is None else change(core), Linear(into, back), Linear(with_ones, lambda g: g[:, :-1]))


class BiasPerNode:
    """y_fi = model(x)_fi + bias_i."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        params = dict(params)
        own = params.pop("bias")
        y, tape = self.model.forward(params, x)
        return y + own, tape

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        grads, grad_x = self.model.backward({n: p for n, p in params.items() if n != "bias"}, tape, grad_y)
        return {**grads, "bias": grad_y.sum(axis=(0, 1))}, grad_x
