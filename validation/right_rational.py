"""Right layers in PyTorch of ARMA ("dense", "edges") and Cayley filters ("dense", "inverse")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from right_layers import Shift, dense_shift, edge_shift, plus_bias, weights

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
Layer = Callable[[Params, Tensor], Tensor]


def arma_stack(shift: Shift, first: Tensor, later: Tensor | None, inputs: Tensor, x: Tensor, iterations: int) -> Tensor:
    """X <- W S X + V X_0, T times; `later` (1 or T - 1, F, F) and `inputs` (1 or T, F, G) of one stack."""
    state = x
    for t in range(iterations):
        weight = first if t == 0 else later[min(t - 1, len(later) - 1)]
        state = torch.einsum("fg,bgn->bfn", weight, shift(state))
        state = state + torch.einsum("fg,bgn->bfn", inputs[min(t, len(inputs) - 1)], x)
    return state


def stack_mean(stacks: Tensor) -> Tensor:
    return stacks.mean(0)


def _arma(
    reference: Any,
    style: str,
    S: Any = None,
    iterations: int | None = None,
    reduce: Any = stack_mean,
    bias: Any = plus_bias,
) -> Layer:
    S = weights(reference) if S is None else S
    shift = edge_shift(S) if style == "edges" else dense_shift(S)
    iterations = reference.iterations if iterations is None else iterations

    def layer(params: Params, x: Tensor) -> Tensor:
        stacks = [
            arma_stack(shift, first, params["w"][:, p] if "w" in params else None, params["v"][:, p], x, iterations)
            for p, first in enumerate(params["w0"])
        ]
        return bias(reduce(torch.stack(stacks)), params)

    return layer


def cayley_states(S: Tensor, h: Tensor, x: Tensor, order: int, iterations: int | None, sign: int, style: str) -> Any:
    """z_1, ..., z_K, complex: (hS + i) z_k = (hS - i) z_(k-1), solved or by Jacobi iterations; `sign` is that of i."""
    unit = sign * torch.eye(len(S), dtype=S.dtype)
    A, B = torch.complex(h * S, unit), torch.complex(h * S, -unit)
    z = torch.complex(x, torch.zeros_like(x)).mT  # (batch, nodes, G)
    diagonal = A.diagonal()
    off = A - torch.diag(diagonal)
    states = []
    for _ in range(order):
        b = B @ z
        if iterations is None:
            z = torch.linalg.inv(A) @ b if style == "inverse" else torch.linalg.solve(A, b)
        else:
            z = b / diagonal[:, None]
            for _ in range(iterations):
                z = (b - off @ z) / diagonal[:, None]
        states.append(z)
    return states


def _cayley(
    reference: Any,
    style: str,
    S: Any = None,
    order: int | None = None,
    iterations: Any = "own",
    sign: int = 1,
    factor: float = 2.0,
    bias: Any = plus_bias,
) -> Layer:
    """`order`: how many of the terms are summed; `factor` is that of 2 Re."""
    matrix = torch.tensor(weights(reference) if S is None else np.asarray(S), dtype=torch.float64)
    order = reference.order if order is None else order
    iterations = reference.iterations if iterations == "own" else iterations

    def layer(params: Params, x: Tensor) -> Tensor:
        c = torch.complex(params["c_re"], params["c_im"])
        y = params["c0"] @ x
        states = cayley_states(matrix.to(x.dtype), params["h"], x, order, iterations, sign, style)
        for c_k, z in zip(c, states, strict=False):
            y = y + factor * (z @ c_k.T).real.mT
        return bias(y, params)

    return layer


BUILDERS: dict[str, Callable[..., Layer]] = {"arma": _arma, "cayley": _cayley}
