"""What can be seen in wrong numbers when no known mistake explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .comparison import DIFFERENCES
from .trials import Trial, blocks

ALIKE = 1e-6  # relative: a ratio is constant, a slice is zero


def patterns(trial: Trial, every: Sequence[Trial] = ()) -> list[str]:
    """Sentences about the differences of one failing trial; `every` are all, right ones too.

    What a factor is equal to must hold in all of them: a factor of 3 is the batch size only if it is 1 for one sample.
    """
    alike = [other for other in every if other.reference is trial.reference] or [trial]
    off = [row.name for row in trial.rows() if row.status == "off"]
    theirs, ours = dict(blocks(trial.observed)), dict(blocks(trial.expected))
    found = list(_which(off, trial))
    for name in off:
        if name in theirs and name in ours:
            found += [f"{name}: {text}" for text in _of_block(name, theirs[name], ours[name], alike)]
    return found


def _which(off: list[str], trial: Trial) -> Iterator[str]:
    gradients = [name for name in off if name.startswith("grad")]
    if "output" not in off and gradients:
        if DIFFERENCES in off:
            yield "the output is right, and the gradients do not belong to it"
        if gradients == ["grad x"]:
            yield "right for the parameters, wrong for x"
        elif "grad x" not in gradients:
            yield f"right for x, wrong for {', '.join(name.removeprefix('grad ') for name in gradients)}"
    elif DIFFERENCES in off:
        yield "the gradients do not belong to the layer's own output"
    elif "output" in off and gradients:
        yield "the gradients belong to the layer's own output: it computes another function, consistently"


def _of_block(name: str, theirs: np.ndarray, ours: np.ndarray, every: Sequence[Trial]) -> Iterator[str]:
    if not np.isfinite(theirs).all():
        yield f"{int((~np.isfinite(theirs)).sum())} of {theirs.size} numbers are not finite"
        return
    if not theirs.any():
        yield "all zero"
        return
    factor = _factor(theirs, ours)
    if factor is not None:
        if abs(factor - 1) > ALIKE:
            yield f"a constant factor, {factor:.6g}{_equal_to(name, every)}"
        return
    yield from _slices(theirs, ours)
    for a in range(ours.ndim):
        for b in range(a + 1, ours.ndim):
            swapped = ours.swapaxes(a, b)
            if swapped.shape == theirs.shape and _same(theirs, swapped):
                yield f"axes {a} and {b} are exchanged"


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0) <= ALIKE * max(np.abs(b).max(initial=0), 1e-300))


def _slices(theirs: np.ndarray, ours: np.ndarray) -> Iterator[str]:
    """Along the first axis: samples, or steps and powers."""
    n = len(ours)
    if n < 2:
        return
    scale = np.abs(ours).max()
    flat, right = theirs.reshape(n, -1), ours.reshape(n, -1)
    zero = [i for i in range(n) if not flat[i].any() and right[i].any()]
    good = [i for i in range(n) if np.abs(flat[i] - right[i]).max(initial=0) <= ALIKE * scale]
    if zero:
        tail = zero == list(range(zero[0], n))
        yield f"zero from index {zero[0]} of the first axis on" if tail else f"zero at {zero} of the first axis"
    if good and len(good) < n:
        yield f"right at {good} of the first axis, wrong elsewhere"


def _factor(theirs: np.ndarray, ours: np.ndarray) -> float | None:
    """c, if theirs = c ours."""
    factor = float(np.vdot(theirs, ours)) / (float(np.vdot(ours, ours)) or 1.0)
    return factor if np.abs(theirs - factor * ours).max(initial=0) <= ALIKE * np.abs(theirs).max(initial=0) else None


def _equal_to(block: str, every: Sequence[Trial]) -> str:
    """The sizes that the factor of a block, or its inverse, is equal to in every trial."""
    left: set[str] | None = None
    for trial in every:
        theirs, ours = dict(blocks(trial.observed)), dict(blocks(trial.expected))
        factor = _factor(theirs[block], ours[block]) if ours[block].any() else None
        found = set()
        if factor is not None:
            found = {what for what, size in _sizes(trial) if abs(factor - size) < ALIKE * abs(size)}
        left = found if left is None else left & found
    names = [what for what, _ in _sizes(every[0]) if what in (left or ())]
    return f", equal to {' and '.join(names)} here" if names else ""


def _sizes(trial: Trial) -> Iterator[tuple[str, float]]:
    """What a factor may have been meant to be, and its value."""
    graph = trial.reference.graph
    counts = {"batch size": len(trial.point.x), "outputs of a sample": trial.expected.y[0].size}
    if graph is not None:
        counts |= {"nodes": graph.n_nodes, "edges": graph.n_edges}
        counts |= {"entries of I + S": graph.nnz}
    for name in ("in_features", "out_features", "order"):
        value = getattr(trial.reference, name, None)
        if isinstance(value, int):
            counts[name] = value
    for what, count in counts.items():
        if count:
            yield what, count
            yield f"-{what}", -count
            yield f"1/{what}", 1 / count
            yield f"-1/{what}", -1 / count
