"""The same work in PyTorch Geometric, as its user would write it: a MessagePassing layer, gradients by autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn import MessagePassing

from . import peers_torch
from .cases import Contender, Problem
from .peers_torch import Forward

CHECKED = True
NAMES = dict.fromkeys(("edge-variant", "training", "polynomial", "node-variant"), ("PyG",))

prepare = peers_torch.prepare


def contender(name: str, p: Problem) -> Contender:
    forward = edge_variant(p) if p.case.kind in ("edge-variant", "training") else shifting(p)
    return peers_torch.autograd(p, forward, masked=False)


class WeightedSum(MessagePassing):
    """What the neighbours hold, weighted by edge."""

    def __init__(self) -> None:
        super().__init__(aggr="add", node_dim=0)

    def forward(self, x: Any, edge_index: Any, edge_weight: Any) -> Any:
        return self.propagate(edge_index, x=x, edge_weight=edge_weight)

    def message(self, x_j: Any, edge_weight: Any) -> Any:
        return edge_weight[:, None] * x_j


def edge_variant(p: Problem) -> Forward:
    """One propagation for every filter and step, self-loops among the edges."""
    F, G = p.case.F, p.case.G
    step = WeightedSum()
    edge_index = torch.stack([torch.tensor(p.indices, dtype=torch.int64), torch.tensor(p.rows)])

    def forward(phi: Any, x: Any) -> Any:
        by_node = x.permute(1, 2, 0).contiguous()  # (G, N, B)
        rows = []
        for f in range(F):
            total: Any = 0.0
            for g in range(G):
                w = by_node[g]
                for phi_k in phi[:, f, g].unbind():
                    w = step(w, edge_index, phi_k)
                    total = total + w
            rows.append(total)
        return torch.stack(rows).permute(2, 0, 1)

    return forward


def shifting(p: Problem) -> Forward:
    S = p.S.astype(p.dtype).tocoo()
    step = WeightedSum()
    edge_index = torch.stack([torch.tensor(a, dtype=torch.int64) for a in (S.col, S.row)])
    weight = torch.tensor(S.data)
    return peers_torch.shifting(p, lambda z: step(z, edge_index, weight))
