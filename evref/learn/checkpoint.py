"""Checkpoints: where a training stands after an epoch, and the way back into it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from .. import checks
from ..contract import Module, Parameters
from ..graph import Graph
from .optim import State
from .storage import read_archive, with_prefix, without_prefix, write_archive


@dataclass
class Run:
    """Where a training stands. `fit` moves it on, a checkpoint holds it."""

    params: Parameters  # the newest
    state: State  # of the optimiser
    best: Parameters | None = None  # on validation
    best_step: int | None = None
    best_metric: float | None = None
    stale: int = 0  # validations since the best
    epoch: int = 0  # finished ones
    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proven = self.params  # the newest whose loss is known to be finite

    def is_finite(self) -> bool:
        return all(map(checks.is_finite, self.params.values()))


_ARRAYS = ("params", "state", "best")


def save(path: Any, run: Run, rng: np.random.Generator, identity: dict[str, Any]) -> None:
    """Write `run` to `path`, whole or not at all."""
    scalars = {each.name: getattr(run, each.name) for each in fields(run) if each.name not in _ARRAYS}
    arrays = {
        **with_prefix("params", run.params),
        **with_prefix("state", run.state),
        **with_prefix("best", run.best or {}),
    }
    header = {"identity": identity, "rng": _plain(rng.bit_generator.state), "run": scalars}
    write_archive(path, "checkpoint", header, arrays)


def resume(path: Any, fresh: Run, rng: np.random.Generator, identity: dict[str, Any]) -> Run:
    """The run in the file, with `rng` set to where it was; `fresh`, if there is no file.

    Raises
    ------
    ValueError
        If the file is damaged, or is the checkpoint of another training: the message says what differs.
    """
    if not os.path.exists(path):
        return fresh
    header, arrays = read_archive(path, ("checkpoint",))
    saved = header.get("identity")
    if not isinstance(saved, dict):
        raise ValueError(f"{os.fspath(path)}: the checkpoint does not say what it belongs to")
    for what, now in identity.items():
        if saved.get(what) != now:
            raise ValueError(
                f"{os.fspath(path)}: the checkpoint of another training; {what} was {saved.get(what)!r}, is now {now!r}"
            )
    groups: dict[str, Any] = {group: without_prefix(group, arrays) for group in _ARRAYS}
    groups["best"] = groups["best"] or None
    try:
        for group, expected in (("params", fresh.params), ("state", fresh.state), ("best", fresh.params)):
            if groups[group] is not None:
                _require_alike(group, groups[group], expected)
        run = Run(**groups, **_checked_scalars(header.get("run")))
        if int(run.state["step"]) != run.step:
            raise ValueError(f"state['step'] is {run.state['step']}; run['step'] is {run.step}, expected the same")
        if (run.best is None) != (run.best_step is None):
            raise ValueError(f"run['best_step'] is {run.best_step}; expected a step where there are best parameters")
        _restore(rng, header.get("rng"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: the training cannot be resumed ({error})") from None
    return run


def _require_alike(group: str, arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name in expected.keys() | arrays.keys():
        a, b = arrays.get(name), expected.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"array {group}[{name!r}] is not like the one in use")
        checks.require_finite(f"{group}[{name!r}]", a)


# ---- what stands in the header, field by field ----------------------------------------------------------------------
def _checked_scalars(run: Any) -> dict[str, Any]:
    """The fields of `Run` that are no arrays."""
    checked = _checked_fields("run", run, _RUN_FIELDS)
    for i, row in enumerate(checked["history"]):
        _checked_fields(f"run['history'][{i}]", row, _ROW_FIELDS)
    return checked


def _checked_fields(name: str, value: Any, fields: dict[str, Callable[[str, Any], object]]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != fields.keys():
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise ValueError(f"{name} has the fields {found}; expected {sorted(fields)}")
    for key, check in fields.items():
        check(f"{name}[{key!r}]", value[key])
    return value


def _count_or_none(name: str, value: Any) -> None:
    if value is not None:
        checks.as_count(name, value)


def _float_or_none(name: str, value: Any) -> None:
    """A validation may well have given inf or NaN."""
    if value is not None and not isinstance(value, float):
        checks.as_number(name, value)


def _list(name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{name} is {value!r}; expected a list")


_RUN_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "best_step": _count_or_none,
    "best_metric": _float_or_none,
    "stale": checks.as_count,
    "epoch": checks.as_count,
    "step": checks.as_count,
    "seconds": checks.as_number,
    "history": _list,
}
_ROW_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "epoch": lambda name, value: checks.as_count(name, value, minimum=1),
    "step": lambda name, value: checks.as_count(name, value, minimum=1),
    "loss": checks.as_number,
    "validation_loss": _float_or_none,
    "validation_metric": _float_or_none,
    "learning_rate": checks.as_number,
    "seconds": checks.as_number,
    "ends_epoch": checks.as_flag,
}
_LAST_POSITION = {"pos": 624, "buffer_pos": 4}  # of MT19937 and Philox: NumPy reads past its buffer from larger ones


def _restore(rng: np.random.Generator, state: Any) -> None:
    """Set the generator to `state`, or leave it and raise a ValueError."""
    before = rng.bit_generator.state
    inner = state.get("state") if isinstance(state, dict) else None
    for where in (state, inner):
        for key, last in _LAST_POSITION.items():
            if isinstance(where, dict) and key in where and checks.as_count(f"rng[{key!r}]", where[key]) > last:
                raise ValueError(f"rng[{key!r}] is {where[key]}; expected at most {last}")
    try:
        rng.bit_generator.state = state
        if _plain(rng.bit_generator.state) != state:
            raise ValueError("it is not a state of this generator")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
        rng.bit_generator.state = before
        raise ValueError(f"rng: {type(error).__name__}: {error}") from None


def _plain(value: Any) -> Any:
    """The state of a bit generator as JSON has it; NumPy takes lists back for arrays."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


# ---- what a checkpoint belongs to ------------------------------------------------------------------------------------
def fingerprint(*arrays: np.ndarray) -> str:
    """Sixteen hex digits that name dtypes, shapes and values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def network_identity(module: Module) -> str:
    """The signature, and the weights of the graphs in it, which the signature leaves out."""
    weights = fingerprint(*(graph.S.data for graph in _graphs(module)))
    return f"{module.signature}, weights {weights}"


def _graphs(module: Module) -> list[Graph]:
    inner = [graph for layer in getattr(module, "layers", ()) for graph in _graphs(layer)]
    return inner or ([] if module.graph is None else [module.graph])
