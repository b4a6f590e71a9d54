"""Where in an array an entry is, in words of the graph: "edge 3 → 7, step 2, filter 1 ← 0"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..contract import Module
from ..graph import Graph

STEPS_FROM_ONE = ("e", "m")  # phi[0] of a recursion is that of step 1; that of a polynomial belongs to S^0
WORDS = {"h": "head", "p": "stack", "m": "basis function", "r": "kernel", "d": "coordinate"}


def place_in_words(module: Module, block: str, index: Sequence[int]) -> str:
    """The entry `index` of the output ("y"), the input ("x") or a parameter of `module`.

    >>> import evref as ev
    >>> filt = ev.EdgeVariant(ev.Graph.from_edges(8, source=[3], target=[7]), order=2, out_features=2)
    >>> place_in_words(filt, "phi", (1, 1, 0, 7))
    'edge 3 → 7, step 2, filter 1 ← 0'
    >>> place_in_words(filt, "y", (2, 0, 7))
    'node 7, feature 0, sample 2'
    """
    index = tuple(int(i) for i in index)
    if block in ("x", "y"):
        return _of_signal(module, index)
    layers = getattr(module, "layers", None)
    if layers is not None and "." in block:
        number, name = block.split(".", 1)
        return f"layer {number}, {place_in_words(layers[int(number)], name, index)}"
    letters = getattr(module, "axes", {}).get(block, "")
    if len(letters) != len(index):
        return _bias_or_number(module, block, index)
    return _of_parameter(module, letters, dict(zip(letters, index, strict=True)))


def node_in_words(graph: Graph | None, node: int) -> str:
    """The name of a node, its number if it has none."""
    return str(node if graph is None else graph.nodes[node])


def _of_signal(module: Module, index: tuple[int, ...]) -> str:
    if len(index) != 3:
        return f"sample {index[0]}, entry {', '.join(map(str, index[1:]))}" if len(index) > 1 else f"entry {index}"
    sample, feature, node = index
    return f"node {node_in_words(module.graph, node)}, feature {feature}, sample {sample}"


def _bias_or_number(module: Module, block: str, index: tuple[int, ...]) -> str:
    if not index:
        return "the number itself"
    if block == "bias" and len(index) == 1:
        return f"feature {index[0]}"
    return f"[{', '.join(map(str, index))}]"


def _of_parameter(module: Any, letters: str, at: dict[str, int]) -> str:
    words = []
    if "e" in at:
        words.append(_entry(module, at["e"]))
    if "n" in at:
        words.append(f"node {node_in_words(module.graph, at['n'])}")
    if "b" in at:
        words.append(f"node {node_in_words(module.graph, int(module.nodes[at['b']]))}")
    if "k" in at:
        from_one = any(letter in letters for letter in STEPS_FROM_ONE)
        words.append(f"step {at['k'] + 1}" if from_one else f"k = {at['k']}")
    words += [f"{WORDS[letter]} {at[letter]}" for letter in letters if letter in WORDS]
    if "f" in at and "g" in at:
        words.append(f"filter {at['f']} ← {at['g']}")
    else:
        words += [f"{role} feature {at[key]}" for key, role in (("f", "output"), ("g", "input")) if key in at]
    return ", ".join(words)


def _entry(module: Any, entry: int) -> str:
    rows, columns = entries_of(module)
    i, j = (node_in_words(module.graph, int(ends[entry])) for ends in (rows, columns))
    return f"self-loop of node {i}" if i == j else f"edge {j} → {i}"


def entries_of(module: Any) -> tuple[Any, Any]:
    """Row and column of each entry of phi of a filter that has one weight per edge."""
    pattern = getattr(module, "pattern", module.graph)
    chosen = getattr(module, "positions", slice(None))  # hybrid filters have a part of the entries
    return pattern.rows[chosen], pattern.indices[chosen]
