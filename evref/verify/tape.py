"""The memory that forward and backward share with their caller: nothing may be changed, nothing may be relied on.

The other checks run `backward` straight after its `forward`, on arrays that nobody touches. A tape that refers to x
passes them all, and gives wrong gradients to the caller who reuses x for the next batch. Here the caller does so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from .problem import SHARE, Key, Point, Problem, copied, peak_of, quiet, row_of_worst, split_point
from .report import Report, Row

OVERWRITTEN = (
    "the gradient depends on {what} being left unchanged between forward and backward; keep a copy in the tape, "
    "such as x.copy(), or what backward needs of it"
)
FORWARD_AGAIN = "another forward pass changes this gradient: backward reads what the object keeps, not its tape"
CHANGED = "{what} belongs to the caller and was changed in place"
HANDED_OUT = "{what} of one pass is overwritten by the next: the object hands out memory that it uses again"


@quiet
def tape_test(module: Any, params: Any = None, x: Any = None, *, rng: Any = 0, rtol: float = 1e-12) -> Report:
    """Does the gradient stay the same whatever the caller does between the passes, and do the caller's arrays?

    ====================  ==========================================================================================
    row                   what is done
    ====================  ==========================================================================================
    x overwritten         x gets other numbers after `forward`, before `backward`; so does every parameter, whose
                          values of before are what `backward` is given, and the output y
    forward again         a second forward pass, at another point, comes between forward and backward
    x unchanged           x, parameters and grad_y after forward, backward and, where there is one, jvp
    y, gradients kept     what the first passes returned, after the second ones
    ====================  ==========================================================================================

    A module of your own that returns ``y, x`` as output and tape fails the first row. It is right as long as its caller
    leaves x alone, and wrong without a word when the next batch is read into the same array. Keep ``x.copy()``.

    Parameters
    ----------
    module : object
        With `forward` and `backward`.
    params : dict of arrays, optional
        By default `module.init(rng)`.
    x : array, optional
        By default three random samples of shape `module.in_shape`.
    rng : None, int or Generator
    rtol : float
        Relative to the largest entry of the array concerned.

    Returns
    -------
    Report

    Examples
    --------
    >>> class Square:
    ...     def forward(self, params, x):
    ...         return x**2, x
    ...     def backward(self, params, x, grad_y):
    ...         return {}, 2 * x * grad_y
    >>> report = tape_test(Square(), {}, [1.0, 2.0, 3.0])
    >>> [row.block for row in report.rows if not row.ok]
    ['x overwritten']
    """
    rtol = checks.as_number("rtol", rtol, 0, open_low=True)
    problem = Problem.of(module, params, x, rng)
    u = problem.draw(problem.y.shape)
    other = {key: -2 * block - problem.draw(block.shape) for key, block in problem.point.items()}

    def gradient(between: Callable[[Point, Any], None]) -> Point:
        """By way of arrays that `between` may spoil; `backward` gets parameters of its own."""
        point = copied(problem.point)
        y, tape = module.forward(*split_point(point))
        between(point, y)
        return problem.as_gradient(module.backward(split_point(copied(problem.point))[0], tape, u.copy()))

    expected = gradient(lambda point, y: None)
    rows = []
    for key in problem.point:

        def overwrite(point: Point, y: Any, key: Key = key) -> None:
            np.copyto(point[key], other[key])

        found = gradient(overwrite)
        rows.append(_gradient_row(problem, f"{problem.label(key)} overwritten", found, expected, rtol))
    found = gradient(lambda point, y: _overwrite(y))
    rows.append(_gradient_row(problem, "y overwritten", found, expected, rtol))
    found = gradient(lambda point, y: module.forward(*split_point(copied(other))))
    rows.append(_gradient_row(problem, "forward again", found, expected, rtol, FORWARD_AGAIN))
    return problem.report("tape_test", [*rows, *_kept(problem, u, other, rtol)], "untouched", "the caller's memory")


def _kept(problem: Problem, u: np.ndarray, other: Point, rtol: float) -> list[Row]:
    """Rows for the caller's arrays after all passes, and for what the first passes returned after the second."""
    module, given, grad_y = problem.module, copied(problem.point), u.copy()
    params, x = split_point(given)
    y, tape = module.forward(params, x)
    result = module.backward(params, tape, grad_y)
    before = np.array(y), problem.as_gradient(result)
    if callable(getattr(module, "jvp", None)):
        module.jvp(params, x, *split_point(copied(other)))
    rows = []
    for key, block in given.items():
        rows.append(_row(f"{problem.label(key)} unchanged", block, problem.point[key], rtol, CHANGED))
    rows.append(_row("grad_y unchanged", grad_y, u, rtol, CHANGED))
    point = copied(other)
    _, tape = module.forward(*split_point(point))
    module.backward(split_point(point)[0], tape, 3 * u)
    rows.append(_row("y kept", np.array(y), before[0], rtol, HANDED_OUT))
    rows.append(_gradient_row(problem, "gradients kept", problem.as_gradient(result), before[1], rtol, HANDED_OUT))
    return rows


def _overwrite(y: Any) -> None:
    if isinstance(y, np.ndarray) and y.flags.writeable:
        y *= -2
        y -= 1


def _gradient_row(
    problem: Problem, label: str, found: Point, expected: Point, rtol: float, note: str = OVERWRITTEN
) -> Row:
    """The block of the gradient that moved most."""
    floor = SHARE * max(map(peak_of, expected.values()))
    rows = {key: _row(label, found[key], expected[key], rtol, note, floor) for key in expected}
    worst: Key = max(rows, key=lambda key: rows[key].error)
    n_entries = sum(block.size for block in expected.values())
    row = rows[worst]
    note = row.note if row.ok else f"gradient of {problem.label(worst)}: {row.note}"
    return Row(label, row.error, rtol, row.ours, row.expected, n_entries, index=row.index, note=note)


def _row(label: str, found: np.ndarray, expected: np.ndarray, rtol: float, note: str, floor: float = 0.0) -> Row:
    return row_of_worst(label, found, expected, rtol, floor, note.format(what=label.rsplit(" ", 1)[0]))
