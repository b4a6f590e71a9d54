"""Broken weights, in every filter: a matrix used as (in, out) for (out, in), one slice used twice or for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from broken_base import Registry, made, typical, with_params
from right_layers import node_mixed

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()
SQUARE: dict[str, Any] = {"in_features": 3, "out_features": 3}


# ---- weights-transposed: (in, out) as torch.nn.Linear keeps it the other way round -----------------------------------
def in_out(weight: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return weight.mT


def in_out_before_entries(weight: Tensor) -> Tensor:
    """The same where a last axis of entries, nodes or basis functions follows."""
    return weight.transpose(-2, -3)


TRANSPOSED: dict[str, list[dict[str, Callable[[Tensor], Tensor]]]] = {
    "polynomial": [{"phi": in_out}],
    "tagcn": [{"phi": in_out}],
    "selection_gcnn": [{"phi": in_out}],
    "chebyshev": [{"theta": in_out}],
    "gcn": [{"theta": in_out}],
    "edge_variant": [{"phi": in_out_before_entries}],
    "hybrid_edge_variant": [{"phi": in_out_before_entries, "poly": in_out, "phi0": in_out_before_entries}],
    "critical_edge": [{"phi": in_out_before_entries, "poly": in_out}],
    "arma": [{"w0": in_out, "w": in_out, "v": in_out}, {"w": in_out}, {"v": in_out}],
    "cayley": [{"c0": in_out, "c_re": in_out, "c_im": in_out}, {"c0": in_out}],
    "monet": [{"theta": in_out, "root": in_out}, {"root": in_out}],
    "spectral": [{"b": in_out}],
    "shift_invariant_edge_variant": [{"mu": in_out_before_entries}],
}
for _name, _ways in TRANSPOSED.items():
    for _way in _ways:
        _config = {"root": True} if _name == "monet" else {}
        BROKEN.add(
            "weights-transposed",
            _name,
            f"{' and '.join(_way)} as (in, out)",
            typical(_name, **SQUARE, **_config),
            with_params(**_way),
        )
for _name in ("hybrid_edge_variant", "critical_edge"):
    BROKEN.add("weights-transposed", _name, "poly as (in, out)", typical(_name, **SQUARE), made(poly=in_out))
BROKEN.add(
    "weights-transposed",
    "edge_variant",
    "phi and phi0 as (in, out)",
    typical("edge_variant", zeroth="diagonal", **SQUARE),
    with_params(phi=in_out_before_entries, phi0=in_out_before_entries),
)


def node_mixed_in_out(coefficients: Tensor, states: Sequence[Tensor]) -> Tensor:
    return node_mixed(in_out_before_entries(coefficients), states)


BROKEN.add(
    "weights-transposed",
    "node_variant",
    "phi as (in, out)",
    typical("node_variant", **SQUARE),
    made(mix=node_mixed_in_out),
)
BROKEN.add(
    "weights-transposed",
    "arma",
    "w as (in, out), F != G",
    typical("arma"),
    with_params(w=in_out),
)
BROKEN.add(
    "weights-transposed",
    "attention",
    "W of every head as (in, out)",
    typical("attention", in_features=3, out_features=6, heads=2),
    with_params(weight=in_out),
)
BROKEN.add(
    "weights-transposed",
    "ecc",
    "kernels as (in, out)",
    typical("ecc", **SQUARE),
    made(kernel=in_out),
)
BROKEN.add(
    "weights-transposed",
    "ecc",
    "kernels read as (in, out), F != G",
    typical("ecc"),
    made(kernel=lambda kernel: kernel.reshape(len(kernel), kernel.shape[2], kernel.shape[1]).mT),
)


# ---- shared-weights --------------------------------------------------------------------------------------------------
def slices(*index: int) -> Callable[[Tensor], Tensor]:
    """A loop over the wrong slices: weight[index[k]] for weight[k]."""
    return lambda weight: weight[list(index)]


def first_for_all(axis: int) -> Callable[[Tensor], Tensor]:
    """One slice that broadcasting spreads over the axis."""
    return lambda weight: weight.narrow(axis, 0, 1).expand_as(weight)


COEFFICIENTS = {"polynomial": "phi", "chebyshev": "theta", "node_variant": "phi", "selection_gcnn": "phi"}
for _name, _parameter in COEFFICIENTS.items():
    for _index in ((0, 0, 2, 3), (0, 1, 1, 3), (0, 1, 1, 1)):
        BROKEN.add(
            "shared-weights",
            _name,
            f"{_parameter}[k] for k = {_index}",
            typical(_name),
            with_params(**{_parameter: slices(*_index)}),
        )
BROKEN.add("shared-weights", "tagcn", "phi[k] for k = (0, 1, 1)", typical("tagcn"), with_params(phi=slices(0, 1, 1)))
BROKEN.add(
    "shared-weights", "dcnn", "weight[k] for k = (0, 0, 2, 3)", typical("dcnn"), with_params(weight=slices(0, 0, 2, 3))
)
BROKEN.add("shared-weights", "dcnn", "one weight per hop", typical("dcnn"), with_params(weight=first_for_all(1)))
for _name in ("edge_variant", "parallel_edge_variant"):
    BROKEN.add("shared-weights", _name, "phi[0] in every step", typical(_name), with_params(phi=first_for_all(0)))
BROKEN.add(
    "shared-weights",
    "edge_variant",
    "phi[k] for k = (0, 0, 2)",
    typical("edge_variant"),
    with_params(phi=slices(0, 0, 2)),
)
for _name in ("hybrid_edge_variant", "critical_edge"):
    BROKEN.add("shared-weights", _name, "poly[k] for k = (0, 0, 2)", typical(_name), made(poly=slices(0, 0, 2)))
    BROKEN.add("shared-weights", _name, "phi[0] in every step", typical(_name), with_params(phi=first_for_all(0)))
BROKEN.add(
    "shared-weights",
    "shift_invariant_edge_variant",
    "mu[0] in every step",
    typical("shift_invariant_edge_variant"),
    with_params(mu=first_for_all(0)),
)
BROKEN.add(
    "shared-weights",
    "cayley",
    "c[0] in every term",
    typical("cayley"),
    with_params(c_re=first_for_all(0), c_im=first_for_all(0)),
)
BROKEN.add(
    "shared-weights",
    "arma",
    "w[0] in every iteration",
    typical("arma", shared=False),
    with_params(w=first_for_all(0)),
)

OUTPUTS: dict[str, dict[str, int]] = {
    "polynomial": {"phi": 1},
    "tagcn": {"phi": 1},
    "chebyshev": {"theta": 1},
    "selection_gcnn": {"phi": 1},
    "node_variant": {"phi": 1},
    "gcn": {"theta": 0},
    "edge_variant": {"phi": 1},
    "parallel_edge_variant": {"phi": 1},
    "shift_invariant_edge_variant": {"mu": 1},
    "cayley": {"c0": 0, "c_re": 1, "c_im": 1},
    "spectral": {"b": 1},
    "monet": {"theta": 1},
}
for _name, _axes in OUTPUTS.items():
    BROKEN.add(
        "shared-weights",
        _name,
        "one filter for all output features",
        typical(_name),
        with_params(**{parameter: first_for_all(axis) for parameter, axis in _axes.items()}),
    )
BROKEN.add(
    "shared-weights", "gcn", "one weight for all input features", typical("gcn"), with_params(theta=first_for_all(1))
)
BROKEN.add(
    "shared-weights", "spectral", "one coefficient for all of B", typical("spectral"), with_params(b=first_for_all(0))
)
BROKEN.add(
    "shared-weights",
    "arma",
    "stack 0 for all stacks",
    typical("arma"),
    with_params(w0=first_for_all(0), w=first_for_all(1), v=first_for_all(1)),
)
BROKEN.add(
    "shared-weights",
    "monet",
    "theta[0] for every kernel",
    typical("monet"),
    with_params(theta=first_for_all(0)),
)
BROKEN.add(
    "shared-weights",
    "monet",
    "one Gaussian for all kernels",
    typical("monet"),
    with_params(mu=first_for_all(0), sigma=first_for_all(0)),
)
BROKEN.add(
    "shared-weights",
    "ecc",
    "row 0 of every kernel for all output features",
    typical("ecc"),
    made(kernel=first_for_all(1)),
)
BROKEN.add(
    "shared-weights",
    "attention",
    "head 0 for all heads",
    typical("attention", out_features=6, heads=2),
    with_params(weight=first_for_all(0), source=first_for_all(0), target=first_for_all(0)),
)


def one_vector_for_both_ends(reference: Any) -> Any:
    """a . z_i + a . z_j with one vector a."""
    from right_layers import right

    layer = right(reference)
    return lambda params, x: layer({**params, "target": params["source"]}, x)


BROKEN.add(
    "shared-weights",
    "attention",
    "a_source for a_target",
    typical("attention", out_features=6, heads=2),
    one_vector_for_both_ends,
)
