"""An edge-variant layer that keeps its weights in dense matrices, with a mask where there is no road."""

import torch
from torch import Tensor, nn


class DenseEdgeVariant(nn.Module):
    """x (batch, channels, sensors) -> (batch, outputs, sensors).

    roads[i, j] is true where sensor i hears sensor j; every sensor hears itself.
    """

    def __init__(self, roads: Tensor, steps: int, channels: int, outputs: int) -> None:
        super().__init__()
        n = len(roads)
        self.register_buffer("mask", (roads | torch.eye(n, dtype=torch.bool)).double())
        self.kernel = nn.Parameter(torch.randn(steps, outputs, channels, n, n) / n)

    def forward(self, x: Tensor) -> Tensor:
        state, y = x[:, None], torch.zeros((), dtype=x.dtype)
        for step in self.kernel * self.mask:
            state = torch.einsum("fgij,bfgj->bfgi", step, state.expand(-1, len(step), -1, -1))
            y = y + state
        return y.sum(2)
