"""Our parameters under the names of somebody else's layer, and gradients back: a linear map and its transpose.

    {"lins.0.weight": ("theta", 0), "bias": "bias", "Phi": ("phi", "dense"), "W": ("theta", "T"),
     "lin.weight": ("weight", lambda w: w.reshape(4, 3))}

A value is one of our names, or one of our names and steps: an index or a slice, "T" (the last two axes exchanged),
"dense" (entries (..., nnz) as matrices (..., N, N)) or a function that moves entries: reshape, transpose, a selection,
in any combination. What it moves where is seen from an array of numbered entries. Every number of ours must go
somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import did_you_mean
from ...contract import Module
from ..places import entries_of

Arrays = dict[str, np.ndarray]
Steps = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Moved:
    """A step that moves entries; `places`: where in our array, in C order, each entry of theirs comes from."""

    function: Callable[[np.ndarray], Any]
    places: np.ndarray

    @classmethod
    def by(cls, function: Callable[[np.ndarray], Any], shape: tuple[int, ...]) -> Moved:
        """What the function does to an array of this shape; ValueError if it changes numbers."""
        size = int(np.prod(shape))
        places = np.asarray(function(np.arange(size).reshape(shape)))
        numbers = np.random.default_rng(0).standard_normal(shape)
        in_range = places.dtype.kind == "i" and (not places.size or 0 <= places.min() <= places.max() < size)
        if not in_range or not np.array_equal(np.asarray(function(numbers.copy())), numbers.reshape(-1)[places]):
            raise ValueError(
                "the function changes the entries; expected a function of one array that moves its entries, such as "
                "lambda w: w.reshape(4, 3)"
            )
        return cls(function, places)


class ParameterMap:
    """Theirs from ours, and gradients of ours from those of theirs."""

    def __init__(self, module: Module, parameters: Mapping[str, Any] | None) -> None:
        self.module = module
        self.shapes = module.parameter_shapes()
        given = {name: name for name in self.shapes} if parameters is None else parameters
        if not isinstance(given, Mapping):
            raise TypeError(f"parameters is {type(given).__name__}; expected a dict: their name -> our name")
        self.pieces = {theirs: self._piece(theirs, value) for theirs, value in given.items()}
        self._require_complete()

    def _piece(self, theirs: str, value: Any) -> tuple[str, Steps]:
        if not isinstance(theirs, str):
            raise TypeError(f"parameters has the key {theirs!r}; expected names, of the layer's parameters")
        ours, *steps = value if isinstance(value, (tuple, list)) and value else (value,)
        if not isinstance(ours, str) or ours not in self.shapes:
            hint = did_you_mean(ours, self.shapes) if isinstance(ours, str) else ""
            raise ValueError(f"parameters[{theirs!r}] is {value!r}; expected one of {', '.join(self.shapes)}{hint}")
        for step in steps:
            if isinstance(step, str) and step not in ("T", "dense"):
                raise ValueError(
                    f"parameters[{theirs!r}] has the step {step!r}; expected an index, 'T', 'dense' or a function"
                )
        try:
            return ours, self._prepared(ours, steps)
        except Exception as error:  # a step may be the user's own function
            raise ValueError(
                f"parameters[{theirs!r}] is {value!r}, which does not fit {ours} of shape {self.shapes[ours]}: {error}"
            ) from None

    def _prepared(self, ours: str, steps: list[Any]) -> Steps:
        """The steps, with what the functions among them do found out once and for all."""
        array, prepared = np.zeros(self.shapes[ours]), []
        for step in steps:
            prepared.append(Moved.by(step, array.shape) if callable(step) else step)
            array = self._step(array, ours, prepared[-1])
        return tuple(prepared)

    def _require_complete(self) -> None:
        ones = {name: np.ones_like(array) for name, array in self.theirs(self._zeros()).items()}
        reached, _ = self.ours(ones)
        for name, array in reached.items():
            if (array == 0).any():
                missing = "nothing" if array.any() else "no entry"
                places = f" ({int((array == 0).sum())} of {array.size} entries)" if missing == "nothing" else ""
                raise ValueError(
                    f"parameters does not say where {name}, of shape {array.shape}, goes{places}; expected each of "
                    f"{', '.join(self.shapes)} among its values"
                )

    def _zeros(self) -> Arrays:
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}

    def theirs(self, params: Arrays) -> Arrays:
        """Our parameters in their names and shapes."""
        return {
            theirs: np.array(self._forward(params[ours], ours, steps), order="C")
            for theirs, (ours, steps) in self.pieces.items()
        }

    def ours(self, grads: Arrays) -> tuple[Arrays, Arrays]:
        """Gradients in our names and shapes; and those of dense matrices outside the support, by their names."""
        total, outside = self._zeros(), {}
        for theirs, (ours, steps) in self.pieces.items():
            if _is_dense(steps):
                outside[theirs] = self._outside(grads[theirs], ours, steps)
            total[ours] += self._adjoint(grads[theirs], ours, steps)
        return total, outside

    def has_dense(self) -> bool:
        """Whether some parameter of theirs has entries where ours have none."""
        return any(_is_dense(steps) for _, steps in self.pieces.values())

    # ---- one piece -------------------------------------------------------------------------------------------------
    def _owner(self, ours: str) -> Any:
        """The filter that a parameter belongs to: the module itself, or a layer of the network."""
        layers = getattr(self.module, "layers", None)
        return self.module if layers is None else layers[int(ours.split(".", 1)[0])]

    def _forward(self, array: np.ndarray, ours: str, steps: Steps) -> np.ndarray:
        for step in steps:
            array = self._step(array, ours, step)
        return array

    def _step(self, array: np.ndarray, ours: str, step: Any) -> np.ndarray:
        if isinstance(step, str):
            return array.swapaxes(-1, -2) if step == "T" else self._dense(array, ours)
        if isinstance(step, Moved):
            return array.reshape(-1)[step.places]
        return array[step]

    def _adjoint(self, grad: np.ndarray, ours: str, steps: Steps) -> np.ndarray:
        shapes = [np.zeros(self.shapes[ours])]
        for step in steps[:-1]:
            shapes.append(self._step(shapes[-1], ours, step))
        for step, before in zip(reversed(steps), reversed(shapes), strict=False):
            if isinstance(step, str) and step == "T":
                grad = grad.swapaxes(-1, -2)
            elif isinstance(step, str):
                rows, columns = entries_of(self._owner(ours))
                grad = grad[..., rows, columns]
            else:
                full = np.zeros(before.shape)
                # An entry may be there twice.
                if isinstance(step, Moved):
                    np.add.at(full.reshape(-1), step.places, grad)
                else:
                    np.add.at(full, step, grad)
                grad = full
        return grad

    def _dense(self, array: np.ndarray, ours: str) -> np.ndarray:
        owner = self._owner(ours)
        rows, columns = entries_of(owner)
        if array.shape[-1:] != rows.shape:
            raise ValueError(f"'dense' needs one entry per edge or self-loop, {rows.size} in the last axis")
        dense = np.zeros((*array.shape[:-1], owner.graph.n_nodes, owner.graph.n_nodes), array.dtype)
        dense[..., rows, columns] = array
        return dense

    def _outside(self, grad: np.ndarray, ours: str, steps: Steps) -> np.ndarray:
        """The gradient with zeros where our parameter has an entry."""
        support = self._forward(np.ones(self.shapes[ours]), ours, steps)
        return np.where(support == 0, grad, 0.0)


def _is_dense(steps: Steps) -> bool:
    return any(isinstance(step, str) and step == "dense" for step in steps)
