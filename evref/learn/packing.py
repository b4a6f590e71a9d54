"""All parameters in one vector: an optimiser's step then costs one call, not one per parameter."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from ..contract import Parameters


class Packing:
    """Where named arrays lie in vectors, one vector for each dtype among them.

    >>> packing = Packing({"a": np.zeros((2, 2)), "b": np.zeros(1)})
    >>> vectors = packing.pack({"a": np.array([[1, 2], [3, 4]]), "b": np.array([5])})
    >>> vectors
    {'float64': array([1., 2., 3., 4., 5.])}
    >>> packing.unpack(vectors)["a"]
    array([[1., 2.],
           [3., 4.]])
    """

    def __init__(self, params: Parameters) -> None:
        by_dtype = sorted(params, key=lambda name: params[name].dtype.name)  # stable: in order within a dtype
        self._names = {d: tuple(names) for d, names in groupby(by_dtype, key=lambda name: params[name].dtype.name)}
        places = {}
        for dtype, names in self._names.items():
            stop = 0
            for name in names:
                start, stop = stop, stop + params[name].size
                places[name] = dtype, slice(start, stop), params[name].shape
        self._places = [(name, *places[name]) for name in params]

    def pack(self, arrays: Parameters) -> Parameters:
        """New vectors with a copy of `arrays`, each in the dtype of its parameter, or an error if one does not fit."""
        for name, _, _, shape in self._places:
            if arrays[name].shape != shape:
                raise ValueError(f"the array for {name!r} has shape {arrays[name].shape}; expected {shape}")
        return {
            dtype: np.concatenate([arrays[name] for name in names], axis=None, dtype=dtype)
            for dtype, names in self._names.items()
        }

    def unpack(self, vectors: Parameters) -> Parameters:
        """The arrays again, as views into `vectors`."""
        return {name: vectors[dtype][place].reshape(shape) for name, dtype, place, shape in self._places}
