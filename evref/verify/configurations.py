"""Which values the arguments of a filter take when a layer is compared in many configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ..graph import Graph, selection

Choices = dict[str, Sequence[Any]]

# A value that is a function is called with the graph. F and G: unequal, equal, and one.
VALUES: dict[str, Sequence[Any]] = {
    "order": (2, 1, 3, 0),
    "in_features": (2, 1, 3),
    "out_features": (3, 2, 1),
    "bias": (True, False),
    "terms": (2, 1),
    "iterations": (3, 1, 2),
    "stacks": (2, 1),
    "hidden": ((4,), (3, 2), ()),
    "kernels": (2, 3),
    "heads": (2, 1),
    "slope": (0.2, 0.5),
    "n_basis": (4, 2, 5),
    "nodes": (lambda graph: np.arange(graph.n_nodes)[::-1][: max(1, graph.n_nodes - 2)], None),
    "edges": (lambda graph: np.union1d(selection.bridges(graph), np.arange(0, graph.nnz, 3)), None),
    "nodes_in": (lambda graph: np.arange(max(1, graph.n_nodes - 1)), None),
    "nodes_out": (lambda graph: np.arange(graph.n_nodes)[: max(1, graph.n_nodes // 2)],),
}
OF_FILTER: dict[tuple[str, str], Sequence[Any]] = {
    ("cayley", "iterations"): (None, 2, 1, 0),
    ("attention", "out_features"): (4, 2),  # the heads divide them
}


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments behind the first one, the graph; none where the function does not say."""
    try:
        return dict(list(inspect.signature(function).parameters.items())[1:])
    except (TypeError, ValueError):  # some built-in functions do not say
        return {}


def choices(name: str, filt: Callable[..., Any], taken: Callable[[str], bool], fixed: Mapping[str, Any]) -> Choices:
    """Values of those arguments of `filt` that the layer takes too, the typical one first; the fixed ones are left out.

    `name` is that of the filter in the catalogue, if it has one.
    """
    hints = _hints(filt)
    found: Choices = {}
    for argument in parameters_of(filt):
        if argument in fixed or not taken(argument):
            continue
        values = OF_FILTER.get((name, argument)) or _of_literal(hints.get(argument)) or VALUES.get(argument)
        if values:
            found[argument] = values
    return found


def _hints(filt: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(filt.__init__ if isinstance(filt, type) else filt)
    except (NameError, TypeError):  # annotations that only a type checker understands
        return {}


def _of_literal(hint: Any) -> Sequence[Any]:
    if hint is bool:
        return (True, False)
    return get_args(hint) if get_origin(hint) is Literal else ()


def rows(options: Choices) -> Iterator[dict[str, Any]]:
    """Configurations without end: any few in a row differ much, and after some all pairs of values have occurred.

    The argument with most values takes them in turn. The others are chosen so that as many pairs of values as possible
    are new; when none is left, it begins again.

    >>> endless = rows({"order": (1, 0, 2), "bias": (True, False)})
    >>> [next(endless) for _ in range(3)]
    [{'order': 1, 'bias': True}, {'order': 0, 'bias': True}, {'order': 2, 'bias': True}]
    """
    if not options:
        while True:
            yield {}
    names = list(options)
    first = max(names, key=lambda name: len(options[name]))
    every = list(product(*(range(len(options[name])) for name in names)))
    pairs = {row: set(combinations(enumerate(row), 2)) for row in every}
    number, seen = 0, set[Any]()
    while True:
        turn = number % len(options[first])
        possible = [row for row in every if row[names.index(first)] == turn]
        best = max(possible, key=lambda row: len(pairs[row] - seen))
        if pairs[best] <= seen and number % len(options[first]) == 0 and all(pairs[r] <= seen for r in every):
            seen = set()
        seen |= pairs[best]
        number += 1
        yield {name: options[name][index] for name, index in zip(names, best, strict=True)}


def at_most(options: Choices) -> int:
    """How many different configurations there are."""
    return int(np.prod([len(values) for values in options.values()], dtype=np.int64)) if options else 1


def resolved(config: Mapping[str, Any], graph: Graph) -> dict[str, Any]:
    """The values on this graph."""
    return {name: value(graph) if callable(value) else value for name, value in config.items()}


def shown(config: Mapping[str, Any]) -> list[str]:
    """`name=value` for a reader; of arrays their length."""
    return [f"{name}={_shown(value)}" for name, value in config.items()]


def _shown(value: Any) -> str:
    return f"<{len(value)}>" if isinstance(value, np.ndarray) else str(value)
