"""evref: edge-variant graph filters and the graph neural networks they generalise, with every gradient by hand.

>>> import evref as ev
>>> graph, communities = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)
>>> net = ev.Network([
...     ev.EdgeVariant(graph, order=4, out_features=5, bias=True),
...     ev.ReLU(),
...     ev.Dense((5, 50), outputs=5),
... ])
>>> params = net.init(rng=0)
>>> ev.gradcheck.dot_test(net, params).ok
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import kernels
from .contract import Module, NotRepresentable, Tape
from .filters import (
    ARMA,
    DCNN,
    ECC,
    GCN,
    TAGCN,
    CayleyNet,
    Chebyshev,
    CriticalEdge,
    EdgeVariant,
    Filter,
    GraphAttention,
    HybridEdgeVariant,
    MoNet,
    NodeVariant,
    ParallelEdgeVariant,
    Polynomial,
    SelectionGCNN,
    ShiftInvariantEdgeVariant,
    SpectralGCNN,
    catalogue,
)
from .graph import (
    Fourier,
    Graph,
    NotDiagonalizable,
    RepeatedEigenvaluesWarning,
    ShiftInvariantBasis,
    fourier_basis,
    generators,
    partial_fourier_basis,
    selection,
    shift_invariant_basis,
    shifts,
)
from .kernels import set_backend, set_threads, use_backend, use_threads
from .learn import (
    SGD,
    Adam,
    CrossEntropy,
    Dense,
    FitResult,
    Identity,
    LeakyReLU,
    MaxActivation,
    MeanSquaredError,
    MedianActivation,
    Network,
    ReLU,
    Sigmoid,
    Tanh,
    accuracy,
    encode_labels,
    fit,
    layer_catalogue,
    load_network,
    load_parameters,
    save_network,
    save_parameters,
    schedules,
)
from .verify import gradcheck

if TYPE_CHECKING:
    from . import plot, testing
    from .verify.compare import compare

__version__ = "0.1.0"

__all__ = [
    "ARMA",
    "DCNN",
    "ECC",
    "GCN",
    "SGD",
    "TAGCN",
    "Adam",
    "CayleyNet",
    "Chebyshev",
    "CriticalEdge",
    "CrossEntropy",
    "Dense",
    "EdgeVariant",
    "Filter",
    "FitResult",
    "Fourier",
    "Graph",
    "GraphAttention",
    "HybridEdgeVariant",
    "Identity",
    "LeakyReLU",
    "MaxActivation",
    "MeanSquaredError",
    "MedianActivation",
    "MoNet",
    "Module",
    "Network",
    "NodeVariant",
    "NotDiagonalizable",
    "NotRepresentable",
    "ParallelEdgeVariant",
    "Polynomial",
    "ReLU",
    "RepeatedEigenvaluesWarning",
    "SelectionGCNN",
    "ShiftInvariantBasis",
    "ShiftInvariantEdgeVariant",
    "Sigmoid",
    "SpectralGCNN",
    "Tanh",
    "Tape",
    "accuracy",
    "catalogue",
    "compare",
    "encode_labels",
    "fit",
    "fourier_basis",
    "generators",
    "gradcheck",
    "kernels",
    "layer_catalogue",
    "load_network",
    "load_parameters",
    "partial_fourier_basis",
    "plot",
    "save_network",
    "save_parameters",
    "schedules",
    "selection",
    "set_backend",
    "set_threads",
    "shift_invariant_basis",
    "shifts",
    "testing",
    "use_backend",
    "use_threads",
]


def __getattr__(name: str) -> Any:
    """`evref.plot`, `evref.testing` and `evref.compare` are imported when they are first used."""
    if name in ("plot", "testing"):
        return import_module(f"{__name__}.{name}")
    if name == "compare":
        return import_module(f"{__name__}.verify.compare").compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
