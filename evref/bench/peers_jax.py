"""The same work in JAX; forward and backward pass compiled as one, before the clock starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .cases import Contender, Problem
from .peers_evref import named

CHECKED = True
NAMES = dict.fromkeys(("edge-variant", "polynomial", "node-variant"), ("JAX segment_sum", "JAX BCOO"))

Forward = Callable[[Any, Any, Any], Any]  # (structure, phi, x) -> y


def prepare(threads: int) -> None:
    """XLA counts the cores it may use when it starts: show it as many as it is to have, then lift the restriction."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if not hasattr(os, "sched_setaffinity"):
        jax.devices()
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cores)[:threads]))
    jax.devices()
    jax.numpy.ones(8).sum().block_until_ready()
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), cores)


def contender(name: str, p: Problem) -> Contender:
    import jax
    import jax.numpy as jnp

    form = edge_variant if p.case.kind == "edge-variant" else shifting
    forward, structure = form(p, bcoo=name == "JAX BCOO")

    @jax.jit
    def both(structure: Any, phi: Any, x: Any, grad_y: Any) -> Any:
        y, pull_back = jax.vjp(partial(forward, structure), phi, x)
        return (y, *pull_back(grad_y))

    # The graph is an argument: as a constant, XLA would spend minutes folding that of the huge case.
    arrays = [jax.tree.map(jnp.asarray, structure), *(jnp.asarray(p[name]) for name in ("phi", "x", "grad_y"))]

    def run() -> Any:
        return jax.block_until_ready(both(*arrays))

    return Contender(run, named(run))


def edge_variant(p: Problem, bcoo: bool) -> tuple[Forward, Any]:
    import jax
    import jax.numpy as jnp
    from jax.experimental.sparse import BCOO

    N, F, G, B = p.case.N, p.case.F, p.case.G, p.case.B

    def one_product(places: Any, phi: Any, w: Any) -> Any:
        """phi (nnz,), w (N, B)"""
        return BCOO((phi, places), shape=(N, N), indices_sorted=True, unique_indices=True) @ w

    def by_products(places: Any, phi: Any, x: Any) -> Any:
        product = partial(one_product, places)
        product = jax.vmap(jax.vmap(product)) if F * G > 1 else product
        w = jnp.transpose(x, (1, 2, 0))  # (G, N, B)
        w = jnp.broadcast_to(w, (F, G, N, B)) if F * G > 1 else w[0]
        total: Any = 0.0
        for phi_k in phi:
            w = product(phi_k if F * G > 1 else phi_k[0, 0], w)
            total = total + w
        return jnp.transpose(total.sum(1) if F * G > 1 else total[None], (2, 0, 1))

    def by_segments(places: Any, phi: Any, x: Any) -> Any:
        target, source = places
        w = jnp.broadcast_to(jnp.transpose(x, (2, 1, 0))[:, None], (N, F, G, B))
        total: Any = 0.0
        for phi_k in phi:
            messages = jnp.transpose(phi_k, (2, 0, 1))[..., None] * w[source]
            w = jax.ops.segment_sum(messages, target, num_segments=N, indices_are_sorted=True)
            total = total + w
        return jnp.transpose(total.sum(2), (2, 1, 0))

    places = (p.rows.astype(np.int32), p.indices.astype(np.int32))
    return (by_products, np.stack(places, 1)) if bcoo else (by_segments, places)


def shifting(p: Problem, bcoo: bool) -> tuple[Forward, Any]:
    """States (N, B G), shifted all at once; (N B, G) is the same memory, mixed by matrix products."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.sparse import BCOO

    N, B, F, G, K = p.case.N, p.case.B, p.case.F, p.case.G, p.case.K
    S = p.S.astype(p.dtype).tocoo()
    row, col = S.row.astype(np.int32), S.col.astype(np.int32)
    copied = np.asarray(p["copied"]) if p.case.kind == "node-variant" else None
    shape = (N * B, G) if copied is None else (N, B, G)

    def shift(structure: Any, z: Any) -> Any:
        weight, places = structure
        if bcoo:
            return BCOO((weight, places), shape=(N, N), indices_sorted=True, unique_indices=True) @ z
        target, source = places
        messages = weight[:, None] * z[source]
        return jax.ops.segment_sum(messages, target, num_segments=N, indices_are_sorted=True)

    def forward(structure: Any, phi: Any, x: Any) -> Any:
        c = jnp.swapaxes(phi, 1, 2) if copied is None else jnp.transpose(phi[..., copied], (0, 3, 2, 1))
        z = jnp.transpose(x, (2, 0, 1)).reshape(N, B * G)
        y = z.reshape(shape) @ c[0]
        for k in range(1, K + 1):
            z = shift(structure, z)
            y = y + z.reshape(shape) @ c[k]
        return jnp.transpose(y.reshape(N, B, F), (1, 2, 0))

    places = np.stack([row, col], 1) if bcoo else (row, col)
    return forward, (S.data, places)
