"""What else S could have been: transposed, with other self-loops, normalised by other degrees, scaled otherwise.

The right matrix of a graph made by ``raw.with_shift(name)`` is known to come from the raw weights W, so that the other
ways to normalise W can be tried. Of a matrix that was given as it is only S itself can be changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...filters import ARMA, CayleyNet, Chebyshev, NodeVariant, Polynomial, ShiftInvariantEdgeVariant, SpectralGCNN
from ...filters.base import Filter
from ...graph import Graph
from ...graph.shifts import Shift, largest_eigenvalue
from .models import Model, Transposed
from .terms import axes_of, fixed_groups
from .variants import Variant

Sparse = sparse.csr_array


class OtherShift(NamedTuple):
    mistake: str
    says: str
    S: Any


def takes_any_shift(core: Any) -> bool:
    return isinstance(core, (Polynomial, Chebyshev, NodeVariant, ARMA, CayleyNet))


def on_graph(core: Filter, graph: Graph) -> Model:
    """The same filter on another graph; a node of a node-variant filter copies whom it copied before."""
    config = core.config()
    if isinstance(core, NodeVariant):
        config["mapping"] = fixed_groups(core)
    return type(core)(graph, **config)


def transposed(core: Any) -> Iterator[Variant]:
    """S^T for S. For filters given by the eigenvectors of S that is the transposed matrix."""
    if takes_any_shift(core):
        yield Variant("S is transposed", on_graph(core, core.graph.transposed()))
    elif isinstance(core, (SpectralGCNN, ShiftInvariantEdgeVariant)):
        sizes = {"in_features": core.out_features, "out_features": core.in_features}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            swapped = type(core)(core.graph, **{**core.config(), **sizes})
        yield Variant("S is transposed", Transposed(swapped, axes_of(core)))


def others(mistake: str) -> Callable[[Any], Iterator[Variant]]:
    """The alternatives to S that count as `mistake`."""
    return partial(_others, mistake)


def _others(mistake: str, core: Any) -> Iterator[Variant]:
    if not takes_any_shift(core):
        return
    for other in alternatives(core.graph):
        if other.mistake == mistake:
            yield Variant(other.says, on_graph(core, Graph(other.S)))


def alternatives(graph: Graph) -> list[OtherShift]:
    """Every other S that is tried, kept with the graph: each costs a few sparse products."""
    found = graph.__dict__.get("_other_shifts")
    if found is None:
        with np.errstate(all="ignore"):
            found = [other for other in _alternatives(graph) if _is_usable(other.S)]
        graph.__dict__["_other_shifts"] = found
    return found


def _is_usable(S: Any) -> bool:
    return bool(np.isfinite(S.data).all())


def _alternatives(graph: Graph) -> Iterator[OtherShift]:
    S = sparse.csr_array(graph.S.astype(np.float64))
    eye = sparse.eye_array(graph.n_nodes, format="csr")
    loops = sparse.diags_array(S.diagonal(), format="csr")
    yield OtherShift("self-loops", "self-loops are added to S (S + I)", S + eye)
    if loops.nnz:
        yield OtherShift("self-loops", "the self-loops of S are missing", S - loops)
        yield OtherShift("self-loops", "the self-loops of S count twice", S + loops)
    counts = np.maximum(np.diff(S.indptr), 1)
    yield OtherShift("mean-for-sum", "the mean over a node's neighbours for their sum", _rows(1 / counts, S))
    sums = S.sum(axis=1)
    if graph.origin is None:
        if (sums > 0).any():
            yield OtherShift("degree", "S is divided by its row sums (D^-1 S)", _rows(_inverse(sums), S))
            yield OtherShift("degree", "S is divided by its column sums", _columns(S, _inverse(S.sum(axis=0))))
            yield OtherShift("degree", "S is normalised (D^-1/2 S D^-1/2)", _both(S, _inverse(sums) ** 0.5))
        radius = _radius(graph)
        if radius:
            yield OtherShift("spectrum-scale", "S is divided by its largest eigenvalue", S / radius)
        return
    raw, name, options = graph.origin
    W = sparse.csr_array(raw.S.astype(np.float64))
    yield from FROM_RAW.get(name, _nothing)(W, eye, graph, options)


def _nothing(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    yield from ()


# ---- other degrees ---------------------------------------------------------------------------------------------------
def _rows(values: Any, A: Any) -> Any:
    return sparse.csr_array(sparse.diags_array(values) @ A)


def _columns(A: Any, values: Any) -> Any:
    return sparse.csr_array(A @ sparse.diags_array(values))


def _both(A: Any, values: Any) -> Any:
    return _columns(_rows(values, A), values)


def _inverse(degrees: Any) -> Any:
    """1/d, and 0 for a node without edges."""
    return np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=np.asarray(degrees) != 0)


def _normalised(A: Any, degrees: Any = None) -> Any:
    """D^-1/2 A D^-1/2 with the row sums of A, or with other degrees."""
    return _both(A, _inverse(A.sum(axis=1) if degrees is None else degrees) ** 0.5)


def _by_other_degrees(A: Any, right: str, among: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Every way to bring degrees into A (or those in `among`), but the one called `right`."""
    rows, columns = A.sum(axis=1), A.sum(axis=0)
    ways = {
        "symmetric": ("D^-1/2 A D^-1/2, both sides by roots", lambda: _normalised(A)),
        "rows": ("D^-1 A by rows, the root is forgotten", lambda: _rows(_inverse(rows), A)),
        "columns": ("A D^-1 by columns", lambda: _columns(A, _inverse(columns))),
        "left root": ("D^-1/2 A, on one side only", lambda: _rows(_inverse(rows) ** 0.5, A)),
        "right root": ("A D^-1/2, on one side only", lambda: _columns(A, _inverse(columns) ** 0.5)),
        "squared": ("D^-1 A D^-1, the root is forgotten", lambda: _both(A, _inverse(rows))),
        "none": ("A is not normalised at all", lambda: A),
        "inverted": ("D A, the degree is inverted", lambda: _rows(rows, A)),
        "inverted columns": ("A D, the degree is inverted", lambda: _columns(A, columns)),
        "inverted roots": ("D^1/2 A D^1/2, the degree is inverted", lambda: _both(A, np.maximum(rows, 0) ** 0.5)),
        "transposed rows": ("D^-1 A with the column sums as degrees", lambda: _rows(_inverse(columns), A)),
        "transposed columns": ("A D^-1 with the row sums as degrees", lambda: _columns(A, _inverse(rows))),
        "plus one": ("(D + I)^-1 A, degrees plus one", lambda: _rows(1 / (rows + 1), A)),
    }
    for key, (says, make) in ways.items():
        if key != right and (not among or key in among):
            yield says, make()


