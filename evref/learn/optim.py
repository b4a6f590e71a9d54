"""Optimisers, written out: gradients in, new parameters out.

    state         = optimizer.init(params)
    params, state = optimizer.step(params, grads, state)

`step` returns new arrays and leaves the old ones alone, so an interrupt never leaves parameters half updated. The state
is a flat dict of arrays, which a checkpoint can hold as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from .. import checks, kernels
from ..contract import Parameters

Array = np.ndarray
State = dict[str, np.ndarray]


class Optimizer:
    """Base of the optimisers: checked entry points. An optimiser names its moments and writes `_update`."""

    moments: ClassVar[tuple[str, ...]]  # arrays kept for each parameter
    learning_rate: float
    weight_decay: float

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"

    def _state_shapes(self, params: Parameters) -> dict[str, tuple[int, ...]]:
        return {key: p.shape for name, p in params.items() for key in state_keys(self.moments, name)}

    def init(self, params: Mapping[str, Any]) -> State:
        """The state before the first step: zero steps, zero moments."""
        arrays = {name: checks.as_floating(f"params[{name!r}]", p) for name, p in params.items()}
        zeros = {key: np.zeros_like(p) for name, p in arrays.items() for key in state_keys(self.moments, name)}
        return {"step": np.zeros((), np.int64), **zeros}

    def step(
        self, params: Mapping[str, Any], grads: Mapping[str, Any], state: Mapping[str, Array], learning_rate: Any = None
    ) -> tuple[Parameters, State]:
        """New parameters and new state after one step along `grads`.

        `learning_rate` stands in for the optimiser's own for this step; schedules use it.
        """
        rate = self.learning_rate if learning_rate is None else checks.as_number("learning_rate", learning_rate, 0)
        arrays = {name: checks.as_floating(f"params[{name!r}]", p) for name, p in params.items()}
        shapes = {name: p.shape for name, p in arrays.items()}
        _require_arrays("grads", grads, shapes)
        _require_arrays("state", state, {"step": (), **self._state_shapes(arrays)})
        gradients = {name: np.asarray(g) for name, g in grads.items()}
        return self._step(arrays, gradients, state, rate)

    def _step(
        self, params: Parameters, grads: Parameters, state: Mapping[str, Array], rate: float
    ) -> tuple[Parameters, State]:
        """`step` without its checks: `fit` has checked once what does not change from step to step."""
        count = int(state["step"]) + 1
        arrays, gradients = list(params.values()), []
        for name, p in params.items():
            gradient = grads[name]
            if gradient.shape != p.shape:
                raise ValueError(f"grads[{name!r}] has shape {gradient.shape}; expected {p.shape}")
            if gradient.dtype != p.dtype:
                gradient = gradient.astype(p.dtype)
            gradients.append(gradient + self.weight_decay * p if self.weight_decay else gradient)
        keys = [state_keys(self.moments, name) for name in params]
        moments = [[state[key] for key in same] for same in zip(*keys, strict=True)]
        new_params, new_state = {}, {"step": np.array(count, np.int64)}
        updates = self._update(arrays, gradients, moments, rate, count) if params else ()
        for name, names, (p, *new) in zip(params, keys, updates, strict=True):
            new_params[name] = p
            new_state.update(zip(names, new, strict=True))
        return new_params, new_state

    def _update(
        self, params: list[Array], grads: list[Array], moments: list[list[Array]], rate: float, count: int
    ) -> Iterable[tuple[Array, ...]]:
        """(param, *moments) after a step, for each of `params`; moments has a list for each name of them."""
        raise TypeError(f"{type(self).__name__} defines no _update")


@cache  # a step asks for them again and again
def state_keys(moments: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(f"{moment}.{name}" for moment in moments)


def _require_arrays(argument: str, arrays: Mapping[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    if arrays.keys() != shapes.keys():
        raise ValueError(f"{argument} has the names {sorted(arrays)}; expected {sorted(shapes)}")
    for name, shape in shapes.items():
        array = checks.as_array(f"{argument}[{name!r}]", arrays[name])
        if array.shape != shape:
            raise ValueError(f"{argument}[{name!r}] has shape {array.shape}; expected {shape}")


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1). With g the gradient and t the number of the step, from 1,

        m <- beta1 m + (1 - beta1) g,        v <- beta2 v + (1 - beta2) g^2,
        param <- param - learning_rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon : float
        As above.
    weight_decay : float
        Adds weight_decay * param to the gradient (an L2 penalty, as in torch.optim.Adam; not AdamW).

    The first step has the size of the learning rate, whatever the size of the gradient:

    >>> adam = Adam(learning_rate=0.5)
    >>> params = {"w": np.array([1.0, 1.0])}
    >>> params, state = adam.step(params, {"w": np.array([1e-3, -8.0])}, adam.init(params))
    >>> params["w"].round(4)
    array([0.5, 1.5])
    """

    moments = ("m", "v")

    def __init__(
        self,
        learning_rate: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.learning_rate = checks.as_number("learning_rate", learning_rate, 0)
        self.beta1 = checks.as_number("beta1", beta1, 0, 1, open_high=True)
        self.beta2 = checks.as_number("beta2", beta2, 0, 1, open_high=True)
        self.epsilon = checks.as_number("epsilon", epsilon, 0)
        self.weight_decay = checks.as_number("weight_decay", weight_decay, 0)

    def _update(
        self, params: list[Array], grads: list[Array], moments: list[list[Array]], rate: float, count: int
    ) -> list[tuple[Array, ...]]:
        update = kernels.for_learning(params[0].dtype).adam_update
        return update(params, grads, *moments, rate, self.beta1, self.beta2, self.epsilon, count)


class SGD(Optimizer):
    """Gradient descent with momentum, v <- momentum v + g, param <- param - learning_rate d,

    where d = v, or g + momentum v with Nesterov's variant.

    Parameters
    ----------
    learning_rate, momentum : float
        As above; momentum 0 is plain gradient descent.
    nesterov : bool
        Look ahead along the momentum; needs momentum > 0.
    weight_decay : float
        Adds weight_decay * param to the gradient.

    >>> sgd = SGD(learning_rate=0.5)
    >>> params = {"w": np.array([4.0])}
    >>> params, state = sgd.step(params, {"w": np.array([2.0])}, sgd.init(params))
    >>> params["w"]
    array([3.])
    """

    moments = ("v",)

    def __init__(
        self, learning_rate: float, *, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
    ) -> None:
        self.learning_rate = checks.as_number("learning_rate", learning_rate, 0)
        self.momentum = checks.as_number("momentum", momentum, 0)
        self.nesterov = checks.as_flag("nesterov", nesterov)
        self.weight_decay = checks.as_number("weight_decay", weight_decay, 0)
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov is True but momentum is 0; expected momentum > 0")

    def _update(
        self, params: list[Array], grads: list[Array], moments: list[list[Array]], rate: float, count: int
    ) -> Iterator[tuple[Array, ...]]:
        for p, gradient, v in zip(params, grads, moments[0], strict=True):
            v = self.momentum * v + gradient
            direction = gradient + self.momentum * v if self.nesterov else v
            yield p - rate * direction, v
