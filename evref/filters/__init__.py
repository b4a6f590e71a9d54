"""Graph filters, one file per family, and the catalogue that tests, docs and command line iterate over."""

from __future__ import annotations

from .base import Filter
from .edge_variant import EdgeVariant

catalogue: dict[str, type[Filter]] = {
    cls.name: cls
    for cls in (
        EdgeVariant,  # eq. (evConv)
    )
}

__all__ = ["EdgeVariant", "Filter", "catalogue"]