def _gcn(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    A, degrees = W + eye, W.sum(axis=1)
    missing = sparse.diags_array((W.diagonal() == 0).astype(float), format="csr")
    loops = {
        "self-loops are missing: D^-1/2 W D^-1/2": _normalised(W),
        "self-loops count twice: W + 2I": _normalised(W + 2 * eye),
        "self-loops are added after a normalisation without them: D^-1/2 W D^-1/2 + I": _normalised(W) + eye,
        "self-loops are not in the degrees: D^-1/2 (W + I) D^-1/2 with the degrees of W": _normalised(A, degrees),
        "self-loops are in the degrees alone: W normalised by the degrees of W + I": _normalised(W, degrees + 1),
        "self-loops are only added where there is none yet": _normalised(W + missing),
    }
    yield from (OtherShift("self-loops", says, S) for says, S in loops.items())
    for says, S in _by_other_degrees(W, "symmetric", ("none", "rows", "columns", "left root", "right root", "squared")):
        yield OtherShift("self-loops", f"self-loops are missing, and {says} (A = W)", S)
    yield from (OtherShift("degree", f"{says} (A = W + I)", S) for says, S in _by_other_degrees(A, "symmetric"))


def _symmetric_adjacency(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    yield OtherShift("self-loops", "self-loops are added before the normalisation, as in GCN", _normalised(W + eye))
    if W.diagonal().any():
        without = W - sparse.diags_array(W.diagonal(), format="csr")
        yield OtherShift("self-loops", "self-loops are removed before the normalisation", _normalised(without))
    yield from (OtherShift("degree", f"{says} (A = W)", S) for says, S in _by_other_degrees(W, "symmetric"))


def _random_walk(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    A = W + eye
    yield OtherShift("self-loops", "self-loops are added before the walk", _rows(_inverse(A.sum(axis=1)), A))
    right = options.get("normalize", "rows")
    for says, S in _by_other_degrees(W, right):
        if says.startswith("D^-1 A by rows"):
            says = "D^-1 A by rows"
        yield OtherShift("degree", f"{says} (A = W)", S)


def _other_laplacians(W: Any, eye: Any, combinatorial: bool) -> Iterator[tuple[str, str, Any]]:
    """Mistake, sentence and matrix of Laplacians that are not the right one."""
    degrees = sparse.diags_array(W.sum(axis=1), format="csr")
    normalised = sparse.csr_array(sparse.diags_array((np.diff(W.indptr) > 0).astype(float)) - _normalised(W))
    if combinatorial:
        yield "degree", "the normalised Laplacian for D - W", normalised
    else:
        yield "degree", "the Laplacian is not normalised: D - W", degrees - W
        for says, A in _by_other_degrees(W, "symmetric"):
            yield "degree", f"L = I - A', where A' is {says} (A = W)", eye - A
        if (np.diff(W.indptr) == 0).any():
            yield "self-loops", "a node without edges has 1 on the diagonal of L", eye - _normalised(W)
        yield "self-loops", "self-loops are added before the normalisation", eye - _normalised(W + eye)
        if W.diagonal().any():
            without = W - sparse.diags_array(W.diagonal(), format="csr")
            yield "self-loops", "self-loops are removed before the normalisation", eye - _normalised(without)
    yield "sign", "the sign of L: W - D for D - W", -(degrees - W) if combinatorial else -normalised
    yield "degree", "W itself stands for the Laplacian", W


def _laplacian(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    combinatorial = graph.origin is not None and graph.origin[1] == "laplacian"
    yield from (OtherShift(*other) for other in _other_laplacians(W, eye, combinatorial))
    yield OtherShift("degree", "D^-1/2 W D^-1/2 stands for the Laplacian", _normalised(W))
    yield OtherShift("self-loops", "GCN's D^-1/2 (W + I) D^-1/2 stands for the Laplacian", _normalised(W + eye))
    L = sparse.csr_array(graph.S.astype(np.float64))
    top = _radius(graph)
    yield OtherShift("spectrum-scale", "lambda_max is taken as 2 (L - I for L)", L - eye)
    if top:
        yield OtherShift("spectrum-scale", "the spectrum is scaled: 2 L / lambda_max - I for L", L * (2 / top) - eye)
        yield OtherShift("spectrum-scale", "L / lambda_max for L", L / top)


def _scaled_laplacian(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    combinatorial = options.get("kind") == "combinatorial"
    name: Shift = "laplacian" if combinatorial else "normalized_laplacian"
    right = graph.origin[0].with_shift(name).S.astype(np.float64) if graph.origin else eye
    top = options.get("lambda_max") or _radius(Graph(right)) or 2.0
    yield OtherShift("spectrum-scale", "lambda_max is taken as 2 (L - I)", right - eye)
    yield OtherShift("spectrum-scale", "the spectrum is not scaled: L itself", right)
    yield OtherShift("spectrum-scale", "the spectrum is not shifted: 2 L / lambda_max without - I", right * (2 / top))
    yield OtherShift("spectrum-scale", "L / lambda_max for 2 L / lambda_max - I", right / top)
    of_adjacencies = {"of W": _radius(Graph(W)), "of D^-1/2 W D^-1/2": _radius_of(_normalised(W))}
    for words, t in of_adjacencies.items():
        if t:
            yield OtherShift("spectrum-scale", f"lambda_max is that {words} and not that of L", right * (2 / t) - eye)
    says = "D^-1/2 W D^-1/2 stands for S: lambda_max is taken as 2 and the sign is lost"
    yield OtherShift("spectrum-scale", says, _normalised(W))
    if not combinatorial and (np.diff(W.indptr) == 0).any():  # without such a node the same matrix
        yield OtherShift("spectrum-scale", "I - L stands for S, with 1 for a node without edges", eye - right)
    yield OtherShift("self-loops", "GCN's D^-1/2 (W + I) D^-1/2 stands for S", _normalised(W + eye))
    yield OtherShift("degree", "W itself stands for S", W)
    for mistake, says, L in _other_laplacians(W, eye, combinatorial):
        own = _radius_of(L)
        scales = {"scaled by its own lambda_max": own, "scaled by that of the right L": top, "lambda_max = 2": 2.0}
        for words, t in scales.items():
            if t:
                yield OtherShift(mistake, f"{says}, {words}", L * (2 / t) - eye)


def _normalized_adjacency(W: Any, eye: Any, graph: Graph, options: dict[str, Any]) -> Iterator[OtherShift]:
    yield OtherShift("spectrum-scale", "S is not divided by its largest eigenvalue", W)
    yield OtherShift("spectrum-scale", "S is divided by 2", W / 2)
    sums = abs(W).sum(axis=1)
    if sums.max() > 0:
        yield OtherShift("spectrum-scale", "S is divided by its largest row sum", W / sums.max())
    top = _radius(Graph(W))
    if top:
        yield OtherShift("spectrum-scale", "S is multiplied by its largest eigenvalue", W * top)
        yield OtherShift("self-loops", "self-loops are added before the division", (W + eye) / _radius(Graph(W + eye)))
        yield from (OtherShift("degree", f"{says} (A = W)", S) for says, S in _by_other_degrees(W, "none"))


def _radius_of(A: Any) -> float:
    return _radius(Graph(A)) if _is_usable(A) else 0.0


def _radius(graph: Graph) -> float:
    """Largest absolute eigenvalue; 0 where it is not to be had."""
    try:
        return largest_eigenvalue(graph)
    except ValueError:
        return 0.0


FROM_RAW: dict[str, Callable[..., Iterator[OtherShift]]] = {
    "gcn": _gcn,
    "symmetric_adjacency": _symmetric_adjacency,
    "random_walk": _random_walk,
    "normalized_laplacian": _laplacian,
    "laplacian": _laplacian,
    "scaled_laplacian": _scaled_laplacian,
    "normalized_adjacency": _normalized_adjacency,
}
