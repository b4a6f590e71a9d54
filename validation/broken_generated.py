"""Broken ECC and MoNet: the node's own weight, its own entry, exponents, kernels that pass no gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from broken_base import Registry, made, typical, with_params
from right_layers import Layer

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()

# ---- zeroth-term, self-loops -----------------------------------------------------------------------------------------
for _name in ("ecc", "monet"):
    _reference = typical(_name, root=True)
    BROKEN.add("zeroth-term", _name, "no root", _reference, with_params(root=torch.zeros_like))
    BROKEN.add("zeroth-term", _name, "root twice", _reference, with_params(root=lambda root: root + root))
    for _aggregation in ("sum", "mean"):
        for _there in (True, False):
            BROKEN.add(
                "self-loops",
                _name,
                f"self_entries={not _there} for {_there}, {_aggregation}",
                typical(_name, self_entries=_there, aggregation=_aggregation),
                made(self_entries=not _there),
            )


# ---- exponent --------------------------------------------------------------------------------------------------------
def of(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Layer]:
    """function(q) for exp(-q / 2), q the squared distance."""
    return made(psi=function)


def distance(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any], Layer]:
    """exp(-distance / 2) of another distance of d = u - mu (edges, n) with sigma (n,)."""
    return made(distance=function)


EXPONENTS: dict[str, tuple[Any, Callable[[Any], Layer]]] = {
    "exp(q / 2)": ({}, of(lambda q: torch.exp(0.5 * q))),
    "exp(-q)": ({}, of(lambda q: torch.exp(-q))),
    "exp(q / 2), full covariance": ({"covariance": "full"}, of(lambda q: torch.exp(0.5 * q))),
    "exp(-|nu| / 2), the norm": ({}, of(lambda q: torch.exp(-0.5 * q.sqrt()))),
    "no square at all": ({}, distance(lambda d, sigma: (d / sigma).sum(-1))),
    "absolute values for squares": ({}, distance(lambda d, sigma: (d / sigma).abs().sum(-1))),
    "sigma for sigma^2": ({}, distance(lambda d, sigma: (d**2 / sigma).sum(-1))),
    "sigma^2 as a factor": ({}, distance(lambda d, sigma: (d**2 * sigma**2).sum(-1))),
    "sigma as a factor": ({}, distance(lambda d, sigma: (d**2 * sigma).sum(-1))),
}
for _words, (_config, _build) in EXPONENTS.items():
    BROKEN.add("exponent", "monet", _words, typical("monet", **_config), _build)


# ---- detached --------------------------------------------------------------------------------------------------------
def kernels_detached(reference: Any) -> Layer:
    """The Gaussians are made under no_grad: theta learns, mu and sigma do not."""
    from right_generated import gaussian
    from right_layers import right

    return right(reference, psi=lambda q: gaussian(q.detach()))


for _config in ({}, {"root": True, "bias": True}):
    BROKEN.add(
        "detached",
        "monet",
        "the Gaussians under no_grad" + "".join(f", {key}" for key in _config),
        typical("monet", **_config),
        kernels_detached,
    )
    BROKEN.add(
        "detached",
        "ecc",
        "the weights of the edges detached" + "".join(f", {key}" for key in _config),
        typical("ecc", **_config),
        made(kernel=lambda kernel: kernel.detach()),
    )
