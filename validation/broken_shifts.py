"""Broken polynomials and their kin: the shift transposed or wrongly made, terms lost, recurrences mixed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from broken_base import Registry, base_states, made, raw, typical, with_params, with_S
from right_layers import Layer, Shift, dense_shift, powers, right, support, weights

Tensor = torch.Tensor
Array = np.ndarray
BROKEN = Registry()
POLYNOMIALS = ("polynomial", "tagcn", "chebyshev", "dcnn", "node_variant", "selection_gcnn")
HYBRIDS = ("hybrid_edge_variant", "critical_edge")
RECURSIONS = ("edge_variant", "parallel_edge_variant")

# ---- shift-transposed ------------------------------------------------------------------------------------------------
TRANSPOSED = "S^T for S"


def transposed_S(reference: Any) -> Array:
    return weights(reference).T


def transposed_phi(Phi: Tensor) -> Tensor:
    return Phi.mT


for _name in (*POLYNOMIALS, "gcn", "arma", "cayley", "spectral"):
    BROKEN.add("shift-transposed", _name, TRANSPOSED, typical(_name), with_S(transposed_S))
BROKEN.add("shift-transposed", "cayley", f"{TRANSPOSED}, Jacobi", typical("cayley", iterations=2), with_S(transposed_S))
for _name in RECURSIONS:
    for _zeroth in ("none", "identity", "diagonal"):
        BROKEN.add(
            "shift-transposed",
            _name,
            f"Phi^T for Phi, zeroth={_zeroth}",
            typical(_name, zeroth=_zeroth),
            made(Phi=transposed_phi),
        )
_READINGS = {"critical_edge": [{}], "hybrid_edge_variant": [{"reading": r} for r in ("text", "equation")]}
_READINGS["hybrid_edge_variant"].append({"reading": "authors_code"})
for _name in HYBRIDS:
    for _config in _READINGS[_name]:
        _words = "".join(f", {value}" for value in _config.values())
        BROKEN.add(
            "shift-transposed",
            _name,
            f"S^T and Phi^T{_words}",
            typical(_name, **_config),
            lambda reference: right(reference, S=transposed_S(reference), Phi=transposed_phi),
        )
        BROKEN.add(
            "shift-transposed",
            _name,
            f"S^T in the polynomial only{_words}",
            typical(_name, **_config),
            with_S(transposed_S),
        )
BROKEN.add(
    "shift-transposed",
    "attention",
    "messages to the wrong end",
    typical("attention"),
    lambda reference: right(reference, entries=support(weights(reference))[::-1]),
)
for _name in ("ecc", "monet"):
    for _aggregation in ("sum", "mean"):
        BROKEN.add(
            "shift-transposed",
            _name,
            f"messages to the wrong end, {_aggregation}",
            typical(_name, aggregation=_aggregation),
            made(transposed=True),
        )
BROKEN.add(
    "shift-transposed",
    "shift_invariant_edge_variant",
    "H^T for H",
    typical("shift_invariant_edge_variant"),
    made(transposed=True),
)


# ---- taps and the zeroth term: which state meets which coefficient ---------------------------------------------------
def of_states(change: Callable[[list[Tensor]], list[Tensor]], more: int = 0) -> Callable[[Any], Layer]:
    """The right layer with changed states, of which `more` are computed than there are coefficients."""

    def build(reference: Any) -> Layer:
        own = base_states(reference.name)
        return right(reference, states=lambda shift, x, order: change(own(shift, x, order + more)))

    return build


def nothing(w: Tensor) -> Tensor:
    return torch.zeros_like(w)


for _name in (*POLYNOMIALS, *HYBRIDS):
    BROKEN.add("taps", _name, "k meets S^(k+1)", typical(_name), of_states(lambda w: w[1:], more=1))
    BROKEN.add("taps", _name, "no k = K", typical(_name), of_states(lambda w: [*w[:-1], nothing(w[-1])]))
for _name in ("polynomial", "chebyshev", "node_variant"):
    BROKEN.add("taps", _name, "k meets S^(K-k)", typical(_name), of_states(lambda w: w[::-1]))
for _name in ("polynomial", "tagcn", "chebyshev", "node_variant", "dcnn", "selection_gcnn", *HYBRIDS):
    BROKEN.add("zeroth-term", _name, "no k = 0", typical(_name), of_states(lambda w: [nothing(w[0]), *w[1:]]))
    BROKEN.add("zeroth-term", _name, "k = 0 twice", typical(_name), of_states(lambda w: [2 * w[0], *w[1:]]))


def _squared_gcn(reference: Any) -> Array:
    return weights(reference) @ weights(reference)


BROKEN.add("taps", "gcn", "S^2 for S", typical("gcn"), with_S(_squared_gcn))
for _more, _words in ((-1, "an iteration less"), (1, "an iteration more")):
    BROKEN.add(
        "taps",
        "arma",
        _words,
        typical("arma"),
        lambda reference, more=_more: right(reference, iterations=reference.iterations + more),
    )
    BROKEN.add(
        "taps",
        "cayley",
        f"{_words} (Jacobi)",
        typical("cayley", iterations=2),
        lambda reference, more=_more: right(reference, iterations=reference.iterations + more),
    )
for _iterations in (None, 2):
    BROKEN.add(
        "taps",
        "cayley",
        f"no k = K, iterations={_iterations}",
        typical("cayley", iterations=_iterations),
        lambda reference: right(reference, order=reference.order - 1),
    )


for _factor, _words in ((0.0, "no c_0"), (2.0, "c_0 twice")):
    for _iterations in (None, 2):
        BROKEN.add(
            "zeroth-term",
            "cayley",
            f"{_words}, iterations={_iterations}",
            typical("cayley", iterations=_iterations),
            with_params(c0=lambda c0, factor=_factor: factor * c0),
        )


# ---- product-order ---------------------------------------------------------------------------------------------------
def coefficients_first(reference: Any) -> Layer:
    """sum_k S^k diag(phi_k) x, by Horner's scheme."""
    shift = dense_shift(weights(reference))

    def mix(coefficients: Tensor, states: list[Tensor]) -> Tensor:
        y = torch.einsum("fgn,bgn->bfn", coefficients[-1], states[0])
        for c in coefficients[:-1].flip(0):
            y = shift(y) + torch.einsum("fgn,bgn->bfn", c, states[0])
        return y

    return right(reference, mix=mix)


