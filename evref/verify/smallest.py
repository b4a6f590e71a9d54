"""The smallest case, parameters and input on which a layer still differs from the reference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from .comparison import DIFFERENCES
from .foreign import LayerProblem
from .places import place_in_words
from .trials import Point, Trial

TRIES_OF_ONES = 100
SHOWN = 6
SIMPLER_TRIES = 150


def simplest_failing(trial: Trial, case: Any, trial_of: Callable[[Any], Trial]) -> Trial:
    """A trial of a case with fewer nodes, edges, features, a lower order, on which the layer differs still.

    `case.simpler` yields what is one step simpler than `case`; the first of them that fails takes its place.
    """
    left, output = SIMPLER_TRIES, _output_differs(trial)
    while case.simpler is not None and left > 0:
        for simpler in islice(case.simpler(), left):
            left -= 1
            try:
                candidate = trial_of(simpler)
            except (LayerProblem, TypeError, ValueError, ArithmeticError):
                continue
            if _differs(candidate, output):
                trial, case = candidate, simpler
                break
        else:
            break
    return trial


def smallest_failing(trial: Trial, tries: int) -> str:
    """One sample, as many zeros and ones as the failure allows, in words."""
    left, output = [tries], _output_differs(trial)

    def fails(point: Point) -> bool:
        left[0] -= 1
        return left[0] >= 0 and _differs(Trial(trial.case, trial.subject, trial.reference, point), output)

    point = _one_sample(trial.point, fails)
    flat = _Flat(point)
    vector = flat.vector
    vector = _with_zeros(vector, lambda v: fails(flat.point(v)))
    vector = _with_ones(vector, lambda v: fails(flat.point(v)))
    return _in_words(Trial(trial.case, trial.subject, trial.reference, flat.point(vector)))


def _output_differs(trial: Trial) -> bool:
    """Then it shall differ in the smallest case too: an output is easier to follow than a gradient."""
    return any(row.status == "off" and row.name == "output" for row in trial.rows())


def _differs(trial: Trial, output: bool) -> bool:
    try:
        if not np.isfinite(trial.expected.y).all():
            return False
        off = [row.name for row in trial.rows() if row.status == "off"]
        return "output" in off if output else any(name != DIFFERENCES for name in off)
    except (LayerProblem, ValueError, ArithmeticError):
        return False


def _one_sample(point: Point, fails: Callable[[Point], bool]) -> Point:
    for i in range(len(point.x)):
        alone = Point(point.params, point.x[i : i + 1], point.grad_y[i : i + 1])
        if len(point.x) > 1 and fails(alone):
            return alone
    return point


class _Flat:
    """A point as one vector: parameters, x, cotangent."""

    def __init__(self, point: Point) -> None:
        self.shapes = [(name, array.shape) for name, array in point.params.items()]
        self.shapes += [("x", point.x.shape), ("grad_y", point.grad_y.shape)]
        self.vector = np.concatenate([a.ravel() for a in (*point.params.values(), point.x, point.grad_y)])

    def point(self, vector: np.ndarray) -> Point:
        arrays, start = [], 0
        for name, shape in self.shapes:
            size = int(np.prod(shape))
            arrays.append((name, vector[start : start + size].reshape(shape)))
            start += size
        return Point(dict(arrays[:-2]), arrays[-2][1], arrays[-1][1])


def _with_zeros(vector: np.ndarray, fails: Callable[[np.ndarray], bool]) -> np.ndarray:
    """Large pieces set to zero first, then smaller ones, down to single numbers."""
    size = max(1, vector.size // 2)
    while True:
        for start in range(0, vector.size, size):
            piece = slice(start, start + size)
            if vector[piece].any():
                tried = vector.copy()
                tried[piece] = 0
                if fails(tried):
                    vector = tried
        if size == 1:
            return vector
        size = max(1, size // 2)


def _with_ones(vector: np.ndarray, fails: Callable[[np.ndarray], bool]) -> np.ndarray:
    tried = np.where(vector == 0, 0.0, 1.0)
    if fails(tried):
        return tried
    for i in np.flatnonzero(vector)[:TRIES_OF_ONES]:
        tried = vector.copy()
        tried[i] = 1.0
        if fails(tried):
            vector = tried
    return vector


def _in_words(trial: Trial) -> str:
    point, module = trial.point, trial.reference
    given = [f"{name} {_entries(module, name, array)}" for name, array in point.params.items() if array.any()]
    text = f"x {_entries(module, 'x', point.x)}" if point.x.any() else "x = 0"
    text = ", ".join([text, *given]) + ", all else 0"
    off = [row for row in trial.rows() if row.status == "off" and row.name != DIFFERENCES]
    output = [row for row in off if row.name == "output"]
    if not off:
        return text
    row = (output or off)[0]
    what = row.name if row.name == "output" else f"{row.name}, for grad_y {_entries(module, 'y', point.grad_y)},"
    return f"{text}: {what} at {row.where} is {row.theirs:.6g}, expected {row.ours:.6g}"


def _entries(module: object, block: str, array: np.ndarray) -> str:
    places = np.argwhere(array != 0)
    if len(places) == array.size and array.size > 1 and (array == array.flat[0]).all():
        return f"= {array.flat[0]:.6g} everywhere"
    shown = []
    for place in places[:SHOWN]:
        value = array[tuple(place)]
        shown.append(f"= {value:.6g} at {place_in_words(module, block, tuple(place))}")  # type: ignore[arg-type]
    more = f" and at {len(places) - SHOWN} more places" if len(places) > SHOWN else ""
    return "; ".join(shown) + more
