"""The adjoint against the function: Jacobians, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .. import checks
from .problem import (
    EPS,
    FULL_JACOBIAN_LIMIT,
    ROUNDING,
    SHARE,
    Key,
    Point,
    Problem,
    peak_of,
    place_of,
    quiet,
    relative_to,
    unit_array,
)
from .report import Report, Row

# Cotangents are asked for at this multiple, and the answers divided by it, which is exact. At a cotangent of 1, and a
# loss never sees another, a backward that leaves it out would be right.
SIZE = -2.0


class NotAnalytic(TypeError):
    """A `forward` that does not take complex numbers, which the complex step needs."""


@dataclass(frozen=True)
class _Probe:
    """The rows u^T J of a Jacobian that are compared: all of them, or three random mixtures."""

    shape: tuple[int, ...]  # of y
    mixtures: np.ndarray | None  # (3, n_out); None: every output by itself
    mode: str

    @classmethod
    def of(cls, problem: Problem, full: bool | None) -> _Probe:
        n_in = sum(block.size for block in problem.point.values())
        if full is None:
            full = problem.y.size * n_in <= FULL_JACOBIAN_LIMIT
        if checks.as_flag("full", full):
            return cls(problem.y.shape, None, "full Jacobian")
        return cls(problem.y.shape, problem.draw((3, problem.y.size)), "3 random cotangents")

    def __iter__(self) -> Iterator[np.ndarray]:
        if self.mixtures is None:
            return (unit_array(self.shape, i) for i in range(prod(self.shape)))
        return (u.reshape(self.shape) for u in self.mixtures)

    def of_output(self, dy: np.ndarray) -> np.ndarray:
        """<u, dy> for every u."""
        return dy.ravel() if self.mixtures is None else self.mixtures @ dy.ravel()

    @property
    def norms(self) -> np.ndarray:
        return np.ones(prod(self.shape)) if self.mixtures is None else np.linalg.norm(self.mixtures, axis=1)

    def pullbacks(self, problem: Problem) -> Point:
        """u^T J from `backward`: for every block an array (cotangents, entries)."""
        rows: dict[Key, list[np.ndarray]] = {key: [] for key in problem.point}
        for u in self:
            for key, block in problem.pullback(SIZE * u).items():
                rows[key].append(block.ravel() / SIZE)
        return {key: np.array(r).reshape(len(r), problem.point[key].size) for key, r in rows.items()}

    def pushforwards(self, problem: Problem, column: Callable[[Key, int], np.ndarray]) -> Point:
        """The same from `column(key, entry)`, the derivative of y with respect to one entry."""
        jacobian: Point = {}
        for key, block in problem.point.items():
            jacobian[key] = np.empty((len(self.norms), block.size))
            for i in range(block.size):
                jacobian[key][:, i] = self.of_output(column(key, i))
        return jacobian

    def row(
        self,
        problem: Problem,
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
            index=place_of(i, problem.point[key].shape),
            output=place_of(u, self.shape) if self.mixtures is None else None,
            skipped=skipped,
        )


def _errors(ours: np.ndarray, expected: np.ndarray, noise: Any, rtol: float) -> np.ndarray:
    """|ours - expected| <= rtol max(|ours|, |expected|) + noise, divided through: one number to hold against rtol."""
    return relative_to(np.abs(ours - expected), np.maximum(np.abs(ours), np.abs(expected)) + noise / rtol)


def _scales(jacobian: Point) -> dict[Key, float]:
    """Largest entry of every block, and never less than a share of the largest of all."""
    peaks = {key: peak_of(block) for key, block in jacobian.items()}
    return {key: max(peak, SHARE * max(peaks.values())) for key, peak in peaks.items()}


@quiet
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
    NotAnalytic
        A TypeError: `forward` refused complex input, or answered it with a real output, so that the imaginary part was
        dropped on the way.

    Examples
    --------
    >>> import numpy as np
    >>> class Sine:
    ...     def forward(self, params, x):
    ...         return np.sin(x), x.copy()
    ...     def backward(self, params, x, grad_y):
    ...         return {}, np.cos(x) * grad_y
    >>> complex_step(Sine(), {}, [0.1, 0.2]).ok
    True
    """
    from ..kernels import use_backend  # here: the other checks do not need the kernels

    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    problem = Problem.of(module, params, x, rng)
    probe = _Probe.of(problem, full)
    h = 1e-30
    # All of it complex, not the one block alone: a module that drops imaginary parts then shows it in the dtype of y.
    point = {key: block.astype(np.complex128) for key, block in problem.point.items()}

    def column(key: Key, i: int) -> np.ndarray:
        block = point[key].copy()
        block.flat[i] += 1j * h
        hint = "where the function is not analytic, use central_difference"
        try:
            y = problem.forward({**point, key: block})
        except Exception as error:
            what = f"{type(module).__name__}.forward raised {type(error).__name__} for complex128 input ({error})"
            raise NotAnalytic(f"{what}; {hint}") from error
        if y.dtype.kind != "c":
            what = f"{type(module).__name__}.forward gave {y.dtype} for complex128 input"
            raise NotAnalytic(f"{what}; expected complex128 ({hint})")
        return y.imag / h

    ours = probe.pullbacks(problem)
    with checks.complex_allowed(), use_backend("numpy"):
        expected = probe.pushforwards(problem, column)
    scales = _scales(expected)
    rows = [probe.row(problem, key, ours[key], expected[key], ROUNDING * scales[key], rtol) for key in ours]
    return problem.report("complex_step", rows, "complex step", probe.mode)


@quiet
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
    ...         return np.maximum(x, 0), x.copy()
    ...     def backward(self, params, x, grad_y):
    ...         return {}, (x > 0) * grad_y
    >>> report = central_difference(ReLU(), {}, [-1.0, 0.0, 2.0])
    >>> report.ok, report.skipped
    (True, 1)
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    step = checks.as_number("step", np.cbrt(EPS) if step is None else step, 0, 1, open_low=True)
    problem = Problem.of(module, params, x, rng)
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
        return ROUNDING * peak_of(problem.y) * probe.norms[:, None] / h + 64 * step**2 * scales[key]

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
