"""From a filter to a trained network: layers, losses, networks, optimisers, training, storage.

`layer_catalogue` maps each layer's name to its class, as `evref.filters.catalogue` does for filters.
"""

from __future__ import annotations

from ..contract import Module
from . import schedules
from .activations import Identity, LeakyReLU, MaxActivation, MedianActivation, ReLU, Sigmoid, Tanh
from .dense import Dense
from .losses import CrossEntropy, Loss, MeanSquaredError, accuracy, encode_labels
from .network import Network
from .optim import SGD, Adam, Optimizer
from .storage import load_network, load_parameters, save_network, save_parameters
from .training import FitResult, fit

layer_catalogue: dict[str, type[Module]] = {
    layer.name: layer
    for layer in (Identity, ReLU, LeakyReLU, Tanh, Sigmoid, MaxActivation, MedianActivation, Dense, Network)
}

__all__ = [
    "SGD",
    "Adam",
    "CrossEntropy",
    "Dense",
    "FitResult",
    "Identity",
    "LeakyReLU",
    "Loss",
    "MaxActivation",
    "MeanSquaredError",
    "MedianActivation",
    "Network",
    "Optimizer",
    "ReLU",
    "Sigmoid",
    "Tanh",
    "accuracy",
    "encode_labels",
    "fit",
    "layer_catalogue",
    "load_network",
    "load_parameters",
    "save_network",
    "save_parameters",
    "schedules",
]
