"""Node-variant, hybrid and critical-edge filters from their equations, for torch and JAX to differentiate.

Nothing here uses evref; a filter is read for its graph's S, its order, its nodes or edges and its reading. Who copies
whom (C_B), which entries are chosen and every product are worked out again: C_B from all distances (Floyd and
Warshall), the entries as a dense mask, every Phi as a dense matrix in torch and, in JAX, applied to the signal step by
step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def _support(filt: Any) -> Array:
    S = filt.graph.S.toarray()
    return (S != 0) | np.eye(len(S), dtype=bool)


def _copies(filt: Any) -> Array:
    """C_B, (N, |B|): as given, or one 1 per row, at the first of the nearest privileged nodes, by hops to the row."""
    if filt.mapping is not None:
        return np.array(filt.mapping, dtype=np.float64)
    hops = np.where(_support(filt), 1.0, np.inf)  # hops[i, j]: from j to i
    np.fill_diagonal(hops, 0)
    N = len(hops)
    for m in range(N):
        hops = np.minimum(hops, hops[:, m : m + 1] + hops[m])
    nodes = list(filt.nodes)
    C = np.zeros((N, len(nodes)))
    for i in range(N):
        distances = [hops[i, b] for b in nodes]
        C[i, distances.index(min(distances))] = 1  # all infinite: the first
    return C


def _mask(filt: Any) -> tuple[Array, Array]:
    """Rows and columns of the entries with parameters, row by row."""
    support = _support(filt)
    mask = np.zeros_like(support)
    if hasattr(filt, "reading"):
        mask[filt.nodes] = True
        if filt.reading == "authors_code":
            mask[:, filt.nodes] = True
    else:
        rows, columns = np.nonzero(support)
        for p in filt.edges:
            mask[rows[p], columns[p]] = mask[rows[p], rows[p]] = mask[columns[p], columns[p]] = True
    rows, columns = np.nonzero(mask & support)
    return rows, columns


# ---- torch: dense matrices H, then one product with the signal -------------------------------------------------------
def torch_node_variant(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """H = sum_k diag(C phi^(k)) S^k."""
    import torch

    S, C = torch.tensor(filt.graph.S.toarray(), dtype=x.dtype), torch.tensor(_copies(filt), dtype=x.dtype)
    H = sum(
        (params["phi"][k] @ C.T)[..., None] * torch.linalg.matrix_power(S, k) for k in range(filt.order + 1)
    )  # (F, G, N, N)
    return _torch_output(H, params, x)


def torch_hybrid(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """H = [Phi0] + sum_k Phi^(k) ... Phi^(1) [Phi0] + sum_k phi_k S^k."""
    import torch

    N = x.shape[-1]
    S = torch.tensor(filt.graph.S.toarray(), dtype=x.dtype)
    H = sum(params["poly"][k][..., None, None] * torch.linalg.matrix_power(S, k) for k in range(filt.order + 1))
    product = torch.eye(N, dtype=x.dtype)
    if "phi0" in params:
        place = torch.zeros(N, len(filt.nodes), dtype=x.dtype)
        place[list(filt.nodes), range(len(filt.nodes))] = 1
        diagonal = torch.diag_embed(params["phi0"] @ place.T)
        H = H + diagonal
        product = product if filt.reading == "text" else diagonal
    rows, columns = (torch.as_tensor(index) for index in _mask(filt))
    for phi in params["phi"]:
        Phi = torch.zeros(*phi.shape[:-1], N * N, dtype=x.dtype).index_add(-1, rows * N + columns, phi)
        product = Phi.reshape(*phi.shape[:-1], N, N) @ product
        H = H + product
    return _torch_output(H, params, x)


def _torch_output(H: Any, params: dict[str, Any], x: Any) -> Any:
    import torch

    y = torch.einsum("fgij,bgj->bfi", H, x)
    return y + params["bias"][:, None] if "bias" in params else y


# ---- JAX: node by node, states and messages --------------------------------------------------------------------------
def _jax_shifts(filt: Any, x: Any) -> Any:
    """S^k x for k = 0..K."""
    import jax.numpy as jnp

    S = jnp.asarray(filt.graph.S.toarray())
    z = [x]
    for _ in range(filt.order):
        z.append(jnp.einsum("ij,bgj->bgi", S, z[-1]))
    return jnp.stack(z)  # (K + 1, batch, G, N)


def jax_node_variant(filt: Any, params: dict[str, Any], x: Any) -> Any:
    import jax.numpy as jnp

    c = sum(params["phi"][..., b : b + 1] * column for b, column in enumerate(_copies(filt).T))  # (K + 1, F, G, N)
    y = jnp.einsum("kfgn,kbgn->bfn", c, _jax_shifts(filt, x))
    return y + params["bias"][:, None] if "bias" in params else y


def jax_hybrid(filt: Any, params: dict[str, Any], x: Any) -> Any:
    import jax.numpy as jnp

    y = jnp.einsum("kfg,kbgn->bfn", params["poly"], _jax_shifts(filt, x))
    K, F, G, _ = params["phi"].shape
    w = jnp.broadcast_to(x[:, None], (x.shape[0], F, G, x.shape[-1]))
    if "phi0" in params:
        at_B = jnp.zeros_like(w).at[..., np.asarray(filt.nodes)].set(params["phi0"] * w[..., np.asarray(filt.nodes)])
        y = y + at_B.sum(axis=2)
        w = w if filt.reading == "text" else at_B
    rows, columns = _mask(filt)
    for k in range(K):
        w = jnp.zeros_like(w).at[..., rows].add(params["phi"][k] * w[..., columns])
        y = y + w.sum(axis=2)
    return y + params["bias"][:, None] if "bias" in params else y


TORCH = {"node_variant": torch_node_variant, "hybrid_edge_variant": torch_hybrid, "critical_edge": torch_hybrid}
JAX = {"node_variant": jax_node_variant, "hybrid_edge_variant": jax_hybrid, "critical_edge": jax_hybrid}
