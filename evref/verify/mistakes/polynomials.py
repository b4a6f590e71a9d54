"""Known mistakes in polynomials of a shift: which power a coefficient meets, and in which basis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import Chebyshev, NodeVariant, Polynomial
from .models import Array, Arrays, Linear, Mapped, Model, Transposed, on_entry, scaled
from .terms import OneHop, SideBySide, fixed_groups, plain
from .variants import Variant, only_first, scaled_slice, without_slice

NAME = {Polynomial: "phi", Chebyshev: "theta", NodeVariant: "phi"}


def coefficients(core: Any) -> str | None:
    """Name of the coefficients, whose first axis is k = 0, ..., K."""
    return next((name for kind, name in NAME.items() if isinstance(core, kind)), None)


def _power(core: Any) -> str:
    return "T_k(S)" if isinstance(core, Chebyshev) else "S^k"


def taps(core: Any) -> Iterator[Variant]:
    """Order and taps off by one."""
    name = coefficients(core)
    if name is None:
        return
    if isinstance(core, OneHop):
        yield from _other_hops(core)
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


def _other_hops(core: OneHop) -> Iterator[Variant]:
    """Theta S^k x with another k."""
    for order in (0, 2):
        says = "S is applied twice: Theta S^2 x" if order else "S is not applied at all: Theta x"
        yield Variant(says, Mapped(Polynomial(core.graph, order, core.in_features, core.out_features), _at(order)))


def _at(k: int) -> Linear:
    """phi_1 in the place of phi_k, the others zero."""
    return Linear(
        lambda p: {"phi": np.concatenate([np.zeros((k, *p["phi"][1].shape)), p["phi"][1:]])},
        lambda g: {"phi": np.stack([np.zeros_like(g["phi"][k]), g["phi"][k]])},
    )


def zeroth(core: Any) -> Iterator[Variant]:
    name = coefficients(core)
    if name is None or isinstance(core, OneHop):
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
            yield Variant(says, Mapped(powers, _in_powers(basis_of(core.order, first, a, b))))
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


def _in_powers(basis: Array) -> Linear:
    """phi of the powers from theta of another basis."""
    return Linear(
        lambda p: {"phi": np.einsum("jk,kfg->jfg", basis, p["theta"])},
        lambda g: {"theta": np.einsum("jk,jfg->kfg", basis, g["phi"])},
    )


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


def detached_states(core: Any) -> Iterator[Variant]:
    """Powers S^k x that were made beforehand: the gradient of x passes the term k = 0 alone."""
    name = coefficients(core)
    if name is not None and core.order and not isinstance(core, OneHop):
        model = GradientOfX(core, Mapped(core, on_entry(name, only_first())))
        yield Variant("every S^k x is detached: x has the gradient of the term k = 0", model)


class GradientOfX:
    """Output and gradients of `model`, but for that of x, which is the one of `other`."""

    def __init__(self, model: Model, other: Model) -> None:
        self.model, self.other = model, other

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        y, tape = self.model.forward(params, x)
        return y, (tape, self.other.forward(params, x)[1])

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, other = tape
        return self.model.backward(params, tape, grad_y)[0], self.other.backward(params, other, grad_y)[1]


def mean_over_taps(core: Any) -> Iterator[Variant]:
    name = coefficients(core)
    if name is not None and core.order and not isinstance(core, (OneHop, SideBySide)):
        n = core.order + 1
        model = Mapped(core, y=scaled(1 / n))
        yield Variant("the mean over the terms k = 0, ..., K for their sum", model)
