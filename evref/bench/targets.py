"""What the figures are held against. All targets stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Target(NamedTuple):
    """`at_least` times faster than `peer` (the strongest of those whose names begin so), or a share of a limit."""

    case: str  # a case or a group
    peer: str
    at_least: float
    dtype: str | None = None


BANDWIDTH = "share of bandwidth"

TARGETS = [
    Target("small", "numpy dense", 3),
    Target("small", "torch dense", 4),
    Target("small", "PyG", 40),
    Target("small", "authors' dense form", 100),
    Target("medium", "torch.compile", 4, "float32"),
    Target("medium", "torch.compile", 3.5, "float64"),
    Target("medium", "torch.sparse", 20),
    Target("medium", "PyG", 40),
    Target("large B=8", "torch.compile", 2.4),
    Target("large B=8", "PyG", 10),
    Target("large B=1", "JAX", 1.8),
    Target("large B=1", "PyG", 4),
    Target("huge", "JAX", 1.3),
    Target("huge", "PyG", 2.5),
    Target("huge", BANDWIDTH, 0.5),
    Target("training F=1", "torch dense", 10),
    Target("training F=8", "torch dense", 4.9),  # between its neighbours, on logarithmic scales
    Target("training F=32", "torch dense", 3),
    Target("training", "torch gather", 19),
    *(
        Target(group, peer, ratio)
        for group in ("polynomial", "node-variant")
        for peer, ratio in (("scipy+BLAS", 1.5), ("torch CSR", 2), ("torch gather", 8))
    ),
]

STARTUP = {"import": 0.5, "first call, cold cache": 10.0, "first call, warm cache": 1.0}  # seconds, at most
GROWTH_SLOPE = 1.15  # of time against size on logarithmic scales, at most: linear, and some room for noise
GROWTH_MEMORY = 1.1  # measured memory / bound, at most


def of_line(line: dict[str, Any]) -> Iterator[Target]:
    for target in TARGETS:
        if target.case in (line["case"], line["group"]) and target.dtype in (None, line["dtype"]):
            yield target
