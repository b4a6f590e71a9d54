"""Learning-rate schedules: plain functions of the epoch (from 0) that give a factor for the learning rate.

Any other callable of one integer serves as well; `fit(..., schedule=...)` calls it once per epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

from .. import checks

Schedule = Callable[[int], float]


def constant(epoch: int) -> float:
    """Always 1.

    >>> constant(7)
    1.0
    """
    return 1.0


def step_decay(every: int, *, factor: float = 0.1) -> Schedule:
    """factor^(epoch // every): down by `factor` after each `every` epochs.

    >>> schedule = step_decay(every=2, factor=0.5)
    >>> [schedule(epoch) for epoch in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    every = checks.as_count("every", every, minimum=1)
    factor = checks.as_number("factor", factor, 0)
    return lambda epoch: factor ** (epoch // every)


def exponential_decay(rate: float) -> Schedule:
    """rate^epoch.

    >>> exponential_decay(0.5)(3)
    0.125
    """
    rate = checks.as_number("rate", rate, 0)
    return lambda epoch: rate**epoch


def cosine(total: int, *, floor: float = 0.0) -> Schedule:
    """Half a cosine from 1 at epoch 0 to `floor` at epoch `total`, and `floor` from there on.

    >>> schedule = cosine(total=4)
    >>> [round(schedule(epoch), 3) for epoch in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """
    total = checks.as_count("total", total, minimum=1)
    floor = checks.as_number("floor", floor, 0, 1)
    return lambda epoch: floor + (1 - floor) * (1 + cos(pi * min(epoch, total) / total)) / 2


def warmup(epochs: int, then: Schedule = constant) -> Schedule:
    """1/(epochs + 1), 2/(epochs + 1), ... for `epochs` epochs, then the schedule `then` from its own epoch 0.

    >>> schedule = warmup(3, then=exponential_decay(0.5))
    >>> [schedule(epoch) for epoch in range(6)]
    [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    """
    epochs = checks.as_count("epochs", epochs)
    if not callable(then):
        raise TypeError(f"then is {type(then).__name__}; expected a schedule, a function of the epoch")
    return lambda epoch: (epoch + 1) / (epochs + 1) if epoch < epochs else then(epoch - epochs)
