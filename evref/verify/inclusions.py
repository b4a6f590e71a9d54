"""The lattice of filter classes, as data: "A is contained in B under condition c", with the map that shows it.

Each :class:`Inclusion` carries an executable map from the parameters of the smaller class to those of the larger, an
instance that satisfies the condition and, where the condition can fail, one that does not. Tests, `evref verify` and
the drawn diagram all come from :data:`lattice`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev as cheb

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..filters import (
    Chebyshev,
    CriticalEdge,
    EdgeVariant,
    Filter,
    HybridEdgeVariant,
    NodeVariant,
    ParallelEdgeVariant,
    Polynomial,
    SelectionGCNN,
    ShiftInvariantEdgeVariant,
    SpectralGCNN,
    catalogue,
)
from ..filters.edge_variant import Zeroth
from ..graph import Graph, generators
from ..graph.fourier import RepeatedEigenvaluesWarning, fourier_basis

Array = np.ndarray
Case = tuple[Filter, Parameters]


@dataclass(frozen=True)
class Inclusion:
    """`small` is contained in `large` under `condition`."""

    small: str  # names in the catalogue
    large: str
    condition: str  # "always", or in words
    where: str  # label in the paper, or number of the reading
    embed: Callable[[Any, Parameters], tuple[Any, Parameters]]
    instance: Callable[[Graph, np.random.Generator], Case]  # satisfies the condition
    outside: Callable[[Graph, np.random.Generator], Case] | None = None  # does not: embed raises NotRepresentable


def with_positive_parameters(filt: Filter, rng: np.random.Generator) -> Case:
    """Positive parameters of size one: generic, and nothing that a condition divides by is zero."""
    return filt, {name: rng.uniform(0.3, 1.0, shape) for name, shape in filt.parameter_shapes().items()}


def example(name: str) -> Callable[[Graph, np.random.Generator], Case]:
    return lambda graph, rng: with_positive_parameters(next(catalogue[name].examples(graph, rng)), rng)


def _as_edge_variant(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    return filt.to_edge_variant(params)


def _with_bias(filt: Filter, params: Parameters, **others: Array) -> Parameters:
    return {**others, "bias": params["bias"]} if filt.bias else others


def _as_polynomial(filt: Filter, params: Parameters, coefficients: Array) -> tuple[Polynomial, Parameters]:
    large = Polynomial(filt.graph, len(coefficients) - 1, filt.in_features, filt.out_features, bias=filt.bias)
    return large, _with_bias(filt, params, phi=coefficients)


# ---- into polynomials -----------------------------------------------------------------------------------------------
def _gcn(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    return _as_polynomial(filt, params, np.stack([np.zeros_like(params["theta"]), params["theta"]]))


def _tagcn(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    return _as_polynomial(filt, params, params["phi"])


def _dcnn(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    """Output h G + g is the monomial weight[h, g] S^h of input g."""
    hops, G = params["weight"].shape
    phi = np.zeros((hops, filt.out_features, G), params["weight"].dtype)
    for h in range(hops):
        for g in range(G):
            phi[h, h * G + g, g] = params["weight"][h, g]
    return _as_polynomial(filt, params, phi)


def _chebyshev(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    return _as_polynomial(filt, params, filt.monomial(params))


def _to_chebyshev(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    K = len(params["phi"]) - 1
    M = np.zeros((K + 1, K + 1))
    for k in range(K + 1):
        series = cheb.poly2cheb(np.eye(K + 1)[k])
        M[: len(series), k] = series
    large = Chebyshev(filt.graph, K, filt.in_features, filt.out_features, bias=filt.bias)
    return large, _with_bias(filt, params, theta=np.tensordot(M, params["phi"], axes=1))


def _by_coefficients(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    return _as_polynomial(filt, params, filt.coefficients(params))


def _shift_invariant(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    """On span{I, S} every Phi^(k) is a_k I + b_k S: multiply the products out."""
    values = filt.basis.support_values  # (nnz, d): the basis filters on the support
    identity = np.zeros(filt.graph.nnz)
    identity[filt.graph.diagonal] = 1.0
    to_ab, _, rank, _ = np.linalg.lstsq(np.stack([identity, filt.graph.shift_values()], axis=1), values, rcond=None)
    if filt.basis.dimension != rank:  # rank 2, and 1 where S is a multiple of I
        raise NotRepresentable(
            f"the null space has dimension {filt.basis.dimension}; expected {rank}, span{{I, S}}, for a polynomial of "
            "S of the same order"
        )
    ab = np.einsum("cd,kfgd->kcfg", to_ab, params["mu"])  # (K, 2, F, G)
    K, _, F, G = ab.shape
    term = np.zeros((K + 1, F, G), ab.dtype)
    term[0] = 1
    total = term.copy() if filt.zeroth == "identity" else np.zeros_like(term)
    for a, b in ab:
        term = a * term + b * np.concatenate([np.zeros_like(term[:1]), term[:-1]])
        total = total + term
    return _as_polynomial(filt, params, total)


# ---- out of polynomials ---------------------------------------------------------------------------------------------
def _to_node_variant(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    sizes = len(params["phi"]) - 1, filt.in_features, filt.out_features
    large = NodeVariant(filt.graph, *sizes, nodes=[0], bias=filt.bias)
    return large, _with_bias(filt, params, phi=params["phi"][..., None])


def _to_selection(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    large = SelectionGCNN(filt.graph, len(params["phi"]) - 1, filt.in_features, filt.out_features, bias=filt.bias)
    return large, dict(params)


def _beside_nothing(large: Filter, filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    """Into a hybrid whose edge-variant part is zero."""
    dtype = params["phi"].dtype
    zeros = {name: np.zeros(shape, dtype) for name, shape in large.parameter_shapes().items()}
    return large, {**zeros, "poly": params["phi"], **_with_bias(filt, params)}


def _to_hybrid(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    K = len(params["phi"]) - 1
    large = HybridEdgeVariant(filt.graph, K, filt.in_features, filt.out_features, nodes=[0], bias=filt.bias)
    return _beside_nothing(large, filt, params)


def _to_critical_edge(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    large = CriticalEdge(filt.graph, len(params["phi"]) - 1, filt.in_features, filt.out_features, bias=filt.bias)
    return _beside_nothing(large, filt, params)


def _to_spectral(filt: Filter, params: Parameters) -> tuple[Filter, Parameters]:
    """The kernel whose columns are the powers of the eigenvalues."""
    K = len(params["phi"]) - 1
    eigenvalues = fourier_basis(filt.graph).eigenvalues
    if np.iscomplexobj(eigenvalues):
        raise NotRepresentable(
            "S has complex eigenvalues; a kernel is real, and so are its powers of the eigenvalues only then"
        )
    powers = eigenvalues[:, None] ** np.arange(K + 1)
    large = SpectralGCNN(filt.graph, K + 1, filt.in_features, filt.out_features, bias=filt.bias, kernel=powers)
    return large, _with_bias(filt, params, b=params["phi"])


# ---- around the edge-variant filter itself --------------------------------------------------------------------------
def _edge_variant_to_hybrid(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    """All nodes privileged, no polynomial."""
    if filt.zeroth != "none":
        raise NotRepresentable(f'zeroth is {filt.zeroth!r}; the product of the "text" hybrid starts at k=1, as "none"')
    filt, params = filt.to_edge_variant(params)  # with self-loops, whose diagonals may be zero
    large = HybridEdgeVariant(filt.graph, filt.order, filt.in_features, filt.out_features, bias=filt.bias)
    dtype = params["phi"].dtype
    zeros = {name: np.zeros(shape, dtype) for name, shape in large.parameter_shapes().items()}
    return large, {**zeros, **params}


def _to_parallel(filt: Any, params: Parameters) -> tuple[Filter, Parameters]:
    filt, params = filt.to_edge_variant(params)  # with self-loops, whose diagonals may be zero
    sizes = filt.order, filt.in_features, filt.out_features
    large = ParallelEdgeVariant(filt.graph, *sizes, terms=1, zeroth=filt.zeroth, bias=filt.bias)
    return large, dict(params)


def _edge_variant(zeroth: Zeroth) -> Callable[[Graph, np.random.Generator], Case]:
    return lambda graph, rng: with_positive_parameters(EdgeVariant(graph, 2, 2, 2, zeroth=zeroth, bias=True), rng)


def _node_variant_with_a_constant(graph: Graph, rng: np.random.Generator) -> Case:
    filt, params = with_positive_parameters(NodeVariant(graph, 3), rng)
    params["phi"][1:, 0, 0, 0] = 0.0  # node 0 has degree 0, the others 3
    return filt, params


def _polynomial(graph: Graph, rng: np.random.Generator) -> Case:
    return with_positive_parameters(Polynomial(graph, 3, 2, 2, bias=True), rng)


def _symmetric(graph: Graph, rng: np.random.Generator) -> Case:
    return _polynomial(Graph(graph.S + graph.S.T), rng)


def _rotation(graph: Graph, rng: np.random.Generator) -> Case:
    return _polynomial(generators.cycle(5, directed=True), rng)


def _shift_invariant_path(graph: Graph, rng: np.random.Generator) -> Case:
    return with_positive_parameters(ShiftInvariantEdgeVariant(generators.path(6), 3, 2, 2), rng)


def _shift_invariant_complete(graph: Graph, rng: np.random.Generator) -> Case:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedEigenvaluesWarning)  # which is the point of this instance
        return with_positive_parameters(ShiftInvariantEdgeVariant(generators.complete(5), 2), rng)


ALWAYS = "always"
lattice: tuple[Inclusion, ...] = (
    Inclusion(
        "edge_variant", "parallel_edge_variant", ALWAYS, "eq. (evConv, 9)", _to_parallel, example("edge_variant")
    ),
    Inclusion(
        "polynomial", "edge_variant", 'always with zeroth="diagonal", in Newton form', "R4",
        _as_edge_variant, _polynomial,
    ),
    Inclusion("gcn", "polynomial", ALWAYS, "eq. (polFilt, 10)", _gcn, example("gcn")),
    Inclusion("tagcn", "polynomial", ALWAYS, "eq. (polFilt, 10)", _tagcn, example("tagcn")),
    Inclusion("dcnn", "polynomial", ALWAYS, "Remark 1", _dcnn, example("dcnn")),
    Inclusion("chebyshev", "polynomial", ALWAYS, "eq. (polFilt, 10)", _chebyshev, example("chebyshev")),
    Inclusion("polynomial", "chebyshev", ALWAYS, "eq. (polFilt, 10)", _to_chebyshev, _polynomial),
    Inclusion("polynomial", "selection_gcnn", "all nodes selected", "eq. (polFilt, 10)", _to_selection, _polynomial),
    Inclusion(
        "selection_gcnn", "parallel_edge_variant", ALWAYS, "eq. (polFilt, 10)",
        _as_edge_variant, example("selection_gcnn"),
    ),
    Inclusion("arma", "polynomial", "finitely many iterations", "Remark 1", _by_coefficients, example("arma")),
    Inclusion(
        "cayley", "polynomial", "Jacobi iterations, constant diagonal of S", "Remark 1",
        _by_coefficients, example("cayley"),
    ),
    Inclusion("polynomial", "node_variant", "one privileged node", "eq. (nodeV, 17)", _to_node_variant, _polynomial),
    Inclusion(
        "node_variant", "edge_variant", 'zeroth="diagonal", degrees of the nodes differ by at most 2', "R5",
        _as_edge_variant, example("node_variant"), _node_variant_with_a_constant,
    ),
    Inclusion("polynomial", "hybrid_edge_variant", "edge-variant part zero", "eq. (HEV, 18)", _to_hybrid, _polynomial),
    Inclusion(
        "edge_variant", "hybrid_edge_variant", 'all nodes privileged, zeroth="none"', "eq. (HEV, 18)",
        _edge_variant_to_hybrid, _edge_variant("none"), _edge_variant("diagonal"),
    ),
    Inclusion(
        "hybrid_edge_variant", "parallel_edge_variant", ALWAYS, "R11", _as_edge_variant, example("hybrid_edge_variant")
    ),
    Inclusion("polynomial", "critical_edge", "edge parameters zero", "section III-A", _to_critical_edge, _polynomial),
    Inclusion(
        "critical_edge", "parallel_edge_variant", ALWAYS, "section III-A", _as_edge_variant, example("critical_edge")
    ),
    Inclusion(
        "shift_invariant_edge_variant", "edge_variant", ALWAYS, "eq. (evResp, 12)",
        _as_edge_variant, example("shift_invariant_edge_variant"),
    ),
    Inclusion(
        "shift_invariant_edge_variant", "polynomial", "of the same order if the null space is span{I, S}", "R8",
        _shift_invariant, _shift_invariant_path, _shift_invariant_complete,
    ),
    Inclusion(
        "polynomial", "spectral", "real spectrum, kernel of powers", "eq. (specGCNN, 11)",
        _to_spectral, _symmetric, _rotation,
    ),
    Inclusion(
        "spectral", "edge_variant", 'S diagonalisable, zeroth="diagonal", order up to N - 1', "R10",
        _as_edge_variant, example("spectral"),
    ),
    Inclusion("ecc", "edge_variant", "always, of order 1", "Remark 1", _as_edge_variant, example("ecc")),
    Inclusion("monet", "edge_variant", "always, of order 1", "Remark 1", _as_edge_variant, example("monet")),
)  # fmt: skip


class FixedSignal(NamedTuple):
    """An inclusion at one signal at a time: the weights of `small` are made of x, so that no map of parameters alone
    can be one. ``small.to_edge_variant(params, x)`` is the map at x."""

    small: str
    large: str
    condition: str


at_a_fixed_signal = (FixedSignal("attention", "edge_variant", "at a fixed signal, of order 1"),)


def matrix_error(small: Case, large: Case) -> float:
    """Largest difference of H(S), relative to the largest entry."""
    ours, theirs = small[0].matrix(small[1]), large[0].matrix(large[1])
    return float(np.abs(ours - theirs).max() / max(np.abs(ours).max(), 1e-300))


def gradient_error(inclusion: Inclusion, small: Case, seed: int = 0) -> float:
    """Native gradient of the smaller class against the larger one's, pulled back through the map by complex step."""
    filt, params = small
    large, large_params = inclusion.embed(filt, params)
    rng = np.random.default_rng(seed)
    x, u = rng.standard_normal((2, *filt.in_shape)), rng.standard_normal((2, *filt.out_shape))
    native, _ = filt.backward(params, filt.forward(params, x)[1], u)
    grads, _ = large.backward(large_params, large.forward(large_params, x)[1], u)
    worst = 0.0
    for name, grad in native.items():
        pulled = np.zeros(grad.size)
        for entry in range(grad.size):
            moved = {key: value.astype(complex) for key, value in params.items()}
            moved[name].flat[entry] += 1e-30j
            with checks.complex_allowed():
                _, large_moved = inclusion.embed(filt, moved)
            pulled[entry] = sum(np.vdot(large_moved[key].imag / 1e-30, grads[key]) for key in grads)
        scale = max(float(np.abs(grad).max()), 1e-12)
        worst = max(worst, float(np.abs(pulled - grad.ravel()).max()) / scale)
    return worst
