"""How plain functions become compiled ones."""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import types
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template
from numba.extending import register_jitable

inlined = register_jitable(inline="always")  # for short functions inside the innermost loops


def compiled(function: Any) -> Any:
    """njit, lazily, without the interpreter lock; with the on-disk cache where there is a place to write it."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no writable folder
        return njit(**options)(function)


def replaces(plain: Any, prefer_literal: bool = False) -> Any:
    """Python calls `plain`; numba, where compiled code names it, takes the definition below, written as an intrinsic's.

    `overload` would do the same by way of a stand-in function, whose typing and inlining at every call double the time
    that the kernels take to compile.
    """

    def register(definition: Any) -> Any:
        template = make_intrinsic_template(plain, definition, plain.__name__, prefer_literal=prefer_literal, kwargs={})
        infer(template)
        infer_global(plain, types.Function(template))
        return definition

    return register
