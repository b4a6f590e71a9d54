"""The order of axes in which a layer takes signals: ours is (batch, features, nodes)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Layout:
    """How an array with a batch axis goes to a layer and comes back.

    `swapped`: nodes before features. `single`: the layer takes one sample at a time. `squeezed`: a feature axis of
    length one is left out.
    """

    name: str
    swapped: bool = False
    single: bool = False
    squeezed: bool = False

    def to_theirs(self, array: np.ndarray) -> np.ndarray:
        """From (batch, features, nodes); arrays without both axes, such as outputs of a readout, pass."""
        if array.ndim != 3:
            return array
        if self.squeezed and array.shape[1] == 1:
            return array[:, 0]
        return np.ascontiguousarray(array.swapaxes(1, 2)) if self.swapped else array

    def to_ours(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
        """An array of theirs as one of `shape`; None where it does not fit."""
        if len(shape) != 3:
            return array if array.shape == shape else None
        if self.squeezed and shape[1] == 1 and array.shape == (shape[0], shape[2]):
            return array[:, None]
        theirs = (shape[0], shape[2], shape[1]) if self.swapped else shape
        if array.shape != theirs:
            return None
        return array.swapaxes(1, 2) if self.swapped else array


LAYOUTS = (
    Layout("batch, features, nodes"),
    Layout("batch, nodes, features", swapped=True),
    Layout("features, nodes; one sample at a time", single=True),
    Layout("nodes, features; one sample at a time", swapped=True, single=True),
    Layout("batch, nodes", squeezed=True),
    Layout("nodes; one sample at a time", single=True, squeezed=True),
)
CHOICES = {"features, nodes": (False,), "nodes, features": (True,), None: (False, True)}


def candidates(layout: str | None, n_axes: int) -> list[Layout]:
    """The layouts to try, in turn, for inputs whose samples have `n_axes` axes."""
    if layout not in CHOICES:
        raise ValueError(f"layout is {layout!r}; expected 'features, nodes', 'nodes, features' or None")
    if n_axes != 2:
        return [LAYOUTS[0]]
    return [found for found in LAYOUTS if found.swapped in CHOICES[layout] and not (layout and found.squeezed)]