BROKEN.add("product-order", "node_variant", "S^k diag(phi_k)", typical("node_variant"), coefficients_first)


# ---- self-loops, degree, spectrum-scale: S made wrongly of the raw weights -------------------------------------------
def root_scaled(W: Array) -> Array:
    """D^(-1/2) W D^(-1/2)."""
    d = W.sum(axis=1)
    return W / np.sqrt(np.outer(d, d))


def _eye(W: Array) -> Array:
    return np.eye(len(W))


SELF_LOOPS: dict[str, Callable[[Array], Array]] = {
    "none, A by its own degrees": root_scaled,
    "twice, A + 2I": lambda W: root_scaled(W + 2 * _eye(W)),
    "added after the normalisation": lambda W: root_scaled(W) + _eye(W),
}
for _graph in ("undirected", "undirected, one loop"):
    for _words, _make in SELF_LOOPS.items():
        BROKEN.add(
            "self-loops",
            "gcn",
            f"{_words}; {_graph}",
            typical("gcn", _graph, "gcn"),
            with_S(lambda reference, make=_make: make(raw(reference))),
        )
BROKEN.add(
    "self-loops",
    "tagcn",
    "added as in gcn",
    typical("tagcn", "undirected", "symmetric_adjacency"),
    with_S(lambda reference: root_scaled(raw(reference) + np.eye(6))),
)
for _name, _graph, _shift in (
    ("chebyshev", "directed", None),
    ("chebyshev", "undirected", "scaled_laplacian"),
    ("polynomial", "directed", None),
    ("arma", "directed", None),
    ("arma", "undirected", "symmetric_adjacency"),
):
    BROKEN.add(
        "self-loops",
        _name,
        f"S + I for S, {_graph}" + (f", {_shift}" if _shift else ""),
        typical(_name, _graph, _shift),
        with_S(lambda reference: weights(reference) + np.eye(6)),
    )

WALKS: dict[str, Callable[[Array], Array]] = {
    "columns for rows": lambda W: W / W.sum(axis=0),
    "inverted": lambda W: W.sum(axis=1)[:, None] * W,
    "not normalised": lambda W: W,
}
for _words, _make in WALKS.items():
    BROKEN.add(
        "degree",
        "dcnn",
        _words,
        typical("dcnn", shift="random_walk"),
        with_S(lambda reference, make=_make: make(raw(reference))),
    )
ROOTS: dict[str, Callable[[Array], Array]] = {
    "root forgotten": lambda W: W / W.sum(axis=1)[:, None],
    "D^-1 on both sides": lambda W: W / np.outer(W.sum(axis=1), W.sum(axis=1)),
    "not normalised": lambda W: W,
    "inverted": lambda W: W * np.sqrt(np.outer(W.sum(axis=1), W.sum(axis=1))),
}


def largest(L: Array) -> float:
    return float(np.abs(np.linalg.eigvals(L)).max())


