"""A layer, a network and signals for the tests of the PyTorch bridge."""

from __future__ import annotations

import torch

import evref as ev
from evref.bridges.torch import EvrefModule, FilterModule, NetworkModule
from evref.verify.examples import probe_graph

GRAPH = probe_graph(5, "directed")
FILTER = ev.EdgeVariant(GRAPH, order=2, in_features=1, out_features=2, bias=True)


def layer(rng: int = 0, **options) -> FilterModule:
    return FilterModule(FILTER, rng=rng, **options)


def network() -> NetworkModule:
    return NetworkModule(ev.Network([ev.EdgeVariant(GRAPH, 1), ev.Tanh(), ev.Dense((1, 5), outputs=2)]), rng=0)


def signals(*shape: int, seed: int = 0, **options) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, **options)


X = signals(3, 1, 5)


def gradient(module: EvrefModule, x: torch.Tensor = X) -> torch.Tensor:
    module.zero_grad()
    module(x).pow(2).sum().backward()
    return module.phi.grad.clone()
