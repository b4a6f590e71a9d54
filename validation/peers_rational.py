"""ARMA and Cayley filters a second time, from the equations of their own papers, for torch and JAX to differentiate.

Nothing here uses evref. torch has the nodes first and complex tensors, as the two papers print their layers; JAX has
the whole recursion as one linear map: ARMA as a sum of matrix powers, Cayley as matrices of twice the size.

ARMA: Bianchi, Grattarola, Livi, Alippi, "Graph neural networks with convolutional ARMA filters".
Cayley: Levie, Monti, Bresson, Bronstein, "CayleyNets: graph convolutional neural networks with complex rational
spectral filters".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import peers
import terms

Array = np.ndarray


def _step(filt: Any, t: int) -> int:
    """Place of the weights of iteration t along the leading axis."""
    return 0 if filt.shared else t


# ---- torch -----------------------------------------------------------------------------------------------------------
def torch_arma(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """Stack by stack, X <- S X W + X_0 V with X (nodes, features), as in the paper."""
    import torch

    S = torch.as_tensor(filt.graph.S.toarray())
    x0 = x.transpose(1, 2)  # (batch, nodes, G)
    stacks = []
    for p in range(filt.stacks):
        X = x0
        for t in range(filt.iterations):
            W = params["w0"][p] if t == 0 else params["w"][_step(filt, t - 1), p]
            X = S @ X @ W.T + x0 @ params["v"][_step(filt, t), p].T
        stacks.append(X)
    y = torch.stack(stacks).mean(0).transpose(1, 2)
    return y + params["bias"][:, None] if "bias" in params else y


def torch_cayley(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """Complex tensors: y_j solves (hS + i) y_j = (hS - i) y_(j-1), or takes Jacobi iterations from b_j."""
    import torch

    S = torch.as_tensor(filt.graph.S.toarray())
    A = torch.complex(params["h"] * S, torch.eye(len(S), dtype=S.dtype))
    B = torch.complex(params["h"] * S, -torch.eye(len(S), dtype=S.dtype))
    diagonal = A.diagonal()
    jacobi = -(A - torch.diag(diagonal)) / diagonal[:, None]
    c = torch.complex(params["c_re"], params["c_im"])
    z = torch.complex(x, torch.zeros_like(x)).transpose(1, 2)  # (batch, nodes, G)
    y = x.transpose(1, 2) @ params["c0"].T
    for c_j in c:
        if filt.iterations is None:
            z = torch.linalg.solve(A, B @ z)
        else:
            b = (B @ z) / diagonal[:, None]
            z = b
            for _ in range(filt.iterations):
                z = jacobi @ z + b
        y = y + 2 * (z @ c_j.T).real
    y = y.transpose(1, 2)
    return y + params["bias"][:, None] if "bias" in params else y


# ---- JAX -------------------------------------------------------------------------------------------------------------
def jax_arma(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """The unrolled sum: what enters at iteration t is shifted T - 1 - t times more, and mixed by every later W."""
    import jax.numpy as jnp

    S, T = jnp.asarray(filt.graph.S.toarray()), filt.iterations
    shifts = [x]
    for _ in range(T):
        shifts.append(jnp.einsum("ij,bgj->bgi", S, shifts[-1]))
    y = 0.0
    for p in range(filt.stacks):
        later = jnp.eye(filt.out_features)
        for t in reversed(range(T)):
            y = y + jnp.einsum("fg,bgi->bfi", later @ params["v"][_step(filt, t), p], shifts[T - 1 - t])
            later = later @ (params["w0"][p] if t == 0 else params["w"][_step(filt, t - 1), p])
        y = y + jnp.einsum("fg,bgi->bfi", later, shifts[T])
    y = y / filt.stacks
    return y + params["bias"][:, None] if "bias" in params else y


def jax_cayley(filt: Any, params: dict[str, Any], x: Any) -> Any:
    """u + iv as one vector of 2N reals; hS ± i and the Jacobi splitting as real matrices of that size."""
    import jax.numpy as jnp

    S = filt.graph.S.toarray()
    N = len(S)
    D = np.diag(np.diag(S))
    turn = np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(N))  # multiplication by i

    def doubled(matrix: Array) -> Any:
        return params["h"] * jnp.asarray(np.kron(np.eye(2), matrix))

    if filt.iterations is None:
        C = terms.inverse(doubled(S) + turn) @ (doubled(S) - turn)
    else:
        inverse = terms.inverse(doubled(D) + turn)
        series, term = jnp.eye(2 * N), jnp.eye(2 * N)
        for _ in range(filt.iterations):
            term = -inverse @ doubled(S - D) @ term
            series = series + term
        C = series @ inverse @ (doubled(S) - turn)
    z = jnp.concatenate([x, jnp.zeros_like(x)], axis=-1)  # (batch, G, 2N)
    y = jnp.einsum("fg,bgi->bfi", params["c0"], x)
    for c_re, c_im in zip(params["c_re"], params["c_im"], strict=True):
        z = z @ C.T
        y = y + 2 * jnp.einsum("fg,bgi->bfi", c_re, z[..., :N]) - 2 * jnp.einsum("fg,bgi->bfi", c_im, z[..., N:])
    return y + params["bias"][:, None] if "bias" in params else y


# ---- PyG -------------------------------------------------------------------------------------------------------------
def pyg_arma(filt: Any, params: dict[str, Array], x: Array, grad_y: Array, normalize: bool = False) -> peers.Results:
    """`ARMAConv` with act=None and dropout=0. Its conventions, and what is done about them:

    - it divides by the roots of the degrees itself (gcn_norm without self-loops). evref uses S as it is, so that the
      normalisation is taken out here; with normalize=True it stays, and then the graph must hold the raw weights and
      the results belong to S = D^-1/2 W D^-1/2;
    - weights are (in, out): transposed. `weight` has a row even for one iteration, where nothing uses it;
    - its bias sits inside the recursion, one for every iteration and stack; evref's comes once, after the mean. It is
      left out of the layer and added outside;
    - an edge index is (source, target), and S[i, j] weighs j -> i.
    """
    from unittest import mock

    import torch
    from torch_geometric.nn import ARMAConv

    conv = ARMAConv(
        filt.in_features, filt.out_features, num_stacks=filt.stacks, num_layers=filt.iterations,
        shared_weights=filt.shared, act=None, dropout=0.0, bias=False,
    ).double()  # fmt: skip
    names = {"w0": conv.init_weight, "v": conv.root_weight, **({"w": conv.weight} if filt.iterations > 1 else {})}
    for name, parameter in names.items():
        parameter.data = torch.tensor(np.ascontiguousarray(params[name].swapaxes(-1, -2)))
    S = filt.graph.S.toarray()
    target, source = np.nonzero(S)
    edges, weight = torch.as_tensor(np.stack([source, target])), torch.tensor(S[target, source])

    signal = torch.tensor(x, requires_grad=True)
    bias = torch.tensor(params.get("bias", np.zeros(filt.out_features)), requires_grad=True)
    as_given = mock.patch("torch_geometric.nn.conv.arma_conv.gcn_norm", lambda edges, weight, *_, **__: (edges, weight))
    if not normalize:
        as_given.start()
    try:
        y = torch.stack([conv(sample.T, edges, weight).T for sample in signal]) + bias[:, None]
    finally:
        if not normalize:
            as_given.stop()
    grads = torch.autograd.grad(y, [signal, bias, *names.values()], torch.as_tensor(grad_y))
    results = {"y": y.detach().numpy(), "grad_x": grads[0].numpy()}
    if "bias" in params:
        results["grad_bias"] = grads[1].numpy()
    for name, grad in zip(names, grads[2:], strict=True):
        results[f"grad_{name}"] = grad.numpy().swapaxes(-1, -2)
    return results


TORCH = {"arma": torch_arma, "cayley": torch_cayley}
JAX = {"arma": jax_arma, "cayley": jax_cayley}
PYG = {"arma": pyg_arma}