def scaled(L: Array) -> Array:
    """2 L / lambda_max - I with the lambda_max of this L."""
    return 2 * L / largest(L) - _eye(L)


NORMALISED: dict[str, tuple[str, Callable[[Array, Callable[[Array], Array]], Array]]] = {
    "tagcn": ("symmetric_adjacency", lambda W, adjacency: adjacency(W)),
    "gcn": ("gcn", lambda W, adjacency: adjacency(W + _eye(W))),
    "chebyshev": ("scaled_laplacian", lambda W, adjacency: scaled(_eye(W) - adjacency(W))),
    "cayley": ("normalized_laplacian", lambda W, adjacency: _eye(W) - adjacency(W)),
}
for _name, (_shift, _whole) in NORMALISED.items():
    for _words, _make in ROOTS.items():
        BROKEN.add(
            "degree",
            _name,
            _words,
            typical(_name, "undirected", _shift),
            with_S(lambda reference, whole=_whole, make=_make: whole(raw(reference), make)),
        )


def combinatorial(W: Array) -> Array:
    return np.diag(W.sum(axis=1)) - W


BROKEN.add(
    "degree",
    "chebyshev",
    "not normalised, L = D - W",
    typical("chebyshev", "undirected", "scaled_laplacian"),
    with_S(lambda reference: scaled(combinatorial(raw(reference)))),
)
BROKEN.add(
    "degree",
    "cayley",
    "not normalised, L = D - W",
    typical("cayley", "undirected", "normalized_laplacian"),
    with_S(lambda reference: combinatorial(raw(reference))),
)

SPECTRA: dict[str, Callable[[Array], Array]] = {
    "lambda_max is 2": lambda L: L - _eye(L),
    "L not scaled": lambda L: L,
    "no - I": lambda L: 2 * L / largest(L),
}
for _words, _make in SPECTRA.items():
    BROKEN.add(
        "spectrum-scale",
        "chebyshev",
        _words,
        typical("chebyshev", "undirected", "scaled_laplacian"),
        with_S(lambda reference, make=_make: make(np.eye(6) - root_scaled(raw(reference)))),
    )


# ---- chebyshev-recurrence --------------------------------------------------------------------------------------------
def recurrence(first: float, twice: float, before: float) -> Callable[[Shift, Tensor, int], list[Tensor]]:
    """w^(1) = first S x, w^(k) = twice S w^(k-1) + before w^(k-2)."""

    def states(shift: Shift, x: Tensor, order: int) -> list[Tensor]:
        w = [x, first * shift(x)]
        for _ in range(2, order + 1):
            w.append(twice * shift(w[-1]) + before * w[-2])
        return w[: order + 1]

    return states


RECURRENCES = {
    "no 2": recurrence(1, 1, -1),
    "no minus term": recurrence(1, 2, 0),
    "plus for minus": recurrence(1, 2, 1),
    "plain powers": powers,
    "2 in the first step too": recurrence(2, 2, -1),
}
for _words, _states in RECURRENCES.items():
    BROKEN.add("chebyshev-recurrence", "chebyshev", _words, typical("chebyshev"), made(states=_states))
for _name in ("polynomial", "tagcn", "dcnn", "node_variant", "selection_gcnn", *HYBRIDS):
    BROKEN.add(
        "chebyshev-recurrence",
        _name,
        "T_k(S) for S^k",
        typical(_name),
        made(states=recurrence(1, 2, -1)),
    )


# ---- cayley and the Fourier filters ----------------------------------------------------------------------------------
def _minus(c: Tensor) -> Tensor:
    return -c


for _iterations in (None, 2):
    _reference = typical("cayley", "undirected", "normalized_laplacian", iterations=_iterations)
    _words = f", iterations={_iterations}"
    BROKEN.add("sign", "cayley", f"(S + i)/(S - i){_words}", _reference, made(sign=-1))
    BROKEN.add("sign", "cayley", f"c_im with the other sign{_words}", _reference, with_params(c_im=_minus))
    BROKEN.add("sign", "cayley", f"no 2 before Re{_words}", _reference, made(factor=1.0))
BROKEN.add(
    "fourier-inverse",
    "spectral",
    "U^H for U^-1",
    typical("spectral"),
    made(inverse=lambda U: U.conj().T),
)


def no_last_row(B: Array, eigenvalues: Array) -> Array:
    B = B.copy()
    B[np.argmax(eigenvalues.real)] = 0
    return B


for _graph in ("directed", "undirected"):
    BROKEN.add(
        "spline-end",
        "spectral",
        f"the largest eigenvalue has a zero row, {_graph}",
        typical("spectral", _graph),
        made(kernel=no_last_row),
    )
