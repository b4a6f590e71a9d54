"""Six questions to a hand-written gradient, each from a different side.

====================  ===============================================  ==========================================
check                 holds `backward` against                         blind to
====================  ===============================================  ==========================================
complex_step          Im f(v + ih) / h, exact to rounding              memory; wants an analytic `forward`
central_difference    (f(v + h) - f(v - h)) / 2h, about ten digits     memory; faults below its noise; kinks
second_order          itself: the Hessian is symmetric                 memory; the exact gradient of another function
dot_test              `jvp`: <J d, u> = <d, J^T u>                     memory; a mistake made alike in both
training_test         what training reads, `_parameter_gradients`      a mistake made alike in both
tape_test             itself, when the caller reuses his arrays        every fault that does not depend on that
====================  ===============================================  ==========================================

*Memory*: the other checks run `backward` straight after its `forward`, on arrays that nobody touches. A tape that
refers to x, or an object that keeps the last pass for itself, passes all of them; the tape test is for that. All six
look at one point and one configuration: a branch that is not taken there is not checked. ``evref gradcheck`` therefore
runs all of them in every configuration on two kinds of graph; which check catches which fault is in
``validation/gradient_faults.md``.

The differences come first because they ask `forward` alone. Where `jvp` and `backward` are written by hand, apart from
each other, the dot test is as sharp and cheaper. Where both come from one automatic differentiation (an object that
wraps torch or JAX), it holds for any program and says nothing about yours: it is then a tautology, and so is the
symmetry of the Hessian. Such an object says so, with an attribute ``autodiff = True``: :func:`check_all` and
``evref gradcheck`` then leave the dot test out, and a report of it says that it is one.

They work on every :class:`evref.contract.Module`, and on any object of yours that has

    forward(params, x)               -> (y, tape)
    backward(params, tape, grad_y)   -> (grads, grad_x)
    jvp(params, x, dparams, dx)      -> dy                   (only the dot test needs it)
    autodiff = True                                          (only where jvp and backward are one differentiation)

with `params` a dict of named arrays, which may be empty. Parameters and input are copied to float64 first, whatever
they come in: float32 has too few digits to tell a small fault from rounding, and the caller's arrays stay untouched.

Examples
--------
>>> import numpy as np
>>> class Gain:
...     def forward(self, params, x):
...         return params["a"] * x, x.copy()      # a copy: the caller may reuse x before backward
...     def backward(self, params, x, grad_y):
...         return {"a": 1.001 * np.sum(grad_y * x)}, params["a"] * grad_y      # 0.1 % too much
>>> report = central_difference(Gain(), {"a": np.array(2.0)}, np.array([1.0, 3.0]))
>>> report.ok, report.worst.block, round(report.worst.ours, 6), round(report.worst.expected, 6)
(False, 'a', 3.003, 3.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import hypot, prod, sqrt
from typing import Any

import numpy as np

from .. import checks
from ..contract import Module
from .jacobian import central_difference, complex_step
from .problem import (
    EPS,
    LOCALISE_LIMIT,
    ROUNDING,
    SHARE,
    Key,
    Point,
    Problem,
    inner_product,
    norm_of,
    peak_of,
    place_of,
    quiet,
    relative_to,
    row_of_worst,
    split_point,
    unit_array,
)
from .report import GradientError, Report, Row
from .tape import tape_test

__all__ = [
    "GradientError",
    "Report",
    "Row",
    "central_difference",
    "check_all",
    "complex_step",
    "dot_test",
    "second_order",
    "tape_test",
    "training_test",
]

TAUTOLOGY = "jvp and backward come from one automatic differentiation and agree whatever forward computes"


# ---- the adjoint against the tangent ----------------------------------------------------------------------------
@quiet
def dot_test(
    module: Any, params: Any = None, x: Any = None, *, rng: Any = 0, rtol: float = 1e-12, trials: int = 3
) -> Report:
    """<J d, u> = <d, J^T u>, with J d from `jvp` and J^T u from `backward`.

    Tangents d are random and live in one block at a time (each parameter, the input), then in all of them; the row of
    a failed block names the entry in which `jvp` and `backward` differ most, found with one-hot tangents.

    The error is |<J d, u> - <d, J^T u>| over the larger of ‖J d‖ ‖u‖ and ‖d‖ ‖J^T u‖. The inner products themselves may
    cancel to anything; by Cauchy-Schwarz the norms bound every partial sum, so that rounding stays near 1e-15.

    It compares two programs of yours and never asks what `forward` computes. Where `jvp` and `backward` come from one
    automatic differentiation, as in an object that wraps torch or JAX, it passes whatever `forward` does: use
    :func:`complex_step` or :func:`central_difference` there. The report of an object with ``autodiff = True`` says so.

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
    ...         return x**2, x.copy()
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
    problem = Problem.of(module, params, x, rng)
    worst: dict[str, tuple[Row, Point, np.ndarray, Point]] = {}
    for _ in range(trials):
        u = problem.draw(problem.y.shape)
        gradient = problem.pullback(u)
        joint = {key: problem.draw(block.shape) for key, block in problem.point.items()}
        floor = 0.0
        for label, tangent in [("all", joint), *((problem.label(key), {key: d}) for key, d in joint.items())]:
            dy = problem.push(tangent)
            ours, expected = inner_product(tangent, gradient), float(np.vdot(dy, u))
            norms = (hypot(*(norm_of(side[key]) for key in tangent)) for side in (tangent, gradient))
            scale = max(norm_of(dy) * norm_of(u), prod(norms), floor)
            if label == "all":
                floor = SHARE * scale
            size = sum(block.size for block in tangent.values())
            row = Row(label, float(relative_to(abs(ours - expected), scale)), rtol, ours, expected, size)
            if label not in worst or row.error > worst[label][0].error:
                worst[label] = row, tangent, u, gradient
    rows = [
        row if row.ok or label == "all" else _localised(problem, row, next(iter(tangent)), u, gradient)
        for label, (row, tangent, u, gradient) in worst.items()
    ]
    mode = f"{trials} random pairs per block"
    return problem.report("dot_test", rows, "jvp", f"{mode}; a tautology: {TAUTOLOGY}" if is_autodiff(module) else mode)


