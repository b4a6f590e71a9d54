"""A ChebNet layer: polynomials of a scaled Laplacian in the Chebyshev basis."""

import torch
from torch import Tensor, nn


class ChebLayer(nn.Module):
    """x (batch, sensors, channels) -> (batch, sensors, outputs); `degree` + 1 linear maps, one per polynomial."""

    def __init__(self, laplacian: Tensor, degree: int, channels: int, outputs: int, offset: bool = True) -> None:
        super().__init__()
        self.register_buffer("laplacian", laplacian)
        self.mix = nn.ModuleList(nn.Linear(channels, outputs, bias=False) for _ in range(degree + 1))
        self.offset = nn.Parameter(torch.zeros(outputs)) if offset else None

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for k in range(1, len(self.mix)):
            step = self.laplacian @ states[-1]
            states.append(step if k == 1 else 2 * step - states[-2])
        y = sum(mix(state) for mix, state in zip(self.mix, states, strict=True))
        return y if self.offset is None else y + self.offset
