"""A loss at fixed targets, as a module: the checks see y = loss(x, target) and its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..contract import Parameters
from ..learn.losses import CrossEntropy, Loss, MeanSquaredError

BATCH = 4  # targets to choose from: x may have up to so many samples


class LossAtTarget:
    """y = loss(x, target), a number; there are no parameters, and there is no graph.

    >>> from evref.verify.gradcheck import complex_step
    >>> complex_step(LossAtTarget(CrossEntropy(), [2, 0, 1])).ok
    True
    """

    graph = None

    def __init__(self, loss: Loss, target: Any) -> None:
        self.loss, self.target = loss, np.asarray(target)
        self.signature = repr(self)
        self.in_shape = (3,) if self.target.ndim == 1 else self.target.shape[1:]

    def __repr__(self) -> str:
        return f"{self.loss!r} at {len(self.target)} targets"

    def init(self, rng: Any = None) -> Parameters:
        return {}

    def forward(self, params: Parameters, x: np.ndarray) -> tuple[float, Any]:
        return self.loss.forward(x, self.target[: len(x)])

    def backward(self, params: Parameters, tape: Any, grad_y: Any) -> tuple[Parameters, np.ndarray]:
        return {}, self.loss.backward(tape, grad_y)

    def jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> float:
        return self.loss.jvp(x, self.target[: len(x)], dx)


class _CrossEntropy:
    @staticmethod
    def examples(graph: Any, rng: Any = None) -> Iterator[LossAtTarget]:
        yield LossAtTarget(CrossEntropy(), np.arange(BATCH) % 3)


class _MeanSquaredError:
    @staticmethod
    def examples(graph: Any, rng: Any = None) -> Iterator[LossAtTarget]:
        yield LossAtTarget(MeanSquaredError(), np.cos(np.arange(3.0 * BATCH)).reshape(BATCH, 3))


loss_catalogue: dict[str, Any] = {"cross_entropy": _CrossEntropy, "mean_squared_error": _MeanSquaredError}
