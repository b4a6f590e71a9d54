"""What a caller may pass in: one function per rule, so that every entry point gives the same answer.

Each function returns the value in the form evref uses inside, or raises with the argument's name, what was given and
what was expected. Nothing here knows about graphs; graph input is checked in :mod:`evref.graph.convert`.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite, prod
from typing import Any, get_args
from weakref import ref

import numpy as np

from . import renamed

FLOATING = (np.dtype(np.float32), np.dtype(np.float64))
MAX_COUNT = 2**63 - 1  # what NumPy takes for a size

_complex_allowed: ContextVar[bool] = ContextVar("evref_complex_allowed", default=False)


@contextmanager
def complex_allowed() -> Iterator[None]:
    """Accept complex128 for a while: the complex-step check needs it, nothing else does."""
    token = _complex_allowed.set(True)
    try:
        yield
    finally:
        _complex_allowed.reset(token)


def is_floating(value: Any) -> bool:
    """Whether `as_floating` would hand out `value` itself."""
    return type(value) is np.ndarray and value.dtype in FLOATING and value.dtype.isnative and _is_plain(value)


def _is_plain(array: np.ndarray) -> bool:
    """Whether the numbers lie one behind the other, in C order, where the processor expects them."""
    return array.flags.c_contiguous and array.flags.aligned


def as_array(name: str, value: Any, dtype: Any = None) -> np.ndarray:
    """`value` as an array, of whatever dtype if none is given; a ragged one is a ValueError, a masked one a TypeError.

    >>> as_array("x", np.ma.array([1.0, 2.0], mask=[True, False]))
    Traceback (most recent call last):
    ...
    TypeError: x is a masked array; expected an ordinary one (x.filled(value) makes it from a masked one)
    """
    if isinstance(value, np.ma.MaskedArray):  # np.asarray would drop the mask and let the hidden numbers in
        raise TypeError(
            f"{name} is a masked array; expected an ordinary one ({name}.filled(value) makes it from a masked one)"
        )
    try:
        return np.asarray(value, dtype)
    except ValueError as error:  # ragged nesting
        raise ValueError(f"{name} is not a rectangular array: {error}") from None
    except (TypeError, RuntimeError) as error:  # a tensor on another device, or one that requires gradients
        raise TypeError(f"{name} is {type(value).__name__}, which NumPy cannot read: {error}") from None


def is_labelled(value: Any) -> bool:
    """Whether `value` has names along an axis, as a pandas DataFrame or Series has."""
    if isinstance(value, np.ndarray):
        return False
    return hasattr(value, "to_numpy") and (hasattr(value, "columns") or hasattr(value, "index"))


def refuse_labelled(name: str, value: Any) -> None:
    """TypeError for a table where nobody knows the graph that its names belong to."""
    if is_labelled(value):
        raise TypeError(
            f"{name} is a {type(value).__name__}, whose names are not looked at here; expected an array "
            f"(graph.align({name}) has the order of the nodes)"
        )


def as_floating(name: str, value: Any) -> np.ndarray:
    """`value` as an array of float32 or float64; integers and bools become float64, anything else is a TypeError.

    The array is in C order: BLAS and NumPy add in another order where numbers lie otherwise, and the same input must
    give the same bits however it is stored.

    >>> as_floating("x", [1, 2]).dtype
    dtype('float64')
    >>> as_floating("x", "text")
    Traceback (most recent call last):
    ...
    TypeError: x has dtype <U4; supported are float32, float64, integers and bools
    """
    array = as_array(name, value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype in FLOATING or (array.dtype == np.complex128 and _complex_allowed.get()):
        return array if _is_plain(array) else array.copy(order="C")
    raise TypeError(f"{name} has dtype {array.dtype}; supported are float32, float64, integers and bools")


def as_dtype(name: str, value: Any) -> np.dtype:
    """float32 or float64, however it is spelt: a name, a type of Python, NumPy, JAX or torch."""
    try:
        dtype = np.dtype(str(value).removeprefix("torch.") if type(value).__module__ == "torch" else value)
    except (TypeError, ValueError):  # a name that means nothing
        raise TypeError(f"{name} is {value!r}; supported are float32 and float64") from None
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


DENSE_LIMIT = 2**29  # bytes: a dense float64 matrix on 8,192 nodes


def require_room(what: str, *shape: int) -> None:
    """ValueError, before it is allocated, if an array of doubles of `shape` is larger than the limit.

    Most of evref computes on the edges. What needs all pairs of nodes (eigenvectors, `matrix`) asks here first: a graph
    of 20,000 nodes is a small file and a dense array of 3.2 GB. The limit is `DENSE_LIMIT`, or the environment variable
    EVREF_DENSE_LIMIT, in bytes.

    >>> require_room("U", 20_000, 20_000)
    Traceback (most recent call last):
    ...
    ValueError: U is a dense array of 20000 x 20000 numbers, 3.2 GB; the limit is 0.54 GB (set EVREF_DENSE_LIMIT, bytes)
    """
    text = os.environ.get("EVREF_DENSE_LIMIT", "")
    if text and not text.isdecimal():
        raise ValueError(f"EVREF_DENSE_LIMIT is {text!r}; expected a number of bytes")
    size, limit = 8 * prod(shape), int(text) if text else DENSE_LIMIT
    if size > limit:
        raise ValueError(
            f"{what} is a dense array of {' x '.join(map(str, shape))} numbers, {size / 1e9:.2g} GB; the limit is "
            f"{limit / 1e9:.2g} GB (set EVREF_DENSE_LIMIT, bytes)"
        )


def as_count(name: str, value: Any, minimum: int = 0, maximum: int | None = MAX_COUNT) -> int:
    """An integer from `minimum` to `maximum`; bools and floats are a TypeError even when they look whole.

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
        raise ValueError(f"{name} is {_digits(count)}; expected at least {minimum}")
    if maximum is not None and count > maximum:
        raise ValueError(f"{name} is {_digits(count)}; expected at most {maximum}")
    return count


