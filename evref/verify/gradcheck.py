"""Four questions to a hand-written gradient, each from a different side.

====================  ===============================================  ==========================================
check                 holds `backward` against                         blind to
====================  ===============================================  ==========================================
dot_test              `jvp`: <J d, u> = <d, J^T u>                     a mistake made alike in `jvp` and `backward`
complex_step          Im f(v + ih) / h, exact to rounding              nothing; wants an analytic `forward`
central_difference    (f(v + h) - f(v - h)) / 2h, about ten digits     faults below its noise
second_order          itself: the Hessian is symmetric                 the exact gradient of another function
====================  ===============================================  ==========================================

They work on every :class:`evref.contract.Module`, and on any object of yours that has

    forward(params, x)               -> (y, tape)
    backward(params, tape, grad_y)   -> (grads, grad_x)
    jvp(params, x, dparams, dx)      -> dy                   (only the dot test asks for it)

with `params` a dict of named arrays, which may be empty. Parameters and input are copied to float64 first, whatever
they come in: float32 has too few digits to tell a small fault from rounding, and the caller's arrays stay untouched.

Examples
--------
>>> import numpy as np
>>> class Gain:
...     def forward(self, params, x):
...         return params["a"] * x, x
...     def backward(self, params, x, grad_y):
...         return {"a": 1.001 * np.sum(grad_y * x)}, params["a"] * grad_y      # 0.1 % too much
>>> report = central_difference(Gain(), {"a": np.array(2.0)}, np.array([1.0, 3.0]))
>>> report.ok, report.worst.block, round(report.worst.ours, 6), round(report.worst.expected, 6)
(False, 'a', 3.003, 3.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import hypot, prod, sqrt
from typing import Any

import numpy as np

from .. import checks
from .report import GradientError, Report, Row

__all__ = [
    "GradientError",
    "Report",
    "Row",
    "central_difference",
    "check_all",
    "complex_step",
    "dot_test",
    "second_order",
]

Key = str | None  # a parameter's name; None stands for the input, which leaves "x" free as a parameter's name
Point = dict[Key, np.ndarray]  # a value, a tangent or a gradient for every parameter and for the input

EPS = float(np.finfo(np.float64).eps)
FULL_JACOBIAN_LIMIT = 4_000_000  # entries: 32 MB
LOCALISE_LIMIT = 20_000  # one-hot tangents
ROUNDING = 64 * EPS  # what sums of a few thousand terms may lose
# A block whose derivative vanishes (a bias in front of a normalisation) holds nothing but the rounding of the others:
# no block is judged on a scale finer than this share of the largest.
SHARE = 1e-2
# A wrong gradient may be huge or inf. That is for the report to say, not for a warning in the middle of a norm.
_quiet = np.errstate(over="ignore", invalid="ignore")


# ---- what is checked -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Problem:
    """A module at one point, with results brought into arrays of known shape."""

    module: Any
    point: Point
    y: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(cls, module: Any, params: Any, x: Any, rng: Any) -> _Problem:
        rng = checks.as_rng(rng)
        for method in ("forward", "backward"):
            if not callable(getattr(module, method, None)):
                raise TypeError(f"module is {type(module).__name__}, which has no {method}; expected one")
        if params is None:
            if not callable(getattr(module, "init", None)):
                raise ValueError(f"params is None and {_name(module)} has no init(rng) to make some; pass params")
            params = module.init(rng)
        if not isinstance(params, Mapping):
            raise TypeError(f"params is {type(params).__name__}; expected a dict of named arrays")
        if x is None:
            shape = getattr(module, "in_shape", None)
            if shape is None:
                raise ValueError(f"x is None and {_name(module)} has no in_shape to draw one for; pass x")
            x = rng.standard_normal((3, *shape))
        point: Point = {name: _copy(f"params[{name!r}]", value) for name, value in params.items()}
        point[None] = _copy("x", x)
        y, _ = _forward(module, point)
        return cls(module, point, _copy("y", y), rng)

    def forward(self, point: Point) -> np.ndarray:
        return _forward(self.module, point)[0]

    def pullback(self, cotangent: np.ndarray | Callable[[np.ndarray], np.ndarray], point: Point | None = None) -> Point:
        """Gradient of <cotangent, y>; the cotangent may depend on y. Each has a forward pass and a tape of its own:
        nobody promised that a tape survives its first use."""
        point = self.point if point is None else point
        y, tape = _forward(self.module, point)
        params, x = _split(point)
        result = self.module.backward(params, tape, cotangent(y) if callable(cotangent) else cotangent)
        grads, grad_x = _pair(self.module, "backward", "(grads, grad_x)", result)
        if not isinstance(grads, Mapping) or grads.keys() != params.keys():
            got = sorted(map(str, grads)) if isinstance(grads, Mapping) else type(grads).__name__
            raise GradientError(f"backward returned gradients {got}; expected one for each of {sorted(params)}")
        gradient: Point = {name: _result(f"grads[{name!r}]", grads[name], params[name].shape) for name in params}
        gradient[None] = _result("grad_x", grad_x, x.shape)
        return gradient

    def push(self, tangent: Point) -> np.ndarray:
        """Directional derivative of y along `tangent`; blocks it does not name stay where they are."""
        full = {key: tangent.get(key, np.zeros(block.shape)) for key, block in self.point.items()}
        return _result("dy", self.module.jvp(*_split(self.point), *_split(full)), self.y.shape)

    def draw(self, shape: tuple[int, ...]) -> np.ndarray:
        """Random signs and sizes, none near zero: no entry can hide behind a small factor."""
        return self.rng.choice([-1.0, 1.0], shape) * self.rng.uniform(0.5, 1.5, shape)

    def label(self, key: Key) -> str:
        if key is None:
            return "x"
        return f"params[{key!r}]" if key in ("x", "all") else key

    def report(self, check: str, rows: Iterable[Row], reference: str, mode: str) -> Report:
        return Report(check, _name(self.module), tuple(rows), reference, mode)


def _name(module: Any) -> str:
    plain = type(module).__repr__ is object.__repr__  # which would show an address, different in every run
    return type(module).__name__ if plain else repr(module)


def _copy(name: str, value: Any) -> np.ndarray:
    array = np.array(checks.as_floating(name, value), dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or inf; derivatives are checked at finite points only")
    return array


def _split(point: Point) -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {key: block for key, block in point.items() if key is not None}, point[None]


def _pair(module: Any, method: str, expected: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{type(module).__name__}.{method} returned {type(result).__name__}; expected {expected}")
    return result


def _forward(module: Any, point: Point) -> tuple[np.ndarray, Any]:
    y, tape = _pair(module, "forward", "(y, tape)", module.forward(*_split(point)))
    return np.array(y), tape  # a copy, in case the module reuses its buffer


def _result(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = checks.as_floating(name, value).astype(np.float64)
    if array.shape != shape:
        raise GradientError(f"{name} has shape {array.shape}; expected {shape}")
    return array


def _unit(shape: tuple[int, ...], index: int) -> np.ndarray:
    unit = np.zeros(shape)
    unit.flat[index] = 1.0
    return unit


def _place(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(index, shape))


def _relative(difference: Any, scale: Any) -> Any:
    """difference / scale, with 0 / 0 = 0. NaN becomes inf, and so does all on a scale that overflowed: not good."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, np.divide(difference, scale))
    return np.where(np.isnan(ratio) | ~np.isfinite(scale), np.inf, ratio)


