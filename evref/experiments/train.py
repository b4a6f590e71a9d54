"""Train a network on one cell of an experiment, and what is kept of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..learn import Adam, CrossEntropy, FitResult, Network, fit

Array = np.ndarray


class Splits(NamedTuple):
    """Signals (samples, features, nodes) in float32 and integer labels, three times."""

    x_train: Array
    y_train: Array
    x_valid: Array
    y_valid: Array
    x_test: Array
    y_test: Array


def fitted(
    net: Network,
    data: Splits,
    epochs: int,
    batch: int,
    learning_rate: float,
    validate_every: int,
    seed_sequence: np.random.SeedSequence,
) -> FitResult:
    """Train `net` with Adam from a fresh start.

    Start and order of the samples come from `seed_sequence`, each from a stream of its own: networks with different
    numbers of parameters see the samples in the same order.

    Raises
    ------
    RuntimeError
        The training diverged.
    KeyboardInterrupt
        The training was interrupted: half a training is no result.
    """
    start, order = (
        np.random.default_rng(np.random.SeedSequence(seed_sequence.entropy, spawn_key=(*seed_sequence.spawn_key, i)))
        for i in range(2)
    )
    result = fit(
        net,
        net.init(start, dtype=np.float32),
        (data.x_train, data.y_train),
        loss=CrossEntropy(),
        optimizer=Adam(learning_rate),
        epochs=epochs,
        batch_size=batch,
        validation=(data.x_valid, data.y_valid),
        validate_every=validate_every,
        rng=order,
        progress=False,
    )
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    if result.stopped != "epochs":
        raise RuntimeError(result.reason)
    return result


def train(
    net: Network,
    data: Splits,
    epochs: int,
    batch: int,
    learning_rate: float,
    validate_every: int,
    seed_sequence: np.random.SeedSequence,
) -> dict[str, Any]:
    """Train `net` as :func:`fitted` does, and test it.

    Returns
    -------
    dict, fit for JSON
        "best", "last" : test accuracy in percent, with the weights best on validation and with the last ones
        "parameters", "operations" : of the network; operations are multiply-adds of one sample's forward pass
        "seconds_per_epoch", "epochs" : seconds include validation
        "train_loss" : mean over each epoch
        "validation_accuracy" : in percent, at each validation
        "confusion" : test samples by true (row) and predicted (column) class, with the best weights
    """
    result = fitted(net, data, epochs, batch, learning_rate, validate_every, seed_sequence)
    predicted = {
        which: net.predict(params, data.x_test, check_finite=False).argmax(axis=1)
        for which, params in (("best", result.best), ("last", result.last))
    }
    rows = [{"step": 0, "epoch": 0}, *result.history]
    loss = np.zeros(epochs)
    steps = np.zeros(epochs)
    for before, row in pairwise(rows):
        loss[row["epoch"] - 1] += row["loss"] * (row["step"] - before["step"])
        steps[row["epoch"] - 1] += row["step"] - before["step"]
    metrics = [row["validation_metric"] for row in result.history]
    return {
        **{which: percent_right(labels, data.y_test) for which, labels in predicted.items()},
        "parameters": net.n_parameters,
        "operations": net.n_operations(),
        "seconds_per_epoch": round(result.seconds / epochs, 4),
        "epochs": epochs,
        "train_loss": (loss / steps).round(5).tolist(),
        "validation_accuracy": [round(100 * metric, 2) for metric in metrics if metric is not None],
        "confusion": confusion(data.y_test, predicted["best"], net.out_shape[-1] if net.out_shape else 0),
    }


def percent_right(predicted: Array, labels: Array) -> float:
    """
    >>> percent_right(np.array([0, 1, 1]), np.array([0, 1, 0]))
    66.6667
    """
    return round(100 * float(np.mean(predicted == labels)), 4)


def confusion(labels: Array, predicted: Array, classes: int) -> list[list[int]]:
    """How many samples of each class (rows) were taken for each class (columns).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), classes=2)
    [[1, 0], [1, 1]]
    """
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    return counts.tolist()
