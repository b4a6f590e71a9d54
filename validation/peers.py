"""Edge-variant filters and layers written a second time, from the equations alone, for torch and JAX to differentiate.

Nothing here uses evref. The edge list, the recursion and the sum are written out afresh, gradients come from automatic
differentiation, and three different forms are there on purpose: node by node with gather and index_add (torch), with
segment_sum (JAX), and as a sum of products of dense matrices (torch).

    x, y      (batch, features, nodes)
    phi       (K, F, G, nnz), entry p at (rows[p], columns[p])
    phi0      (F, G, nodes)
    bias      (F,)

torch and JAX are imported when a function needs them, so that either may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Results = dict[str, Array]


def support(n_nodes: int, source: Sequence[int], target: Sequence[int]) -> tuple[Array, Array]:
    """Rows and columns of the entries of I + S, row by row: an edge source -> target sits at S[target, source]."""
    own = {(i, i) for i in range(n_nodes)}
    entries = sorted(own | {(int(t), int(s)) for s, t in zip(source, target, strict=True)})
    rows, columns = np.array(entries, dtype=np.int64).T
    return rows, columns


# ---- torch -----------------------------------------------------------------------------------------------------------
def torch_edge_variant(rows: Array, columns: Array, params: Mapping[str, Any], x: Any, zeroth: str) -> Any:
    """y_fi = sum_g sum_k w_i^(k), w_i^(k) = sum_j phi_ij^(k) w_j^(k-1): messages along edges, added at their target."""
    import torch

    target, source = torch.as_tensor(rows), torch.as_tensor(columns)
    phi = params["phi"]
    w = x[:, None].expand(-1, phi.shape[1], -1, -1)  # (batch, F, G, nodes)
    if zeroth == "diagonal":
        w = params["phi0"] * w
    total = torch.zeros_like(w) if zeroth == "none" else w
    for phi_k in phi:
        messages = phi_k * w.index_select(-1, source)  # (batch, F, G, nnz)
        w = torch.zeros_like(w).index_add(-1, target, messages)
        total = total + w
    y = total.sum(2)
    return y + params["bias"][:, None] if "bias" in params else y


def torch_dense_edge_variant(rows: Array, columns: Array, params: Mapping[str, Any], x: Any, zeroth: str) -> Any:
    """y_f = sum_g H_fg x_g with H = sum_k Phi^(k) ... Phi^(0), every matrix dense."""
    import torch

    K, F, G, _ = params["phi"].shape
    N = x.shape[-1]
    place = torch.as_tensor(rows * N + columns)
    Phi = torch.zeros(K, F, G, N * N, dtype=x.dtype).index_add(-1, place, params["phi"]).reshape(K, F, G, N, N)
    if zeroth == "diagonal":
        product = torch.diag_embed(params["phi0"])
    else:
        product = torch.eye(N, dtype=x.dtype).expand(F, G, N, N)
    H = torch.zeros_like(product) if zeroth == "none" else product
    for Phi_k in Phi:
        product = Phi_k @ product
        H = H + product
    y = torch.einsum("fgij,bgj->bfi", H, x)
    return y + params["bias"][:, None] if "bias" in params else y


def torch_neighborhood(neighborhoods: Sequence[Sequence[Sequence[int]]], weight: Any, x: Any, kind: str) -> Any:
    """weight_0 x_i + sum_k weight_k pick over the nodes within k hops of i, which neighborhoods[k - 1][i] lists."""
    import torch

    y = weight[0] * x
    for k, lists in enumerate(neighborhoods, start=1):
        picks = []
        for members in lists:
            values = x[..., torch.as_tensor(list(members))]
            if kind == "max":
                picks.append(values.max(dim=-1).values)
            else:
                ordered = values.sort(dim=-1).values
                n = len(members)
                picks.append((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2)
        y = y + weight[k] * torch.stack(picks, dim=-1)
    return y


def torch_gradients(
    function: Callable[[dict[str, Any], Any], Any], params: Mapping[str, Array], x: Array, grad_y: Array | float
) -> Results:
    """y, grad_x and grad_<name> of every parameter: the vector-Jacobian product of function(params, x) by autograd."""
    import torch

    torch.set_num_threads(1)  # nearly every array here is small
    leaves = {name: torch.tensor(p, requires_grad=True) for name, p in params.items()}
    leaf_x = torch.tensor(x, requires_grad=True)
    y = function(leaves, leaf_x)
    grads = torch.autograd.grad(
        y, [leaf_x, *leaves.values()], torch.as_tensor(grad_y, dtype=y.dtype), materialize_grads=True, allow_unused=True
    )
    names = ["grad_x", *(f"grad_{name}" for name in leaves)]
    return {"y": y.detach().numpy(), **{name: g.numpy() for name, g in zip(names, grads, strict=True)}}


def torch_tangent(
    function: Callable[[dict[str, Any], Any], Any],
    params: Mapping[str, Array],
    x: Array,
    dparams: Mapping[str, Array],
    dx: Array,
) -> Array:
    """dy along (dparams, dx), by torch.autograd.functional.jvp."""
    import torch

    point = tuple(torch.tensor(value) for value in (x, *params.values()))
    direction = tuple(torch.tensor(value) for value in (dx, *(dparams[name] for name in params)))

    def of_tensors(signal: Any, *values: Any) -> Any:
        return function(dict(zip(params, values, strict=True)), signal)

    return torch.autograd.functional.jvp(of_tensors, point, direction)[1].numpy()


# ---- JAX -------------------------------------------------------------------------------------------------------------
def jax_edge_variant(rows: Array, columns: Array, params: Mapping[str, Any], x: Any, zeroth: str) -> Any:
    """The same recursion with nodes first, (nodes, F, G, batch), and jax.ops.segment_sum over the rows."""
    import jax
    import jax.numpy as jnp

    K, F, G, _ = params["phi"].shape
    N = x.shape[-1]
    w = jnp.broadcast_to(jnp.transpose(x, (2, 1, 0))[:, None], (N, F, G, x.shape[0]))
    if zeroth == "diagonal":
        w = jnp.transpose(params["phi0"], (2, 0, 1))[..., None] * w
    total = jnp.zeros_like(w) if zeroth == "none" else w
    for k in np.arange(K):  # a NumPy integer indexes dynamically: JAX compiles once for all k
        phi_k = jnp.transpose(jax.lax.dynamic_index_in_dim(params["phi"], k, keepdims=False), (2, 0, 1))
        messages = phi_k[..., None] * w.at[columns].get(mode="promise_in_bounds")  # (nnz, F, G, batch)
        w = jax.ops.segment_sum(messages, rows, num_segments=N, mode="promise_in_bounds")
        total = total + w
    y = jnp.transpose(total.sum(2), (2, 1, 0))
    return y + params["bias"][:, None] if "bias" in params else y


def jax_neighborhood(neighborhoods: Sequence[Sequence[Sequence[int]]], weight: Any, x: Any, kind: str) -> Any:
    """As `torch_neighborhood`, by ranks: how many values each one exceeds; of equal ones the first is the least."""
    import jax.numpy as jnp

    y = weight[0] * x
    for k, lists in enumerate(neighborhoods, start=1):
        sizes = np.array([len(members) for members in lists])
        there = np.arange(sizes.max()) < sizes[:, None]  # rows of different lengths, filled up
        members = np.zeros(there.shape, int)
        members[there] = np.concatenate(lists)
        values = x[..., members]  # (..., nodes, members)
        one, other = values[..., :, None], values[..., None, :]
        first = np.tri(there.shape[1], k=-1, dtype=bool)  # [i, j]: j comes before i
        rank = (((one > other) | ((one == other) & first)) & there[:, None, :]).sum(-1)
        places = (sizes - 1, sizes - 1) if kind == "max" else ((sizes - 1) // 2, sizes // 2)
        picks = [jnp.where((rank == place[:, None]) & there, values, 0).sum(-1) for place in places]
        y = y + weight[k] * (picks[0] + picks[1]) / 2
    return y


def enable_jax_float64() -> None:
    """JAX computes in float32 unless told; must come before its first array."""
    import jax

    jax.config.update("jax_enable_x64", True)


def jax_gradients(
    function: Callable[..., Any], params: Mapping[str, Array], x: Array, grad_y: Array, *others: Array
) -> Results:
    """As `torch_gradients` of function(params, x, *others) by params and x, by jax.vjp.

    All arrays have a leading axis: the draws, which are computed together.
    """
    return _jax_draws(_jax_pullback(function), dict(params), x, grad_y, *others)


def jax_terms(
    function: Callable[..., Any], params: Mapping[str, Array], x: Array, grad_y: Array, *others: Array
) -> tuple[Results, Results]:
    """As `jax_gradients`, and Σ|terms| of each result."""
    import terms

    return _jax_draws(terms.with_terms(_jax_pullback(function)), dict(params), x, grad_y, *others)


def jax_tangent(
    function: Callable[[dict[str, Any], Any], Any],
    params: Mapping[str, Array],
    x: Array,
    dparams: Mapping[str, Array],
    dx: Array,
) -> Array:
    """dy along (dparams, dx), by jax.jvp; leading axes as in `jax_gradients`."""
    import jax

    def tangent(params: Any, x: Any, dparams: Any, dx: Any) -> Any:
        return jax.jvp(function, (params, x), (dparams, dx))[1]

    return _jax_draws(tangent, dict(params), x, dict(dparams), dx)


def _jax_pullback(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    import jax

    def gradients(params: dict[str, Any], x: Any, grad_y: Any, *others: Any) -> dict[str, Any]:
        y, pull_back = jax.vjp(lambda p, signal: function(p, signal, *others), params, x)
        grads, grad_x = pull_back(grad_y)
        return {"y": y, "grad_x": grad_x, **{f"grad_{name}": g for name, g in grads.items()}}

    return gradients


def _jax_draws(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function` at every entry of the leading axes, as NumPy arrays.

    Without jit: single operations are compiled once for every shape and serve all functions, which is less work.
    """
    import jax

    return jax.tree.map(np.asarray, jax.vmap(function)(*arguments))
