"""The edge-variant filters of `peers.py` in the form that `family.py` iterates over."""

from __future__ import annotations

from typing import Any

import numpy as np
import peers


def _support(filt: Any) -> tuple[np.ndarray, np.ndarray]:
    """Entries of I + S, or those of S off the diagonal where the recursion has no self-loops."""
    target, source = np.nonzero(filt.graph.S.toarray())
    rows, columns = peers.support(filt.graph.n_nodes, source, target)
    kept = np.ones(len(rows), bool) if getattr(filt, "self_loops", True) else rows != columns
    return rows[kept], columns[kept]


def torch_parallel(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """A sum of P recursions hears its input P times."""
    import torch

    copies = torch.cat([x] * getattr(filt, "terms", 1), dim=1)
    return peers.torch_edge_variant(*_support(filt), params, copies, filt.zeroth)


def jax_parallel(filt: Any, params: dict[str, Any], x: Any) -> Any:
    import jax.numpy as jnp

    copies = jnp.concatenate([x] * getattr(filt, "terms", 1), axis=1)
    return peers.jax_edge_variant(*_support(filt), params, copies, filt.zeroth)


TORCH = {"edge_variant": torch_parallel, "parallel_edge_variant": torch_parallel}
JAX = {"edge_variant": jax_parallel, "parallel_edge_variant": jax_parallel}
