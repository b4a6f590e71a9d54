"""The compiled twin of :mod:`evref.kernels.classifier_reference`: one call for the whole network, forward and back.

For graphs and batches of the size people train on, where a step takes less than a millisecond: of the same layers one
by one, as much as the work itself takes Python between them, signals that change their layout, and caches that change
hands. Large graphs, and rows too short for this, have layer by layer what they need.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..graph.pattern import Pattern
from . import classifier_loops, compiled, learning_compiled, loops, threads
from .classifier_reference import Five, Updated, composed, updated
from .layout import ALIGNMENT, aligned_empty, tile_width, workspace, workspaces
from .walk import walk_of

Array = np.ndarray


def loss_and_gradients(graph: Pattern, params: Five, x: Array, label: Array) -> tuple[float, Five]:
    """See :func:`evref.kernels.classifier_reference.loss_and_gradients`."""
    plan = _plan(graph, params, x)
    if plan is None:
        return composed(compiled, learning_compiled, graph, params, x, label)
    arrays = plan.as_arrays(params)
    first = plan.ranges, plan.ranges, plan.ranges, plan.ranges, plan.tiles
    grads = tuple(aligned_empty((n, *a.shape), x.dtype) for n, a in zip(first, arrays, strict=True))
    value = plan.call(graph, arrays, x, label, grads, NO_STEP, (plan.none, plan.none), plan.no_new)
    _, phi0, bias, _, offset = params
    g = [grad[0] for grad in grads]
    return value, (
        g[0], None if phi0 is None else g[1], None if bias is None else g[2], g[3], None if offset is None else g[4]
    )  # fmt: skip


def adam_step(
    graph: Pattern, params: Five, ms: Five, vs: Five, x: Array, label: Array,
    rate: float, beta1: float, beta2: float, epsilon: float, decay: float, step: int,
) -> tuple[float, Updated]:  # fmt: skip
    """See :func:`evref.kernels.classifier_reference.adam_step`."""
    plan = _plan(graph, params, x)
    if plan is None:
        value, slopes = composed(compiled, learning_compiled, graph, params, x, label)
        return value, updated(learning_compiled, params, slopes, ms, vs, rate, beta1, beta2, epsilon, decay, step)
    news = plan.new(ms, x.dtype)
    adam, moments = (rate, beta1, beta2, epsilon, decay, float(step)), (plan.as_arrays(ms), plan.as_arrays(vs))
    value = plan.call(graph, plan.as_arrays(params), x, label, plan.grads, adam, moments, news)
    return value, tuple([None if m is None else (new[0], new[1], new[2]) for m, new in zip(ms, news, strict=True)])


NO_STEP = (0.0,) * 6  # of Adam
_INT64, _BYTE = np.dtype(np.int64), np.dtype(np.uint8)


class Plan(NamedTuple):
    """What does not change from step to step."""

    kernel: Any
    n: int  # threads
    tiles: int
    ranges: int  # of tiles that have gradients of their own
    stretch: int
    work: tuple[Array, ...]  # tiles, states, hidden, logits, slopes, values
    scratch: Array
    grads: tuple[Array, ...]  # for who does not want to see them
    none: tuple[Array, ...]  # of the five: no such parameter
    no_new: tuple[Array, ...]
    new_places: tuple[tuple[tuple[int, ...], int], ...]  # of (param, m, v) of each in a block: shape, first byte
    new_bytes: int

    def as_arrays(self, five: Five) -> tuple[Array, ...]:
        """As the loops take them. Written out: this runs in every step, and a loop takes twice as long."""
        phi, phi0, bias, weight, offset = five
        _, no_phi0, no_bias, _, no_offset = self.none
        writable = compiled._writable
        return (
            writable(phi),
            no_phi0 if phi0 is None else writable(phi0),
            no_bias if bias is None else writable(bias),
            writable(weight),
            no_offset if offset is None else writable(offset),
        )

    def new(self, ms: Five, dtype: np.dtype) -> tuple[Array, ...]:
        """Places for (param, m, v) of what is learned, in one block: asking for memory takes longer than to cut it."""
        block = aligned_empty((self.new_bytes,), _BYTE)
        return tuple([
            none if m is None else np.ndarray(place[0], dtype, block, place[1])
            for m, none, place in zip(ms, self.no_new, self.new_places, strict=True)
        ])  # fmt: skip

    def call(
        self, graph: Pattern, params: Any, x: Array, label: Array, grads: Any, adam: Any, moments: Any, news: Any
    ) -> float:
        if label.shape != x.shape[:1]:  # the loops would read beyond its end
            raise ValueError(f"label has shape {label.shape}; expected {x.shape[:1]}, one for each signal")
        label = label if label.dtype == _INT64 else label.astype(_INT64)
        walk = walk_of(graph)
        threads.call(
            self.kernel, self.n, walk.by_rows + walk.by_columns, params, compiled._writable(x),
            compiled._writable(label), self.work, grads, adam, moments, news, self.stretch, self.scratch,
        )  # fmt: skip
        return self.work[-1].item(0)


def _plan(graph: Pattern, params: Five, x: Array) -> Plan | None:
    """How to go about it; None if layer by layer is better."""
    phi, phi0, bias, weight, offset = params
    key = (
        "classifier", phi.shape, x.shape, len(weight), phi0 is None, bias is None, offset is None, x.dtype,
        threads.n_threads(),
    )  # fmt: skip
    return workspaces(key, lambda: (_new_plan(graph, params, x),))[0]


def _new_plan(graph: Pattern, params: Five, x: Array) -> Plan | None:
    phi, phi0, _, weight, _ = params
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    C, dtype = len(weight), x.dtype
    alone = F * G == 1  # work for two threads only if each has tiles of its own
    width = tile_width(B, dtype)
    if width <= loops.NARROW or compiled._by_steps(K, nnz, width) or N * width * dtype.itemsize >= compiled.PAIR_BYTES:
        return None
    T = -(-B // width)
    ranges = T if alone else 1
    kept, stretch = compiled._n_kept(phi, phi0 is not None, T, N, width), compiled._stretch(K)
    own = 2 + (1 if kept else stretch + -(-K // stretch))  # states: cotangents, a place for what nobody reads
    n = compiled._useful_threads(3 * T * F * G * K * nnz * width)
    none = tuple(np.empty((0,) * axes, dtype) for axes in (4, 3, 1, 2, 1))
    shapes = [e.shape if p is None else p.shape for p, e in zip(params, none, strict=True)]
    kernels = classifier_loops.kernels_for(width)
    lines = [-(-3 * prod(shape) * dtype.itemsize // ALIGNMENT) for shape in shapes]
    starts = ALIGNMENT * np.cumsum([0, *lines])
    work = {
        "tiles": (T, G, N, width),
        "states": (T, F, G, kept, N, width),
        "hidden": (T, F, N, width),
        "logits": (T, F, C, width),
        "slopes": (T, C, width),
    }
    return Plan(
        kernels.lone_step if alone else kernels.step,
        n,
        T,
        ranges,
        stretch,
        (*(workspace(name, shape, dtype) for name, shape in work.items()), np.empty(T)),
        workspace("scratch", (n, own, N, width), dtype),
        tuple(np.empty(((T if i == 4 else ranges), *shape), dtype) for i, shape in enumerate(shapes)),
        none,
        tuple(np.empty((3, *e.shape), dtype) for e in none),
        tuple(((3, *shape), int(start)) for shape, start in zip(shapes, starts, strict=False)),
        int(starts[-1]),
    )
