"""Known mistakes in weights made of edge attributes: ECC and MoNet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from ...contract import Parameters
from ...filters import ECC, MoNet
from ...filters.generated import GeneratedEdgeVariant, degree_coordinates, edge_attributes
from ...graph import Graph
from .gradients import without
from .models import Array, Linear, Mapped, Regraded, in_turn, on_entry, scaled
from .variants import Variant, only_slice

KNOWN = {"ecc": ("attributes", edge_attributes), "monet": ("pseudo", degree_coordinates)}


def _other(core: Any, **changes: Any) -> Any:
    config = {**core.config(), **changes}
    return type(core)(changes.pop("graph", core.graph), **{k: v for k, v in config.items() if k != "graph"})


def transposed(core: Any) -> Iterator[Variant]:
    """Messages run along reversed edges; what is known of an edge stays with it."""
    if not isinstance(core, GeneratedEdgeVariant):
        return
    graph = core.graph.transposed()
    name, default = KNOWN[core.name]
    known = getattr(core, name)
    yield Variant("S is transposed", _other(core, graph=graph, **{name: known[core.graph.transpose]}))
    if np.array_equal(known, default(core.graph)):
        yield Variant("S is transposed, the degrees too", _other(core, graph=graph, **{name: default(graph)}))
        own = {name: default(graph)[np.argsort(core.graph.transpose)]}
        yield Variant("in- and out-degrees are exchanged in what is known of an edge", _other(core, **own))


def self_entries(core: Any) -> Iterator[Variant]:
    if isinstance(core, GeneratedEdgeVariant):
        there = core.self_entries
        says = "self entries are left out" if there else "self entries (i, i) take part without a self-loop"
        yield Variant(says, _other(core, self_entries=not there))


def aggregation(core: Any) -> Iterator[Variant]:
    if isinstance(core, GeneratedEdgeVariant):
        right, wrong = ("the sum", "mean") if core.aggregation == "sum" else ("the mean", "sum")
        yield Variant(f"the {wrong} over neighbours for {right}", _other(core, aggregation=wrong))
    if isinstance(core, MoNet) and core.kernels > 1:
        yield Variant("the mean over kernels for their sum", Mapped(core, on_entry("theta", scaled(1 / core.kernels))))
    if isinstance(core, GeneratedEdgeVariant) and core.root and core.in_features > 1:
        share = scaled(1 / core.in_features)
        model = Mapped(core, on_entry("theta", share)) if isinstance(core, MoNet) else _on_last_layer(core, share)
        yield Variant("the mean over input features for their sum, in the messages alone", model)


def alone(core: Any, self_entries: bool) -> Any:
    """The filter on a graph without edges; what is known of a node's own entry stays."""
    name, _ = KNOWN[core.name]
    own = getattr(core, name)[core.graph.diagonal]
    empty = Graph(sparse.csr_array(core.graph.S.shape))
    return _other(core, graph=empty, self_entries=self_entries, **{name: own})


def shared_kernels(core: Any) -> Iterator[Variant]:
    if isinstance(core, MoNet) and core.kernels > 1:
        for names in (("theta",), ("mu", "sigma")):
            same = in_turn(*(on_entry(name, only_slice(0, 0)) for name in names))
            yield Variant(f"{' and '.join(names)} of kernel 0 are used for every kernel", Mapped(core, same))
    if isinstance(core, ECC):
        for axis, count, role in ((0, core.out_features, "output"), (1, core.in_features, "input")):
            if count > 1:
                says = f"the network's weights of {role} feature 0 are used for every {role} feature"
                yield Variant(says, _on_last_layer(core, only_slice(0, axis)))


def _on_last_layer(core: Any, linear: Linear) -> Mapped:
    """`linear` on the F x G numbers that the last layer gives, axes (F, G, ...)."""
    F, G, last = core.out_features, core.in_features, len(core.hidden)

    def at(function: Any) -> Any:
        return lambda a: function(a.reshape(F, G, *a.shape[1:])).reshape(a.shape)

    changed = Linear(at(linear.apply), at(linear.adjoint))
    return Mapped(core, in_turn(on_entry(f"w{last}", changed), on_entry(f"b{last}", changed)))


def detached(core: Any) -> Iterator[Variant]:
    """Gradients of what makes the weights of the edges."""
    if isinstance(core, MoNet):
        says = "the Gaussians are detached: no gradient reaches mu and sigma"
        yield Variant(says, Regraded(core, without({"mu", "sigma"}, False)))
    if isinstance(core, GeneratedEdgeVariant) and core.root:
        made = set(core.parameter_shapes()) - {"root", "bias"}
        says = "the weights of the edges are detached: no gradient reaches what makes them"
        yield Variant(says, Regraded(core, without(made, False)))
    elif isinstance(core, ECC):
        made = set(core.parameter_shapes()) - {"bias"}
        says = "the weights of the edges are detached: no gradient reaches the network that makes them"
        yield Variant(says, Regraded(core, without(made, False)))


def missing_root(core: Any) -> Iterator[Variant]:
    if isinstance(core, GeneratedEdgeVariant) and core.root:
        for factor, says in ((0.0, "is missing"), (2.0, "counts twice")):
            yield Variant(f"the weight Theta of the node itself {says}", Mapped(core, on_entry("root", scaled(factor))))


