"""What the signal lives on: graphs, their shift operators, and ways to make them."""

from __future__ import annotations

from . import generators, shifts
from .argument import as_graph
from .fourier import Fourier, NotDiagonalizable, RepeatedEigenvaluesWarning, fourier_basis, partial_fourier_basis
from .nullspace import ShiftInvariantBasis, shift_invariant_basis
from .support import Graph

__all__ = [
    "Fourier",
    "Graph",
    "NotDiagonalizable",
    "RepeatedEigenvaluesWarning",
    "ShiftInvariantBasis",
    "as_graph",
    "fourier_basis",
    "generators",
    "partial_fourier_basis",
    "shift_invariant_basis",
    "shifts",
]
