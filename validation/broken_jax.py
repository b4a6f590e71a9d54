"""Broken layers in JAX, as they are written there: jnp, segment sums, stop_gradient, lax.scan, custom_vjp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from broken_base import Registry, raw, typical

Params = Mapping[str, Any]
Layer = Callable[[Params, Any], Any]
BROKEN = Registry()


def matrix(reference: Any) -> Any:
    return reference.graph.S.toarray().astype(np.float64)


def add(mistake: str, name: str, words: str, build: Callable[[Any], Layer], *where: Any, **config: Any) -> None:
    BROKEN.add(mistake, name, words, typical(name, *where, **config), build, framework="jax")


def plus_bias(y: Any, params: Params) -> Any:
    return y + params["bias"][:, None] if "bias" in params else y


# ---- polynomials, by lax.scan ----------------------------------------------------------------------------------------
def polynomial(reference: Any, S: Any = None, first: int = 0, taps: Callable[[Any], Any] = lambda phi: phi) -> Layer:
    """sum_k phi_k S^k x; `first` is the power that phi_0 meets, `taps` changes the coefficients."""
    S = matrix(reference) if S is None else S

    def layer(params: Params, x: Any) -> Any:
        def step(w: Any, phi_k: Any) -> tuple[Any, Any]:
            return w @ jnp.asarray(S).T, jnp.einsum("fg,bgn->bfn", phi_k, w)

        start = x
        for _ in range(first):
            start = start @ jnp.asarray(S).T
        _, terms = jax.lax.scan(step, start, taps(params["phi"]))
        return plus_bias(terms.sum(0), params)

    return jax.jit(layer)  # a scan is compiled at every call otherwise


def at_edges(reference: Any, flip: bool = False) -> Layer:
    """Messages by segment_sum; `flip`: gathered at the target and added at the source."""
    S = matrix(reference)
    target, source = np.nonzero(S)
    weight = S[target, source]
    gather, put = (target, source) if flip else (source, target)

    def layer(params: Params, x: Any) -> Any:
        messages = jnp.moveaxis(x[..., gather] * weight, -1, 0)
        w = jnp.moveaxis(jax.ops.segment_sum(messages, put, num_segments=len(S)), 0, -1)
        return plus_bias(params["theta"] @ w, params)

    return layer


add("shift-transposed", "polynomial", "S^T for S", lambda r: polynomial(r, S=matrix(r).T))
add("shift-transposed", "gcn", "segment_sum at the sources", lambda r: at_edges(r, flip=True))
add("taps", "polynomial", "k meets S^(k+1)", lambda r: polynomial(r, first=1))
add("taps", "polynomial", "np.polyval's order", lambda r: polynomial(r, taps=lambda phi: phi[::-1]))
add("zeroth-term", "polynomial", "no k = 0", lambda r: polynomial(r, taps=lambda phi: phi.at[0].set(0.0)))
add(
    "shared-weights", "polynomial", "phi[0] for phi[1]", lambda r: polynomial(r, taps=lambda phi: phi.at[1].set(phi[0]))
)
add(
    "weights-transposed",
    "polynomial",
    "flax's (in, out)",
    lambda r: polynomial(r, taps=lambda phi: phi.swapaxes(1, 2)),
    in_features=3,
    out_features=3,
)
add(
    "degree",
    "polynomial",
    "columns for rows",
    lambda r: polynomial(r, S=raw(r) / raw(r).sum(axis=0)),
    "directed",
    "random_walk",
)
add(
    "self-loops",
    "gcn",
    "twice",
    lambda r: lambda params, x: params["theta"] @ x @ _normalised(raw(r) + 2 * np.eye(6)),
    "undirected",
    "gcn",
)
add(
    "mean-for-sum",
    "gcn",
    "mean aggregation",
    lambda r: lambda params, x: params["theta"] @ x @ (matrix(r) / (matrix(r) != 0).sum(1, keepdims=True)).T,
)


def _normalised(A: Any) -> Any:
    return A / np.sqrt(np.outer(A.sum(1), A.sum(1)))


def chebyshev(reference: Any, twice: float) -> Layer:
    S = matrix(reference)

    def layer(params: Params, x: Any) -> Any:
        t = [x, x @ S.T]
        while len(t) < len(params["theta"]):
            t.append(twice * (t[-1] @ S.T) - t[-2])
        return plus_bias(jnp.einsum("kfg,kbgn->bfn", params["theta"], jnp.stack(t)), params)

    return layer


add("chebyshev-recurrence", "chebyshev", "no 2", lambda r: chebyshev(r, 1.0))
add(
    "spectrum-scale",
    "chebyshev",
    "lambda_max is 2",
    lambda r: chebyshev_on(r, -_normalised(raw(r))),
    "undirected",
    "scaled_laplacian",
)


def chebyshev_on(reference: Any, S: Any) -> Layer:
    def layer(params: Params, x: Any) -> Any:
        t = [x, x @ S.T]
        while len(t) < len(params["theta"]):
            t.append(2 * (t[-1] @ S.T) - t[-2])
        return jnp.einsum("kfg,kbgn->bfn", params["theta"], jnp.stack(t))

    return layer


# ---- edge-variant ----------------------------------------------------------------------------------------------------
def edge_variant(reference: Any, order: int = 1, stop: bool = False, flip: bool = False) -> Layer:
    """The recursion with dense Phi; `order=-1` takes the steps from the last to the first."""
    S = matrix(reference)
    target, source = np.nonzero((S != 0) | np.eye(len(S), dtype=bool))

    def layer(params: Params, x: Any) -> Any:
        phi = params["phi"]
        Phi = jnp.zeros((*phi.shape[:-1], *S.shape)).at[..., target, source].set(phi)
        Phi = Phi.swapaxes(-1, -2) if flip else Phi
        w = jnp.broadcast_to(x[:, None], (len(x), phi.shape[1], *x.shape[1:]))
        total = 0.0
        for Phi_k in Phi[::order]:
            w = jnp.einsum("fgij,bfgj->bfgi", Phi_k, jax.lax.stop_gradient(w) if stop else w)
            total = total + w
        return plus_bias(total.sum(2), params)

    return layer


add("shift-transposed", "edge_variant", "Phi^T", lambda r: edge_variant(r, flip=True))
add("product-order", "edge_variant", "the last step first", lambda r: edge_variant(r, order=-1))
add("detached", "edge_variant", "stop_gradient of every state", lambda r: edge_variant(r, stop=True))
add(
    "first-sample",
    "edge_variant",
    "x[:1] broadcast",
    lambda r: lambda params, x: jnp.broadcast_to(edge_variant(r)(params, x[:1]), (len(x), *r.out_shape)),
)
add(
    "bias",
    "edge_variant",
    "twice",
    lambda r: lambda params, x: plus_bias(edge_variant(r)(params, x), params),
    bias=True,
)
add(
    "activation",
    "edge_variant",
    "jax.nn.relu built in",
    lambda r: lambda params, x: jax.nn.relu(edge_variant(r)(params, x)),
)


# ---- attention -------------------------------------------------------------------------------------------------------
def attention(reference: Any, axis: int = -1, slope: float | None = None, sign: float = 1.0) -> Layer:
    S = matrix(reference)
    mask = (S != 0) | np.eye(len(S), dtype=bool)
    slope = reference.slope if slope is None else slope

    def layer(params: Params, x: Any) -> Any:
        z = jnp.einsum("hfg,bgn->bhfn", params["weight"], x)
        heard, hears = (jnp.einsum("hf,bhfn->bhn", params[end], z) for end in ("source", "target"))
        score = jax.nn.leaky_relu(hears[..., :, None] + heard[..., None, :], slope)
        alpha = jax.nn.softmax(jnp.where(mask, sign * score, -jnp.inf), axis=axis)
        y = jnp.einsum("bhij,bhfj->bhfi", alpha, z)
        return plus_bias(y.reshape(len(x), -1, y.shape[-1]), params)

    return layer


add("softmax-direction", "attention", "axis=-2", lambda r: attention(r, axis=-2))
add("attention-slope", "attention", "jax.nn.leaky_relu's 0.01", lambda r: attention(r, slope=0.01))
add("exponent", "attention", "exp(-score)", lambda r: attention(r, sign=-1.0))


# ---- a backward pass by hand -----------------------------------------------------------------------------------------
@jax.custom_vjp
def linear(theta: Any, w: Any) -> Any:
    return theta @ w


def _linear_forward(theta: Any, w: Any) -> tuple[Any, Any]:
    return theta @ w, (theta, w)


def _linear_backward(saved: Any, grad: Any) -> tuple[Any, Any]:
    theta, w = saved
    return jnp.einsum("bfn,bgn->fg", grad, w) / len(w), theta.T @ grad  # a mean where the loss has a sum


linear.defvjp(_linear_forward, _linear_backward)
add(
    "gradient-scaled",
    "gcn",
    "custom_vjp with a mean over the batch",
    lambda r: lambda params, x: linear(params["theta"], x @ matrix(r).T),
)
