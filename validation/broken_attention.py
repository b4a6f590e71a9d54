"""Broken graph attention: softmax along the wrong axis, wrong scores, self-loops, heads, gradients cut inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from broken_base import Registry, made, typical
from right_generated import projected
from right_layers import Layer, plus_bias, right, support, weights

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()
HEADS: dict[str, Any] = {"out_features": 6, "heads": 2}


# ---- softmax-direction -----------------------------------------------------------------------------------------------
def edge_index_0(reference: Any) -> Layer:
    """softmax(score, edge_index[0]) for edge_index[1]."""
    target, source = support(weights(reference))
    return right(reference, entries=(target, source), group=source)


def other_dim(reference: Any) -> Layer:
    """torch.softmax(scores, dim=-2) in a dense table."""
    return right(reference, "dense", dim=-2)


def ends_exchanged(reference: Any) -> Layer:
    layer = right(reference)
    return lambda params, x: layer({**params, "source": params["target"], "target": params["source"]}, x)


def ends_exchanged_and_other_dim(reference: Any) -> Layer:
    """The table of scores is transposed: softmax(dim=-2) of a_source . z_i + a_target . z_j."""
    layer = other_dim(reference)
    return lambda params, x: layer({**params, "source": params["target"], "target": params["source"]}, x)


def without_softmax(reference: Any, exponential: bool) -> Layer:
    target, source = (torch.as_tensor(ends) for ends in support(weights(reference)))

    def layer(params: Params, x: Tensor) -> Tensor:
        z, heard, hears = projected(params, x)
        score = torch.nn.functional.leaky_relu(heard[..., source] + hears[..., target], reference.slope)
        weight = torch.exp(score) if exponential else score
        y = torch.zeros_like(z).index_add(-1, target, weight[:, :, None] * z[..., source])
        return plus_bias(y.flatten(1, 2), params)

    return layer


for _sizes in ({}, HEADS):
    _words = f"heads={_sizes.get('heads', 1)}"
    _reference = typical("attention", **_sizes)
    BROKEN.add("softmax-direction", "attention", f"edge_index[0], {_words}", _reference, edge_index_0)
    BROKEN.add("softmax-direction", "attention", f"dim=-2, {_words}", _reference, other_dim)
    BROKEN.add("softmax-direction", "attention", f"ends exchanged, {_words}", _reference, ends_exchanged)
BROKEN.add("softmax-direction", "attention", "transposed table", typical("attention"), ends_exchanged_and_other_dim)
for _exponential, _words in ((True, "exp(score)"), (False, "the scores")):
    BROKEN.add(
        "softmax-direction",
        "attention",
        f"{_words} alone",
        typical("attention"),
        lambda reference, exponential=_exponential: without_softmax(reference, exponential),
    )


# ---- self-loops ------------------------------------------------------------------------------------------------------
def own_edges(reference: Any) -> Layer:
    """The edges of S and nothing else."""
    return right(reference, entries=np.nonzero(weights(reference)))


def no_own_edges(reference: Any) -> Layer:
    return right(reference, entries=support(weights(reference), self_loops=False))


def loops_added_again(reference: Any) -> Layer:
    """add_self_loops on edges some of which are self-loops."""
    target, source = np.nonzero(weights(reference))
    own = np.arange(reference.graph.n_nodes)
    return right(reference, entries=(np.concatenate([target, own]), np.concatenate([source, own])))


def loops_twice(reference: Any) -> Layer:
    target, source = support(weights(reference))
    own = np.arange(reference.graph.n_nodes)
    return right(reference, entries=(np.concatenate([target, own]), np.concatenate([source, own])))


# Every node of the undirected graph hears somebody without its self-loop.
BROKEN.add("self-loops", "attention", "none", typical("attention"), no_own_edges)
BROKEN.add("self-loops", "attention", "only those of S", typical("attention"), own_edges)
BROKEN.add("self-loops", "attention", "added to those of S", typical("attention"), loops_added_again)
BROKEN.add("self-loops", "attention", "twice", typical("attention"), loops_twice)

# ---- scores ----------------------------------------------------------------------------------------------------------
BROKEN.add("exponent", "attention", "exp(-score)", typical("attention"), made(sign=-1.0))
for _slope, _words in ((0.01, "torch's default"), (0.0, "a ReLU"), (1.0, "none")):
    BROKEN.add("attention-slope", "attention", f"slope {_slope}, {_words}", typical("attention"), made(slope=_slope))
BROKEN.add(
    "attention-slope", "attention", "slope 0.2 where 0.05 is asked", typical("attention", slope=0.05), made(slope=0.2)
)


def weights_of_S(reference: Any, own: float | None) -> Layer:
    """alpha_ij S_ij, as a message-passing helper with edge weights has it."""
    S = weights(reference)
    target, source = support(S)
    if own is not None:
        np.fill_diagonal(S, own)
    values = torch.tensor(S[target, source])
    return right(reference, alpha=lambda alpha: alpha * values.to(alpha.dtype))


for _own, _words in ((1.0, "1 for the node itself"), (None, "S_ii for the node itself")):
    BROKEN.add(
        "shift-weights",
        "attention",
        f"alpha_ij S_ij, {_words}",
        typical("attention"),
        lambda reference, own=_own: weights_of_S(reference, own),
    )


# ---- heads -----------------------------------------------------------------------------------------------------------
def heads_interleaved(reference: Any) -> Layer:
    """flatten after a transpose that should not be there: features before heads."""
    layer = right(reference, bias=lambda y, params: y)
    H = reference.heads
    return lambda params, x: plus_bias(layer(params, x).unflatten(1, (H, -1)).transpose(1, 2).flatten(1, 2), params)


BROKEN.add("copied-nodes", "attention", "features before heads", typical("attention", **HEADS), heads_interleaved)
BROKEN.add(
    "copied-nodes",
    "attention",
    "features before heads, bias",
    typical("attention", bias=True, **HEADS),
    heads_interleaved,
)

# ---- gradients -------------------------------------------------------------------------------------------------------
BROKEN.add("detached", "attention", "alpha.detach()", typical("attention"), made(alpha=lambda alpha: alpha.detach()))
BROKEN.add(
    "detached",
    "attention",
    "the normalisation under no_grad",
    typical("attention"),
    made(denominator=lambda sums: sums.detach()),
)