def weights_transposed(core: Any) -> Iterator[Variant]:
    """The F x G matrix of every edge, read column by column."""
    if not isinstance(core, ECC):
        return
    F, G = core.out_features, core.in_features
    if F > 1 and G > 1:
        columns = Linear(
            lambda a: a.reshape(G, F, *a.shape[2:]).swapaxes(0, 1),
            lambda a: a.swapaxes(0, 1).reshape(a.shape),
        )
        yield Variant("the F x G matrix that the network gives is transposed", _on_last_layer(core, columns))


# ---- Gaussians -------------------------------------------------------------------------------------------------------
# psi and its derivative with respect to nu, where Xi nu = u - mu: nu (R, D, nnz), psi (R, nnz)
def _opposite_sign(nu: Array) -> tuple[Array, Array]:
    psi = np.exp(0.5 * (nu * nu).sum(axis=1))
    return psi, psi[:, None] * nu


def _no_half(nu: Array) -> tuple[Array, Array]:
    psi = np.exp(-(nu * nu).sum(axis=1))
    return psi, -2 * psi[:, None] * nu


def _of_the_norm(nu: Array) -> tuple[Array, Array]:
    norm = np.sqrt((nu * nu).sum(axis=1))
    psi = np.exp(-0.5 * norm)
    return psi, -0.5 * (psi / np.maximum(norm, 1e-300))[:, None] * nu


def _of_absolute_values(nu: Array) -> tuple[Array, Array]:
    psi = np.exp(-0.5 * np.abs(nu).sum(axis=1))
    return psi, -0.5 * psi[:, None] * np.sign(nu)


def _without_square(nu: Array) -> tuple[Array, Array]:
    psi = np.exp(-0.5 * nu.sum(axis=1))
    return psi, -0.5 * psi[:, None] * np.ones_like(nu)


class OtherGaussians(MoNet):
    """MoNet with another function of nu in the place of exp(-|nu|^2 / 2).

    `power` says what divides u - mu along a coordinate of a diagonal covariance: sigma^power, 1 where all is right.
    """

    shape: Callable[[Array], tuple[Array, Array]]
    power: float = 1.0

    def _nu(self, params: Parameters) -> tuple[Array, Array, Array]:
        sigma = params["sigma"]
        if self.power != 1.0:
            sigma = np.sign(sigma) * np.abs(sigma) ** self.power
        Xi = self._factors(sigma)
        d = self.pseudo.T - params["mu"][:, :, None]
        return np.linalg.solve(Xi, d), Xi, d

    def _generate(self, params: Parameters) -> tuple[Array, Any]:
        nu, Xi, _ = self._nu(params)
        psi, slope = type(self).shape(nu)
        return np.einsum("rfg,rp->fgp", params["theta"], psi), (psi, slope, nu, Xi)

    def _generate_backward(self, params: Parameters, saved: Any, grad: Array) -> Parameters:
        psi, slope, nu, Xi = saved
        arriving = slope * np.einsum("rfg,fgp->rp", params["theta"], grad)[:, None]
        q = np.linalg.solve(Xi.transpose(0, 2, 1), arriving)
        rows, columns = self._places
        grad_sigma = -np.einsum("rap,rbp->rab", q, nu)[:, rows, columns]
        if self.power != 1.0:
            grad_sigma = grad_sigma * self.power * np.abs(params["sigma"]) ** (self.power - 1)
        return {"theta": np.einsum("rp,fgp->rfg", psi, grad), "mu": -q.sum(axis=-1), "sigma": grad_sigma}


def _gaussian(nu: Array) -> tuple[Array, Array]:
    psi = np.exp(-0.5 * (nu * nu).sum(axis=1))
    return psi, -psi[:, None] * nu


def exponents(core: Any) -> Iterator[Variant]:
    if not isinstance(core, MoNet):
        return
    ways: list[tuple[str, Any, float]] = [
        ("the sign in the exponent: exp(+q/2) for exp(-q/2)", _opposite_sign, 1.0),
        ("the square is missing in the exponent: exp(-|nu|/2) with the norm of nu", _of_the_norm, 1.0),
        ("the square is missing in the exponent: exp(-|nu|/2) coordinate by coordinate", _of_absolute_values, 1.0),
        ("the square is missing in the exponent: exp(-(u - mu)/(2 sigma))", _without_square, 1.0),
        ("the 1/2 is missing in the exponent", _no_half, 1.0),
    ]
    if core.covariance == "diagonal":
        ways += [
            ("the square of sigma is missing in the exponent: (u - mu)^2 / sigma", _gaussian, 0.5),
            ("sigma multiplies in the exponent where it should divide", _gaussian, -1.0),
            ("sigma, not squared, multiplies in the exponent where sigma^2 should divide", _gaussian, -0.5),
        ]
    for says, shape, power in ways:
        kind = type("OtherGaussians", (OtherGaussians,), {"shape": staticmethod(shape), "power": power})
        yield Variant(says, kind(core.graph, **core.config()))
