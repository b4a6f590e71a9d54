"""The networks of the paper's tables: one graph filter with a bias per feature, ReLU, a dense softmax readout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from .. import renamed
from ..filters import EdgeVariant, Filter, HybridEdgeVariant, NodeVariant, Polynomial, SpectralGCNN
from ..filters.hybrid import Reading
from ..graph import Graph, selection
from ..graph.fourier import fourier_basis
from ..learn import Dense, Network, ReLU

# The rows of the paper's tables, in its order and its words.
LABELS = {
    "spectral": "Spectral",
    "polynomial": "Polynomial",
    "nv-degree": "Node Variant (NV) Degree",
    "nv-proxies": "Node Variant (NV) S. Proxies",
    "ev": "Edge Variant (EV)",
    "hev-degree": "Hybrid EV (HEV) Degree",
    "hev-proxies": "Hybrid EV (HEV) S. Proxies",
}
MODELS = tuple(LABELS)

# Beyond the tables: other readings of the same equations.
EXTRA_LABELS = {
    "spectral-no-top-row": "Spectral, spline without λ_max",
    "ev-equation": "EV, sum from k=1",
    "hev-degree-equation": "HEV Degree, equation",
    "hev-degree-authors-code": "HEV Degree, authors' code",
    "hev-proxies-equation": "HEV S. Proxies, equation",
    "hev-proxies-authors-code": "HEV S. Proxies, authors' code",
}
EXTRA_MODELS = tuple(EXTRA_LABELS)
BASELINE = "logistic"  # the readout alone: no graph
BASELINE_LABEL = {BASELINE: "Logistic regression, no graph"}
REFERENCE = "polynomial"  # the row that the others are compared with

SELECTIONS: dict[str, Callable[[Graph, int], np.ndarray]] = {
    "degree": lambda graph, count: selection.by_degree(graph)[:count],
    "proxies": lambda graph, count: np.asarray(selection.spectral_proxies(graph, count=count)),
}


def network(
    model: str,
    graph: Graph,
    in_features: int,
    features: int,
    order: int,
    n_privileged: int,
    n_spline: int,
    classes: int,
    bias: bool = True,
) -> Network:
    """The network called `model` on `graph`.

    `init` of the result draws every array uniformly in ±s with the authors' s: 1/√(G·taps) for the polynomial,
    1/√(G·b) spectral, 1/√(G·taps·|B|) node-variant, 1/√(G·taps·N) edge-variant and hybrid, 1/√fan-in for the readout.

    Parameters
    ----------
    model : str
        One of `MODELS` (the paper's rows), `EXTRA_MODELS`, or `BASELINE`, the readout without a filter.
        "ev" has a learnable diagonal Φ⁽⁰⁾, as in the authors' code, so that every recursion has order + 1 taps;
        "ev-equation" is eq. (evConv, 9), whose sum starts at k = 1.
        "hev-..." takes the reading "text" of eq. (HEV, 18), its suffixes the other two.
    graph : Graph
        Its S is the shift.
    in_features, features : int
        G and F of the filter.
    order : int
        K.
    n_privileged : int
        |B|, the nodes that "nv-..." and "hev-..." choose by degree or by spectral proxies.
    n_spline : int
        b, the parameters per spectral filter.
    classes : int
        Outputs of the readout.
    bias : bool
        False leaves every bias out, the readout's as well: the network is then positively homogeneous.

    >>> from evref import generators
    >>> net = network("ev", generators.cycle(6), 1, 2, order=1, n_privileged=2, n_spline=3, classes=4)
    >>> net.parameter_shapes()
    {'0.phi': (1, 2, 1, 18), '0.phi0': (2, 1, 6), '0.bias': (2,), '2.weight': (4, 12), '2.bias': (4,)}
    """
    if model == BASELINE:
        return Network([Dense((in_features, graph.n_nodes), outputs=classes, bias=bias)])
    filt = _filter(model, graph, in_features, features, order, n_privileged, n_spline, bias)
    return Network([filt, ReLU(), Dense((features, graph.n_nodes), outputs=classes, bias=bias)])


def _filter(model: str, graph: Graph, G: int, F: int, order: int, n_privileged: int, n_spline: int, bias: bool) -> Any:
    shape: dict[str, Any] = {"in_features": G, "out_features": F, "bias": bias}
    filt: Filter
    match model.split("-"):
        case ["spectral"]:
            filt = SpectralGCNN(graph, n_spline, **shape)
        case ["spectral", "no", "top", "row"]:
            filt = SpectralGCNN(graph, n_spline, kernel=spline_without_top_row(graph, n_spline), **shape)
        case ["polynomial"]:
            filt = Polynomial(graph, order, **shape)
        case ["nv", chosen] if chosen in SELECTIONS:
            filt = NodeVariant(graph, order, nodes=SELECTIONS[chosen](graph, n_privileged), **shape)
        case ["ev"]:
            filt = EdgeVariant(graph, order, zeroth="diagonal", **shape)
        case ["ev", "equation"]:
            filt = EdgeVariant(graph, order, zeroth="none", **shape)
        case ["hev", chosen, *words] if chosen in SELECTIONS and (not words or "_".join(words) in get_args(Reading)):
            nodes = SELECTIONS[chosen](graph, n_privileged)
            reading: Any = "_".join(words) or "text"
            filt = HybridEdgeVariant(graph, order, nodes=nodes, reading=reading, **shape)
        case _:
            new = renamed.current("models", model)
            hint = f" ({model!r} is called {new!r} now)" if new != model else ""
            raise ValueError(
                f"model is {model!r}; expected one of {', '.join((*MODELS, *EXTRA_MODELS, BASELINE))}{hint}"
            )
    return filt


def spline_without_top_row(graph: Graph, n_spline: int) -> np.ndarray:
    """The spline kernel with the fault that the paper's spectral row shows; for comparison only."""
    from ..filters.spectral import spline_kernel

    eigenvalues = fourier_basis(graph).eigenvalues.real
    B = spline_kernel(eigenvalues, n_spline)
    B[np.argmax(eigenvalues)] = 0
    return B
