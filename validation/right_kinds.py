"""The ways in which people hand a layer to `evref.compare`: one right layer in many clothes.

    layer, options = KINDS["module"].dress(base, filt, rng)
    evref.compare(layer, filt, **options)

`base` is what all kinds of a framework are made from: a function (params, x) of PyTorch or JAX, an object with forward
and backward in NumPy, or the reference itself. Each kind says of which references it exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import right_jax
import right_layers
import right_numpy
import torch

import evref as ev

Array = np.ndarray
Function = Callable[[Any, Any], Any]
Dressed = tuple[Any, dict[str, Any]]
ENTRIES = ("edge_variant", "parallel_edge_variant", "hybrid_edge_variant", "critical_edge")  # phi: a weight per entry


@dataclass(frozen=True)
class Kind:
    """framework: whose base; dress: (base, reference, rng) -> layer and options; fits: for which filters there is one.

    gradients: whether the layer has any. narrow: one feature in and out.
    """

    framework: str
    dress: Callable[[Any, Any, np.random.Generator], Dressed]
    fits: Callable[[str], bool] = lambda name: True
    gradients: bool = True
    narrow: bool = False


# ---- bases -----------------------------------------------------------------------------------------------------------
class Itself:
    """The reference on the contract, computed by the NumPy kernels: `compare` runs the compiled ones."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def forward(self, params: Any, x: Any) -> Any:
        with ev.use_backend("numpy"):
            return self.reference.forward(params, x)

    def backward(self, params: Any, tape: Any, grad_y: Any) -> Any:
        with ev.use_backend("numpy"):
            return self.reference.backward(params, tape, grad_y)


