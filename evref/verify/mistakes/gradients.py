"""Known mistakes beside a right output: gradients that are cut, or off by a constant factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...contract import Module
from .models import Array, Arrays, Regraded, Sizes
from .variants import Variant


def detached(module: Module) -> Iterator[Variant]:
    """Output right, no gradient for something."""
    names = list(module.parameter_shapes())
    for name in names:
        yield Variant(f"no gradient reaches {name}: it is detached", Regraded(module, without({name}, False)))
    yield Variant("no gradient reaches x: it is detached", Regraded(module, without(set(), True)))
    if len(names) > 1:
        says = "no gradient reaches any parameter: they are detached"
        yield Variant(says, Regraded(module, without(set(names), False)))
        for name in names:
            only = set(names) - {name}
            says = f"no gradient reaches any parameter but {name}"
            if len(only) > 1:  # one alone has its sentence above
                yield Variant(says, Regraded(module, without(only, False)))
            yield Variant(f"{says}, nor x", Regraded(module, without(only, True)))
    yield Variant("no gradient reaches anything: the output is detached", Regraded(module, without(set(names), True)))
    layers = getattr(module, "layers", ())
    for i in range(len(layers) - 1):
        before = {name for name in names if int(name.split(".", 1)[0]) <= i}
        if before:
            says = f"the gradient stops behind layer {i}: it is detached there"
            yield Variant(says, Regraded(module, without(before, True)))


Change = Callable[[Arrays, Array, Sizes], tuple[Arrays, Array]]


def without(names: set[str], with_x: bool) -> Change:
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
    counts = {}
    if graph is not None:
        counts = {"nodes": graph.n_nodes, "edges": graph.n_edges, "entries of I + S": graph.nnz}
        constants["divided by the number of nodes and samples"] = lambda s: 1 / (s.batch * graph.n_nodes)
    for attribute, says in (("out_features", "output features"), ("in_features", "input features"), ("order", "steps")):
        count = getattr(module, attribute, 0)
        if isinstance(count, int) and count > 1:
            counts[says] = count
    for says, count in counts.items():
        if count:
            constants[f"divided by the number of {says}"] = _always(1 / count)
            constants[f"multiplied by the number of {says}"] = _always(float(count))
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


def _always(factor: float) -> Callable[[Sizes], float]:
    return lambda sizes: factor


def _scaling(names: set[str], with_x: bool, factor: Callable[[Sizes], float]) -> Change:
    def change(grads: Arrays, grad_x: Array, sizes: Sizes) -> tuple[Arrays, Array]:
        c = factor(sizes)
        scaled_grads = {name: c * grad if name in names else grad for name, grad in grads.items()}
        return scaled_grads, c * grad_x if with_x else grad_x

    return change