def is_autodiff(module: Any) -> bool:
    """Whether `jvp` and `backward` come from one automatic differentiation, as the object itself says."""
    return checks.as_flag(f"{type(module).__name__}.autodiff", getattr(module, "autodiff", False))


def _localised(problem: Problem, row: Row, key: Key, u: np.ndarray, gradient: Point) -> Row:
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
    expected = np.array([np.vdot(problem.push({key: unit_array(shape, int(i))}), u) for i in entries])
    differences = np.abs(flat[entries] - expected)
    differences[np.isnan(differences)] = np.inf
    worst = int(np.argmax(differences))
    if not differences[worst] > ROUNDING * peak_of(expected):
        return row  # entry by entry all is well: `jvp` is not linear, and the inner products are all there is to show
    place = place_of(entries[worst], shape)
    return replace(row, ours=float(flat[entries[worst]]), expected=float(expected[worst]), index=place)


# ---- the adjoint against itself ---------------------------------------------------------------------------------
@quiet
def second_order(
    module: Any, params: Any = None, x: Any = None, *, rtol: float = 1e-6, step: float | None = None, rng: Any = 0
) -> Report:
    """<a, H b> = <b, H a> for the Hessian H of s = ‖y‖² / 2 + <u, y>, by central differences of the gradient.

    The gradient of s is `backward` at grad_y = y + u; the quadratic term keeps H from vanishing for linear modules.
    Only a true gradient has a symmetric derivative, so `backward` is tested without `jvp` and without differences of y.
    A tape that is always the first one shows here as well. Directions a and b are random, of unit length, in one block
    each; the row of a block shows its worst partner.

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
    ...         return x**2, x.copy()
    ...     def backward(self, params, x, grad_y):
    ...         return {}, (2 * x * grad_y)[::-1]      # not the gradient of anything
    >>> second_order(Rotated(), {}, [1.0, 2.0, 3.0]).ok
    False
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    step = checks.as_number("step", np.cbrt(EPS) if step is None else step, 0, 1, open_low=True)
    problem = Problem.of(module, params, x, rng)
    u = problem.draw(problem.y.shape)

    def gradient(point: Point) -> Point:
        return problem.pullback(lambda y: y + u, point)

    def direction(block: np.ndarray) -> np.ndarray:
        d = problem.draw(block.shape)
        return d / (norm_of(d) or 1.0)

    def hessian_times(key: Key, d: np.ndarray) -> Point:
        block = problem.point[key]
        h = step * max(1.0, norm_of(block) / sqrt(max(1, block.size)))
        right, left = (gradient({**problem.point, key: block + s * h * d}) for s in (1, -1))
        return {other: (right[other] - left[other]) / (2 * h) for other in right}

    a, b = ({key: direction(block) for key, block in problem.point.items()} for _ in range(2))
    h_a, h_b = ({key: hessian_times(key, d) for key, d in side.items()} for side in (a, b))
    size = max(norm_of(block) for products in (h_a, h_b) for product in products.values() for block in product.values())
    noise = ROUNDING * max(map(norm_of, gradient(problem.point).values())) / step + 64 * step**2 * size
    rows = []
    for key in problem.point:
        pairs = []
        for other in problem.point:
            ours, expected = float(np.vdot(a[key], h_b[other][key])), float(np.vdot(b[other], h_a[key][other]))
            scale = max(norm_of(h_b[other][key]), norm_of(h_a[key][other]))  # Cauchy-Schwarz, as in the dot test
            error = float(relative_to(abs(ours - expected), scale + noise / rtol))
            label = f"{problem.label(key)} × {problem.label(other)}"
            pairs.append(Row(label, error, rtol, ours, expected, problem.point[key].size))
        rows.append(max(pairs, key=lambda row: row.error))
    return problem.report("second_order", rows, "swapped", "directional differences of backward")


# ---- what training reads ----------------------------------------------------------------------------------------
@quiet
def training_test(module: Any, params: Any = None, x: Any = None, *, rng: Any = 0, rtol: float = 1e-12) -> Report:
    """The gradients of the parameters that training reads are those of `backward`.

    `fit` has no use for the gradient of x and asks for the others through the hook `_parameter_gradients`, which a
    module may write anew where that saves work. None of the other checks passes through it.

    Parameters
    ----------
    module : Module
        With parameters.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rng : None, int or Generator
    rtol : float
        Relative to the largest entry of the gradient concerned.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        If `module` is no Module, which has no such hook, or has no parameters.

    Examples
    --------
    >>> import evref as ev
    >>> training_test(ev.Dense((4,), outputs=2)).ok
    True
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    if not _learns(module):
        raise TypeError(
            f"module is {type(module).__name__}; the training test expects an evref.contract.Module with parameters"
        )
    problem = Problem.of(module, params, x, rng)
    u = problem.draw(problem.y.shape)
    expected = problem.pullback(u)
    params, x = split_point(problem.point)
    _, tape = module.forward(params, x)
    found = module._parameter_gradients(params, tape.saved, module._cotangent_batch(tape, u))
    gradient = problem.as_gradient((found, expected[None]))
    rows = [
        row_of_worst(name, gradient[name], expected[name], rtol, SHARE * max(map(peak_of, expected.values())))
        for name in params
    ]
    return problem.report("training_test", rows, "backward", "without the gradient of x")


