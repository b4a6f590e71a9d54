"""Graph filters, one file per family, and the catalogue that tests, docs and command line iterate over."""

from __future__ import annotations

from .base import Filter
from .edge_variant import EdgeVariant
from .parallel import ParallelEdgeVariant

catalogue: dict[str, type[Filter]] = {
    cls.name: cls
    for cls in (
        EdgeVariant,  # eq. (evConv)
        ParallelEdgeVariant,  # sums of it
    )
}

__all__ = [
    "EdgeVariant",
    "Filter",
    "ParallelEdgeVariant",
    "catalogue",
]
