"""Cayley filters: polynomials in the Cayley transform of S, by an exact solve or by Jacobi iterations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from ..kernels.shift_reference import shifted
from . import cayley_embedding
from .base import Filter
from .cayley_systems import Exact, Jacobi, inner_product
from .edge_variant import EdgeVariant
from .newton import newton_embedding
from .parallel import ParallelEdgeVariant
from .polynomial import graph_frequencies


class CayleyNet(Filter):
    r"""Cayley filter bank (Levie, Monti, Bresson, Bronstein 2017/2019; Remark 1 of the paper):

    .. math::

        y_f = \sum_g \Big( c_{0,fg}\, x_g + 2\,\mathrm{Re} \sum_{k=1}^{K} c_{k,fg}\, z_{k,g} \Big), \qquad
        (\eta S + \mathrm{i}I)\, z_k = (\eta S - \mathrm{i}I)\, z_{k-1}, \qquad z_0 = x,

    with real :math:`c_0`, complex :math:`c_k` and a learned zoom :math:`\eta` (the parameter h). The transfer function
    is :math:`c_0 + 2\,\mathrm{Re} \sum_k c_k \mathcal{C}(\eta\lambda)^k` with the Cayley transform
    :math:`\mathcal{C}(s) = (s - \mathrm{i})/(s + \mathrm{i})`, which maps the real line to the unit circle; at a
    complex eigenvalue of a directed graph it is :math:`c_0 + \sum_k (c_k \mathcal{C}^k + c_k^* \mathcal{C}^{-k})`. The
    sign of the zoom is redundant: with :math:`-\eta` every :math:`c_k` becomes its conjugate.

    ``iterations=None`` solves exactly (a sparse LU factorisation). ``iterations=J`` takes J Jacobi iterations,
    with :math:`\Delta` the diagonal and O the rest of S:

    .. math::

        z_k^{(t+1)} = (\eta\Delta + \mathrm{i}I)^{-1} \big( (\eta S - \mathrm{i}I) z_{k-1} - \eta O z_k^{(t)} \big),
        \qquad z_k^{(-1)} = 0, \qquad z_k = z_k^{(J)},

    so that :math:`z_k^{(0)}` is what Levie et al. start from. They converge if and only if the spectral radius
    of :math:`\eta (\eta\Delta + \mathrm{i}I)^{-1} O` is below 1 (`convergence_rate`): for every zoom on a Laplacian.

    Tangent (exact): :math:`(\eta S + \mathrm{i}I) \dot z_k = (\eta S - \mathrm{i}I) \dot z_{k-1} + \dot\eta S (z_{k-1}
    - z_k)`, from :math:`\dot z_0 = \dot x`. Adjoint, for the inner product Re z^H b (the adjoint of a complex matrix is
    then its conjugate transpose), with :math:`\bar y` = `grad_y`, :math:`\bar z_k` the cotangent of :math:`z_k` and
    :math:`\bar b_k` that of the right-hand side :math:`(\eta S - \mathrm{i}I) z_{k-1}`, from k = K down to 1:

    .. math::

        \bar z_K = 2 c_K^{*\top} \bar y, \qquad
        (\eta S + \mathrm{i}I)^H \bar b_k = \bar z_k, \qquad
        \bar z_{k-1} = 2 c_{k-1}^{*\top} \bar y + (\eta S - \mathrm{i}I)^H \bar b_k \quad (k \ge 2),

    .. math::

        \frac{\partial L}{\partial x} = c_0^\top \bar y + \mathrm{Re}\big[ (\eta S - \mathrm{i}I)^H \bar b_1 \big],
        \qquad \frac{\partial L}{\partial \eta} = \sum_{k=1}^{K} \mathrm{Re}\big[ \bar b_k^H S (z_{k-1} - z_k) \big],

    .. math::

        \frac{\partial L}{\partial c_0} = \langle \bar y, x \rangle, \qquad
        \frac{\partial L}{\partial\,\mathrm{Re}\,c_k} = 2 \langle \bar y, \mathrm{Re}\,z_k \rangle, \qquad
        \frac{\partial L}{\partial\,\mathrm{Im}\,c_k} = -2 \langle \bar y, \mathrm{Im}\,z_k \rangle .

    The Jacobi version is differentiated as it is computed, iteration by iteration: ``docs/rational.md``.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["c0"] : (F, G)
    params["c_re"], params["c_im"] : (order, F, G), real and imaginary part of c_1, ..., c_K
    params["h"] : (1,)
    params["bias"] : (F,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S as it is; Levie et al. use a Laplacian, e.g. ``graph.with_shift("normalized_laplacian")``. With
        ``iterations=None`` hS + iI must be invertible: always so for a symmetric S, otherwise no eigenvalue of S may be
        :math:`\pm i/h`.
    order : int
        K, at least 1.
    in_features, out_features : int
        G and F.
    iterations : int or None
        J Jacobi iterations for each of the K systems, or None for the exact solution. The factors of the exact solve
        are sparse only as far as the graph allows: reckon with 32 N² bytes on graphs that are not (several thousand
        nodes).
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For counts out of range; on forward, for a singular hS + iI.

    Examples
    --------
    On one edge the eigenvalues of S are 1 and -1; C(1) = -i and C(-1) = i, so with c_1 = i/2 the filter is S itself:

    >>> import numpy as np, evref as ev
    >>> filt = ev.CayleyNet(ev.generators.path(2), order=1)
    >>> params = {"c0": [[0.0]], "c_re": [[[0.0]]], "c_im": [[[0.5]]], "h": [1.0]}
    >>> filt.forward(params, np.array([3.0, 5.0]))[0]
    array([5., 3.])
    """

    name = "cayley"
    axes: ClassVar[dict[str, str]] = {"c0": "fg", "c_re": "kfg", "c_im": "kfg"}
    equivariant = True

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        iterations: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.order = checks.as_count("order", order, minimum=1)
        self.iterations = None if iterations is None else checks.as_count("iterations", iterations)

    @property
    def reach(self) -> int | None:
        """None for the exact inverse, which hears the whole component; K (J + 1) for J iterations."""
        return None if self.iterations is None else self.order * (self.iterations + 1)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        K, F, G = self.order, self.out_features, self.in_features
        return {"c0": (F, G), "c_re": (K, F, G), "c_im": (K, F, G), "h": (1,)}

    def _init_scale(self, name: str) -> float:
        return (self.in_features * (2 * self.order + 1)) ** -0.5

    def init(self, rng: Any = None, *, dtype: Any = np.float64) -> Parameters:
        """Uniform in ± 1/sqrt(G (2K + 1)); h in [1/2, 3/2], where C spreads the spectrum of a normalised Laplacian."""
        rng = checks.as_rng(rng)
        params = super().init(rng, dtype=dtype)
        return {**params, "h": rng.uniform(0.5, 1.5, 1).astype(params["h"].dtype)}

    # ---- forward, adjoint, tangent ---------------------------------------------------------------------------------
    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        system = self._system(params["h"], x.dtype)
        z, inner = self._transforms(system, x)
        y = params["c0"] @ x
        for c_re, c_im, (u, v) in zip(params["c_re"], params["c_im"], z[1:], strict=True):
            y += 2 * (c_re @ u - c_im @ v)
        return y, (system, z, inner)

    def _transforms(self, system: Exact | Jacobi, x: np.ndarray) -> tuple[list[np.ndarray], list[Any]]:
        """z_0, ..., z_K, each (2, batch, G, N), and what each solve leaves for its adjoint."""
        z, inner = [np.stack([x, np.zeros_like(x)])], []
        for _ in range(self.order):
            solution, left = system.solve(system.numerator(z[-1]))
            z.append(solution)
            inner.append(left)
        return z, inner

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        system, z, inner = saved
        c_re, c_im = params["c_re"].swapaxes(1, 2), params["c_im"].swapaxes(1, 2)
        grads = {name: np.zeros_like(params[name]) for name in self._shapes()}
        grads["c0"] = _outer(grad_y, z[0][0])
        grad_z = np.zeros_like(z[0])
        for k in range(self.order, 0, -1):
            grads["c_re"][k - 1] = 2 * _outer(grad_y, z[k][0])
            grads["c_im"][k - 1] = -2 * _outer(grad_y, z[k][1])
            grad_z = grad_z + 2 * np.stack([c_re[k - 1] @ grad_y, -c_im[k - 1] @ grad_y])
            grad_b, grad_h = system.solve_adjoint(grad_z, z[k], inner[k - 1])
            grads["h"] += grad_h + inner_product(grad_b, shifted(system.S, z[k - 1]))
            grad_z = system.numerator_adjoint(grad_b)
        return grads, params["c0"].T @ grad_y + grad_z[0]

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        system, dh = self._system(params["h"], x.dtype), dparams["h"][0]
        z, inner = self._transforms(system, x)
        dz = np.stack([dx, np.zeros_like(dx)])
        dy = params["c0"] @ dx + dparams["c0"] @ x
        for k in range(1, self.order + 1):
            dnumerator = system.numerator(dz) + dh * shifted(system.S, z[k - 1])
            dz = system.solve_tangent(dnumerator, dh, z[k], inner[k - 1])
            dy += 2 * (params["c_re"][k - 1] @ dz[0] - params["c_im"][k - 1] @ dz[1])
            dy += 2 * (dparams["c_re"][k - 1] @ z[k][0] - dparams["c_im"][k - 1] @ z[k][1])
        return dy

    def _system(self, h: np.ndarray, dtype: np.dtype) -> Exact | Jacobi:
        S = self.graph.S.astype(dtype)
        return Exact(S, h[0]) if self.iterations is None else Jacobi(S, h[0], self.iterations)

    # ---- what it is ------------------------------------------------------------------------------------------------
    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """Dense, with every complex matrix A + iB as the real [[A, -B], [B, A]] of twice the size."""
        params = self._checked_parameters(params)
        N, h = self.graph.n_nodes, params["h"][0]
        S = self.graph.dense_shift(4 * self.in_features * self.out_features)  # of twice the size
        D, O, Z, eye = np.diag(np.diag(S)), S - np.diag(np.diag(S)), np.zeros_like(S), np.eye(N)

        def real(A: np.ndarray, B: np.ndarray) -> np.ndarray:
            return np.block([[A, -B], [B, A]])

        if self.iterations is None:
            C = np.linalg.solve(real(h * S, eye), real(h * S, -eye))
        else:
            inverse = np.linalg.inv(real(h * D, eye))
            b = inverse @ real(h * S, -eye)
            C, jacobi = b, -inverse @ real(h * O, Z)
            for _ in range(self.iterations):
                C = jacobi @ C + b
        H, power = params["c0"][..., None, None] * eye, np.eye(2 * N)
        for c_re, c_im in zip(params["c_re"], params["c_im"], strict=True):
            power = C @ power
            H = H + 2 * (c_re[..., None, None] * power[:N, :N] - c_im[..., None, None] * power[N:, :N])
        return H

    def exact_matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H of the exact inverse: what the Jacobi iterations tend to, where they converge."""
        return self._exactly().matrix(params)

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_fg at the eigenvalues of S (or at `frequencies`), (F, G, number of them); of the filter as it computes.

        With Jacobi iterations the filter has a transfer function only if the diagonal of S is constant.
        """
        params = self._checked_parameters(params)
        lam, h = graph_frequencies(self.graph, frequencies), params["h"][0]
        H = params["c0"][..., None] + np.zeros(lam.shape)
        values = []
        for i in (1j, -1j):  # C and, with -i for i, what is its conjugate at a real frequency
            if self.iterations is None:
                C = (h * lam - i) / (h * lam + i)
            else:
                d = self._constant_diagonal()
                C = sum((-h * (lam - d) / (h * d + i)) ** k for k in range(self.iterations + 1))
                C = C * (h * lam - i) / (h * d + i)
            powers = C ** np.arange(1, self.order + 1)[:, None]
            values.append(np.einsum("jfg,jn->fgn", params["c_re"] + i * params["c_im"], powers))
        total = values[0] + values[1]
        return H + (total.real if all(np.isrealobj(a) for a in (lam, *params.values())) else total)

    def exact_response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """The rational transfer function, whatever `iterations` is."""
        return self._exactly().response(params, frequencies)

    def _exactly(self) -> CayleyNet:
        return CayleyNet(self.graph, self.order, self.in_features, self.out_features, iterations=None, bias=self.bias)

    def convergence_rate(self, params: Mapping[str, Any]) -> float:
        """Spectral radius of the Jacobi matrix h (hΔ + iI)^-1 O: each iteration multiplies the error by about this."""
        h = self._checked_parameters(params)["h"][0].real
        S = self.graph.dense_shift()
        d = np.diag(S)
        return float(np.abs(np.linalg.eigvals((h / (h * d + 1j))[:, None] * (S - np.diag(d)))).max())

    # ---- into the edge-variant recursion ---------------------------------------------------------------------------
    def _rational(self) -> NotRepresentable:
        return NotRepresentable(
            "iterations is None: the exact filter is rational in S and hears whole components, so that no recursion of "
            "a fixed order is the same on every graph (on this one a polynomial of order at most "
            f"{self.graph.n_nodes - 1} is, made of its whole spectrum); expected iterations=J, of order K (J + 1)"
        )

    def _constant_diagonal(self) -> float:
        d = self.graph.S.diagonal()
        if np.ptp(d) > 0:
            raise NotRepresentable(
                f"J Jacobi iterations are a polynomial in S only if its diagonal is constant; it runs from {d.min():g} "
                f"to {d.max():g}"
            )
        return float(d[0])

    def coefficients(self, params: Mapping[str, Any]) -> np.ndarray:
        """Coefficients of 1, s, ..., s^(K (J + 1)) of the finite filter, constant diagonal, (K (J + 1) + 1, F, G)."""
        params = self._checked_parameters(params)
        if self.iterations is None:
            raise self._rational()
        return cayley_embedding.coefficients(params, self._constant_diagonal(), self.iterations)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant | ParallelEdgeVariant, Parameters]:
        """Jacobi on a constant diagonal: a polynomial of order K (J + 1), hence one edge-variant recursion.

        On another diagonal: a parallel sum of recursions of the same order, while its terms are few
        (:mod:`evref.filters.cayley_embedding`). The exact inverse hears whole components and is neither.
        """
        checked = self._checked_parameters(params)
        if self.iterations is None:
            raise self._rational()
        if np.ptp(self.graph.S.diagonal()) > 0:
            return cayley_embedding.parallel(self.graph, checked, self.iterations)
        return newton_embedding(self.graph, self.coefficients(params), bias=checked.get("bias"))

    def n_operations(self, batch: int = 1) -> int:
        """Real multiply-adds; the exact solve is counted with full factors, the factorisation itself is not."""
        K, F, G, N, nnz = self.order, self.out_features, self.in_features, self.graph.n_nodes, self.graph.S.nnz
        if self.iterations is None:
            solve = (2 * N) ** 2
        else:
            off_diagonal = nnz - self.graph.n_self_loops
            solve = self.iterations * 2 * off_diagonal + (self.iterations + 1) * 4 * N
        return checks.as_count("batch", batch) * (K * G * (2 * nnz + solve) + (1 + 2 * K) * F * G * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """One Jacobi iteration; several; none; the exact inverse."""
        for iterations in (1, 3, 0, None):
            yield cls(graph, order=2, in_features=2, out_features=2, iterations=iterations, bias=iterations == 1)


def _outer(grad_y: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Sum over batch and nodes of grad_y_f u_g: (F, G)."""
    return (grad_y @ u.swapaxes(1, 2)).sum(axis=0)