def check_all(module: Any, params: Any = None, x: Any = None, rng: Any = 0) -> list[Report]:
    """Every check that applies, at one and the same point, differences first.

    The dot test applies where the module has a `jvp` that is not one automatic differentiation with `backward`, the
    training test to a :class:`evref.contract.Module` with parameters.

    Examples
    --------
    >>> class Identity:
    ...     def forward(self, params, x):
    ...         return x, None
    ...     def backward(self, params, tape, grad_y):
    ...         return {}, grad_y
    >>> [report.check for report in check_all(Identity(), {}, [1.0, 2.0])]
    ['complex_step', 'central_difference', 'second_order', 'tape_test']
    """
    problem = Problem.of(module, params, x, rng)
    params, x = split_point(problem.point)
    return [run(module, params, x, rng=problem.rng) for run in CHECKS.values() if why_not(run, module) is None]


CHECKS: dict[str, Callable[..., Report]] = {  # differences first
    "complex": complex_step,
    "central": central_difference,
    "second": second_order,
    "dot": dot_test,
    "training": training_test,
    "tape": tape_test,
}


def why_not(check: Callable[..., Report], module: Any) -> str | None:
    """Why a check says nothing about this module: "" where it lacks what the check is about, None where all is well."""
    if check is dot_test and not callable(getattr(module, "jvp", None)):
        return ""
    if check is dot_test and is_autodiff(module):
        return f"a tautology: {TAUTOLOGY}"
    if check is training_test and not _learns(module):
        return ""
    return None


def _learns(module: Any) -> bool:
    return isinstance(module, Module) and bool(module.parameter_shapes())
