"""Which known mistakes give the very numbers that a layer gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..contract import Module
from ..filters import EdgeVariant
from ..filters.base import Filter
from ..graph import Graph
from .comparison import Cause
from .foreign.parameters import Moved
from .mistakes import variants_of
from .mistakes.terms import terms_of
from .places import entries_of
from .trials import Point, Trial, blocks, reference_at

TRAIN_MODE = "the module is in train mode (dropout, batch normalisation): call model.eval()"
NEVER_MASKED = "entries outside the support are trained: no mask is on the dense parameter"
LIMIT = 20_000_000  # multiply-adds of one pass of the reference: beyond, a hundred wrong models take minutes


def too_large(reference: Module) -> bool:
    """Whether a diagnosis would take longer than anybody waits."""
    return reference.n_operations() > LIMIT


def diagnose(failing: Sequence[Trial], passing: Sequence[Trial], dtype: np.dtype) -> tuple[list[Cause], int]:
    """The mistakes that reproduce every number of every trial, and how many ways to go wrong were tried.

    A mistake that does not exist on a graph (a self-loop counted twice where there is none) says nothing about trials
    on which the layer is right, and is out where it is wrong.
    """
    tried = 0
    alive: dict[str, Cause] | None = None
    for group in _by_reference(failing):
        found = {}
        for name, says, model in _every_way(group):
            tried += alive is None
            if alive is not None and says not in alive:
                continue
            error = _error_of(model, group, dtype)
            if error is not None:
                found[says] = Cause(name, says, max(error, alive[says].error if alive else 0.0))
        alive = found
        if not alive:
            return [], tried
    for group in _by_reference(passing):
        if not alive:
            break
        for _, says, model in _every_way(group):
            if says in alive and _error_of(model, group, dtype) is None:
                del alive[says]
    return list((alive or {}).values()), tried


def _by_reference(trials: Iterable[Trial]) -> list[list[Trial]]:
    groups: dict[int, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(id(trial.reference), []).append(trial)
    return list(groups.values())


def _every_way(group: list[Trial]) -> Iterable[tuple[str, str, Any]]:
    yield from variants_of(group[0].reference)
    if group[0].subject.parameters.has_dense():
        yield "outside-support", NEVER_MASKED, None


def _error_of(model: Any, group: list[Trial], dtype: np.dtype) -> float | None:
    """Largest relative difference between the model's numbers and the layer's; None if it is more than rounding."""
    worst = 0.0
    for trial in group:
        error = _never_masked(trial, dtype) if model is None else _difference(model, trial, dtype)
        if error is None:
            return None
        worst = max(worst, error)
    return worst


def _difference(model: Any, trial: Trial, dtype: np.dtype) -> float | None:
    try:
        predicted = reference_at(model, trial.point)
    except (ValueError, ArithmeticError):  # no such numbers at this point, a singular matrix for instance
        return None
    observed = dict(blocks(trial.observed))
    worst = 0.0
    for name, numbers in blocks(predicted):
        if name not in observed:
            continue
        error = _relative(observed[name], numbers, trial.scale(name))
        if not error <= trial.tolerance(name, dtype):
            return None
        worst = max(worst, error)
    for name, outside in trial.observed.outside.items():
        if _relative(outside, np.zeros_like(outside), trial.scale(name)) > trial.tolerance(name, dtype):
            return None
    return worst


def _relative(theirs: np.ndarray, predicted: np.ndarray, scale: float) -> float:
    if theirs.shape != predicted.shape:
        return np.inf
    scale = max(scale, float(np.abs(predicted[np.isfinite(predicted)]).max(initial=0)))
    with np.errstate(all="ignore"):
        error = float((np.abs(theirs - predicted) / scale).max(initial=0))
    return np.inf if np.isnan(error) else error


def _never_masked(trial: Trial, dtype: np.dtype) -> float | None:
    """All is right but the gradient outside the support, and that is the one of a recursion on the complete graph."""
    if any(row.status == "off" for row in trial.rows(dtype) if not row.name.endswith("outside the support")):
        return None
    full = _on_complete_graph(trial)
    worst = 0.0
    for theirs, outside in trial.observed.outside.items():
        ours, steps = trial.subject.parameters.pieces[theirs]
        if full is None or ours != "phi":
            return None
        predicted = _through(full, steps)
        if predicted is None:
            return None
        error = _relative(outside, predicted, trial.scale(theirs))
        if not error <= trial.tolerance("grad phi", dtype):
            return None
        worst = max(worst, error)
    return worst


def _through(full: np.ndarray, steps: Sequence[Any]) -> np.ndarray | None:
    """N x N matrices in the shape of their parameter; None where a function of theirs fits only the entries of ours."""
    N = full.shape[-1]
    array = full.reshape(*full.shape[:-2], N * N)  # as entries are, until "dense" makes matrices of them
    for step in steps:
        if isinstance(step, Moved):
            try:
                array = np.asarray(step.function(array))
            except Exception:
                return None
        elif not isinstance(step, str):
            array = array[step]
        else:
            array = array.swapaxes(-1, -2) if step == "T" else array.reshape(*array.shape[:-1], N, N)
    return array


def _on_complete_graph(trial: Trial) -> np.ndarray | None:
    """Gradient of phi as N x N matrices, with zeros where the filter has an entry; None for one without a recursion."""
    filt, point = trial.reference, trial.point
    terms = terms_of(filt) if isinstance(filt, Filter) and "phi" in filt.parameter_shapes() else []
    recursions = [term for term in terms if isinstance(term.core, EdgeVariant) and term.core.order]
    if len(recursions) != 1:
        return None
    term, N = recursions[0], filt.graph.n_nodes
    core: Any = term.core
    complete = EdgeVariant(Graph(np.ones((N, N))), **{**core.config(), "self_loops": True})
    params = dict(point.params if term.params is None else term.params.apply(point.params))
    dense = core.pattern.phi_to_dense(params["phi"])
    params["phi"] = np.ascontiguousarray(dense.reshape(*dense.shape[:-2], N * N))
    own = {name: params[name] for name in complete.parameter_shapes()}
    x = point.x if term.x is None else term.x.apply(point.x)
    grad = (reference_at(complete, Point(own, x, point.grad_y)).grads or {})["phi"].reshape(dense.shape)
    rows, columns = entries_of(filt)
    grad[..., rows, columns] = 0
    return grad
