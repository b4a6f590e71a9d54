"""The loop that :func:`evref.learn.fit` runs, once all arguments are checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import numpy as np

from .. import checks
from ..contract import Module, Parameters, one_dtype
from .checkpoint import Run
from .classifier import Classifier
from .losses import Loss
from .optim import Adam, Optimizer
from .progress import Progress
from .schedules import Schedule

Array = np.ndarray

EVALUATION_BATCH = 1024  # samples per forward pass outside training: bounds the memory of the tape


class Stop(Exception):
    """Ends a training from within."""

    def __init__(self, stopped: str, reason: str) -> None:
        super().__init__(reason)
        self.stopped, self.reason = stopped, reason


@dataclass
class Metric:
    """What makes parameters the best ones on validation data."""

    name: str
    function: Callable[[Array, Array], Any] | None  # of prediction and target; None: the validation loss itself
    sign: int  # +1: higher is better, -1: lower is


@dataclass
class Learner:
    """Who learns, and how: one step of it.

    Inside, hooks instead of entry points: `fit` has checked everything once, and the hooks keep shapes and dtypes.
    """

    network: Module
    loss: Loss
    optimizer: Optimizer
    start: Parameters

    def __post_init__(self) -> None:
        self._whole = Classifier.of(self.network, self.loss)

    def fresh(self) -> Run:
        """Before the first step."""
        return Run(self.start, self.optimizer.init(self.start))

    def gradients(self, params: Parameters, x: Array, y: Array) -> tuple[float, Parameters]:
        """The loss on one batch, and its derivatives."""
        params, dtype = one_dtype(params, x.dtype)
        x = x.astype(dtype, copy=False)
        if self._whole is not None:
            return self._whole.gradients(params, x, y)
        prediction, saved = self.network._forward(params, x)
        value, slope = self.loss._value_and_gradient(prediction, y)
        if slope.shape != prediction.shape:
            raise ValueError(f"{self.loss!r} has a gradient of shape {slope.shape}; expected {prediction.shape}")
        return float(value), self.network._parameter_gradients(params, saved, slope.astype(dtype, copy=False))

    def step(self, run: Run, x: Array, y: Array, rate: float, where: str) -> float:
        """One step of the optimiser on one batch; returns the loss before it."""
        whole = self._whole if type(self.optimizer) is Adam and _all_are(x.dtype, run.params) else None
        if whole is not None:
            value, params, state = whole.step(cast(Adam, self.optimizer), run.params, run.state, x, y, rate)
        else:
            value, grads = self.gradients(run.params, x, y)
        if not isfinite(value):
            run.params = run.proven
            raise Stop("diverged", f"the loss became {value} at {where}")
        run.proven = run.params
        if whole is None:
            params, state = self.optimizer._step(run.params, grads, run.state, rate)
        run.params, run.state = params, state
        run.step += 1
        return value


def _all_are(dtype: np.dtype, arrays: Parameters) -> bool:
    return all(array.dtype == dtype for array in arrays.values())


@dataclass
class Trainer(Learner):
    """Everything about a training that does not change while it runs; what does is in :class:`Run`."""

    x: Array
    y: Array
    batch_size: int
    validation: tuple[Array, Array] | None
    validate_every: int  # steps
    metric: Metric
    patience: int | None
    schedule: Schedule
    rng: np.random.Generator

    @property
    def batches(self) -> int:
        return -(-len(self.x) // self.batch_size)

    def rate(self, epoch: int) -> float:
        """Learning rate in `epoch`, from 1; a schedule counts from 0."""
        factor = checks.as_number(f"schedule({epoch - 1})", self.schedule(epoch - 1), 0)
        return self.optimizer.learning_rate * factor

    def epoch(self, run: Run, display: Progress, started: float) -> None:
        """Move `run` on by one epoch, or raise `Stop`."""
        epoch, rate = run.epoch + 1, self.rate(run.epoch + 1)
        order = self.rng.permutation(len(self.x))
        total, seen = 0.0, 0
        for batch in range(self.batches):
            rows = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            where = f"epoch {epoch}, batch {batch + 1}"
            total += len(rows) * self.step(run, self.x[rows], self.y[rows], rate, where)
            seen += len(rows)
            display.step()
            ends = batch + 1 == self.batches
            due = self.validation if run.step % self.validate_every == 0 else None
            if ends or due:
                # In between, the next loss tells: a look at all parameters in every step would bring them into this
                # core's cache, from where other threads would have to fetch them back.
                if not run.is_finite():
                    run.params, run.step = run.proven, run.step - 1
                    raise Stop("diverged", f"the parameters were no longer finite after {where}")
                value, figure = (None, None) if due is None else self.validate(run, *due)
                row = {
                    "epoch": epoch,
                    "step": run.step,
                    "loss": total / seen,
                    "validation_loss": value,
                    "validation_metric": figure,
                    "learning_rate": rate,
                    "seconds": time.perf_counter() - started,
                    "ends_epoch": ends,
                }
                run.history.append(row)
                display.row(row)
                total, seen = 0.0, 0
            if due and self.patience is not None and run.stale >= self.patience:
                raise Stop("early", f"no better {self.metric.name} in {run.stale} validations")
        run.epoch = epoch

    def validate(self, run: Run, x: Array, y: Array) -> tuple[float, float]:
        """Validation loss and metric of the newest parameters, which are kept if they are the best so far."""
        chunks = (x[i : i + EVALUATION_BATCH] for i in range(0, len(x), EVALUATION_BATCH))
        prediction = np.concatenate([self.network.forward(run.params, part, check_finite=False)[0] for part in chunks])
        value = self.loss.forward(prediction, y, check_finite=False)[0]
        figure = value
        # From a NaN an accuracy can be had as well, but it means nothing.
        if self.metric.function is not None and isfinite(value):
            figure = float(self.metric.function(prediction, y))
        sign, best = self.metric.sign, run.best_metric
        if isfinite(figure) and isfinite(value) and (best is None or sign * figure > sign * best):
            run.best, run.best_step, run.best_metric, run.stale = run.params, run.step, figure, 0
        else:
            run.stale += 1
        return value, figure
