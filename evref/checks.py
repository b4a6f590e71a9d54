"""What a caller may pass in: one function per rule, so that every door gives the same answer.

Each function returns the value in the form the house uses, or raises with the argument's name, what was given and what
was expected. Nothing here knows about graphs; graph input is checked in :mod:`evref.graph.convert`.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite
from typing import Any
from weakref import ref

import numpy as np

FLOATING = (np.dtype(np.float32), np.dtype(np.float64))

_complex_allowed: ContextVar[bool] = ContextVar("evref_complex_allowed", default=False)


@contextmanager
def complex_allowed() -> Iterator[None]:
    """Let complex128 through the door for a while: the complex-step check needs it, nothing else does."""
    token = _complex_allowed.set(True)
    try:
        yield
    finally:
        _complex_allowed.reset(token)


def is_floating(value: Any) -> bool:
    """Whether `as_floating` would hand out `value` itself."""
    return type(value) is np.ndarray and value.dtype in FLOATING and value.dtype.isnative


def as_floating(name: str, value: Any) -> np.ndarray:
    """`value` as an array of float32 or float64; integers and bools become float64, anything else is a TypeError.

    >>> as_floating("x", [1, 2]).dtype
    dtype('float64')
    >>> as_floating("x", "text")
    Traceback (most recent call last):
    ...
    TypeError: x has dtype <U4; supported are float32, float64, integers and bools
    """
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged nesting
        raise ValueError(f"{name} is not a rectangular array: {error}") from None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype in FLOATING:
        return array
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype == np.complex128 and _complex_allowed.get():
        return array
    raise TypeError(f"{name} has dtype {array.dtype}; supported are float32, float64, integers and bools")


def as_dtype(name: str, value: Any) -> np.dtype:
    """float32 or float64, however it is spelt."""
    dtype = np.dtype(value)
    if dtype not in FLOATING:
        raise TypeError(f"{name} is {dtype}; supported are float32 and float64")
    return dtype


def is_finite(array: np.ndarray) -> bool:
    """Whether `array` holds neither NaN nor inf."""
    flat = array.ravel()
    if flat.size <= 10_000:
        # A sum of squares is finite only if every term is: one call decides the usual case. Of more numbers BLAS would
        # wake its threads, which then look for more work for milliseconds, on the cores that the kernels need.
        return isfinite(np.vdot(flat, flat).real) or bool(np.isfinite(flat).all())
    return all(np.isfinite(flat[start : start + 2**16]).all() for start in range(0, flat.size, 2**16))


class _Looked(threading.local):
    array: Any = None  # a weak reference


_looked = _Looked()


def note_finite(array: np.ndarray) -> None:
    """Said by a kernel that looked at the numbers of `array` while it wrote them, in registers."""
    _looked.array = ref(array)


def was_noted_finite(array: np.ndarray) -> bool:
    """Whether the last note of this thread was about `array`; asked once, directly after: later it may have changed."""
    noted, _looked.array = _looked.array, None
    return noted is not None and noted() is array


def require_finite(name: str, array: np.ndarray) -> None:
    """ValueError with the first offending index if `array` holds NaN or inf."""
    if not is_finite(array):
        bad = np.argwhere(~np.isfinite(array))
        index = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} has {len(bad)} value(s) that are not finite, the first {array[index]} at index {index}; "
            "expected finite numbers (check_finite=False lets them through)"
        )


def as_count(name: str, value: Any, minimum: int = 0) -> int:
    """An integer of at least `minimum`; bools and floats are a TypeError even when they look whole.

    >>> as_count("order", 3)
    3
    >>> as_count("order", True)
    Traceback (most recent call last):
    ...
    TypeError: order is True (bool); expected an integer
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r} (bool); expected an integer")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); expected an integer") from None
    if count < minimum:
        raise ValueError(f"{name} is {count}; expected at least {minimum}")
    return count


def as_number(
    name: str,
    value: Any,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """A finite real number in the interval from `low` to `high`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); expected a real number")
    number = float(value)
    inside = (number > low if open_low else number >= low) and (number < high if open_high else number <= high)
    if not np.isfinite(number) or not inside:
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ValueError(f"{name} is {number}; expected a finite number in {interval}")
    return number


def as_flag(name: str, value: Any) -> bool:
    """A bool and nothing that merely looks like one."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); expected True or False")
    return bool(value)


def as_choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of `options`, to the letter."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, options))}")
    return value


def as_rng(rng: Any) -> np.random.Generator:
    """None (fresh entropy), an integer seed, a SeedSequence or a Generator; never the global random state."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.SeedSequence) or rng is None:
        return np.random.default_rng(rng)
    return np.random.default_rng(as_count("rng", rng))
