"""The hot loops, twice: `reference` (NumPy/SciPy, reads like the equations) and `compiled` (numba, runs by default).

Both modules define the same functions with the same signatures; :func:`current` returns the one in force. So do the
pairs `shift_` (filters of one shift), `learning_` (what training does around its filters) and `classifier_` (a whole
network).
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Literal

import numpy as np

from .. import checks
from .settings import Setting
from .threads import n_threads, set_threads, use_threads

__all__ = [
    "BACKENDS",
    "backend",
    "current",
    "for_classifiers",
    "for_learning",
    "for_shifts",
    "n_threads",
    "set_backend",
    "set_threads",
    "use_backend",
    "use_threads",
]

Backend = Literal["numba", "numpy"]
BACKENDS: dict[Backend, str] = {"numba": "compiled", "numpy": "reference"}

_log = logging.getLogger("evref")
_numba_broken = False


def _checked(value: Backend) -> Backend:
    return checks.as_choice("backend", value, Backend)


_setting = Setting[Backend]("evref_backend", _checked)


def set_backend(backend: Backend) -> None:
    """Choose the kernels for the process: `"numba"` (compiled, the default) or `"numpy"` (the reference).

    Where nobody chose, the environment variable `EVREF_BACKEND`, read once, decides, else `"numba"`.

    >>> import evref
    >>> evref.set_backend("numba")
    """
    _setting.set(backend)


def use_backend(backend: Backend) -> AbstractContextManager[None]:
    """Choose the kernels for the body of a with-statement, in this thread alone; `set_backend` is for the process.

    >>> import evref
    >>> with evref.use_backend("numpy"):
    ...     evref.kernels.backend()
    'numpy'
    """
    return _setting.use(backend)


def backend() -> Backend:
    """Name of the kernels in force."""
    return "numpy" if _numba_broken else _setting.chosen() or _from_environment()


@cache  # a look into the environment takes longer than some kernels
def _from_environment() -> Backend:
    return checks.as_choice("EVREF_BACKEND", os.environ.get("EVREF_BACKEND", "numba"), Backend)


def for_shifts(dtype: np.dtype) -> ModuleType:
    """The kernels in force for filters of one shift S."""
    return _for_dtype("shift_", dtype)


def for_learning(dtype: np.dtype) -> ModuleType:
    """The kernels in force for what a training does around its filters: activations, losses, optimisers."""
    return _for_dtype("learning_", dtype)


def for_classifiers(dtype: np.dtype) -> ModuleType:
    """The kernels in force for the network that the paper trains, with its loss, as a whole."""
    return _for_dtype("classifier_", dtype)


def _for_dtype(family: str, dtype: np.dtype) -> ModuleType:
    """Complex numbers, which `compiled` lacks, go to the reference."""
    return current(family) if dtype.kind == "f" else _module(f"{family}reference")


def current(family: str = "") -> ModuleType:
    """The module of kernels in force; the reference kernels, with one log line, where numba will not import."""
    global _numba_broken
    name = backend()
    if name == "numba":
        try:
            return _module(f"{family}compiled")
        except Exception as error:  # absent, or broken against this NumPy: any exception will do as a reason
            _numba_broken = True
            _log.warning("numba cannot be used (%s); evref falls back to its NumPy kernels", error)
            name = "numpy"
    return _module(family + BACKENDS[name])


_loaded: dict[str, ModuleType] = {}  # not sys.modules: while one thread imports, others would find half a module there


def _module(name: str) -> ModuleType:
    """import_module, but a module that is there already costs a look into a dict: this runs in every pass."""
    module = _loaded.get(name)
    if module is None:
        module = _loaded[name] = import_module(f"{__name__}.{name}")
    return module
