"""Names of nodes, and tables whose rows and columns carry them.

A table is what has `to_numpy` and names along an axis: a pandas DataFrame (`columns`, `index`) or Series (`index`), or
anything else with these attributes. It is never read by position. pandas itself is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import checks

SHOWN = 3  # names in an error message, before "and so many more"


def as_names(argument: str, names: Any, n_nodes: int) -> tuple[Any, ...] | None:
    """`names` as a tuple of n_nodes different hashable objects; None where they are 0, 1, ..., n_nodes - 1.

    >>> as_names("nodes", ["a", "b"], 2)
    ('a', 'b')
    >>> as_names("nodes", ["a", "b", "a"], 3)
    Traceback (most recent call last):
    ...
    ValueError: nodes: 'a' occurs at 0 and at 2; expected different names
    """
    if names is None:
        return None
    names = listed(argument, names)
    if len(names) != n_nodes:
        raise ValueError(f"{argument} has {len(names)} names; expected {n_nodes}, one per node")
    numbered(argument, names)
    return without_defaults(names)


def without_defaults(names: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """None where the names are the numbers that nodes have anyway: a million of them need not be kept."""
    return None if names is None or list(names) == list(range(len(names))) else tuple(names)


def listed(argument: str, names: Any) -> list[Any]:
    """As a list of Python's own numbers and strings, where NumPy or pandas have theirs."""
    if isinstance(names, (str, bytes, set, frozenset)) or not isinstance(names, Iterable):
        raise TypeError(f"{argument} is {names!r} ({type(names).__name__}); expected a sequence of names, one per node")
    values = names.tolist() if hasattr(names, "tolist") else list(names)
    values = values if isinstance(values, list) else [values]  # of an array without axes
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def numbered(argument: str, names: Sequence[Any]) -> dict[Any, int]:
    """The position of each name, or an error if one occurs twice or cannot be hashed."""
    where: dict[Any, int] = {}
    for position, name in enumerate(names):
        try:
            first = where.setdefault(name, position)
        except TypeError:
            kind = type(name).__name__
            raise TypeError(f"{argument}: {name!r} ({kind}) at {position} is no name; expected it hashable") from None
        if first != position:
            raise ValueError(f"{argument}: {name!r} occurs at {first} and at {position}; expected different names")
    return where


def places(argument: str, names: Sequence[Any], wanted: Sequence[Any], whose: str) -> np.ndarray:
    """Where each of the `wanted` names stands in `names`; they must be the same, in whatever order.

    >>> places("the columns of x", ["b", "a"], ["a", "b"], "the nodes")
    array([1, 0])
    >>> places("the columns of x", ["b", "z"], ["a", "b"], "the nodes")
    Traceback (most recent call last):
    ...
    ValueError: the columns of x differ from the nodes: missing 'a'; unknown 'z'; expected the same names in any order
    """
    where, known = numbered(argument, names), numbered(whose, wanted)
    if where.keys() == known.keys():
        return np.fromiter((where[name] for name in wanted), np.int64, len(wanted))
    differences = [
        f"{word} {_some(these)}"
        for word, these in (
            ("missing", [name for name in wanted if name not in where]),
            ("unknown", [name for name in names if name not in known]),
        )
        if these
    ]
    raise ValueError(f"{argument} differ from {whose}: {'; '.join(differences)}; expected the same names in any order")


def _some(names: Sequence[Any]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {rest} more" if rest > 0 else "")


# ---- tables ----------------------------------------------------------------------------------------------------------
def named_matrix(argument: str, matrix: Any, nodes: Any) -> tuple[Any, Any]:
    """A table (N, N) as an array, rows and columns in one order, and the names in it: `nodes`, or those of its rows.

    Whatever has no names comes back as it is, with `nodes`.
    """
    if not (checks.is_labelled(matrix) and hasattr(matrix, "columns")):
        return matrix, nodes
    columns = listed("columns", matrix.columns)
    rows = listed("index", matrix.index) if hasattr(matrix, "index") else columns
    if nodes is None:
        names, whose = rows, f"the rows of {argument}"
    else:
        names, whose = listed("nodes", nodes), "nodes"
    row = places(f"the rows of {argument}", rows, names, whose)
    column = places(f"the columns of {argument}", columns, names, whose)
    return np.asarray(matrix.to_numpy())[np.ix_(row, column)], names


def aligned(argument: str, table: Any, nodes: Sequence[Any]) -> np.ndarray:
    """What :meth:`Graph.align` gives."""
    if not checks.is_labelled(table):
        raise TypeError(
            f"{argument} is {type(table).__name__}, which has no names; expected a DataFrame with a column per node, "
            "or a Series with an entry per node"
        )
    is_frame = hasattr(table, "columns")
    names = listed(argument, table.columns if is_frame else table.index)
    what = f"the columns of {argument}" if is_frame else f"the names in {argument}"
    try:
        where = places(what, names, nodes, "the nodes of the graph")
    except ValueError as error:
        raise ValueError(f"{error}{_hint(argument, table, names, nodes)}") from None
    return checks.as_floating(argument, np.asarray(table.to_numpy())[..., where])


def _hint(argument: str, table: Any, names: Sequence[Any], nodes: Sequence[Any]) -> str:
    """The end of the error message: what may have happened."""
    wanted = set(nodes)
    if wanted < set(names):
        return f" ({argument}[list(graph.nodes)] chooses them)"
    if hasattr(table, "columns") and set(listed(argument, getattr(table, "index", ()))) == wanted:
        return f"; its rows have them: {argument}.T has a row per sample"
    if isinstance(nodes, range):
        return f"; the graph was made without names, so that they are 0 to {len(nodes) - 1} (nodes=... gives others)"
    return ""
