"""What the signal lives on: graphs, their shift operators, and ways to make them."""

from __future__ import annotations

from . import generators, shifts
from .support import Graph

__all__ = ["Graph", "generators", "shifts"]
