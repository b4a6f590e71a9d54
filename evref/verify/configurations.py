"""Which values the arguments of a filter take when a layer is compared in many configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, cycle, product
from math import prod
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ..graph import selection

Choices = dict[str, Sequence[Any]]

# A value that is a function is called with the graph. F and G: unequal, equal, and one.
VALUES: dict[str, Sequence[Any]] = {
    "order": (2, 1, 3, 0),
    "in_features": (2, 1, 4),
    "out_features": (4, 2, 1),  # some graphs have four nodes: a bias per node fits there, and shows
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
    ("cayley", "order"): (2, 1, 3),
    ("cayley", "iterations"): (None, 2, 1, 0),
    ("attention", "out_features"): (4, 2),  # the heads divide them
}


def exists(config: Mapping[str, Any]) -> bool:
    """Whether there is a filter with these values: a recursion of order 0 has nothing but its zeroth term."""
    return config.get("order") != 0 or config.get("zeroth") != "none"


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments behind the first one, the graph; none where the function does not say."""
    try:
        return dict(list(inspect.signature(function).parameters.items())[1:])
    except (TypeError, ValueError):  # some built-in functions do not say
        return {}


def choices(name: str, filt: Callable[..., Any], arguments: Iterable[str]) -> Choices:
    """Values of these arguments of `filt`, the typical one first; of arguments that are not known here, none.

    `name` is that of the filter in the catalogue, if it has one.
    """
    hints = _hints(filt)
    found = {a: OF_FILTER.get((name, a)) or _of_literal(hints.get(a)) or VALUES.get(a, ()) for a in arguments}
    return {argument: values for argument, values in found.items() if values}


def _hints(filt: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(vars(filt)["__init__"] if isinstance(filt, type) else filt)
    except (KeyError, NameError, TypeError):  # annotations that only a type checker understands
        return {}


def _of_literal(hint: Any) -> Sequence[Any]:
    if hint is bool:
        return (True, False)
    return get_args(hint) if get_origin(hint) is Literal else ()


def rows(options: Choices, fixed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Configurations without end: any few in a row differ much, and after some all pairs of values have occurred.

    The argument with most values takes them in turn. The others are chosen so that as many pairs of values as possible
    are new; when none is left, it begins again.

    >>> endless = rows({"order": (1, 0, 2), "bias": (True, False)}, {})
    >>> [next(endless) for _ in range(3)]
    [{'order': 1, 'bias': True}, {'order': 0, 'bias': True}, {'order': 2, 'bias': True}]
    """
    names = list(options)
    every = [
        row
        for row in product(*(range(len(options[name])) for name in names))
        if exists({**fixed, **{name: options[name][index] for name, index in zip(names, row, strict=True)}})
    ]
    pairs = {row: set(combinations(enumerate(row), 2)) for row in every}
    first = int(np.argmax([len(options[name]) for name in names]))
    turns = sorted({row[first] for row in every})
    seen: set[Any] = set()
    for turn in cycle(turns):
        if turn == turns[0] and all(found <= seen for found in pairs.values()):
            seen = set()
        best = max((row for row in every if row[first] == turn), key=lambda row: len(pairs[row] - seen))
        seen |= pairs[best]
        yield {name: options[name][index] for name, index in zip(names, best, strict=True)}


def how_many(options: Choices) -> int:
    """How many configurations there are."""
    return prod(len(values) for values in options.values())


def shown(config: Mapping[str, Any]) -> list[str]:
    """`name=value` for a reader; of arrays their length."""
    return [f"{name}={_shown(value)}" for name, value in config.items()]


def _shown(value: Any) -> str:
    return f"<{len(value)}>" if isinstance(value, np.ndarray) else str(value)
