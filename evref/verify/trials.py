"""A layer and the reference at one point: every number of both, and how far apart they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
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
# itself is in float32. Measured on right layers: validation/known_mistakes.md.
ROUNDINGS = 400
MOST_LOST = 1e4
FLOOR = 1e-10  # in float64 nobody is asked for more: eigenvectors and inverses may be had in other ways
SHARE = 1e-3  # a row of small numbers is judged on this share of the largest at least: it may hold rounding alone
STEPS = {8: (1e-5, 1e-5), 4: (1e-2, 0.1)}  # step and tolerance of differences, by the size of the dtype
NUDGE = {8: 1e-7, 4: 1e-3}  # how far a kink is looked for


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
        eps, point = float(np.finfo(np.float32).eps), self.point.rounded(np.dtype(np.float32))
        try:
            single, double = (reference_at(self.reference, point, dtype) for dtype in (np.float32, np.float64))
        except (ValueError, ArithmeticError):  # singular in float32
            return {name: MOST_LOST for name, _ in blocks(self.expected)}
        lost = {}
        for (name, a), (_, b) in zip(blocks(single), blocks(double), strict=True):
            with quiet():
                error = np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-300)
            lost[name] = min(max(1.0, float(error) / eps), MOST_LOST) if math.isfinite(error) else MOST_LOST
        return lost

    def tolerance(self, name: str, dtype: np.dtype) -> float:
        """Relative to the largest entry of the block."""
        eps = float(np.finfo(dtype).eps)
        found = ROUNDINGS * eps * self._lost.get(name, 1.0)
        return max(found, FLOOR) if dtype == np.float64 else min(found, 0.02)

    def near(self, a: Array, b: Array, name: str = "output") -> bool:
        """Whether two arrays of a block differ by rounding alone: sums over several threads may come in any order."""
        atol = self.tolerance(name, self.subject.dtype) * self.scale(name)
        return bool(np.allclose(a, b, rtol=0, atol=atol, equal_nan=True))

    def scale(self, name: str) -> float:
        """The size that errors of a block are relative to."""
        own = {key: _largest(array) for key, array in blocks(self.expected)}
        everything = max(own.values(), default=0.0)
        return max(own.get(name, everything), SHARE * everything) or 1.0

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
        if any(row.status == "off" and row.name.startswith("grad") for row in rows) and self._has_kink():
            rows = [replace(r, status="kink") if r.status == "off" and r.name != "output" else r for r in rows]
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
        scale, tolerance = self.scale(name), self.tolerance(name, dtype)
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
        step, tolerance = STEPS[self.subject.dtype.itemsize]
        rng = np.random.default_rng(1)
        p, x = self.point.params, self.point.x
        along = {f"grad {name}": rng.standard_normal(array.shape) for name, array in (*p.items(), ("x", x))}

        def at(t: float) -> float:
            moved = {name: array + t * along[f"grad {name}"] for name, array in p.items()}
            return float(np.vdot(self.subject.output(moved, x + t * along["grad x"]), self.point.grad_y))

        with quiet():
            near, far = ((at(h) - at(-h)) / (2 * h) for h in (step, 2 * step))
            measured = (4 * near - far) / 3
            products = [array * along[name] for name, array in blocks(self.observed) if name != "output"]
            given = float(sum(product.sum() for product in products))
            scale = max(abs(measured), abs(given), *(float(np.linalg.norm(p)) for p in products)) or 1.0
            error = abs(given - measured) / scale
        if math.isnan(error):
            return Row(DIFFERENCES, "nan" if np.isnan(self.expected.y).any() else "off", math.inf, tolerance)
        status: Status = "ok" if error <= tolerance else "kink" if self._has_kink(3 * step) else "off"
        return Row(DIFFERENCES, status, error, tolerance, "along a random direction", given, measured)

    def _has_kink(self, size: float | None = None) -> bool:
        """Whether the reference's gradient jumps within a small step: a smooth one changes by about its size."""
        size = NUDGE[self.subject.dtype.itemsize] if size is None else size
        rng = np.random.default_rng(2)
        here = dict(blocks(self.expected))
        for _ in range(4):
            params = {n: a + size * rng.standard_normal(a.shape) for n, a in self.point.params.items()}
            x = self.point.x + size * rng.standard_normal(self.point.x.shape)
            moved = reference_at(self.reference, Point(params, x, self.point.grad_y))
            for name, there in blocks(moved):
                if name != "output" and _largest(there - here[name]) > 1e3 * size * self.scale(name):
                    return True
        return False


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
