"""Checkpoints: where a training stands after an epoch, and the way back into it."""

from __future__ import annotations

import hashlib
import os
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
        run = Run(**groups, **header["run"])
        _require_alike(run.params, fresh.params)
        _require_alike(run.state, fresh.state)
        if run.best is not None:
            _require_alike(run.best, fresh.params)
        rng.bit_generator.state = header["rng"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{os.fspath(path)}: the training cannot be resumed ({error})") from None
    return run


def _require_alike(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name in expected.keys() | arrays.keys():
        a, b = arrays.get(name), expected.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"array {name!r} is not like the one in use")


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
