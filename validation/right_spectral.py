"""Right layers in PyTorch of the two filters that live on the eigenvectors of S."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from peers_spectral import cox_de_boor
from right_layers import plus_bias, recursion, weights

Tensor = torch.Tensor
Array = np.ndarray
Params = Mapping[str, Tensor]
Layer = Callable[[Params, Tensor], Tensor]


def eigenbasis(S: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues, U and its inverse; orthonormal where S is symmetric."""
    if np.array_equal(S, S.T):
        lam, U = np.linalg.eigh(S)
        return lam, U, U.T
    lam, U = np.linalg.eig(S)
    return lam, U, np.linalg.inv(U)


def fourier_filter(U: Tensor, U_inverse: Tensor, h: Tensor, x: Tensor) -> Tensor:
    """y_f = sum_g U diag(h_fg) U^-1 x_g, h (N, F, G), in complex numbers; the imaginary part is dropped at the end."""
    x_hat = U_inverse @ x.to(U.dtype).mT  # (batch, N, G)
    y_hat = torch.einsum("nfg,bng->bnf", h.to(U.dtype), x_hat)
    return (U @ y_hat).mT.real


def matrix_filter(U: Tensor, U_inverse: Tensor, h: Tensor, x: Tensor) -> Tensor:
    H = torch.einsum("in,nfg,nj->fgij", U, h.to(U.dtype), U_inverse).real
    return torch.einsum("fgij,bgj->bfi", H, x)


def kernel_of(reference: Any, lam: Array) -> Array:
    """B (N, b), rows in the order of `lam`; a kernel that is an array has rows by the eigenvalues of the filter."""
    if isinstance(reference.kernel, str):
        return cox_de_boor(lam.real, reference.n_basis)
    own = reference.fourier.eigenvalues
    return reference.kernel[np.abs(lam[:, None] - own).argmin(axis=1)]


def _spectral(
    reference: Any, style: str, S: Any = None, inverse: Any = None, kernel: Any = None, bias: Any = plus_bias
) -> Layer:
    """`inverse` makes what stands for U^-1 of U, `kernel` changes B (its rows come with the eigenvalues)."""
    lam, U, U_inverse = eigenbasis(weights(reference) if S is None else S)
    B = kernel_of(reference, lam)
    B = torch.tensor(B if kernel is None else kernel(B, lam))
    U_inverse = U_inverse if inverse is None else inverse(U)
    left, right = (torch.tensor(np.asarray(a, np.complex128)) for a in (U, U_inverse))
    run = matrix_filter if style == "matrix" else fourier_filter

    def layer(params: Params, x: Tensor) -> Tensor:
        h = torch.einsum("nm,mfg->nfg", B.to(x.dtype), params["b"])
        complex_dtype = torch.complex64 if x.dtype == torch.float32 else torch.complex128
        return bias(run(left.to(complex_dtype), right.to(complex_dtype), h, x), params)

    return layer


def _shift_invariant(reference: Any, style: str, transposed: bool = False, bias: Any = plus_bias) -> Layer:
    """The basis is a choice and is read off the filter; all else is done again, in frequencies or with dense Phi."""
    U, B = np.array(reference.basis.fourier.U, np.complex128), np.array(reference.basis.B, np.complex128)
    family = np.einsum("in,nd,nj->dij", U, B, np.linalg.inv(U)).real  # Phi = sum_d mu_d family_d
    if transposed:
        family, U = family.swapaxes(-1, -2), np.linalg.inv(U).T
    Phis = torch.tensor(family)
    left, right, h_of = (torch.tensor(a) for a in (U, np.linalg.inv(U), B))

    def layer(params: Params, x: Tensor) -> Tensor:
        mu = params["mu"]
        if style == "dense":
            Phi = torch.einsum("kfgd,dij->kfgij", mu, Phis.to(x.dtype))
            w = x[:, None].expand(-1, mu.shape[1], -1, -1)
            states = recursion(Phi, w)
            y = sum(states if reference.zeroth == "none" else [w, *states]).sum(2)
        else:
            complex_dtype = torch.complex64 if x.dtype == torch.float32 else torch.complex128
            product = torch.ones(len(left), *mu.shape[1:3], dtype=complex_dtype)
            h = product if reference.zeroth == "identity" else torch.zeros_like(product)
            for mu_k in mu:
                product = product * torch.einsum("nd,fgd->nfg", h_of.to(complex_dtype), mu_k.to(complex_dtype))
                h = h + product
            y = fourier_filter(left.to(complex_dtype), right.to(complex_dtype), h, x)
        return bias(y, params)

    return layer


BUILDERS: dict[str, Callable[..., Layer]] = {
    "spectral": _spectral,
    "shift_invariant_edge_variant": _shift_invariant,
}
