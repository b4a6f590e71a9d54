"""The paper's claims as executable statements, numbered as in docs/readings.md; importing this registers them."""

from __future__ import annotations

from . import (
    architectures,
    cost,
    dimensions,
    edge_variant,
    generated,
    polynomial,
    privileged,
    rational,
    source_localization,
    spectral,
)

__all__ = [
    "architectures",
    "cost",
    "dimensions",
    "edge_variant",
    "generated",
    "polynomial",
    "privileged",
    "rational",
    "source_localization",
    "spectral",
]
