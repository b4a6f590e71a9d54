"""The two systems inside a Cayley filter, (hS + iI) z = b, solved exactly or by Jacobi iterations; and their adjoints.

A complex signal z = z' + iz'' is an array with a leading axis of length 2, (z', z''), and every operation is written
for the two real parts. "Take the real part" is then "take the first", which is analytic in all parameters: a complex
step passes, where a complex number would have to be conjugated. The adjoint of a complex matrix acting on pairs is its
conjugate transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from ..kernels.shift_reference import shifted


class Numerator:
    """hS - iI and its conjugate transpose hS^T + iI, on pairs."""

    def __init__(self, S: sparse.csr_array, h: Any) -> None:
        self.S, self.h = S, h

    def numerator(self, z: np.ndarray) -> np.ndarray:
        shift = self.h * shifted(self.S, z)
        return np.stack([shift[0] + z[1], shift[1] - z[0]])

    def numerator_adjoint(self, grad_b: np.ndarray) -> np.ndarray:
        shift = self.h * shifted(self.S.T, grad_b)
        return np.stack([shift[0] - grad_b[1], shift[1] + grad_b[0]])


class Exact(Numerator):
    """(hS + iI) z = b by one sparse factorisation: [[I, hS], [hS, -I]] (z', z'') = (b'', b'), of real matrices."""

    def __init__(self, S: sparse.csr_array, h: Any) -> None:
        super().__init__(S, h)
        eye = sparse.eye_array(S.shape[0], dtype=S.dtype)
        self.factors = _factorised(sparse.block_array([[eye, h * S], [h * S, -eye]]).astype(S.dtype).tocsc(), h)

    def solve(self, b: np.ndarray) -> tuple[np.ndarray, None]:
        return self._by_factors(b[::-1], "N"), None

    def solve_adjoint(self, grad_z: np.ndarray, z: np.ndarray, left: None) -> tuple[np.ndarray, Any]:
        """grad_b with (hS + iI)^H grad_b = grad_z, and -<grad_b, S z>, the part of grad_h from the left-hand matrix."""
        grad_b = self._by_factors(grad_z, "T")[::-1]
        return grad_b, -inner_product(grad_b, shifted(self.S, z))

    def solve_tangent(self, db: np.ndarray, dh: Any, z: np.ndarray, left: None) -> np.ndarray:
        return self.solve(db - dh * shifted(self.S, z))[0]

    def _by_factors(self, b: np.ndarray, transposed: str) -> np.ndarray:
        _, batch, features, nodes = b.shape
        columns = np.ascontiguousarray(b.transpose(0, 3, 1, 2).reshape(2 * nodes, batch * features))
        if not columns.size:
            return np.zeros_like(b)
        solution = self.factors.solve(columns, transposed)  # type: ignore[call-overload]
        return solution.reshape(2, nodes, batch, features).transpose(0, 2, 3, 1)


class Jacobi(Numerator):
    """J + 1 steps z <- (hΔ + iI)^-1 (b - hO z) from z = 0; Δ is the diagonal of S and O the rest."""

    def __init__(self, S: sparse.csr_array, h: Any, iterations: int) -> None:
        super().__init__(S, h)
        self.iterations = iterations
        self.diagonal = S.diagonal()
        self.rest = sparse.csr_array(S - sparse.diags_array(self.diagonal))
        q = 1 + (h * self.diagonal) ** 2
        self.inverse = h * self.diagonal / q, -1 / q  # of hΔ + iI, as a pair

    def solve(self, b: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """The last iterate, and all of them."""
        iterates = [self._divided(b)]
        for _ in range(self.iterations):
            iterates.append(self._divided(b - self.h * shifted(self.rest, iterates[-1])))
        return iterates[-1], iterates

    def solve_adjoint(self, grad_z: np.ndarray, z: np.ndarray, iterates: list[np.ndarray]) -> tuple[np.ndarray, Any]:
        """Cotangent of b, the sum over iterations, and the part of grad h that does not come through b."""
        grad_b, grad_h, grad_iterate = np.zeros_like(grad_z), 0, grad_z
        for t in range(self.iterations, -1, -1):
            q = self._divided(grad_iterate, conjugate=True)
            grad_b += q
            grad_h = grad_h - inner_product(q, self._slope(iterates, t))
            grad_iterate = -self.h * shifted(self.rest.T, q)
        return grad_b, grad_h

    def solve_tangent(self, db: np.ndarray, dh: Any, z: np.ndarray, iterates: list[np.ndarray]) -> np.ndarray:
        dz = np.zeros_like(db)
        for t in range(self.iterations + 1):
            dz = self._divided(db - self.h * shifted(self.rest, dz) - dh * self._slope(iterates, t))
        return dz

    def _slope(self, iterates: list[np.ndarray], t: int) -> np.ndarray:
        """Δ z^(t) + O z^(t-1): derivative of (hΔ + iI) z^(t) + hO z^(t-1) = b by h."""
        own = self.diagonal * iterates[t]
        return own + shifted(self.rest, iterates[t - 1]) if t else own

    def _divided(self, z: np.ndarray, conjugate: bool = False) -> np.ndarray:
        """(hΔ + iI)^-1 z, or its adjoint (hΔ - iI)^-1 z."""
        a, b = self.inverse
        b = -b if conjugate else b
        return np.stack([a * z[0] - b * z[1], a * z[1] + b * z[0]])


def _factorised(matrix: sparse.csc_array, h: Any) -> SuperLU:
    message = (
        f"hS + iI is singular at h = {complex(h).real:.6g}: S has an eigenvalue ±i/h; expected another h, "
        "or a symmetric S, whose eigenvalues are real"
    )
    try:
        factors = splu(matrix)
    except RuntimeError as error:  # "Factor is exactly singular"
        raise ValueError(message) from error
    pivots = np.abs(factors.U.diagonal())
    if pivots.min() < 64 * np.finfo(matrix.dtype).eps * pivots.max():  # zero, as far as rounding can tell
        raise ValueError(message)
    return factors


def inner_product(a: np.ndarray, b: np.ndarray) -> Any:
    """Inner product of two pairs as real vectors; no conjugation."""
    return np.einsum("cbgn,cbgn->", a, b)
