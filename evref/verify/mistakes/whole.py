"""Known mistakes that any filter can have: features mixed up, the bias, the batch, activations, gradients cut or scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...contract import Module
from ...filters import ARMA, GraphAttention, ParallelEdgeVariant, SpectralGCNN
from ...filters.base import Filter
from ...learn import LeakyReLU, Network, ReLU, Sigmoid, Tanh
from .models import Array, Arrays, Chain, Linear, Mapped, Model, Regraded, Sizes, on_entry, scaled
from .terms import axes_of, plain, with_bias_of, without_bias
from .variants import Variant, only_slice, swapped

ACTIVATIONS = (ReLU, LeakyReLU, Tanh, Sigmoid)


# ---- features --------------------------------------------------------------------------------------------------------
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


ROLES = {"f": "output feature", "g": "input feature", "h": "head", "p": "stack", "r": "kernel"}


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


def mean_over_features(filt: Any) -> Iterator[Variant]:
    """A factor between a sum and a mean over input features, heads, stacks or terms."""
    if not isinstance(filt, Filter):
        return
    core = without_bias(filt)
    counts = {"the mean over input features for their sum": 1 / filt.in_features}
    if isinstance(filt, ARMA):
        counts["the sum over stacks for their mean"] = float(filt.stacks)
    if isinstance(filt, ParallelEdgeVariant):
        counts["the mean over the parallel terms for their sum"] = 1 / filt.terms
    for says, factor in counts.items():
        if factor != 1:
            yield Variant(says, with_bias_of(filt, Mapped(core, y=scaled(factor))))


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


# ---- batch -----------------------------------------------------------------------------------------------------------
def first_sample(module: Any) -> Iterator[Variant]:
    """Only the first sample of a batch is convolved."""
    for says, copies, biased in (
        ("only the first sample of a batch is computed; the others are zero", False, False),
        ("only the first sample of a batch is convolved; the others are the bias alone", False, True),
        ("every sample of a batch gets the output of the first", True, False),
    ):
        if biased and not (isinstance(module, Filter) and module.bias):
            continue
        if biased:
            yield Variant(says, with_bias_of(module, FirstSample(plain(module), copies)))
        else:
            yield Variant(says, FirstSample(module, copies))


class FirstSample:
    def __init__(self, model: Model, copies: bool) -> None:
        self.model, self.copies = model, copies

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        first, tape = self.model.forward(params, x[:1])
        y = np.repeat(first, len(x), axis=0)
        if not self.copies:
            y[1:] = 0
        return y, (tape, x.shape)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, shape = tape
        arriving = grad_y.sum(axis=0, keepdims=True) if self.copies else grad_y[:1]
        grads, first = self.model.backward(params, tape, arriving)
        grad_x = np.zeros(shape)
        grad_x[:1] = first
        return grads, grad_x


# ---- activations -----------------------------------------------------------------------------------------------------
def activations(module: Any) -> Iterator[Variant]:
    """An activation that is not asked for, missing, applied twice, or before the bias."""
    if isinstance(module, Filter):
        for kind in ACTIVATIONS:
            says = f"{kind.__name__} is applied to the output, which the reference has not"
            yield Variant(says, _named_through(Chain([module, kind()]), "0."))
        return
    if not isinstance(module, Network):
        return
    layers = list(module.layers)
    for i, layer in enumerate(layers):
        if layer.parameter_shapes() or layer.in_shape is not None:
            continue
        name = type(layer).__name__
        passing: list[Any] = [*layers[:i], _Pass(), *layers[i + 1 :]]
        yield Variant(f"the activation {name} (layer {i}) is missing", Chain(passing))
        twice: list[Any] = [*layers[:i], Chain([layer, layer]), *layers[i + 1 :]]
        yield Variant(f"the activation {name} (layer {i}) is applied twice", Chain(twice))
        for kind in ACTIVATIONS:
            if type(layer) is not kind:
                says = f"{kind.__name__} in the place of {name} (layer {i})"
                yield Variant(says, Chain([*layers[:i], kind(), *layers[i + 1 :]]))
        before = layers[i - 1] if i else None
        if isinstance(before, Filter) and before.bias:
            early = with_bias_of(before, _named_through(Chain([plain(before), layer]), "0."))
            model = Chain([*layers[: i - 1], early, _Pass(), *layers[i + 1 :]])
            yield Variant(f"the activation {name} (layer {i}) is applied before the bias", model)


class _Pass:
    """y = x."""

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        return x, None

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        return {}, grad_y


def _named_through(model: Model, prefix: str) -> Model:
    """`model`, whose parameters are called prefix + name, under the names alone."""

    def add(arrays: Arrays) -> Arrays:
        return {prefix + name: array for name, array in arrays.items()}

    def drop(arrays: Arrays) -> Arrays:
        return {name.removeprefix(prefix): array for name, array in arrays.items()}

    return Mapped(model, Linear(add, drop))


# ---- gradients -------------------------------------------------------------------------------------------------------
def detached(module: Module) -> Iterator[Variant]:
    """Output right, no gradient for something."""
    names = list(module.parameter_shapes())
    for name in names:
        yield Variant(f"no gradient reaches {name}: it is detached", Regraded(module, _without({name}, False)))
    yield Variant("no gradient reaches x: it is detached", Regraded(module, _without(set(), True)))
    if len(names) > 1:
        says = "no gradient reaches any parameter: they are detached"
        yield Variant(says, Regraded(module, _without(set(names), False)))
        for name in names:
            only = set(names) - {name}
            if len(only) > 1:
                says = f"no gradient reaches any parameter but {name}"
                yield Variant(says, Regraded(module, _without(only, False)))
                yield Variant(f"{says}, nor x", Regraded(module, _without(only, True)))
    yield Variant("no gradient reaches anything: the output is detached", Regraded(module, _without(set(names), True)))


Change = Callable[[Arrays, Array, Sizes], tuple[Arrays, Array]]


def _without(names: set[str], with_x: bool) -> Change:
    def change(grads: Arrays, grad_x: Array, sizes: Sizes) -> tuple[Arrays, Array]:
        kept = {name: np.zeros_like(grad) if name in names else grad for name, grad in grads.items()}
        return kept, np.zeros_like(grad_x) if with_x else grad_x

    return change


def gradient_scaled(module: Module) -> Iterator[Variant]:
    """Output right, gradients off by a constant factor that has a name."""
    graph = module.graph
    constants: dict[str, Callable[[Sizes], float]] = {
        "divided by the batch size": lambda s: 1 / s.batch,
        "multiplied by the batch size": lambda s: float(s.batch),
        "multiplied by 2": lambda s: 2.0,
        "divided by 2": lambda s: 0.5,
        "multiplied by -1": lambda s: -1.0,
        "divided by the number of outputs": lambda s: 1 / max(1, s.grad_y.size),
        "divided by the size of one output sample": lambda s: s.batch / max(1, s.grad_y.size),
    }
    if graph is not None:
        N, M, nnz = graph.n_nodes, graph.n_edges, graph.nnz
        for says, count in (("nodes", N), ("edges", M), ("entries of I + S", nnz), ("nodes and samples", -N)):
            if count > 0:
                constants[f"divided by the number of {says}"] = lambda s, c=count: 1 / c
                constants[f"multiplied by the number of {says}"] = lambda s, c=count: float(c)
            elif count < 0:
                constants[f"divided by the number of {says}"] = lambda s, c=-count: 1 / (c * s.batch)
    for attribute, says in (("out_features", "output features"), ("in_features", "input features"), ("order", "steps")):
        count = getattr(module, attribute, 0)
        if isinstance(count, int) and count > 1:
            constants[f"divided by the number of {says}"] = lambda s, c=count: 1 / c
            constants[f"multiplied by the number of {says}"] = lambda s, c=count: float(c)
    names = list(module.parameter_shapes())
    scopes: dict[str, tuple[set[str], bool]] = {"all gradients are": (set(names), True)}
    if names:
        scopes["the gradients of all parameters are"] = (set(names), False)
    if len(names) > 1:
        scopes |= {f"the gradient of {name} is": ({name}, False) for name in names}
    scopes["the gradient of x is"] = (set(), True)
    for what, scope in scopes.items():
        for says, factor in constants.items():
            yield Variant(f"{what} {says}", Regraded(module, _scaling(*scope, factor)))


def _scaling(names: set[str], with_x: bool, factor: Callable[[Sizes], float]) -> Change:
    def change(grads: Arrays, grad_x: Array, sizes: Sizes) -> tuple[Arrays, Array]:
        c = factor(sizes)
        scaled_grads = {name: c * grad if name in names else grad for name, grad in grads.items()}
        return scaled_grads, c * grad_x if with_x else grad_x

    return change


# ---- spectral filters ------------------------------------------------------------------------------------------------
class InOtherBasis:
    """y_f = sum_g Re(U diag(B b_fg) V) x_g with another B, or another V in the place of U^-1."""

    def __init__(self, filt: SpectralGCNN, B: Array, V: Array) -> None:
        U = filt.fourier.U
        self.family = np.stack([((U * B[:, m]) @ V).real for m in range(filt.n_basis)])  # (b, N, N)

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        return np.einsum("mfg,mij,bgj->bfi", params["b"], self.family, x, optimize=True), x

    def backward(self, params: Arrays, x: Array, grad_y: Array) -> tuple[Arrays, Array]:
        grad_b = np.einsum("bfi,mij,bgj->mfg", grad_y, self.family, x, optimize=True)
        return {"b": grad_b}, np.einsum("mfg,mij,bfi->bgj", params["b"], self.family, grad_y, optimize=True)


DENSE_NODES = 200


def fourier_inverse(core: Any) -> Iterator[Variant]:
    """R6: the inverse of U is its conjugate transpose for normal S only."""
    if isinstance(core, SpectralGCNN) and core.graph.n_nodes <= DENSE_NODES:
        U, B = core.fourier.U, core.B
        yield Variant("U^H stands for U^-1", InOtherBasis(core, B, U.conj().T))
        if np.iscomplexobj(U):
            yield Variant("U^T stands for U^-1", InOtherBasis(core, B, U.T))
        yield Variant("U and U^-1 are exchanged", _ExchangedBasis(core))


class _ExchangedBasis(InOtherBasis):
    def __init__(self, filt: SpectralGCNN) -> None:
        U, V = filt.fourier.U, filt.fourier.U_inverse
        self.family = np.stack([((V * filt.B[:, m]) @ U).real for m in range(filt.n_basis)])


def spline_end(core: Any) -> Iterator[Variant]:
    """The spline of the authors' script: eigenvalues unsorted, and nothing at the right end."""
    if not isinstance(core, SpectralGCNN) or core.graph.n_nodes > DENSE_NODES:
        return
    V, lam = core.fourier.U_inverse, core.fourier.eigenvalues.real
    B = core.B.copy()
    B[lam == lam.max()] = 0
    yield Variant(
        "the kernel has no row for the largest eigenvalue (the right end of the spline)", InOtherBasis(core, B, V)
    )
    yield Variant("the rows of the kernel belong to eigenvalues in reverse order", InOtherBasis(core, core.B[::-1], V))
