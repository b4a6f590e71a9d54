"""Polynomial filters written a second time, from their publications, for torch and JAX to differentiate.

Nothing here uses evref: `filt` is read for plain settings and for its graph as a dense matrix. On purpose the forms
differ from evref's: powers of dense matrices and the Chebyshev recursion on matrices (torch), Horner on signals and the
Chebyshev recursion on signals (JAX).

    TORCH, JAX    catalogue name -> function(filt, params, x) -> y
    PYG           catalogue name -> function(filt, params, x, grad_y) -> {y, grad_x, grad_<name>}, NumPy in and out

torch, JAX and PyTorch Geometric are imported when a function needs them, so that any may be absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray
Results = dict[str, Array]


def _dense(filt: Any) -> Array:
    return np.asarray(filt.graph.S.todense(), dtype=np.float64)


def _mask(filt: Any, nodes: Any) -> Array:
    mask = np.zeros(filt.graph.n_nodes)
    mask[np.asarray(nodes)] = 1.0
    return mask


# ---- torch: H(S) as a dense matrix -----------------------------------------------------------------------------------
def _torch_apply(H: Any, params: Mapping[str, Any], x: Any) -> Any:
    import torch

    y = torch.einsum("fgij,bgj->bfi", H, x)
    return y + params["bias"][:, None] if "bias" in params else y


def _torch_powers(filt: Any, like: Any) -> Any:
    import torch

    S = torch.as_tensor(_dense(filt), dtype=like.dtype)
    powers = [torch.eye(S.shape[0], dtype=like.dtype)]
    for _ in range(filt.order):
        powers.append(powers[-1] @ S)
    return torch.stack(powers)


def torch_polynomial(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """H_fg = sum_k phi[k, f, g] S^k (eq. (polFilt, 10)); TAGCN (Du et al. 2017) is the same sum on its own S."""
    import torch

    return _torch_apply(torch.einsum("kfg,kij->fgij", params["phi"], _torch_powers(filt, x)), params, x)


def torch_chebyshev(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """H_fg = sum_k theta[k, f, g] T_k(S), T_k = 2 S T_(k-1) - T_(k-2) (Defferrard et al. 2016, eq. 4)."""
    import torch

    S = torch.as_tensor(_dense(filt), dtype=x.dtype)
    T = [torch.eye(S.shape[0], dtype=x.dtype), S]
    for _ in range(2, filt.order + 1):
        T.append(2 * S @ T[-1] - T[-2])
    return _torch_apply(torch.einsum("kfg,kij->fgij", params["theta"], torch.stack(T[: filt.order + 1])), params, x)


def torch_gcn(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """Z = S X Theta (Kipf & Welling 2017, eq. 8), Theta = theta^T."""
    import torch

    S = torch.as_tensor(_dense(filt), dtype=x.dtype)
    Z = S @ x.transpose(1, 2) @ params["theta"].T  # (batch, nodes, F)
    y = Z.transpose(1, 2)
    return y + params["bias"][:, None] if "bias" in params else y


def torch_dcnn(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """Z_(i, h, g) = W_hg sum_j P*_(i, h, j) X_jg (Atwood & Towsley 2016, eq. 1); hop and feature as one axis."""
    import torch

    P = _torch_powers(filt, x)  # (hops, nodes, nodes)
    Z = params["weight"][None, :, :, None] * torch.einsum("hij,bgj->bhgi", P, x)
    y = Z.reshape(x.shape[0], -1, x.shape[-1])
    return y + params["bias"][:, None] if "bias" in params else y


def torch_selection(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """C_out^T C_out H(S) C_in^T C_in x (Gama et al. 2018): with the selection matrices, not with masks."""
    import torch

    C_in, C_out = (torch.eye(x.shape[-1], dtype=x.dtype)[np.asarray(n)] for n in (filt.nodes_in, filt.nodes_out))
    H = torch.einsum("kfg,kij->fgij", params["phi"], _torch_powers(filt, x))
    small = C_out @ H @ C_in.T  # (F, G, N_out, N_in): what the original applies to N_in values
    y = torch.einsum("oi,fgon,nj,bgj->bfi", C_out, small, C_in, x)
    return y + params["bias"][:, None] if "bias" in params else y


TORCH = {
    "polynomial": torch_polynomial,
    "tagcn": torch_polynomial,
    "chebyshev": torch_chebyshev,
    "gcn": torch_gcn,
    "dcnn": torch_dcnn,
    "selection_gcnn": torch_selection,
}


# ---- JAX: recursions on signals --------------------------------------------------------------------------------------
def _jax_bias(params: Mapping[str, Any], y: Any) -> Any:
    return y + params["bias"][:, None] if "bias" in params else y


def _jax_mixed(weights: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.einsum("fg,bgi->bfi", weights, x)


def jax_polynomial(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """Horner: y = phi_0 x + S (phi_1 x + S (phi_2 x + ...)), features mixed before they are shifted."""
    import jax.numpy as jnp

    S, phi = jnp.asarray(_dense(filt)), params["phi"]
    y = _jax_mixed(phi[filt.order], x)
    for k in range(filt.order - 1, -1, -1):
        y = _jax_mixed(phi[k], x) + y @ S.T
    return _jax_bias(params, y)


def jax_chebyshev(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """The recursion on signals, xbar_k = 2 S xbar_(k-1) - xbar_(k-2)."""
    import jax.numpy as jnp

    S, theta = jnp.asarray(_dense(filt)), params["theta"]
    before, now = x, x @ S.T
    y = _jax_mixed(theta[0], before)
    for k in range(1, filt.order + 1):
        y = y + _jax_mixed(theta[k], now)
        before, now = now, 2 * now @ S.T - before
    return _jax_bias(params, y)


def jax_gcn(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    import jax.numpy as jnp

    return _jax_bias(params, _jax_mixed(params["theta"], x) @ jnp.asarray(_dense(filt)).T)


def jax_dcnn(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    import jax.numpy as jnp

    P = jnp.asarray(_dense(filt))
    hops = []
    for h in range(filt.order + 1):
        hops.append(params["weight"][h][:, None] * x)
        x = x @ P.T
    return _jax_bias(params, jnp.concatenate(hops, axis=1))


def jax_selection(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    plain = {"phi": params["phi"]}
    y = jax_polynomial(filt, plain, x * _mask(filt, filt.nodes_in)) * _mask(filt, filt.nodes_out)
    return _jax_bias(params, y)


JAX = {
    "polynomial": jax_polynomial,
    "tagcn": jax_polynomial,
    "chebyshev": jax_chebyshev,
    "gcn": jax_gcn,
    "dcnn": jax_dcnn,
    "selection_gcnn": jax_selection,
}


# ---- PyTorch Geometric -----------------------------------------------------------------------------------------------
def _pyg_edges(W: Array) -> tuple[Any, Any]:
    """edge_index and edge_weight of weights W[target, source]."""
    import torch

    target, source = np.nonzero(W)
    return torch.as_tensor(np.stack([source, target])), torch.as_tensor(W[target, source])


def _pyg_run(layer: Any, call: Any, x: Array, grad_y: Array, keys: Mapping[str, str]) -> Results:
    """y, grad_x and grad_<key> by autograd; `keys` names the layer's parameters. PyG has (batch, nodes, features)."""
    import torch

    leaf = torch.tensor(np.swapaxes(x, 1, 2), requires_grad=True)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    y = call(layer, leaf)
    *grads, grad_x = torch.autograd.grad(y, [*parameters, leaf], torch.as_tensor(np.swapaxes(grad_y, 1, 2).copy()))
    results = {"y": np.swapaxes(y.detach().numpy(), 1, 2), "grad_x": np.swapaxes(grad_x.numpy(), 1, 2)}
    return {**results, **{keys[name]: grad.numpy() for name, grad in zip(names, grads, strict=True)}}


