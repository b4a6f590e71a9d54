"""Graph filters, one file per family, and the catalogue that tests, docs and command line iterate over."""

from __future__ import annotations

from .arma import ARMA
from .attention import GraphAttention
from .base import Filter
from .cayley import CayleyNet
from .chebyshev import Chebyshev
from .critical_edge import CriticalEdge
from .diffusion import DCNN
from .ecc import ECC
from .edge_variant import EdgeVariant
from .hybrid import HybridEdgeVariant
from .monet import MoNet
from .node_variant import NodeVariant
from .parallel import ParallelEdgeVariant
from .polynomial import GCN, TAGCN, Polynomial
from .selection import SelectionGCNN
from .shift_invariant import ShiftInvariantEdgeVariant
from .spectral import SpectralGCNN

catalogue: dict[str, type[Filter]] = {
    cls.name: cls
    for cls in (
        EdgeVariant,  # eq. (evConv, 9)
        ParallelEdgeVariant,  # sums of it
        NodeVariant,  # eq. (nodeV, 17)
        HybridEdgeVariant,  # eq. (HEV, 18)
        CriticalEdge,  # section III-A, "the most critical edges"
        Polynomial,  # eq. (polFilt, 10)
        Chebyshev,  # ... in another basis: ChebNet
        GCN,  # one shift
        TAGCN,  # eq. (polFilt, 10) on the normalised adjacency
        DCNN,  # powers of a random walk, not mixed
        SelectionGCNN,  # eq. (polFilt, 10) between selections of nodes
        ARMA,  # Remark 1: rational in the limit
        CayleyNet,  # Remark 1: rational, or Jacobi iterations
        ECC,  # weights from edge attributes
        MoNet,  # weights from Gaussians of edge coordinates
        GraphAttention,  # weights from the signal
        SpectralGCNN,  # eq. (specGCNN, 11)
        ShiftInvariantEdgeVariant,  # eq. (evResp, 12)
    )
}

__all__ = [
    "ARMA",
    "DCNN",
    "ECC",
    "GCN",
    "TAGCN",
    "CayleyNet",
    "Chebyshev",
    "CriticalEdge",
    "EdgeVariant",
    "Filter",
    "GraphAttention",
    "HybridEdgeVariant",
    "MoNet",
    "NodeVariant",
    "ParallelEdgeVariant",
    "Polynomial",
    "SelectionGCNN",
    "ShiftInvariantEdgeVariant",
    "SpectralGCNN",
    "catalogue",
]
