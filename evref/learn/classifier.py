"""The network that the paper trains is one kernel: an edge-variant layer, ReLU, a dense readout, cross-entropy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from .. import kernels
from ..contract import Module, Parameters
from ..filters import EdgeVariant
from .activations import ReLU
from .dense import Dense
from .losses import CrossEntropy, Loss
from .network import Network
from .optim import Adam, State, state_keys

Array = np.ndarray

LEARNED = ("0.phi", "0.phi0", "0.bias", "2.weight", "2.bias")  # in the order of the kernels
FIRST, SECOND = zip(*(state_keys(Adam.moments, name) for name in LEARNED), strict=True)  # names of their moments


class Classifier:
    """Such a network with its loss, as a whole (:mod:`evref.kernels.classifier_reference`)."""

    def __init__(self, network: Network) -> None:
        self.network, self.filter = network, cast(EdgeVariant, network.layers[0])
        self.learned = [(i, name) for i, name in enumerate(LEARNED) if name in network.parameter_shapes()]

    @classmethod
    def of(cls, network: Module, loss: Loss) -> Classifier | None:
        """None for any other network or loss. Subclasses may do anything: they are others."""
        if type(network) is not Network or type(loss) is not CrossEntropy:
            return None
        return cls(network) if tuple(map(type, network.layers)) == (EdgeVariant, ReLU, Dense) else None

    def _five(self, params: Parameters) -> tuple[Array, Array | None, Array | None, Array, Array | None]:
        part = self.network._part(params, 0)
        return part["phi"], self.filter._phi0(part), part.get("bias"), params["2.weight"], params.get("2.bias")

    def gradients(self, params: Parameters, x: Array, label: Array) -> tuple[float, Parameters]:
        """The loss on one batch, and its derivatives."""
        kernel = kernels.for_classifiers(x.dtype)
        value, grads = kernel.loss_and_gradients(self.filter.pattern, self._five(params), x, label)
        return value, {name: grads[i] for i, name in self.learned}

    def step(
        self, adam: Adam, params: Parameters, state: Mapping[str, Array], x: Array, label: Array, rate: float
    ) -> tuple[float, Parameters, State]:
        """The loss on one batch, and parameters and state after a step of Adam on it. All of one dtype."""
        count = int(state["step"]) + 1
        ms, vs = tuple(map(state.get, FIRST)), tuple(map(state.get, SECOND))
        constants = rate, adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay, count
        kernel = kernels.for_classifiers(x.dtype)
        value, updated = kernel.adam_step(self.filter.pattern, self._five(params), ms, vs, x, label, *constants)
        new_params: Parameters = {}
        new_state = {"step": np.array(count, np.int64)}
        for i, name in self.learned:
            new_params[name], new_state[FIRST[i]], new_state[SECOND[i]] = updated[i]
        return value, new_params, new_state
