"""A module at one point: what the gradient checks ask it, brought into arrays of known shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from .report import GradientError, Report, Row

Key = str | None  # a parameter's name; None stands for the input, which leaves "x" free as a parameter's name
Point = dict[Key, np.ndarray]  # a value, a tangent or a gradient for every parameter and for the input

EPS = float(np.finfo(np.float64).eps)
FULL_JACOBIAN_LIMIT = 4_000_000  # entries: 32 MB
LOCALISE_LIMIT = 20_000  # one-hot tangents
ROUNDING = 64 * EPS  # what sums of a few thousand terms may lose
# A block whose derivative vanishes (a bias in front of a normalisation) holds nothing but the rounding of the others:
# no block is judged on a scale finer than this share of the largest.
SHARE = 0.1
# A wrong gradient may be huge or inf. That is for the report to say, not for a warning in the middle of a norm.
quiet = np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True)
class Problem:
    """A module at one point, with results brought into arrays of known shape."""

    module: Any
    point: Point
    y: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(cls, module: Any, params: Any, x: Any, rng: Any) -> Problem:
        rng = checks.as_rng(rng)
        for method in ("forward", "backward"):
            if not callable(getattr(module, method, None)):
                raise TypeError(f"module is {type(module).__name__}, which has no {method}; expected one")
        if params is None:
            if not callable(getattr(module, "init", None)):
                raise ValueError(f"params is None and {name_of(module)} has no init(rng) to make some; pass params")
            params = module.init(rng)
        if not isinstance(params, Mapping):
            raise TypeError(f"params is {type(params).__name__}; expected a dict of named arrays")
        if x is None:
            shape = getattr(module, "in_shape", None)
            if shape is None:
                raise ValueError(f"x is None and {name_of(module)} has no in_shape to draw one for; pass x")
            x = rng.standard_normal((3, *shape))
        point: Point = {name: float64_copy(f"params[{name!r}]", value) for name, value in params.items()}
        point[None] = float64_copy("x", x)
        y, _ = forward_at(module, point)
        return cls(module, point, float64_copy("y", y), rng)

    def forward(self, point: Point) -> np.ndarray:
        return forward_at(self.module, point)[0]

    def pullback(self, cotangent: np.ndarray | Callable[[np.ndarray], np.ndarray], point: Point | None = None) -> Point:
        """Gradient of <cotangent, y>; the cotangent may depend on y. Each has a forward pass and a tape of its own:
        nobody promised that a tape survives its first use."""
        point = self.point if point is None else point
        y, tape = forward_at(self.module, point)
        params, _ = split_point(copied(point))
        u = cotangent(y) if callable(cotangent) else cotangent.copy()
        return self.as_gradient(self.module.backward(params, tape, u))

    def as_gradient(self, result: Any) -> Point:
        """What `backward` returned, as float64 copies; a GradientError where names or shapes do not fit."""
        params, x = split_point(self.point)
        grads, grad_x = checked_pair(self.module, "backward", "(grads, grad_x)", result)
        if not isinstance(grads, Mapping) or grads.keys() != params.keys():
            got = sorted(map(str, grads)) if isinstance(grads, Mapping) else type(grads).__name__
            raise GradientError(f"backward returned gradients {got}; expected one for each of {sorted(params)}")
        gradient: Point = {name: as_result(f"grads[{name!r}]", grads[name], params[name].shape) for name in params}
        gradient[None] = as_result("grad_x", grad_x, x.shape)
        return gradient

    def push(self, tangent: Point) -> np.ndarray:
        """Directional derivative of y along `tangent`; blocks it does not name stay where they are."""
        full = {key: tangent.get(key, np.zeros(block.shape)) for key, block in self.point.items()}
        return as_result("dy", self.module.jvp(*split_point(copied(self.point)), *split_point(full)), self.y.shape)

    def draw(self, shape: tuple[int, ...]) -> np.ndarray:
        """Random signs and sizes, none near zero: no entry can hide behind a small factor."""
        return self.rng.choice([-1.0, 1.0], shape) * self.rng.uniform(0.5, 1.5, shape)

    def label(self, key: Key) -> str:
        if key is None:
            return "x"
        return f"params[{key!r}]" if key in ("x", "all") else key

    def report(self, check: str, rows: Iterable[Row], reference: str, mode: str) -> Report:
        return Report(check, name_of(self.module), tuple(rows), reference, mode)


def name_of(module: Any) -> str:
    plain = type(module).__repr__ is object.__repr__  # which would show an address, different in every run
    return type(module).__name__ if plain else repr(module)


def float64_copy(name: str, value: Any) -> np.ndarray:
    checks.refuse_labelled(name, value)
    array = np.array(checks.as_floating(name, value), dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or inf; derivatives are checked at finite points only")
    return array


def split_point(point: Point) -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {key: block for key, block in point.items() if key is not None}, point[None]


def copied(point: Point) -> Point:
    """What a module gets to see: one that changes its arguments in place must not change the point it is judged at."""
    return {key: block.copy() for key, block in point.items()}


def checked_pair(module: Any, method: str, expected: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{type(module).__name__}.{method} returned {type(result).__name__}; expected {expected}")
    return result


def forward_at(module: Any, point: Point) -> tuple[np.ndarray, Any]:
    y, tape = checked_pair(module, "forward", "(y, tape)", module.forward(*split_point(copied(point))))
    return np.array(y), tape  # a copy, in case the module reuses its buffer


def as_result(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = checks.as_floating(name, value).astype(np.float64)
    if array.shape != shape:
        raise GradientError(f"{name} has shape {array.shape}; expected {shape}")
    return array


def unit_array(shape: tuple[int, ...], index: int) -> np.ndarray:
    unit = np.zeros(shape)
    unit.flat[index] = 1.0
    return unit


def place_of(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(index, shape))


def relative_to(difference: Any, scale: Any) -> Any:
    """difference / scale, with 0 / 0 = 0. NaN becomes inf, and so does all on a scale that overflowed: not good."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, np.divide(difference, scale))
    return np.where(np.isnan(ratio) | ~np.isfinite(scale), np.inf, ratio)


def norm_of(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.ravel()))


def row_of_worst(
    label: str, found: np.ndarray, expected: np.ndarray, rtol: float, floor: float = 0.0, note: str = ""
) -> Row:
    """Two arrays that should be equal: the entry that is furthest off, relative to the largest (or to `floor`)."""
    if not expected.size:
        return Row(label, 0.0, rtol, 0.0, 0.0, 0, note=note)
    error = relative_to(np.abs(found - expected), max(peak_of(expected), floor))
    worst = int(np.argmax(error))
    place = place_of(worst, expected.shape)
    ours, theirs = float(found.flat[worst]), float(expected.flat[worst])
    return Row(label, float(error.flat[worst]), rtol, ours, theirs, expected.size, index=place, note=note)


def inner_product(a: Point, b: Point) -> float:
    """Inner product over the blocks of `a`."""
    return float(sum(np.vdot(block, b[key]) for key, block in a.items()))


def peak_of(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0))