def _digits(value: Any) -> str:
    """A number as text; of a long integer its length alone: Python refuses to print thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


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
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} is {_digits(value)}; expected a number that fits a float") from None
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


def as_choice(name: str, value: Any, options: Any) -> Any:
    """One of `options`, a `Literal` or a sequence of strings; the error for a name of old says the new one.

    >>> from typing import Literal
    >>> as_choice("direction", "up", Literal["in", "out"])
    Traceback (most recent call last):
    ...
    ValueError: direction is 'up'; expected one of 'in', 'out'
    """
    options = get_args(options) or options
    if not isinstance(value, str) or value not in options:
        new = renamed.current(name, value) if isinstance(value, str) else value
        hint = f" ({value!r} is called {new!r} now)" if new != value else did_you_mean(value, options)
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, options))}{hint}")
    return value


def what_is(value: object) -> str:
    """The type of a value, for an error; a class where an instance belongs is called one.

    >>> what_is(3.0), what_is(dict)
    ('float', 'the class dict')
    """
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def did_you_mean(value: Any, known: Iterable[str]) -> str:
    """The end of an error message: the known name nearest to `value`, or nothing if none is near.

    >>> did_you_mean("edge_varaint", ["edge_variant", "node_variant"])
    "; did you mean 'edge_variant'?"
    """
    from difflib import get_close_matches  # here: only mistakes need it

    if not isinstance(value, str):
        return ""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(value.lower().replace("-", "_"), by_lower, 1) or get_close_matches(
        value.lower().replace("_", "-"), by_lower, 1
    )
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def as_rng(rng: Any) -> np.random.Generator:
    """None (fresh entropy), an integer seed, a SeedSequence or a Generator; never the global random state."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.SeedSequence) or rng is None:
        return np.random.default_rng(rng)
    return np.random.default_rng(as_count("rng", rng, maximum=None))
