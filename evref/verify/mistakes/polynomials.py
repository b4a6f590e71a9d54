"""Known mistakes in polynomials of a shift: which power a coefficient meets, and in which basis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import ARMA, CayleyNet, Chebyshev, NodeVariant, Polynomial
from .models import Array, Linear, Mapped, Model, Transposed, on_entry
from .terms import fixed_groups, plain
from .variants import Variant, scaled_slice, set_slice, without_slice

NAME = {Polynomial: "phi", Chebyshev: "theta", NodeVariant: "phi"}


def _coefficients(core: Any) -> str | None:
    """Name of the coefficients, whose first axis is k = 0, ..., K."""
    return next((name for kind, name in NAME.items() if isinstance(core, kind)), None)


def _power(core: Any) -> str:
    return "T_k(S)" if isinstance(core, Chebyshev) else "S^k"


def taps(core: Any) -> Iterator[Variant]:
    """Order and taps off by one."""
    name = _coefficients(core)
    if name is None:
        yield from _iterations(core)
        return
    power = _power(core)
    up = Linear(lambda a: np.concatenate([np.zeros_like(a[:1]), a]), lambda a: a[1:])
    higher = plain(core, order=core.order + 1)
    says = f"taps are off by one: coefficient k meets {power.replace('k', '(k+1)')}"
    yield Variant(says, Mapped(higher, on_entry(name, up)))
    if core.order:
        down = Linear(
            lambda a: np.concatenate([a[1:], np.zeros_like(a[:1])]),
            lambda a: np.concatenate([np.zeros_like(a[:1]), a[:-1]]),
        )
        says = f"taps are off by one: coefficient k meets {power.replace('k', '(k-1)')}, and the first is not used"
        yield Variant(says, Mapped(core, on_entry(name, down)))
        yield Variant("the last term k = K is missing", Mapped(core, on_entry(name, without_slice(-1))))
        reverse = Linear(lambda a: np.ascontiguousarray(a[::-1]), lambda a: a[::-1])
        yield Variant(
            "the coefficients come in reverse order, that of S^K first", Mapped(core, on_entry(name, reverse))
        )


def _iterations(core: Any) -> Iterator[Variant]:
    """One iteration too few or too many, where iterations share their weights."""
    if isinstance(core, ARMA) and core.shared and core.iterations > 1:
        counts = [core.iterations - 1, core.iterations + 1]
        for count in counts:
            model: Model = plain(core, iterations=count)
            if count == 1:  # without feedback there is no w
                model = Mapped(model, Linear(lambda p: {k: v for k, v in p.items() if k != "w"}, _with_zero_w(core)))
            yield Variant(f"{count} iterations for {core.iterations}", model)
    if isinstance(core, CayleyNet):
        if core.iterations is not None:
            for count in (core.iterations - 1, core.iterations + 1):
                if count >= 0:
                    yield Variant(f"{count} Jacobi iterations for {core.iterations}", plain(core, iterations=count))
        for name, part in (("c_re", "c_im"),):
            last = Mapped(core, on_entry(name, without_slice(-1)))
            yield Variant("the last term k = K is missing", Mapped(last, on_entry(part, without_slice(-1))))


def _with_zero_w(core: ARMA) -> Any:
    shape = core.parameter_shapes()["w"]
    return lambda grads: {**grads, "w": np.zeros(shape)}


def zeroth(core: Any) -> Iterator[Variant]:
    name = _coefficients(core)
    if name is None:
        if isinstance(core, CayleyNet):
            for factor, says in ((0.0, "the term c_0 is missing"), (2.0, "the term c_0 counts twice")):
                scale = Linear(lambda a, c=factor: c * a, lambda a, c=factor: c * a)
                yield Variant(says, Mapped(core, on_entry("c0", scale)))
        return
    if core.order:
        yield Variant("the term k = 0 is missing", Mapped(core, on_entry(name, without_slice(0))))
    yield Variant("the term k = 0 counts twice", Mapped(core, on_entry(name, scaled_slice(0, 2.0))))


def recurrence(core: Any) -> Iterator[Variant]:
    """The Chebyshev recurrence w^(k) = 2 S w^(k-1) - w^(k-2) with something missing, or where it does not belong."""
    if isinstance(core, Chebyshev) and core.order:
        powers = Polynomial(core.graph, core.order, core.in_features, core.out_features)
        for says, first, a, b in (
            ("the Chebyshev recurrence lacks its 2: S w - w'", 1, 1, -1),
            ("the Chebyshev recurrence lacks its minus term: 2 S w", 1, 2, 0),
            ("the Chebyshev recurrence has a plus for its minus: 2 S w + w'", 1, 2, 1),
            ("plain powers S^k in the place of T_k(S)", 1, 1, 0),
            ("the first step has a 2 as well: T_1 = 2 S", 2, 2, -1),
            ("the Chebyshev recurrence has w' - 2 S w, the sign of the whole", 1, -2, 1),
        ):
            basis = basis_of(core.order, first, a, b)
            into = Linear(
                lambda p, B=basis: {"phi": np.einsum("jk,kfg->jfg", B, p["theta"])},
                lambda g, B=basis: {"theta": np.einsum("jk,jfg->kfg", B, g["phi"])},
            )
            yield Variant(says, Mapped(powers, into))
    elif isinstance(core, Polynomial) and core.order >= 2:
        chebyshev = Chebyshev(core.graph, core.order, core.in_features, core.out_features)
        into = Linear(lambda p: {"theta": p["phi"]}, lambda g: {"phi": g["theta"]})
        yield Variant("a Chebyshev recurrence where plain powers belong", Mapped(chebyshev, into))
    elif isinstance(core, NodeVariant) and core.order >= 2:
        basis = basis_of(core.order, 1, 2, -1)
        into = Linear(
            lambda a: np.einsum("jk,kfgb->jfgb", basis, a),
            lambda a: np.einsum("jk,jfgb->kfgb", basis, a),
        )
        yield Variant("a Chebyshev recurrence where plain powers belong", Mapped(core, on_entry("phi", into)))


def basis_of(order: int, first: float, a: float, b: float) -> Array:
    """Column k: coefficients of w_k, for w_0 = 1, w_1 = first s, w_k = a s w_(k-1) + b w_(k-2)."""
    basis = np.zeros((order + 1, order + 1))
    basis[0, 0] = 1
    if order:
        basis[1, 1] = first
    for k in range(2, order + 1):
        basis[1:, k] = a * basis[:-1, k - 1]
        basis[:, k] += b * basis[:, k - 2]
    return basis


def product_order(core: Any) -> Iterator[Variant]:
    """Node-variant: sum_k S^k diag(phi_k), the transpose of a filter on S^T."""
    if isinstance(core, NodeVariant) and core.order:
        sizes = {"in_features": core.out_features, "out_features": core.in_features, "mapping": fixed_groups(core)}
        swapped = NodeVariant(core.graph.transposed(), **{**core.config(), **sizes})
        model = Transposed(swapped, {"phi": "kfgb"})
        yield Variant("the coefficients multiply before the shifts, S^k diag(phi_k), and not after", model)


def copies(core: Any) -> Iterator[Variant]:
    """Node-variant: whose coefficients a node copies."""
    if isinstance(core, NodeVariant) and core.mapping is None:
        other = NodeVariant(core.graph.transposed(), **core.config())
        wrong = NodeVariant(core.graph, **{**core.config(), "mapping": fixed_groups(other)})
        yield Variant("nodes copy along outgoing instead of incoming edges", wrong)


def shared_taps(core: Any) -> Iterator[Variant]:
    name = _coefficients(core)
    if name is None or core.order < 1:
        return
    for k in range(1, core.order + 1):
        says = f"one slice is used twice: {name}[{k - 1}] also in the place of {name}[{k}]"
        yield Variant(says, Mapped(core, on_entry(name, set_slice(k, k - 1))))
    if core.order >= 2:
        spread = Linear(_spread_first, _gather_first)
        yield Variant(f"{name}[1] is used for every k >= 1", Mapped(core, on_entry(name, spread)))


def _spread_first(a: Array) -> Array:
    return np.concatenate([a[:1], np.repeat(a[1:2], len(a) - 1, axis=0)])


def _gather_first(a: Array) -> Array:
    out = np.zeros_like(a)
    out[0], out[1] = a[0], a[1:].sum(axis=0)
    return out


def mean_over_taps(core: Any) -> Iterator[Variant]:
    name = _coefficients(core)
    if name is not None and core.order:
        n = core.order + 1
        model = Mapped(core, y=Linear(lambda y: y / n, lambda y: y / n))
        yield Variant("the mean over the terms k = 0, ..., K for their sum", model)


def signs(core: Any) -> Iterator[Variant]:
    """Cayley: (S + i) / (S - i), and 2 Re without the 2."""
    if isinstance(core, CayleyNet):
        flip = Linear(lambda a: -a, lambda a: -a)
        model = Mapped(core, on_entry("c_im", flip))
        yield Variant("(hS + iI)(hS - iI)^-1 for (hS - iI)(hS + iI)^-1, the sign of i", model)
        half = Linear(lambda a: a / 2, lambda a: a / 2)
        model = Mapped(Mapped(core, on_entry("c_re", half)), on_entry("c_im", half))
        yield Variant("Re instead of 2 Re: the factor 2 is missing", model)
