"""The paper's claims as executable statements, numbered as in docs/readings.md; importing this registers them."""

from __future__ import annotations

from . import edge_variant, source_localization

__all__ = ["edge_variant", "source_localization"]
