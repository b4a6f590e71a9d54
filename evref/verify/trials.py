"""A layer and the reference at one point: every number of both, and how far apart they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..contract import Module
from .comparison import DIFFERENCES, Row, Status
from .foreign import Observed, Subject
from .places import place_in_words

Array = np.ndarray
Arrays = dict[str, np.ndarray]

# What may be lost, in units of the dtype's rounding: times how much worse than the rounding of its input the reference
# itself is in float32. Measured on right layers: validation/right_cases.md.
ROUNDINGS = 100
INSIDE = 30  # where float64 was compared and float32 is suspected inside: a wrong layer has this much room to hide
MOST_LOST = 1e4
FLOOR = 1e-10  # in float64 nobody is asked for more: eigenvectors and inverses may be had in other ways
CEILING = 0.02  # in float32 no loss excuses more
SHARE = 1e-3  # a row of small numbers is judged on this share of the largest at least: it may hold rounding alone
SINGLE = np.dtype(np.float32)
# Steps of differences, relative to the largest entry of what is moved, and their tolerance; by the size of the dtype.
# The second step is for who crosses a kink with the first.
STEPS = {8: ((1e-5, 3e-7), 1e-5), 4: ((1e-2, 2e-3), 0.1)}
NUDGE = {8: 1e-7, 4: 1e-3}  # how far a kink is looked for, relative as well


@dataclass(frozen=True, eq=False)
class Point:
    """Where to compare: parameters, a batch of inputs, a cotangent."""

    params: Arrays
    x: Array
    grad_y: Array

    def rounded(self, dtype: np.dtype) -> Point:
        """The same in numbers that `dtype` has, as float64."""
        if dtype == np.float64:
            return self
        params = {name: array.astype(dtype).astype(np.float64) for name, array in self.params.items()}
        x, grad_y = (array.astype(dtype).astype(np.float64) for array in (self.x, self.grad_y))
        return Point(params, x, grad_y)


@contextmanager
def quiet() -> Iterator[None]:
    """Wrong layers overflow: that is for the report to say."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reference_at(reference: Any, point: Point, dtype: Any = np.float64) -> Observed:
    """Output and gradients of a filter, network or model, computed in `dtype`."""
    params = {name: array.astype(dtype) for name, array in point.params.items()}
    unchecked = {"check_finite": False} if isinstance(reference, Module) else {}
    with quiet():
        y, tape = reference.forward(params, point.x.astype(dtype), **unchecked)
        grads, grad_x = reference.backward(params, tape, point.grad_y.astype(dtype), **unchecked)
    as_double = {name: np.asarray(grad, np.float64) for name, grad in grads.items()}
    return Observed(np.asarray(y, np.float64), as_double, np.asarray(grad_x, np.float64), {})


def drawn_params(reference: Module, rng: np.random.Generator) -> Arrays:
    """Parameters of size one, whatever training starts from: nothing hides in rounding."""
    params = {}
    for name, array in reference.init(rng).items():
        top = np.abs(array).max(initial=0)
        params[name] = rng.uniform(-1, 1, array.shape) if top == 0 else array * (1 if top >= 0.5 else 0.9 / top)
    return params


