"""Right layers in PyTorch whose weights are generated: graph attention, ECC, MoNet. Styles: "edges", "dense"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from right_layers import plus_bias, support, weights

Tensor = torch.Tensor
Array = np.ndarray
Params = Mapping[str, Tensor]
Layer = Callable[[Params, Tensor], Tensor]


# ---- attention -----------------------------------------------------------------------------------------------------
def projected(params: Params, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """z (batch, heads, F / heads, N) and the two halves of the scores, of who is heard and of who hears."""
    z = torch.einsum("hfg,bgn->bhfn", params["weight"], x)
    heard = torch.einsum("hf,bhfn->bhn", params["source"], z)
    hears = torch.einsum("hf,bhfn->bhn", params["target"], z)
    return z, heard, hears


def grouped_softmax(score: Tensor, group: Tensor, n_groups: int, denominator: Any = None) -> Tensor:
    """Softmax of score (..., edges) over the edges of equal `group`; `denominator` changes the sums."""
    index = group.expand_as(score)
    top = score.new_full((*score.shape[:-1], n_groups), -torch.inf).scatter_reduce(-1, index, score.detach(), "amax")
    alpha = torch.exp(score - top.gather(-1, index))
    sums = alpha.new_zeros(top.shape).index_add(-1, group, alpha)
    sums = sums if denominator is None else denominator(sums)
    return alpha / sums.gather(-1, index)


def attention(
    params: Params,
    x: Tensor,
    target: Array,
    source: Array,
    slope: float,
    group: Array | None = None,
    sign: float = 1.0,
    denominator: Any = None,
    alpha: Any = None,
) -> Tensor:
    """y_i = sum_j alpha_ij z_j along an edge list; softmax over edges with one `group`, their target unless told.

    `sign` multiplies the scores behind the leaky ReLU, `alpha` changes the weights of the edges.
    """
    at, of = torch.as_tensor(target), torch.as_tensor(source)
    z, heard, hears = projected(params, x)
    score = torch.nn.functional.leaky_relu(heard[..., of] + hears[..., at], slope)
    weight = grouped_softmax(sign * score, at if group is None else torch.as_tensor(group), x.shape[-1], denominator)
    weight = weight if alpha is None else alpha(weight)
    y = torch.zeros_like(z).index_add(-1, at, weight[:, :, None] * z[..., of])
    return y.flatten(1, 2)


def dense_attention(params: Params, x: Tensor, mask: Array, slope: float, dim: int = -1) -> Tensor:
    """The same with an N x N table of scores, as in many copies; softmax along rows (dim=-1)."""
    z, heard, hears = projected(params, x)
    score = torch.nn.functional.leaky_relu(hears[..., :, None] + heard[..., None, :], slope)
    alpha = torch.softmax(score.masked_fill(~torch.as_tensor(mask), -torch.inf), dim=dim)
    return torch.einsum("bhij,bhfj->bhfi", alpha, z).flatten(1, 2)


def _attention(
    reference: Any,
    style: str,
    entries: tuple[Array, Array] | None = None,
    slope: float | None = None,
    bias: Any = plus_bias,
    dim: int = -1,
    **ingredients: Any,
) -> Layer:
    """`entries`: target and source of the edges, those of I + S unless told."""
    target, source = entries or support(weights(reference))
    slope = reference.slope if slope is None else slope
    mask = np.zeros((reference.graph.n_nodes,) * 2, bool)
    mask[target, source] = True

    def layer(params: Params, x: Tensor) -> Tensor:
        if style == "dense":
            y = dense_attention(params, x, mask, slope, dim)
        else:
            y = attention(params, x, target, source, slope, **ingredients)
        return bias(y, params)

    return layer


# ---- ECC and MoNet: a generator of kernels, then a sum over edges ----------------------------------------------------
def network_kernel(
    params: Params, attributes: Tensor, n_layers: int, activation: Any, shape: tuple[int, int]
) -> Tensor:
    """A matrix (F, G) per edge, (edges, F, G), made of its attributes by linear layers with activations between."""
    h = attributes
    for layer in range(n_layers):
        h = activation(h) if layer else h
        h = h @ params[f"w{layer}"].T + params[f"b{layer}"]
    return h.reshape(-1, *shape)


def gaussian(q: Tensor) -> Tensor:
    return torch.exp(-q / 2)


def squared_distance(d: Tensor, sigma: Tensor) -> Tensor:
    """sum_n d_n^2 / sigma_n^2 of d (edges, n)."""
    return (d**2 / sigma**2).sum(-1)


def full_squared_distance(d: Tensor, sigma: Tensor) -> Tensor:
    """d^T (Xi Xi^T)^-1 d with sigma the lower triangle of Xi, row by row."""
    n = d.shape[-1]
    rows, columns = torch.tril_indices(n, n)
    Xi = sigma.new_zeros(n, n)
    Xi[rows, columns] = sigma
    return torch.einsum("en,nm,em->e", d, torch.linalg.inv(Xi @ Xi.T), d)


def kernel_sum(theta: Tensor, psi: Tensor) -> Tensor:
    """theta (R, F, G) and psi (R, edges) -> (edges, F, G)."""
    return torch.einsum("rfg,re->efg", theta, psi)


def aggregated(kernel: Tensor, x: Tensor, target: Array, source: Array, aggregation: str) -> Tensor:
    at, of = torch.as_tensor(target), torch.as_tensor(source)
    messages = torch.einsum("efg,bge->bfe", kernel, x[..., of])
    y = x.new_zeros(len(x), kernel.shape[1], x.shape[-1]).index_add(-1, at, messages)
    if aggregation == "mean":
        y = y / torch.bincount(at, minlength=x.shape[-1]).clamp(min=1)
    return y


def dense_aggregated(kernel: Tensor, x: Tensor, target: Array, source: Array, aggregation: str) -> Tensor:
    N = x.shape[-1]
    H = kernel.new_zeros(*kernel.shape[1:], N, N)
    H[..., torch.as_tensor(target), torch.as_tensor(source)] = kernel.movedim(0, -1)
    if aggregation == "mean":
        H = H / torch.tensor(np.maximum(np.bincount(target, minlength=N), 1))[:, None]
    return torch.einsum("fgij,bgj->bfi", H.to(x.dtype), x)


def _generated(
    reference: Any,
    style: str,
    transposed: bool = False,
    self_entries: bool | None = None,
    aggregation: str | None = None,
    bias: Any = plus_bias,
    **ingredients: Any,
) -> Layer:
    """`transposed`: messages run against the edges; attributes stay with theirs."""
    S = weights(reference)
    target, source = support(S)
    with_self = reference.self_entries if self_entries is None else self_entries
    counts = np.ones(len(target), bool) if with_self else S[target, source] != 0
    known = reference.attributes if reference.name == "ecc" else reference.pseudo
    u = torch.tensor(np.array(known)[counts], dtype=torch.float64)
    ends = (source[counts], target[counts]) if transposed else (target[counts], source[counts])
    make = _ecc_kernel(reference, **ingredients) if reference.name == "ecc" else _monet_kernel(reference, **ingredients)
    add = dense_aggregated if style == "dense" else aggregated

    def layer(params: Params, x: Tensor) -> Tensor:
        y = add(make(params, u.to(x.dtype)), x, *ends, aggregation or reference.aggregation)
        if reference.root:
            y = y + torch.einsum("fg,bgn->bfn", params["root"], x)
        return bias(y, params)

    return layer


def _ecc_kernel(reference: Any, kernel: Any = lambda kernel: kernel) -> Callable[[Params, Tensor], Tensor]:
    """`kernel` changes the matrices (edges, F, G) that the network gives."""
    activation = {"tanh": torch.tanh, "relu": torch.relu}[reference.activation]
    shape = reference.out_features, reference.in_features

    def make(params: Params, u: Tensor) -> Tensor:
        return kernel(network_kernel(params, u, len(reference.hidden) + 1, activation, shape))

    return make


def _monet_kernel(
    reference: Any, psi: Any = gaussian, distance: Any = None, total: Any = kernel_sum
) -> Callable[[Params, Tensor], Tensor]:
    measure = distance or (full_squared_distance if reference.covariance == "full" else squared_distance)

    def make(params: Params, u: Tensor) -> Tensor:
        kernels = zip(params["mu"], params["sigma"], strict=True)
        return total(params["theta"], torch.stack([psi(measure(u - mu, sigma)) for mu, sigma in kernels]))

    return make


BUILDERS: dict[str, Callable[..., Layer]] = {"attention": _attention, "ecc": _generated, "monet": _generated}