def _pyg_copy(layer: Any, values: Mapping[str, Array]) -> None:
    import torch

    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(torch.as_tensor(values[name]))


def _pyg_taps(layer: Any, call: Any, params: Mapping[str, Array], key: str, x: Array, grad_y: Array) -> Results:
    """A layer with one `lins[k].weight` (F, G) per coefficient k, as params[key][k]."""
    taps = len(params[key])
    values = {f"lins.{k}.weight": params[key][k] for k in range(taps)}
    _pyg_copy(layer, {**values, "bias": params.get("bias")})
    names = {name: name for name in values}
    results = _pyg_run(layer, call, x, grad_y, {**names, "bias": "grad_bias"})
    results[f"grad_{key}"] = np.stack([results.pop(name) for name in names])
    return results


def pyg_gcn(filt: Any, params: Mapping[str, Array], x: Array, grad_y: Array, weights: Array | None = None) -> Results:
    """`GCNConv`. Its conventions, and what is done about them:

    - it adds self-loops (weight 1, where a node has none) and normalises by itself. With `weights`, the raw ones, it
      may, and filt must be ``GCN.on(raw graph)``; without, the shift of filt is passed with normalize=False;
    - lin.weight is (F, G), as theta;
    - an edge index is (source, target), and S[i, j] weighs j -> i.
    """
    from torch_geometric.nn import GCNConv

    layer = GCNConv(filt.in_features, filt.out_features, bias=filt.bias, normalize=weights is not None).double()
    _pyg_copy(layer, {"lin.weight": params["theta"], "bias": params.get("bias")})
    index, weight = _pyg_edges(_dense(filt) if weights is None else weights)
    keys = {"lin.weight": "grad_theta", "bias": "grad_bias"}
    return _pyg_run(layer, lambda conv, signal: conv(signal, index, weight), x, grad_y, keys)


