"""ECC, MoNet and graph attention a second time: torch edge by edge, JAX as dense matrices, PyG with copied weights.

Nothing here uses evref's mathematics; a filter is read for its settings and arrays only. The torch forms send messages
along a list of edges; the JAX forms build N x N matrices and mask them, attention with a softmax over whole rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import peers

Array = np.ndarray


def _edges(filt: Any) -> tuple[Array, Array]:
    """Target and source of every entry of I + S, row by row."""
    target, source = np.nonzero(filt.graph.S.toarray())
    return peers.support(filt.graph.n_nodes, source, target)


def _counts(filt: Any) -> Array:
    """Which of these entries are edges: all of them, or (i, i) only where S has a self-loop."""
    target, source = _edges(filt)
    return np.ones(len(target), bool) if filt.self_entries else filt.graph.S.toarray()[target, source] != 0


# ---- torch -----------------------------------------------------------------------------------------------------------
def _torch_aggregate(filt: Any, params: dict[str, Any], x: Any, kernel: Any) -> Any:
    """y_i = sum or mean over the edges j -> i of kernel[edge] x_j, (edges, F, G), then root weight and bias."""
    import torch

    target, source = (torch.as_tensor(a[_counts(filt)]) for a in _edges(filt))
    kernel = kernel[torch.as_tensor(_counts(filt))]
    messages = torch.einsum("efg,bge->bfe", kernel, x[:, :, source])
    y = torch.zeros(len(x), kernel.shape[1], x.shape[-1], dtype=x.dtype).index_add(-1, target, messages)
    if filt.aggregation == "mean":
        y = y / torch.bincount(target, minlength=x.shape[-1]).clamp(min=1)
    if filt.root:
        y = y + torch.einsum("fg,bgn->bfn", params["root"], x)
    return y + params["bias"][:, None] if filt.bias else y


def torch_ecc(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """One F x G matrix per edge, from its attributes through a chain of linear maps and activations."""
    import torch

    h = torch.as_tensor(np.array(filt.attributes), dtype=x.dtype)
    for layer in range(len(filt.hidden) + 1):
        if layer > 0:
            h = torch.tanh(h) if filt.activation == "tanh" else torch.relu(h)
        h = torch.nn.functional.linear(h, params[f"w{layer}"], params[f"b{layer}"])
    return _torch_aggregate(filt, params, x, h.view(-1, filt.out_features, filt.in_features))


def torch_monet(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """Patch operators D_r(x)_i = sum_j w_r(u_ij) x_j, mixed by theta; a triangular system for each width."""
    import torch

    u = torch.as_tensor(np.array(filt.pseudo), dtype=x.dtype)
    D = u.shape[1]
    kernel = torch.zeros(len(u), filt.out_features, filt.in_features, dtype=x.dtype)
    for theta, mu, sigma in zip(params["theta"], params["mu"], params["sigma"], strict=True):
        if filt.covariance == "full":
            places = torch.tril_indices(D, D)
            C = torch.zeros(D, D, dtype=x.dtype).index_put((places[0], places[1]), sigma)
        else:
            C = torch.diag(sigma)
        nu = torch.linalg.solve_triangular(C, (u - mu).T, upper=False)  # its squares are (u - mu)^T (C C^T)^-1 (u - mu)
        kernel = kernel + torch.exp(-(nu**2).sum(0) / 2)[:, None, None] * theta
    return _torch_aggregate(filt, params, x, kernel)


def torch_attention(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """Node by node: score, softmax and average over the neighbours of i and i itself."""
    import torch

    target, source = _edges(filt)
    heads = []
    for W, a_source, a_target in zip(params["weight"], params["source"], params["target"], strict=True):
        z = torch.einsum("fg,bgn->bfn", W, x)
        columns = []
        for i in range(x.shape[-1]):
            heard = torch.as_tensor(source[target == i])
            pairs = torch.cat([z[:, :, heard], z[:, :, i : i + 1].expand(-1, -1, len(heard))], dim=1)
            score = torch.einsum("f,bfj->bj", torch.cat([a_source, a_target]), pairs)
            alpha = torch.softmax(torch.nn.functional.leaky_relu(score, filt.slope), dim=-1)
            columns.append(torch.einsum("bj,bfj->bf", alpha, z[:, :, heard]))
        heads.append(torch.stack(columns, dim=-1))
    y = torch.cat(heads, dim=1)
    return y + params["bias"][:, None] if filt.bias else y


TORCH = {"ecc": torch_ecc, "monet": torch_monet, "attention": torch_attention}


# ---- JAX -------------------------------------------------------------------------------------------------------------
def _jax_dense(filt: Any, params: dict[str, Any], x: Any, kernel: Any) -> Any:
    """y = H x with H (F, G, N, N) filled from kernel (edges, F, G)."""
    import jax.numpy as jnp

    rows, columns = _edges(filt)
    N, counts = x.shape[-1], _counts(filt)
    H = jnp.zeros((N, N, *kernel.shape[1:])).at[rows[counts], columns[counts]].set(kernel[counts])
    if filt.aggregation == "mean":
        H = H / np.maximum(np.bincount(rows[counts], minlength=N), 1)[:, None, None, None]
    if filt.root:
        H = H + jnp.eye(N)[:, :, None, None] * params["root"]
    y = jnp.einsum("ijfg,bgj->bfi", H, x)
    return y + params["bias"][:, None] if filt.bias else y


def jax_ecc(filt: Any, params: dict[str, Any], x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def network(h: Any) -> Any:
        last = len(filt.hidden)
        for layer in range(last):
            h = (jnp.tanh if filt.activation == "tanh" else jax.nn.relu)(params[f"w{layer}"] @ h + params[f"b{layer}"])
        return (params[f"w{last}"] @ h + params[f"b{last}"]).reshape(filt.out_features, filt.in_features)

    return _jax_dense(filt, params, x, jax.vmap(network)(jnp.asarray(filt.attributes)))


def jax_monet(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """As published, |Xi^-1 (u - mu)|^2 by forward substitution with the triangular root Xi of the covariance."""
    import jax.numpy as jnp

    u = jnp.asarray(filt.pseudo)
    D = u.shape[1]
    rows, columns = np.tril_indices(D) if filt.covariance == "full" else (np.arange(D), np.arange(D))
    place = {entry: n for n, entry in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))}
    weights = []
    for mu, sigma in zip(params["mu"], params["sigma"], strict=True):
        nu: list[Any] = []
        for d in range(D):
            rest = u[:, d] - mu[d] - sum(sigma[place[d, c]] * nu[c] for c in range(d) if (d, c) in place)
            nu.append(rest / sigma[place[d, d]])
        weights.append(jnp.exp(-sum(value**2 for value in nu) / 2))
    return _jax_dense(filt, params, x, jnp.einsum("rfg,re->efg", params["theta"], jnp.stack(weights)))


def jax_attention(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """The N x N table of scores, -1e30 off the support (its exponential is zero), softmax along rows."""
    import jax
    import jax.numpy as jnp

    rows, columns = _edges(filt)
    mask = np.zeros((x.shape[-1],) * 2, bool)
    mask[rows, columns] = True
    z = jnp.einsum("hfg,bgn->bhfn", params["weight"], x)
    heard = jnp.einsum("hf,bhfn->bhn", params["source"], z)[:, :, None, :]
    hears = jnp.einsum("hf,bhfn->bhn", params["target"], z)[:, :, :, None]
    scores = jnp.where(mask, jax.nn.leaky_relu(heard + hears, filt.slope), -1e30)
    y = jnp.einsum("bhij,bhfj->bhfi", jax.nn.softmax(scores, axis=-1), z)
    y = y.reshape(x.shape[0], -1, x.shape[-1])
    return y + params["bias"][:, None] if filt.bias else y


JAX = {"ecc": jax_ecc, "monet": jax_monet, "attention": jax_attention}


# ---- PyG -------------------------------------------------------------------------------------------------------------
def _pyg_run(layer: Any, weights: dict[str, tuple[Any, Array, Any]], arguments: tuple, x: Array, grad_y: Array) -> Any:
    """Copy weights into a layer, run the samples one by one (PyG wants (nodes, features)), take all gradients.

    weights: our name -> (PyG's parameter, our value in its shape, function that brings its gradient into our shape).
    """
    import torch

    layer.double()
    for parameter, value, _ in weights.values():
        parameter.data = torch.tensor(np.ascontiguousarray(value), dtype=torch.float64)
    signal = torch.tensor(x, requires_grad=True)
    y = torch.stack([layer(sample.T, *arguments).T for sample in signal])
    leaves = [signal, *(parameter for parameter, _, _ in weights.values())]
    grads = torch.autograd.grad(
        y, leaves, torch.as_tensor(grad_y, dtype=y.dtype), allow_unused=True, materialize_grads=True
    )
    results = {"y": y.detach().numpy(), "grad_x": grads[0].numpy()}
    for (name, (_, _, back)), grad in zip(weights.items(), grads[1:], strict=True):
        results[f"grad_{name}"] = back(grad.numpy())
    return results


def _same(grad: Array) -> Array:
    return grad


def _edge_index(filt: Any) -> Any:
    import torch

    target, source = (a[_counts(filt)] for a in _edges(filt))
    return torch.as_tensor(np.stack([source, target]))


def pyg_ecc(filt: Any, params: dict[str, Array], x: Array, grad_y: Array) -> peers.Results:
    """`NNConv`. Its conventions, and what is done about them:

    - no self-loops of its own: the entries (i, i) are given as edges, with their attributes, where they take part;
    - the network returns weight[g, f] flattened, row g F + f, where evref has f G + g: the last layer is reordered;
    - aggr "add" is aggregation="sum"; root_weight is root=True.
    """
    import torch
    from torch_geometric.nn import NNConv

    F, G = filt.out_features, filt.in_features
    widths = [filt.attributes.shape[1], *filt.hidden, F * G]
    modules: list[Any] = []
    weights: dict[str, tuple[Any, Array, Any]] = {}
    for layer, (before, after) in enumerate(pairwise(widths)):
        linear = torch.nn.Linear(before, after)
        last = layer == len(widths) - 2
        order = np.arange(F * G).reshape(F, G).T.ravel() if last else np.arange(after)
        inverse = np.argsort(order)
        for name, parameter in ((f"w{layer}", linear.weight), (f"b{layer}", linear.bias)):
            weights[name] = (parameter, params[name][order], lambda grad, inverse=inverse: grad[inverse])
        modules += [linear] if last else [linear, torch.nn.Tanh() if filt.activation == "tanh" else torch.nn.ReLU()]
    aggr = "add" if filt.aggregation == "sum" else "mean"
    conv = NNConv(G, F, torch.nn.Sequential(*modules), aggr=aggr, root_weight=filt.root, bias=filt.bias)
    if filt.root:
        weights["root"] = (conv.lin.weight, params["root"], _same)
    if filt.bias:
        weights["bias"] = (conv.bias, params["bias"], _same)
    attributes = torch.tensor(filt.attributes[_counts(filt)], dtype=torch.float64)
    return _pyg_run(conv, weights, (_edge_index(filt), attributes), x, grad_y)


def pyg_monet(filt: Any, params: dict[str, Array], x: Array, grad_y: Array) -> peers.Results:
    """`GMMConv` with separate_gaussians=False. Its conventions, and what is done about them:

    - diagonal covariance only; w = exp(-1/2 sum_d (u_d - mu_d)^2 / (1e-15 + s_d^2)): the same 1/2, and an epsilon that
      evref has not (it refuses a width of zero instead). It gets s = sqrt(sigma^2 - 1e-15), and its gradient is taken
      back to sigma by ds/dsigma = sigma / s;
    - g is (in, kernels * out), column r F + f: theta transposed;
    - aggr is "mean" unless told, no self-loops of its own: as for NNConv;
    - root_weight=True is root=True. With root_weight=False forward asks for an attribute `root` that was never made
      (2.8.1); setting it to None gives what was meant.
    """
    import torch
    from torch_geometric.nn import GMMConv

    if filt.covariance != "diagonal":
        raise NotImplementedError("GMMConv has diagonal covariances only")
    F, G, R = filt.out_features, filt.in_features, filt.kernels
    aggr = "add" if filt.aggregation == "sum" else "mean"
    conv = GMMConv(G, F, filt.pseudo.shape[1], R, aggr=aggr, root_weight=filt.root, bias=filt.bias)
    s = np.sqrt(params["sigma"] ** 2 - 1e-15)
    weights: dict[str, tuple[Any, Array, Any]] = {
        "theta": (
            conv.g,
            params["theta"].transpose(2, 0, 1).reshape(G, R * F),
            lambda grad: grad.reshape(G, R, F).transpose(1, 2, 0),
        ),
        "mu": (conv.mu, params["mu"], _same),
        "sigma": (conv.sigma, s, lambda grad: grad * params["sigma"] / s),
    }
    if filt.root:
        weights["root"] = (conv.root.weight, params["root"], _same)
    else:
        conv.root = None
    if filt.bias:
        weights["bias"] = (conv.bias, params["bias"], _same)
    pseudo = torch.tensor(filt.pseudo[_counts(filt)], dtype=torch.float64)
    return _pyg_run(conv, weights, (_edge_index(filt), pseudo), x, grad_y)


def pyg_attention(filt: Any, params: dict[str, Array], x: Array, grad_y: Array) -> peers.Results:
    """`GATConv` with concat=True. Its conventions, and what is done about them:

    - out_channels counts one head; evref's out_features counts all;
    - add_self_loops=True (the default, used here) drops self-loops and adds one per node: the support of I + S;
    - its softmax adds 1e-16 to the denominator, which is at least 1: below rounding;
    - att_src goes with the sender j, att_dst with the receiver i: `source` and `target`.
    """
    import torch
    from torch_geometric.nn import GATConv

    H, G, width = filt.heads, filt.in_features, filt.out_features // filt.heads
    conv = GATConv(G, width, heads=H, negative_slope=filt.slope, bias=filt.bias)
    weights: dict[str, tuple[Any, Array, Any]] = {
        "weight": (conv.lin.weight, params["weight"].reshape(-1, G), lambda grad: grad.reshape(H, width, G)),
        "source": (conv.att_src, params["source"][None], lambda grad: grad[0]),
        "target": (conv.att_dst, params["target"][None], lambda grad: grad[0]),
    }
    if filt.bias:
        weights["bias"] = (conv.bias, params["bias"], _same)
    target, source = np.nonzero(filt.graph.S.toarray())
    return _pyg_run(conv, weights, (torch.as_tensor(np.stack([source, target])),), x, grad_y)


PYG = {"ecc": pyg_ecc, "monet": pyg_monet, "attention": pyg_attention}
