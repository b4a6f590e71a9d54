"""What a caller passes as a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .support import Graph


def as_graph(graph: Any, name: str = "graph") -> Graph:
    """`graph` if it is a Graph; else a TypeError that says which constructor makes one from it.

    >>> as_graph(np.eye(2))
    Traceback (most recent call last):
    ...
    TypeError: graph is numpy.ndarray; expected an evref.Graph (Graph.from_adjacency(...) makes one)
    """
    if isinstance(graph, Graph):
        return graph
    kind = type(graph)
    package = kind.__module__.partition(".")[0]  # networkx has a class of the same name
    full_name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    text = f"{name} is {full_name}; expected an evref.Graph"
    constructor = _constructor(graph)
    raise TypeError(f"{text} (Graph.{constructor}(...) makes one)" if constructor else text)


def _constructor(graph: Any) -> str | None:
    """By module name: networkx and torch need not be installed."""
    modules = {cls.__module__.partition(".")[0] for cls in type(graph).__mro__}
    if "networkx" in modules:
        return "from_networkx"
    if isinstance(graph, np.ndarray) or sparse.issparse(graph) or hasattr(graph, "columns"):  # a pandas DataFrame
        return "from_adjacency"
    if "torch" in modules or "torch_geometric" in modules:
        return "from_edge_index"
    return None