def pyg_tagcn(filt: Any, params: Mapping[str, Array], x: Array, grad_y: Array, weights: Array | None = None) -> Results:
    """`TAGConv`. Its conventions, and what is done about them:

    - K is our order, the coefficients are K + 1;
    - normalize=True is D^(-1/2) A D^(-1/2), no self-loops added, D the sums over incoming edges. With `weights`, the
      raw ones, it may, and filt must be ``TAGCN.on(raw graph)``; without, the shift of filt is passed as it is.
    """
    from torch_geometric.nn import TAGConv

    normalize = weights is not None
    layer = TAGConv(filt.in_features, filt.out_features, K=filt.order, bias=filt.bias, normalize=normalize).double()
    index, weight = _pyg_edges(_dense(filt) if weights is None else weights)
    return _pyg_taps(layer, lambda conv, signal: conv(signal, index, weight), params, "phi", x, grad_y)


def pyg_chebyshev(
    filt: Any,
    params: Mapping[str, Array],
    x: Array,
    grad_y: Array,
    weights: Array | None = None,
    lambda_max: float | None = None,
) -> Results:
    """`ChebConv`. Its conventions, and what is done about them:

    - K counts the coefficients: our order plus 1;
    - it makes 2 L / lambda_max - I by itself from the raw weights, self-loops removed. With `weights` it may
      (normalization="sym"), and filt must stand on the scaled Laplacian; without, its normalisation is replaced by the
      shift of filt;
    - lambda_max, if not given, is twice the largest weight of L: 2 for "sym"; evref computes the largest eigenvalue;
    - on an isolated node its normalised L has 1 on the diagonal, evref's 0.
    """
    from torch_geometric.nn import ChebConv

    layer = ChebConv(filt.in_features, filt.out_features, K=filt.order + 1, normalization="sym", bias=filt.bias)
    index, weight = _pyg_edges(_dense(filt) if weights is None else weights)
    if weights is None:
        layer.__norm__ = lambda *args, **kwargs: (index, weight)
    return _pyg_taps(
        layer.double(),
        lambda conv, signal: conv(signal, index, weight, lambda_max=lambda_max),
        params, "theta", x, grad_y,
    )  # fmt: skip


PYG = {"gcn": pyg_gcn, "tagcn": pyg_tagcn, "chebyshev": pyg_chebyshev}
