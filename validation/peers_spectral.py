"""The spectral GCNN and the shift-invariant edge-variant filter a second time, for torch and JAX to differentiate.

Nothing here uses evref; of a filter only its settings and the arrays of its graph are read. The two versions are
different on purpose: torch decomposes S with `torch.linalg.eig` and computes in complex numbers throughout, with the
splines from the Cox-de Boor recursion; JAX gets real matrices, one per parameter, put together from the projectors on
the eigenspaces, which do not depend on the choice of eigenvectors. The null-space basis is a choice: it is read off
the filter (B at the eigenvalues) and everything after it is done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray


def cox_de_boor(points: Array, n_basis: int) -> Array:
    """Clamped B-splines of degree min(3, n_basis - 1) with uniform knots on [min, max] of the points."""
    low, high = points.min(), points.max()
    if high - low <= 1e-13 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    degree = min(3, n_basis - 1)
    pieces = n_basis - degree
    # linspace ends at `high` to the bit; a last knot one rounding short of it would leave the largest point a zero row
    knots = [low] * degree + list(np.linspace(low, high, pieces + 1)) + [high] * degree
    values = np.zeros((len(points), n_basis))
    for row, t in enumerate(points):
        t = min(max(t, low), high)
        at = [float(a <= t < b or (t == high and b == high and a < b)) for a, b in pairwise(knots)]
        for k in range(1, degree + 1):
            at = [
                (at[m] * (t - knots[m]) / (knots[m + k] - knots[m]) if knots[m + k] > knots[m] else 0.0)
                + (
                    at[m + 1] * (knots[m + k + 1] - t) / (knots[m + k + 1] - knots[m + 1])
                    if knots[m + k + 1] > knots[m + 1]
                    else 0.0
                )
                for m in range(len(at) - 1)
            ]
        values[row] = at
    return values


def _dense(filt: Any) -> Array:
    return filt.graph.S.toarray().astype(np.float64)


def _with_bias(params: Mapping[str, Any], y: Any) -> Any:
    return y + params["bias"][:, None] if "bias" in params else y


def _matched(own: Array, theirs: Array) -> Array:
    """For each of our eigenvalues the place of one of theirs that is equal to it."""
    return np.abs(own[:, None] - theirs).argmin(axis=1)


# ---- torch -----------------------------------------------------------------------------------------------------------
def torch_spectral(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """y_f = sum_g U diag(B b_fg) U^-1 x_g in complex arithmetic; the imaginary part is dropped at the very end."""
    import torch

    lam, U = torch.linalg.eig(torch.as_tensor(_dense(filt)))
    if isinstance(filt.kernel, str):
        B = cox_de_boor(lam.real.numpy(), filt.n_basis)
    else:  # an array: rows follow the eigenvalues of the filter
        B = filt.kernel[_matched(lam.numpy(), filt.fourier.eigenvalues)]
    h = torch.einsum("nm,mfg->fgn", torch.as_tensor(B), params["b"]).to(U.dtype)
    x_hat = torch.linalg.solve(U, x.to(U.dtype).transpose(-1, -2))  # (batch, N, G)
    y = torch.einsum("in,fgn,xng->xfi", U, h, x_hat)
    return _with_bias(params, y.real)


def torch_shift_invariant(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """H = U (sum_k prod_{kappa<=k} diag(B mu^(kappa))) U^-1: all in the frequency domain, no matrix on the support."""
    import torch

    U = torch.as_tensor(np.array(filt.basis.fourier.U, dtype=np.complex128))
    B = torch.as_tensor(np.array(filt.basis.B, dtype=np.complex128))
    product = torch.ones(filt.out_features, filt.in_features, len(U), dtype=U.dtype)
    h = product if filt.zeroth == "identity" else torch.zeros_like(product)
    for mu in params["mu"]:
        product = product * torch.einsum("nd,fgd->fgn", B, mu.to(U.dtype))
        h = h + product
    x_hat = torch.linalg.solve(U, x.to(U.dtype).transpose(-1, -2))
    y = torch.einsum("in,fgn,xng->xfi", U, h, x_hat)
    return _with_bias(params, y.real)


# ---- JAX -------------------------------------------------------------------------------------------------------------
def projectors(S: Array) -> tuple[Array, Array]:
    """Distinct eigenvalues (r,) and the matrices (r, N, N) with S = sum_r lambda_r P_r.

    P = R (L^H R)^-1 L^H of each eigenvalue's right and left eigenvectors R, L, as many as it has: it does not depend on
    which ones the solver picked.
    """
    from scipy.linalg import eig

    eigenvalues, left, right = eig(S, left=True, right=True)
    scale = max(np.abs(eigenvalues).max(), 1e-300)
    distinct, family, open_ = [], [], set(range(len(S)))
    while open_:
        value = eigenvalues[min(open_)]
        group = [n for n in sorted(open_) if abs(eigenvalues[n] - value) <= 1e-9 * scale]
        open_ -= set(group)
        L, R = left[:, group].conj().T, right[:, group]
        distinct.append(value)
        family.append(R @ np.linalg.solve(L @ R, L))
    return np.array(distinct), np.array(family)


def _jax_real_sum(subscripts: str, B: Array, P: Array) -> Any:
    """The real part of an einsum, in JAX, so that its terms are those of the sum over the eigenvalues."""
    import jax.numpy as jnp

    real, imaginary = (
        jnp.einsum(subscripts, jnp.asarray(b), jnp.asarray(p)) for b, p in ((B.real, P.real), (B.imag, P.imag))
    )
    return real - imaginary


def jax_spectral(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """y_f = sum_g sum_m b_m B_m(S) x_g with B_m(S) = sum over distinct eigenvalues of B_m(lambda) P_lambda."""
    import jax.numpy as jnp

    lam, P = projectors(_dense(filt))
    B = cox_de_boor(lam.real, filt.n_basis) if isinstance(filt.kernel, str) else None
    if B is None:
        B = filt.kernel[_matched(lam, filt.fourier.eigenvalues)]
    family = _jax_real_sum("rm,rij->mij", B, P)
    return _with_bias(params, jnp.einsum("mfg,mij,xgj->xfi", params["b"], family, x))


def jax_shift_invariant(filt: Any, params: Mapping[str, Any], x: Any) -> Any:
    """w^(k) = Phi^(k) w^(k-1) with dense Phi^(k) = sum_i mu_i B_i(S); needs one value of B per distinct eigenvalue."""
    import jax.numpy as jnp

    if filt.repeated == "free" and filt.basis.fourier.repeated:
        U, V = filt.basis.fourier.U, filt.basis.fourier.U_inverse
        family = _jax_real_sum("nd,nij->dij", filt.basis.B, np.einsum("in,nj->nij", U, V))
    else:
        lam, P = projectors(_dense(filt))
        B = filt.basis.B[_matched(lam, filt.basis.fourier.eigenvalues)]
        family = _jax_real_sum("rd,rij->dij", B, P)
    w = jnp.broadcast_to(x[:, None], (x.shape[0], filt.out_features, *x.shape[1:]))  # (batch, F, G, N)
    total = w if filt.zeroth == "identity" else jnp.zeros_like(w)
    for mu in params["mu"]:
        w = jnp.einsum("fgd,dij,xfgj->xfgi", mu, family, w)
        total = total + w
    return _with_bias(params, total.sum(2))


TORCH = {"spectral": torch_spectral, "shift_invariant_edge_variant": torch_shift_invariant}
JAX = {"spectral": jax_spectral, "shift_invariant_edge_variant": jax_shift_invariant}
