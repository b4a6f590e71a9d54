"""Known mistakes in filters given by a spectral kernel: the inverse of U, the rows of B."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...filters import SpectralGCNN
from .models import Array, Arrays
from .variants import Variant


class InOtherBasis:
    """y_f = sum_g Re(U diag(B b_fg) V) x_g with another B, or another V in the place of U^-1."""

    def __init__(self, filt: SpectralGCNN, B: Array, V: Array) -> None:
        U = filt.fourier.U
        self.family = np.stack([((U * B[:, m]) @ V).real for m in range(filt.n_basis)])  # (b, N, N)

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        return np.einsum("mfg,mij,bgj->bfi", params["b"], self.family, x, optimize=True), x

    def backward(self, params: Arrays, x: Array, grad_y: Array) -> tuple[Arrays, Array]:
        grad_b = np.einsum("bfi,mij,bgj->mfg", grad_y, self.family, x, optimize=True)
        return {"b": grad_b}, np.einsum("mfg,mij,bfi->bgj", params["b"], self.family, grad_y, optimize=True)


DENSE_NODES = 200


def fourier_inverse(core: Any) -> Iterator[Variant]:
    """R6: the inverse of U is its conjugate transpose for normal S only."""
    if isinstance(core, SpectralGCNN) and core.graph.n_nodes <= DENSE_NODES:
        U, B = core.fourier.U, core.B
        yield Variant("U^H stands for U^-1", InOtherBasis(core, B, U.conj().T))
        if np.iscomplexobj(U):
            yield Variant("U^T stands for U^-1", InOtherBasis(core, B, U.T))
        yield Variant("U and U^-1 are exchanged", _ExchangedBasis(core))


class _ExchangedBasis(InOtherBasis):
    def __init__(self, filt: SpectralGCNN) -> None:
        U, V = filt.fourier.U, filt.fourier.U_inverse
        self.family = np.stack([((V * filt.B[:, m]) @ U).real for m in range(filt.n_basis)])


def spline_end(core: Any) -> Iterator[Variant]:
    """The spline of the authors' script: eigenvalues unsorted, and nothing at the right end."""
    if not isinstance(core, SpectralGCNN) or core.graph.n_nodes > DENSE_NODES:
        return
    V, lam = core.fourier.U_inverse, core.fourier.eigenvalues.real
    B = core.B.copy()
    B[lam == lam.max()] = 0
    yield Variant(
        "the kernel has no row for the largest eigenvalue (the right end of the spline)", InOtherBasis(core, B, V)
    )
    yield Variant("the rows of the kernel belong to eigenvalues in reverse order", InOtherBasis(core, core.B[::-1], V))
