"""What the tables of the bridges have a row for: every configuration of the catalogues, and a network."""

from __future__ import annotations

from functools import cache

import evref as ev
from evref.verify.examples import named_examples, probe_graph


@cache
def subjects(n_nodes: int) -> dict[str, ev.Module]:
    """Every configuration of the catalogues by name, and the network of the paper, on a directed graph."""
    graph = probe_graph(n_nodes, "directed")
    found = {}
    for kind, catalogue in (("", ev.catalogue), ("layer ", ev.layer_catalogue)):
        for name, cls in sorted(catalogue.items()):
            for label, module in named_examples(cls, graph).items():
                found[f"{kind}{name}({label})" if label else f"{kind}{name}"] = module
    found["network of the paper"] = ev.Network(
        [ev.EdgeVariant(graph, 2, 1, 3), ev.ReLU(), ev.Dense((3, n_nodes), outputs=2)]
    )
    return found


@cache
def first_of_each(n_nodes: int) -> list[str]:
    """Names of a configuration for each class, and of the networks."""
    seen: dict[type, str] = {}
    for name, module in subjects(n_nodes).items():
        seen.setdefault(type(module), name)
    return list(dict.fromkeys([*seen.values(), *(name for name in subjects(n_nodes) if "network" in name)]))