@dataclass(frozen=True, eq=False)
class Trial:
    """A layer beside the reference at one point."""

    case: str
    subject: Subject
    reference: Module
    point: Point

    @cached_property
    def expected(self) -> Observed:
        return reference_at(self.reference, self.point)

    @cached_property
    def observed(self) -> Observed:
        return self.subject.observe(self.point.params, self.point.x, self.point.grad_y)

    @cached_property
    def _lost(self) -> dict[str, float]:
        """How much worse than rounding the reference is in float32, block by block: at least 1."""
        eps = float(np.finfo(np.float32).eps)
        try:
            single = dict(blocks(reference_at(self.reference, self.point, np.float32)))
        except (ValueError, ArithmeticError):  # singular in float32
            return {name: MOST_LOST for name, _ in blocks(self.expected)}
        lost = {}
        for name, ours in blocks(self.expected):
            with quiet():
                error = float((np.abs(single[name] - ours) / self.scale(name)).max(initial=0))
            lost[name] = min(max(1.0, error / eps), MOST_LOST) if math.isfinite(error) else MOST_LOST
        return lost

    def tolerance(self, name: str, dtype: np.dtype) -> float:
        """Relative to the scale of the block."""
        inside = dtype == SINGLE and self.subject.dtype != SINGLE
        found = (INSIDE if inside else ROUNDINGS) * float(np.finfo(dtype).eps) * self._lost.get(name, 1.0)
        return max(found, FLOOR) if dtype == np.float64 else min(found, CEILING)

    def near(self, a: Array, b: Array, name: str = "output") -> bool:
        """Whether two arrays of a block differ by rounding alone: sums over several threads may come in any order."""
        dtype = SINGLE if self.subject.may_be_single else self.subject.dtype
        return bool(np.allclose(a, b, rtol=0, atol=self.tolerance(name, dtype) * self.scale(name), equal_nan=True))

    def scale(self, name: str, dtype: np.dtype | None = None) -> float:
        """The size that errors of a block are relative to: its largest entry, or more where that is small.

        An entry of a gradient times one of its parameter is a term of <grad_y, y>, as an entry of y times one of grad_y
        is. Terms cancel, and what is left of them may be rounding: a block is judged on numbers that would make up
        `SHARE` of the largest term at least. Units do not matter: x in millionths makes small gradients, and they are
        judged as such. Numbers that underflow in `dtype` are zero in one way of computing and not in another.
        """
        limits = np.finfo(self.subject.dtype if dtype is None else dtype)
        own, share = self._scales.get(name, (0.0, 0.0))
        found = max(own, share) or max((largest for largest, _ in self._scales.values()), default=0.0)
        return max(found, float(limits.tiny) / float(limits.eps)) if found else 1.0

    @cached_property
    def _scales(self) -> dict[str, tuple[float, float]]:
        """Of each block its largest entry, and what its share of the largest term makes."""
        multiplied = {"output": self.point.grad_y, "grad x": self.point.x}
        multiplied |= {f"grad {name}": array for name, array in self.point.params.items()}
        weights = {name: _largest(array) or 1.0 for name, array in multiplied.items()}
        own = {name: _largest(array) for name, array in blocks(self.expected)}
        term = max((size * weights[name] for name, size in own.items()), default=0.0)
        return {name: (size, SHARE * term / weights[name]) for name, size in own.items()}

    def rows(self, dtype: np.dtype | None = None) -> list[Row]:
        """Every block of numbers judged, by the rounding of `dtype` (that of the comparison)."""
        dtype = self.subject.dtype if dtype is None else dtype
        if dtype not in self._judged:
            self._judged[dtype] = self._rows(dtype)
        return self._judged[dtype]

    @cached_property
    def _judged(self) -> dict[np.dtype, list[Row]]:
        return {}

    def _rows(self, dtype: np.dtype) -> list[Row]:
        theirs = dict(blocks(self.observed))
        rows = [self._row(name, theirs.get(name), ours, dtype) for name, ours in blocks(self.expected)]
        for name, outside in self.observed.outside.items():
            rows.append(self._row(f"grad {name} outside the support", outside, np.zeros_like(outside), dtype))
        if any(row.status == "off" and row.name != "output" for row in rows):
            rows = [replace(row, status="kink") if self._at_kink(row) else row for row in rows]
        if not self.subject.has_gradients:
            return rows
        own = self._differences()
        if own.status == "off" and all(row.status == "ok" for row in rows):
            # Output and gradients are those of the reference, whose derivatives are proved: a step crossed a kink.
            own = replace(own, status="kink")
        return [*rows, own]

    def _row(self, name: str, theirs: Array | None, ours: Array, dtype: np.dtype) -> Row:
        if theirs is None:
            return Row(name, "not compared")
        scale, tolerance = self.scale(name, dtype), self.tolerance(name, dtype)
        with quiet():
            difference = np.abs(theirs - ours) / scale
        both = np.isnan(theirs) & np.isnan(ours) | ((theirs == ours) & np.isinf(ours))
        difference = np.where(both, 0.0, np.where(np.isnan(difference), np.inf, difference))
        if not difference.size:
            return Row(name, "ok", 0.0, tolerance)
        worst = np.unravel_index(int(difference.argmax()), difference.shape)
        error = float(difference[worst])
        status: Status = "off" if not error <= tolerance else "nan" if np.isnan(ours).any() else "ok"
        where = self._words(name, tuple(int(i) for i in worst))
        return Row(name, status, error, tolerance, where, float(theirs[worst]), float(ours[worst]))

    def _words(self, name: str, index: tuple[int, ...]) -> str:
        if name.endswith("outside the support"):
            j, i = (str(self.reference.graph.nodes[index[axis]]) for axis in (-1, -2))
            return f"no edge {j} → {i}, [{', '.join(map(str, index[:-2]))}]"
        block = {"output": "y", "grad x": "x"}.get(name, name.removeprefix("grad "))
        return place_in_words(self.reference, block, index)

    # ---- the layer against itself ------------------------------------------------------------------------------
    def _differences(self) -> Row:
        """Its gradients along a random direction against differences of its own output.

        Automatic differentiation may be told to leave something out (detach, stop_gradient); a backward pass by hand
        may be wrong. Both show here, whatever the reference says.
        """
        steps, tolerance = STEPS[SINGLE.itemsize if self._computed_in_single else self.subject.dtype.itemsize]
        row = self._difference(self.subject.output, self.observed, steps[0], tolerance)
        if row.status == "off":
            nearer = self._difference(self.subject.output, self.observed, steps[1], tolerance)
            row = nearer if nearer.status == "ok" else row
        if row.status == "off" and math.isfinite(row.error):
            # A reference that fails the same test has a kink there, or bends too much for such a step.
            same = self._difference(self._reference_output, self.expected, steps[1], tolerance)
            row = row if same.status == "ok" else replace(row, status="kink")
        return row

    @cached_property
    def _computed_in_single(self) -> bool:
        """Whether the output, of whatever dtype, has numbers of float32 alone: differences need longer steps."""
        y = self.observed.y
        return bool(self.subject.may_be_single and y.any() and np.array_equal(y, y.astype(np.float32), equal_nan=True))

    def _difference(
        self, output: Callable[[Arrays, Array], Array], given: Observed, step: float, tolerance: float
    ) -> Row:
        """The gradients `given` along a random direction beside differences of `output`."""
        rng = np.random.default_rng(1)
        p, x = self.point.params, self.point.x
        along = {f"grad {name}": _direction(array, rng) for name, array in (*p.items(), ("x", x))}

        def at(t: float) -> float:
            moved = {name: array + t * along[f"grad {name}"] for name, array in p.items()}
            return float(np.vdot(output(moved, x + t * along["grad x"]), self.point.grad_y))

        with quiet():
            near, far = ((at(h) - at(-h)) / (2 * h) for h in (step, 2 * step))
            measured = (4 * near - far) / 3
            products = [array * along[name] for name, array in blocks(given) if name != "output"]
            total = float(sum(product.sum() for product in products))
            scale = max(abs(measured), abs(total), *(float(np.linalg.norm(p)) for p in products)) or 1.0
            error = abs(total - measured) / scale
        if math.isnan(error):
            return Row(DIFFERENCES, "nan" if np.isnan(self.expected.y).any() else "off", math.inf, tolerance)
        status: Status = "ok" if error <= tolerance else "off"
        return Row(DIFFERENCES, status, error, tolerance, "along a random direction", total, measured)

    def _reference_output(self, params: Arrays, x: Array) -> Array:
        return reference_at(self.reference, Point(params, x, self.point.grad_y)).y

    def _at_kink(self, row: Row) -> bool:
        """Whether a gradient differs by no more than the reference's own jumps, or twice that, close to the point."""
        return row.status == "off" and row.error <= 2 * self._jumps.get(row.name, 0.0)

    @cached_property
    def _jumps(self) -> dict[str, float]:
        """How far the reference's gradients jump within a small step, in the scale of each block.

        A smooth gradient changes half as much on half the way; the rest is a jump. There and back: one of the two
        crosses a kink at the point itself.
        """
        size, rng = NUDGE[self.subject.dtype.itemsize], np.random.default_rng(2)
        here = dict(blocks(self.expected))
        worst: dict[str, float] = {}
        for _ in range(3):
            params = {name: _direction(array, rng) for name, array in self.point.params.items()}
            x = _direction(self.point.x, rng)
            for sign in (size, -size):
                whole, half = (dict(blocks(self._moved(params, x, step))) for step in (sign, sign / 2))
                for name, start in here.items():
                    if name != "output":
                        with quiet():
                            jump = _largest(whole[name] + start - 2 * half[name]) / self.scale(name)
                        worst[name] = max(worst.get(name, 0.0), jump)
        return worst

    def _moved(self, params: Arrays, x: Array, step: float) -> Observed:
        moved = {name: array + step * params[name] for name, array in self.point.params.items()}
        return reference_at(self.reference, Point(moved, self.point.x + step * x, self.point.grad_y))


def _direction(array: Array, rng: np.random.Generator) -> Array:
    """Standard normal numbers times the largest of `array`, or times one where all are zero."""
    return (_largest(array) or 1.0) * rng.standard_normal(array.shape)


def blocks(observed: Observed) -> list[tuple[str, Array]]:
    """Name and numbers of everything that is compared."""
    found = [("output", observed.y)]
    if observed.grads is None:
        return found
    found.append(("grad x", observed.grad_x if observed.grad_x is not None else np.zeros(0)))
    return found + [(f"grad {name}", grad) for name, grad in observed.grads.items()]


def _largest(array: Array) -> float:
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max(initial=0))
