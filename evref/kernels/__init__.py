"""The hot loops, twice: `reference` (NumPy/SciPy, reads like the equations) and `compiled` (numba, runs by default).

Both modules define the same functions with the same signatures; :func:`current` returns the one in force. So do the
pairs `shift_` (filters of one shift), `learning_` (what training does around its filters) and `classifier_` (a whole
network).
"""

from __future__ import annotations

import logging
import os
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np

from .. import checks
from .settings import Setting
from .threads import n_threads, use_threads

__all__ = [
    "BACKENDS",
    "backend",
    "current",
    "for_classifiers",
    "for_learning",
    "for_shifts",
    "n_threads",
    "use_backend",
    "use_threads",
]

BACKENDS = {"numba": "compiled", "numpy": "reference"}

_log = logging.getLogger("evref")
_numba_broken = False


class use_backend(Setting):
    """Choose the kernels: `"numba"` (compiled, the default) or `"numpy"` (the reference).

    A plain call changes the choice for the whole process; as a context manager it changes it for the body alone, in
    this thread alone. Without either, the environment variable `EVREF_BACKEND`, read once, decides, else `"numba"`.

    >>> import evref
    >>> with evref.use_backend("numpy"):
    ...     evref.kernels.backend()
    'numpy'
    """

    _scoped = ContextVar("evref_backend", default=None)

    @staticmethod
    def _checked(value: str) -> str:
        return checks.as_choice("backend", value, tuple(BACKENDS))


def backend() -> str:
    """Name of the kernels in force."""
    return "numpy" if _numba_broken else use_backend.chosen() or _from_environment()


@cache  # a look into the environment takes longer than some kernels
def _from_environment() -> str:
    return checks.as_choice("EVREF_BACKEND", os.environ.get("EVREF_BACKEND", "numba"), tuple(BACKENDS))


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
