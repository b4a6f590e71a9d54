"""Pictures of graphs, parameters, states, trainings and experiments.

Every function takes `ax` (or `axes`) and gives it back, draws nothing else, and makes a figure of its own only where
none was given. matplotlib is imported on the first call: ``pip install "evref[plot]"``.

Colours are centred on zero, so that white is nothing, and the two colour maps (blue-red for signals, purple-orange for
parameters) are safe for colour-blind readers. One picture of a filter shows its parameters on the edges:

- each edge is drawn in two halves, and the half that touches node i shows φ_ij, the weight with which i hears j;
- the ring around node i shows φ_ii;
- a thicker line is a larger |φ|.

In a directed graph an arrow j → i shows φ_ij.

>>> import evref as ev
>>> from evref import plot
>>> network = ev.generators.cycle(6)
>>> ax = plot.graph(network, values=[1, 0, 0, 0, 0, -1])            # doctest: +SKIP
>>> ax = plot.support(network)                                      # doctest: +SKIP
"""

from __future__ import annotations

from .graphs import graph, layout, support
from .growth import growth
from .lattice import lattice
from .learned import edge_weights, responses, strongest_weights
from .recursion import cotangents, states
from .results import accuracy_table, confusion_matrix, paired_differences, training_curves
from .roofline import roofline
from .spectra import nullspace_dimensions, transfer
from .training import history

__all__ = [
    "accuracy_table",
    "confusion_matrix",
    "cotangents",
    "edge_weights",
    "graph",
    "growth",
    "history",
    "lattice",
    "layout",
    "nullspace_dimensions",
    "paired_differences",
    "responses",
    "roofline",
    "states",
    "strongest_weights",
    "support",
    "training_curves",
    "transfer",
]