def _norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.ravel()))


def _dot(a: Point, b: Point) -> float:
    """Inner product over the blocks of `a`."""
    return float(sum(np.vdot(block, b[key]) for key, block in a.items()))


def _peak(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0))


# ---- 1. the adjoint against the tangent ----------------------------------------------------------------------------
@_quiet
def dot_test(
    module: Any, params: Any = None, x: Any = None, *, rng: Any = 0, rtol: float = 1e-12, trials: int = 3
) -> Report:
    """<J d, u> = <d, J^T u>, with J d from `jvp` and J^T u from `backward`.

    Tangents d are random and live in one block at a time (each parameter, the input), then in all of them; the row of
    a failed block names the entry in which `jvp` and `backward` differ most, found with one-hot tangents.

    The error is |<J d, u> - <d, J^T u>| over the larger of ‖J d‖ ‖u‖ and ‖d‖ ‖J^T u‖. The inner products themselves may
    cancel to anything; by Cauchy-Schwarz the norms bound every partial sum, so that rounding stays near 1e-15.

    Parameters
    ----------
    module : object
        With `forward`, `backward` and `jvp`.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rng : None, int or Generator
    rtol : float
    trials : int
        Random pairs (d, u) for each block.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If `module` lacks a method.

    Examples
    --------
    >>> class Square:
    ...     def forward(self, params, x):
    ...         return x**2, x
    ...     def backward(self, params, x, grad_y):
    ...         return {}, 2 * x * grad_y
    ...     def jvp(self, params, x, dparams, dx):
    ...         return 2 * x * dx
    >>> dot_test(Square(), {}, [1.0, 2.0, 3.0]).ok
    True
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    trials = checks.as_count("trials", trials, 1)
    if not callable(getattr(module, "jvp", None)):
        raise TypeError(f"module is {type(module).__name__}, which has no jvp; the dot test expects one")
    problem = _Problem.of(module, params, x, rng)
    worst: dict[str, tuple[Row, Point, np.ndarray, Point]] = {}
    for _ in range(trials):
        u = problem.draw(problem.y.shape)
        gradient = problem.pullback(u)
        joint = {key: problem.draw(block.shape) for key, block in problem.point.items()}
        floor = 0.0
        for label, tangent in [("all", joint), *((problem.label(key), {key: d}) for key, d in joint.items())]:
            dy = problem.push(tangent)
            ours, expected = _dot(tangent, gradient), float(np.vdot(dy, u))
            norms = (hypot(*(_norm(side[key]) for key in tangent)) for side in (tangent, gradient))
            scale = max(_norm(dy) * _norm(u), prod(norms), floor)
            if label == "all":
                floor = SHARE * scale
            size = sum(block.size for block in tangent.values())
            row = Row(label, float(_relative(abs(ours - expected), scale)), rtol, ours, expected, size)
            if label not in worst or row.error > worst[label][0].error:
                worst[label] = row, tangent, u, gradient
    rows = [
        row if row.ok or label == "all" else _localised(problem, row, next(iter(tangent)), u, gradient)
        for label, (row, tangent, u, gradient) in worst.items()
    ]
    return problem.report("dot_test", rows, "jvp", f"{trials} random pairs per block")


def _localised(problem: _Problem, row: Row, key: Key, u: np.ndarray, gradient: Point) -> Row:
    """`row` with the entry of the block in which `jvp` and `backward` differ most, and both values there."""
    shape, flat = gradient[key].shape, gradient[key].ravel()

    def mismatch(entries: np.ndarray) -> float:
        tangent = np.zeros(flat.size)
        tangent[entries] = problem.draw(entries.shape)
        difference = abs(np.vdot(problem.push({key: tangent.reshape(shape)}), u) - np.vdot(tangent, flat))
        return np.inf if np.isnan(difference) else float(difference)

    entries = np.arange(flat.size)
    while entries.size > LOCALISE_LIMIT:  # the half that is further off holds a faulty entry
        entries = max(np.array_split(entries, 2), key=mismatch)
    expected = np.array([np.vdot(problem.push({key: _unit(shape, int(i))}), u) for i in entries])
    differences = np.abs(flat[entries] - expected)
    differences[np.isnan(differences)] = np.inf
    worst = int(np.argmax(differences))
    if not differences[worst] > ROUNDING * _peak(expected):
        return row  # entry by entry all is well: `jvp` is not linear, and the inner products are all there is to show
    place = _place(entries[worst], shape)
    return replace(row, ours=float(flat[entries[worst]]), expected=float(expected[worst]), index=place)


# ---- 2. the adjoint against the function: Jacobians, entry by entry ------------------------------------------------
@dataclass(frozen=True)
class _Probe:
    """The rows u^T J of a Jacobian that are compared: all of them, or three random mixtures."""

    shape: tuple[int, ...]  # of y
    mixtures: np.ndarray | None  # (3, n_out); None: every output by itself
    mode: str

    @classmethod
    def of(cls, problem: _Problem, full: bool | None) -> _Probe:
        n_in = sum(block.size for block in problem.point.values())
        if full is None:
            full = problem.y.size * n_in <= FULL_JACOBIAN_LIMIT
        if checks.as_flag("full", full):
            return cls(problem.y.shape, None, "full Jacobian")
        return cls(problem.y.shape, problem.draw((3, problem.y.size)), "3 random cotangents")

    def __iter__(self) -> Iterator[np.ndarray]:
        if self.mixtures is None:
            return (_unit(self.shape, i) for i in range(prod(self.shape)))
        return (u.reshape(self.shape) for u in self.mixtures)

    def of_output(self, dy: np.ndarray) -> np.ndarray:
        """<u, dy> for every u."""
        return dy.ravel() if self.mixtures is None else self.mixtures @ dy.ravel()

    @property
    def norms(self) -> np.ndarray:
        return np.ones(prod(self.shape)) if self.mixtures is None else np.linalg.norm(self.mixtures, axis=1)

    def pullbacks(self, problem: _Problem) -> Point:
        """u^T J from `backward`: for every block an array (cotangents, entries)."""
        rows: dict[Key, list[np.ndarray]] = {key: [] for key in problem.point}
        for u in self:
            for key, block in problem.pullback(u).items():
                rows[key].append(block.ravel())
        return {key: np.array(r).reshape(len(r), problem.point[key].size) for key, r in rows.items()}

    def pushforwards(self, problem: _Problem, column: Callable[[Key, int], np.ndarray]) -> Point:
        """The same from `column(key, entry)`, the derivative of y with respect to one entry."""
        jacobian: Point = {}
        for key, block in problem.point.items():
            jacobian[key] = np.empty((len(self.norms), block.size))
            for i in range(block.size):
                jacobian[key][:, i] = self.of_output(column(key, i))
        return jacobian

    def row(
        self,
        problem: _Problem,
        key: Key,
        ours: np.ndarray,
        expected: np.ndarray,
        noise: Any,
        rtol: float,
        skip: np.ndarray | bool = False,
    ) -> Row:
        """Worst entry of one block, leaving out those marked in `skip`."""
        error = np.where(skip, 0.0, _errors(ours, expected, noise, rtol))
        skipped = int(np.count_nonzero(skip))
        label, n_entries = problem.label(key), error.size - skipped
        if not n_entries:
            return Row(label, 0.0, rtol, 0.0, 0.0, 0, skipped=skipped)
        u, i = np.unravel_index(np.argmax(error), error.shape)
        return Row(
            label,
            float(error[u, i]),
            rtol,
            float(ours[u, i]),
            float(expected[u, i]),
            n_entries,
            index=_place(i, problem.point[key].shape),
            output=_place(u, self.shape) if self.mixtures is None else None,
            skipped=skipped,
        )


def _errors(ours: np.ndarray, expected: np.ndarray, noise: Any, rtol: float) -> np.ndarray:
    """|ours - expected| <= rtol max(|ours|, |expected|) + noise, divided through: one number to hold against rtol."""
    return _relative(np.abs(ours - expected), np.maximum(np.abs(ours), np.abs(expected)) + noise / rtol)


def _scales(jacobian: Point) -> dict[Key, float]:
    """Largest entry of every block, and never less than a share of the largest of all."""
    peaks = {key: _peak(block) for key, block in jacobian.items()}
    return {key: max(peak, SHARE * max(peaks.values())) for key, peak in peaks.items()}


@_quiet
def complex_step(
    module: Any, params: Any = None, x: Any = None, *, rtol: float = 1e-10, rng: Any = 0, full: bool | None = None
) -> Report:
    """Im y(v + ih) / h with h = 1e-30, for every entry v of every parameter and of x, against `backward`.

    Nothing is subtracted, so nothing cancels: the derivative is exact to rounding. `forward` runs in complex128 on the
    reference kernels; `backward` runs in float64 on whichever kernels are selected, so that these are tested too.
    An entry is good where |a - b| <= rtol max(|a|, |b|) + 64 eps max|block|: a term for the entry itself, and one for
    the rounding that larger neighbours leave behind.

    `forward` has to be analytic: no abs, conj or real part of anything that depends on the inputs; comparisons (ReLU,
    max) decide by the real part. Check where the function is alive: of a saturated tanh, 1 - y² has few correct digits.

    Parameters
    ----------
    module : object
        With `forward` and `backward`.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rtol : float
    rng : None, int or Generator
    full : bool, optional
        True: the full Jacobian, with one backward pass per output. False: three random combinations of the outputs;
        every entry of every block is still looked at. By default full up to four million entries.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If `forward` answers complex input with a real output: the imaginary part was dropped on the way.

    Examples
    --------
    >>> import numpy as np
    >>> class Sine:
    ...     def forward(self, params, x):
    ...         return np.sin(x), x
    ...     def backward(self, params, x, grad_y):
    ...         return {}, np.cos(x) * grad_y
    >>> complex_step(Sine(), {}, [0.1, 0.2]).ok
    True
    """
    from ..kernels import use_backend  # here: the other checks do not need the kernels

    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    problem = _Problem.of(module, params, x, rng)
    probe = _Probe.of(problem, full)
    h = 1e-30
    # All of it complex, not the one block alone: a module that drops imaginary parts then shows it in the dtype of y.
    point = {key: block.astype(np.complex128) for key, block in problem.point.items()}

    def column(key: Key, i: int) -> np.ndarray:
        block = point[key].copy()
        block.flat[i] += 1j * h
        y = problem.forward({**point, key: block})
        if y.dtype.kind != "c":
            raise TypeError(
                f"{type(module).__name__}.forward gave {y.dtype} for complex128 input; expected complex128 "
                "(where the function is not analytic, use central_difference)"
            )
        return y.imag / h

    ours = probe.pullbacks(problem)
    with checks.complex_allowed(), use_backend("numpy"):
        expected = probe.pushforwards(problem, column)
    scales = _scales(expected)
    rows = [probe.row(problem, key, ours[key], expected[key], ROUNDING * scales[key], rtol) for key in ours]
    return problem.report("complex_step", rows, "complex step", probe.mode)


@_quiet
def central_difference(
    module: Any,
    params: Any = None,
    x: Any = None,
    *,
    rtol: float = 1e-6,
    step: float | None = None,
    rng: Any = 0,
    full: bool | None = None,
) -> Report:
    """(y(v + h) - y(v - h)) / 2h for every entry v of every parameter and of x, against `backward`.

    An entry is good where |a - b| <= rtol max(|a|, |b|) + 64 (eps max|y| / h + (h / max(1, |v|))² max|block|): besides
    the term for the entry, the rounding of y and the curvature that the difference itself brings in.

    Where ours disagrees but lies between the two one-sided slopes, a second look with h / 100 decides. Slopes that
    still disagree there mean a kink, and the entry is skipped and counted; for a smooth function they would have come
    closer a hundredfold. Otherwise the entry is judged by the second look. Only values of `forward` decide what a kink
    is, so a fault in `backward` cannot pass for one, unless it falls between the slopes at an actual kink.

    Parameters
    ----------
    module : object
        With `forward` and `backward`.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rtol : float
    step : float, optional
        h / max(1, |v|); by default the cube root of the machine epsilon, which balances rounding and curvature.
    rng : None, int or Generator
    full : bool, optional
        As for :func:`complex_step`.

    Returns
    -------
    Report
        With `skipped`, the number of entries at a kink.

    Examples
    --------
    >>> import numpy as np
    >>> class ReLU:
    ...     def forward(self, params, x):
    ...         return np.maximum(x, 0), x
    ...     def backward(self, params, x, grad_y):
    ...         return {}, (x > 0) * grad_y
    >>> report = central_difference(ReLU(), {}, [-1.0, 0.0, 2.0])
    >>> report.ok, report.skipped
    (True, 1)
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    step = checks.as_number("step", np.cbrt(EPS) if step is None else step, 0, 1, open_low=True)
    problem = _Problem.of(module, params, x, rng)
    probe = _Probe.of(problem, full)

    def slopes(key: Key, i: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        """Derivative of y from the left and from the right."""
        left, right = problem.point[key].copy(), problem.point[key].copy()
        v = problem.point[key].flat[i]
        h = step * max(1.0, abs(v))
        left.flat[i], right.flat[i] = v - h, v + h
        y_left, y_right = (problem.forward({**problem.point, key: block}) for block in (left, right))
        # v ± h as they were rounded, not as they were meant
        return (problem.y - y_left) / (v - left.flat[i]), (y_right - problem.y) / (right.flat[i] - v)

    def noise(key: Key, step: float) -> np.ndarray:  # (cotangents, entries)
        h = step * np.maximum(1.0, np.abs(problem.point[key].ravel()))
        return ROUNDING * _peak(problem.y) * probe.norms[:, None] / h + 64 * step**2 * scales[key]

    ours = probe.pullbacks(problem)
    expected = probe.pushforwards(problem, lambda key, i: np.mean(slopes(key, i, step), axis=0))
    scales = _scales(expected)
    rows = []
    fine = step / 100
    for key, a in ours.items():
        b, tolerated, tolerated_fine = expected[key], noise(key, step), noise(key, fine)
        wrong, kinks = _errors(a, b, tolerated, rtol) > rtol, np.zeros(a.shape, bool)
        for i in map(int, np.flatnonzero(wrong.any(axis=0))):
            left, right = map(probe.of_output, slopes(key, i, step))
            jump = np.abs(right - left)
            again = wrong[:, i] & (np.abs(a[:, i] - b[:, i]) <= jump / 2 + tolerated[:, i])
            if not again.any():
                continue
            left, right = map(probe.of_output, slopes(key, i, fine))
            jump_fine, middle = np.abs(right - left), (left + right) / 2
            # Smooth functions leave jump / 100; the twentieth allows for a kink that is near, not at, the point.
            lasting = (jump_fine > jump / 20) & (jump_fine > tolerated_fine[:, i])
            kinks[:, i] = again & lasting & (np.abs(a[:, i] - middle) <= jump_fine / 2 + tolerated_fine[:, i])
            b[again, i], tolerated[again, i] = middle[again], tolerated_fine[again, i]
        rows.append(probe.row(problem, key, a, b, tolerated, rtol, kinks))
    return problem.report("central_difference", rows, "difference", probe.mode)


# ---- 3. the adjoint against itself ---------------------------------------------------------------------------------
@_quiet
def second_order(
    module: Any, params: Any = None, x: Any = None, *, rtol: float = 1e-6, step: float | None = None, rng: Any = 0
) -> Report:
    """<a, H b> = <b, H a> for the Hessian H of s = ‖y‖² / 2 + <u, y>, by central differences of the gradient.

    The gradient of s is `backward` at grad_y = y + u; the quadratic term keeps H from vanishing for linear modules.
    Only a true gradient has a symmetric derivative, so `backward` is tested without `jvp` and without differences of y,
    and so is its tape: a stale one shows here. Directions a and b are random, of unit length, in one block each; the
    row of a block shows its worst partner.

    A gradient that is right for another function (all of it doubled, say) passes; that is for the other checks. Far
    from kinks only: there is no second look here.

    Parameters
    ----------
    module : object
        With `forward` and `backward`.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rtol : float
    step : float, optional
        Length of the step, in units of max(1, root mean square of the block); by default the cube root of the machine
        epsilon.
    rng : None, int or Generator

    Returns
    -------
    Report

    Examples
    --------
    >>> class Rotated:
    ...     def forward(self, params, x):
    ...         return x**2, x
    ...     def backward(self, params, x, grad_y):
    ...         return {}, (2 * x * grad_y)[::-1]      # not the gradient of anything
    >>> second_order(Rotated(), {}, [1.0, 2.0, 3.0]).ok
    False
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    step = checks.as_number("step", np.cbrt(EPS) if step is None else step, 0, 1, open_low=True)
    problem = _Problem.of(module, params, x, rng)
    u = problem.draw(problem.y.shape)

    def gradient(point: Point) -> Point:
        return problem.pullback(lambda y: y + u, point)

    def direction(block: np.ndarray) -> np.ndarray:
        d = problem.draw(block.shape)
        return d / (_norm(d) or 1.0)

    def hessian_times(key: Key, d: np.ndarray) -> Point:
        block = problem.point[key]
        h = step * max(1.0, _norm(block) / sqrt(max(1, block.size)))
        right, left = (gradient({**problem.point, key: block + s * h * d}) for s in (1, -1))
        return {other: (right[other] - left[other]) / (2 * h) for other in right}

    a, b = ({key: direction(block) for key, block in problem.point.items()} for _ in range(2))
    h_a, h_b = ({key: hessian_times(key, d) for key, d in side.items()} for side in (a, b))
    size = max(_norm(block) for products in (h_a, h_b) for product in products.values() for block in product.values())
    noise = ROUNDING * max(map(_norm, gradient(problem.point).values())) / step + 64 * step**2 * size
    rows = []
    for key in problem.point:
        pairs = []
        for other in problem.point:
            ours, expected = float(np.vdot(a[key], h_b[other][key])), float(np.vdot(b[other], h_a[key][other]))
            scale = max(_norm(h_b[other][key]), _norm(h_a[key][other]))  # Cauchy-Schwarz, as in the dot test
            error = float(_relative(abs(ours - expected), scale + noise / rtol))
            label = f"{problem.label(key)} × {problem.label(other)}"
            pairs.append(Row(label, error, rtol, ours, expected, problem.point[key].size))
        rows.append(max(pairs, key=lambda row: row.error))
    return problem.report("second_order", rows, "swapped", "directional differences of backward")


def check_all(module: Any, params: Any = None, x: Any = None, rng: Any = 0) -> list[Report]:
    """Every check at one and the same point; the dot test only where the module has a `jvp`.

    Examples
    --------
    >>> class Identity:
    ...     def forward(self, params, x):
    ...         return x, None
    ...     def backward(self, params, tape, grad_y):
    ...         return {}, grad_y
    >>> [report.check for report in check_all(Identity(), {}, [1.0, 2.0])]
    ['complex_step', 'central_difference', 'second_order']
    """
    problem = _Problem.of(module, params, x, rng)
    params, x = _split(problem.point)
    runs: list[Callable[..., Report]] = [complex_step, central_difference, second_order]
    if callable(getattr(module, "jvp", None)):
        runs.insert(0, dot_test)
    return [run(module, params, x, rng=problem.rng) for run in runs]