class Embedded:
    """The exact image of the filter among edge-variant filters, made in float64; a sample at a time where weights
    depend on x."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def forward(self, params: Any, x: Any) -> Any:
        params = {name: p.astype(np.float64) for name, p in params.items()}
        parts = np.split(x.astype(np.float64), len(x))
        return np.concatenate([self._of(params, part) for part in parts]).astype(x.dtype), None

    def _of(self, params: Any, x: Array) -> Array:
        fixed = () if self.reference.linear else (x[0],)
        filt, embedded = self.reference.to_edge_variant(params, *fixed)
        return filt(embedded, x)


def base_of(framework: str, reference: Any, style: str | None) -> Any:
    """A right layer of `reference`, in a style of `right_layers.STYLES` where it is in PyTorch."""
    if framework == "torch":
        return right_layers.right(reference, style)
    made = {"jax": right_jax.right, "numpy": right_numpy.right, "evref": Itself, "embedding": Embedded}
    return made[framework](reference)


# ---- functions -------------------------------------------------------------------------------------------------------
def _plain(base: Any, reference: Any, rng: Any) -> Dressed:
    return base, {}


def _by_keyword(base: Function, reference: Any, rng: Any) -> Dressed:
    """f(x, phi, bias): inspect.signature is all that is asked of it."""

    def layer(*args: Any, **given: Any) -> Any:
        bound = layer.__signature__.bind(*args, **given).arguments  # type: ignore[attr-defined]
        return base({name: value for name, value in bound.items() if name != "x"}, bound["x"])

    names = ["x", *reference.parameter_shapes()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    layer.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
    return layer, {}


def _x_first(base: Function, reference: Any, rng: Any) -> Dressed:
    def layer(x: Any, params: Any) -> Any:
        return base(params, x)

    return layer, {}


def _one_sample(base: Function, reference: Any, rng: Any) -> Dressed:
    """(features, nodes) in and out."""
    return (lambda params, x: base(params, _one(x))[0]), {}


def _one(x: Any) -> Any:
    if x.ndim != 2:
        raise ValueError(f"x has {x.ndim} axes; expected 2, (features, nodes)")
    return x[None]


def _no_feature_axis(base: Function, reference: Any, rng: Any) -> Dressed:
    """(batch, nodes) in and out, as layers without features are written."""

    def layer(params: Any, x: Any) -> Any:
        if x.ndim != 2:
            raise ValueError(f"x has {x.ndim} axes; expected 2, (batch, nodes)")
        return base(params, x[:, None])[:, 0]

    return layer, {}


def _dense_phi(base: Function, reference: Any, rng: Any) -> Dressed:
    """Phi (K, F, G, N, N) in the place of phi; entries off the support are not used."""
    rows, columns = (torch.as_tensor(np.array(ends)) for ends in _ends(reference))

    def layer(params: Any, x: Any) -> Any:
        own = {name: p for name, p in params.items() if name != "Phi"}
        return base({"phi": params["Phi"][..., rows, columns], **own}, x)

    others = {name: name for name in reference.parameter_shapes() if name != "phi"}
    return layer, {"parameters": {"Phi": ("phi", "dense"), **others}}


def _ends(reference: Any) -> tuple[Array, Array]:
    if hasattr(reference, "positions"):
        return right_layers.peers_privileged._mask(reference)
    return right_layers.support(right_layers.weights(reference), getattr(reference, "self_loops", True))


def _single_inside(base: Function, reference: Any, rng: Any) -> Dressed:
    """Computes in float32 whatever it is given, and answers in the dtype of x: right to the precision of float32."""

    def layer(params: Any, x: Any) -> Any:
        return base({name: p.float() for name, p in params.items()}, x.float()).to(x.dtype)

    return layer, {}


def _jitted(base: Function, reference: Any, rng: Any) -> Dressed:
    return right_jax.jax.jit(base), {"framework": "jax"}


# ---- modules ---------------------------------------------------------------------------------------------------------
class Module(torch.nn.Module):
    """`base` with parameters of its own names and shapes: as they are, transposed, or a tensor per slice.

    nodes_first: x and y are (batch, nodes, features); single: one sample at a time.
    """

    def __init__(
        self, base: Function, shapes: Mapping[str, tuple[int, ...]], rng: Any, nodes_first: bool, single: bool
    ) -> None:
        super().__init__()
        self.base, self.nodes_first, self.single = base, nodes_first, single
        self.how: dict[str, str] = {}
        self.names: dict[str, Any] = {}
        for name, shape in shapes.items():
            theirs = "own_" + name.replace(".", "_")
            how = rng.choice(["same", *(["transposed", "slices"] if len(shape) > 1 and shape[0] else [])])
            self.how[name] = how
            if how == "slices":
                parts = [torch.nn.Parameter(torch.zeros(shape[1:])) for _ in range(shape[0])]
                setattr(self, theirs, torch.nn.ParameterList(parts))
                self.names |= {f"{theirs}.{i}": (name, i) for i in range(shape[0])}
            else:
                shape = (*shape[:-2], *shape[:-3:-1]) if how == "transposed" else shape
                setattr(self, theirs, torch.nn.Parameter(torch.zeros(shape)))
                self.names[theirs] = (name, "T") if how == "transposed" else name

    def _ours(self) -> dict[str, Any]:
        params = {}
        for name, how in self.how.items():
            own = getattr(self, "own_" + name.replace(".", "_"))
            params[name] = torch.stack(list(own)) if how == "slices" else own.mT if how == "transposed" else own
        return params

    def forward(self, x: Any) -> Any:
        x = _one(x) if self.single else x
        y = self.base(self._ours(), x.mT if self.nodes_first else x)
        y = y.mT if self.nodes_first and y.ndim == 3 else y
        return y[0] if self.single else y


def _module(nodes_first: bool, single: bool) -> Callable[..., Dressed]:
    def dress(base: Function, reference: Any, rng: Any) -> Dressed:
        module = Module(base, reference.parameter_shapes(), rng, nodes_first, single)
        return (module.double() if rng.integers(2) else module), {"parameters": module.names}

    return dress


# ---- objects and NumPy -----------------------------------------------------------------------------------------------
def _backward_beside(base: Any, reference: Any, rng: Any) -> Dressed:
    """A function and its backward pass; they share a tape, or x is all that the backward pass is given."""
    if rng.integers(2):
        return base.forward, {"backward": base.backward}

    def again(params: Any, x: Any, grad_y: Any) -> Any:
        return base.backward(params, base.forward(params, x)[1], grad_y)

    return (lambda params, x: base.forward(params, x)[0]), {"backward": again}


def _output_alone(base: Any, reference: Any, rng: Any) -> Dressed:
    return (lambda params, x: base.forward(params, x)[0]), {"framework": "numpy"}


# ---- all -------------------------------------------------------------------------------------------------------------
def _by_hand(name: str) -> bool:
    return name in right_numpy.MADE


def _one_filter(name: str) -> bool:
    return name != "network"


def _free_features(name: str) -> bool:
    return name not in ("network", "dcnn", "attention")


KINDS: dict[str, Kind] = {
    "function": Kind("torch", _plain),
    "keywords": Kind("torch", _by_keyword, _one_filter),
    "x first": Kind("torch", _x_first),
    "module": Kind("torch", _module(False, False)),
    "module, nodes first": Kind("torch", _module(True, False)),
    "one sample": Kind("torch", _one_sample),
    "module, one sample, nodes first": Kind("torch", _module(True, True)),
    "no feature axis": Kind("torch", _no_feature_axis, _free_features, narrow=True),
    "dense Phi": Kind("torch", _dense_phi, lambda name: name in ENTRIES),
    "float32 inside": Kind("torch", _single_inside),
    "JAX": Kind("jax", _plain),
    "JAX, jit": Kind("jax", _jitted),
    "NumPy, backward by hand": Kind("numpy", _backward_beside, _by_hand),
    "NumPy, object": Kind("numpy", _plain, _by_hand),
    "NumPy, output alone": Kind("numpy", _output_alone, _by_hand, gradients=False),
    "other kernels": Kind("evref", _plain),
    "embedding": Kind("embedding", _output_alone, _one_filter, gradients=False),
}
