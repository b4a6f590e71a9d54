"""MoNet: neighbours are weighed by Gaussians of learnable mean and width in coordinates of the edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from .. import checks
from ..contract import Parameters
from ..graph import Graph
from .generated import Aggregation, GeneratedEdgeVariant, as_entry_values, degree_coordinates, edge_attributes

Covariance = Literal["diagonal", "full"]
NARROWEST = 1e-8  # a width below this is taken for 0: no two coordinates of single precision are that close


class MoNet(GeneratedEdgeVariant):
    r"""Mixture-model network (Monti et al. 2017), one edge-variant step, eq. (evConv, 9) with K = 1:

    .. math::

        y_{f,i} = \sum_{r=1}^{R} \sum_g \theta_{rfg} \sum_{j \in \mathcal{N}_i \cup i} \chi_{ij} \, \psi_r(u_{ij})
        \, x_{g,j} \; [+ \Theta_{fg} x_{g,i}], \qquad
        \psi_r(u) = \exp\left(-\tfrac12 (u - \mu_r)^\top \Sigma_r^{-1} (u - \mu_r)\right),

    so that :math:`\varphi_{fg} = \sum_r \theta_{rfg} \psi_r` and :math:`[\Phi_{fg}]_{ij} = \chi_{ij}
    \varphi_{fg}(u_{ij})`. The covariance is :math:`\Sigma_r = \Xi_r \Xi_r^\top` with :math:`\Xi_r` lower triangular:
    on its diagonal are the widths (standard deviations), and with ``covariance="diagonal"``, the publication's choice
    in its experiments, it has nothing else.

    Adjoint, with :math:`\bar\varphi_{fg,ij} = \chi_{ij} \sum_{\text{batch}} \bar y_{f,i} x_{g,j}`,
    :math:`\Xi_r \nu_r = u_{ij} - \mu_r` (so that :math:`\psi_r = \exp(-|\nu_r|^2/2)`),
    :math:`\gamma_r = \psi_r \sum_{fg} \theta_{rfg} \bar\varphi_{fg,ij}` and
    :math:`\Xi_r^\top q_r = \gamma_r \nu_r`:

    .. math::

        \frac{\partial L}{\partial \theta_{rfg}} = \sum_{ij} \psi_r(u_{ij}) \bar\varphi_{fg,ij}, \qquad
        \frac{\partial L}{\partial \mu_r} = \sum_{ij} q_r, \qquad
        \frac{\partial L}{\partial \Xi_r} = \sum_{ij} q_r \nu_r^\top ;

    tangent :math:`\dot\psi_r = -\psi_r \nu_r^\top \dot\nu_r` with
    :math:`\Xi_r \dot\nu_r = -\dot\mu_r - \dot\Xi_r \nu_r`. Line by line: ``docs/generated.md``.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["theta"] : (kernels, out_features, in_features)
    params["mu"] : (kernels, n), n coordinates of an entry
    params["sigma"] : (kernels, n), the widths; with covariance="full" (kernels, n (n + 1) / 2), the lower triangle of
        Xi row by row; the sign of a width does not matter
    params["root"] : (out_features, in_features), only with root=True
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    pseudo : array_like, shape (nnz, n), optional
        u, one row per entry of I + S in CSR order (`evref.filters.generated.on_support` brings an edge list into it).
        By default the publication's (1/sqrt(deg i), 1/sqrt(deg j)), which move with the nodes: then the filter is
        equivariant.
    kernels : int
        R, the number of Gaussians.
    in_features, out_features : int
        G and F.
    covariance : {"diagonal", "full"}
    aggregation : {"sum", "mean"}
        "sum" as published; "mean" divides by the number of terms, as PyG's `GMMConv` does unless told otherwise.
    root : bool
        Whether there is a Theta_fg, a weight for the node itself beside its entry (i, i).
    self_entries : bool
        Whether (i, i) counts as an edge where S has no self-loop.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For coordinates of another shape, NaN or inf in them; for a width of zero among the parameters.

    Examples
    --------
    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(2, source=[0], target=[1])
    >>> filt = ev.MoNet(graph, pseudo=[[0.0], [2.0], [0.0]], kernels=1)  # entries (0, 0), (1, 0), (1, 1)
    >>> params = {"theta": np.ones((1, 1, 1)), "mu": np.zeros((1, 1)), "sigma": np.ones((1, 1))}
    >>> filt.forward(params, np.array([1.0, 0.0]))[0].round(4)  # exp(-0), exp(-2)
    array([1.    , 0.1353])
    """

    name = "monet"
    axes: ClassVar[dict[str, str]] = {"theta": "rfg", "root": "fg", "mu": "rd", "sigma": "rd"}

    def __init__(
        self,
        graph: Graph,
        pseudo: Any = None,
        kernels: int = 3,
        in_features: int = 1,
        out_features: int = 1,
        *,
        covariance: Covariance = "diagonal",
        aggregation: Aggregation = "sum",
        root: bool = False,
        self_entries: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, in_features, out_features, aggregation, root, self_entries, bias)
        self.pseudo = as_entry_values("pseudo", degree_coordinates(graph) if pseudo is None else pseudo, graph)
        self.kernels = checks.as_count("kernels", kernels, minimum=1)
        self.covariance: Covariance = checks.as_choice("covariance", covariance, Covariance)
        D = self.pseudo.shape[1]
        self._places = (np.arange(D), np.arange(D)) if self.covariance == "diagonal" else np.tril_indices(D)

    def _generator_shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "theta": (self.kernels, self.out_features, self.in_features),
            "mu": (self.kernels, self.pseudo.shape[1]),
            "sigma": (self.kernels, len(self._places[0])),
        }

    def _init_scale(self, name: str) -> float:
        """1/sqrt(G R) for what multiplies signals; means in ±1, where degree coordinates lie; widths below."""
        return {"mu": 1.0, "sigma": 0.5}.get(name, (self.in_features * self.kernels) ** -0.5)

    def init(self, rng: Any = None, *, dtype: Any = np.float64) -> Parameters:
        """As everywhere, but for the widths, which start in 1 ± 0.5: a width of zero is no Gaussian."""
        params = super().init(rng, dtype=dtype)
        params["sigma"][:, self._places[0] == self._places[1]] += 1
        return params

    def _factors(self, sigma: np.ndarray) -> np.ndarray:
        """Xi, (R, D, D), from its learnable entries."""
        rows, columns = self._places
        widths = sigma.real[:, rows == columns]
        if (np.abs(widths) < NARROWEST).any():
            r, d = (int(i) for i in np.argwhere(np.abs(widths) < NARROWEST)[0])
            raise ValueError(
                f"params['sigma'] has the width {widths[r, d]:g} for kernel {r} along coordinate {d}; "
                f"expected at least {NARROWEST:g} in size, for the Gaussian divides by it"
            )
        Xi = np.zeros((self.kernels, *2 * self.pseudo.shape[1:]), sigma.dtype)
        Xi[:, rows, columns] = sigma
        return Xi

    def _gaussians(self, params: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """psi (R, nnz), nu (R, D, nnz) and Xi (R, D, D), with Xi nu = u - mu and psi = exp(-|nu|^2 / 2)."""
        Xi = self._factors(params["sigma"])
        nu = np.linalg.solve(Xi, self.pseudo.T.astype(Xi.dtype) - params["mu"][:, :, None])
        return np.exp(-0.5 * (nu * nu).sum(axis=1)), nu, Xi

    def _generate(self, params: Parameters) -> tuple[np.ndarray, Any]:
        psi, nu, Xi = self._gaussians(params)
        return np.einsum("rfg,rp->fgp", params["theta"], psi), (psi, nu, Xi)

    def _generate_backward(self, params: Parameters, saved: Any, grad: np.ndarray) -> Parameters:
        psi, nu, Xi = saved
        gamma = psi * np.einsum("rfg,fgp->rp", params["theta"], grad)
        q = np.linalg.solve(Xi.transpose(0, 2, 1), gamma[:, None] * nu)  # (R, D, nnz)
        rows, columns = self._places
        return {
            "theta": np.einsum("rp,fgp->rfg", psi, grad),
            "mu": q.sum(axis=-1),
            "sigma": np.einsum("rap,rbp->rab", q, nu)[:, rows, columns],
        }

    def _generate_jvp(self, params: Parameters, dparams: Parameters) -> np.ndarray:
        psi, nu, Xi = self._gaussians(params)
        dXi = np.zeros_like(Xi)
        rows, columns = self._places
        dXi[:, rows, columns] = dparams["sigma"]
        dnu = np.linalg.solve(Xi, -dparams["mu"][:, :, None] - dXi @ nu)
        dpsi = -psi * (nu * dnu).sum(axis=1)
        return np.einsum("rfg,rp->fgp", dparams["theta"], psi) + np.einsum("rfg,rp->fgp", params["theta"], dpsi)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """[H_fg]_ij = c_ij sum_r theta_rfg psi_r(u_ij) + [i = j] Theta_fg, edge by edge, with Sigma^-1 written out."""
        params = self._checked_parameters(params)
        inverse = [np.linalg.inv(xi @ xi.T) for xi in self._factors(params["sigma"])]

        def block(p: int) -> np.ndarray:
            total = np.zeros((self.out_features, self.in_features), np.result_type(*params.values()))
            for r in range(self.kernels):
                d = self.pseudo[p] - params["mu"][r]
                total = total + params["theta"][r] * np.exp(-0.5 * (d @ inverse[r] @ d))
            return total

        return self._matrix_of(block, params)

    @property
    def n_generation_operations(self) -> int:
        D = self.pseudo.shape[1]
        solved = len(self._places[0])  # multiply-adds of one substitution
        return self.graph.nnz * self.kernels * (solved + D + self.out_features * self.in_features)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Diagonal and full covariance, sum and mean, with and without root and self-entries; two coordinates, three.

        With three a triangle of Xi in another order than row by row shows.
        """
        sizes: dict[str, Any] = {"kernels": 2, "in_features": 2, "out_features": 3}
        yield cls(graph, root=True, bias=True, **sizes)
        yield cls(graph, covariance="full", **sizes)
        options: dict[str, Any] = {"aggregation": "mean", "self_entries": False, "root": True}
        yield cls(graph, edge_attributes(graph), covariance="full", **options, **sizes)
