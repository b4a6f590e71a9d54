"""From a network and data to trained parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from ..contract import Module, Parameters, shape_hint
from . import checkpoint as checkpoints
from . import progress as displays
from .checkpoint import Run
from .losses import CrossEntropy, Loss, accuracy
from .optim import Optimizer
from .schedules import Schedule, constant
from .trainer import Metric, Stop, Trainer

Array = np.ndarray


@dataclass(repr=False)
class FitResult:
    """What a training came to.

    Attributes
    ----------
    params : dict of arrays
        The best on validation where there was one, else the last.
    best, last : dict of arrays
        Both, by name; without validation they are the same.
    history : list of dict
        A row for every validation and every end of an epoch: `epoch` and `step` (from 1), `loss` (mean over the
        training samples since the row before), `validation_loss` and `validation_metric` (None where nothing was
        validated), `learning_rate`, `seconds`, `ends_epoch`.
    stopped : {"epochs", "early", "interrupted", "diverged"}
        Why it ended; `reason` says it in a sentence.
    best_step, best_metric : int and float, or None
        Where the best was found, and how good it was.
    """

    best: Parameters
    last: Parameters
    history: list[dict[str, Any]]
    stopped: str
    reason: str
    best_step: int | None
    best_metric: float | None
    epochs: int
    steps: int
    seconds: float

    @property
    def params(self) -> Parameters:
        return self.best

    def __repr__(self) -> str:
        best = "" if self.best_step is None else f", best {self.best_metric:.4g} at step {self.best_step}"
        return f"FitResult({self.stopped}: {self.epochs} epochs, {self.steps} steps{best})"

    def summary(self) -> str:
        """A few lines for a person."""
        lines = [f"{self.reason}; {self.epochs} epochs, {self.steps} steps, {self.seconds:.1f} s"]
        if self.history:
            first, last = self.history[0]["loss"], self.history[-1]["loss"]
            lines.append(f"training loss {first:.4g} at first, {last:.4g} at last")
        if self.best_step is not None:
            lines.append(f"best on validation: {self.best_metric:.4g} at step {self.best_step}")
        return "\n".join(lines)


def fit(
    network: Module,
    params: Mapping[str, Any],
    data: tuple[Any, Any],
    *,
    loss: Loss,
    optimizer: Optimizer,
    epochs: int,
    batch_size: int | None = None,
    validation: tuple[Any, Any] | None = None,
    validate_every: int | None = None,
    metric: Any = None,
    patience: int | None = None,
    schedule: Schedule | None = None,
    rng: Any = None,
    progress: str | bool = "auto",
    checkpoint: Any = None,
    check_finite: bool = True,
) -> FitResult:
    """Train `network` from `params` on `data`.

    Each epoch goes once through the samples in a new random order, in batches; the last may be short. The same seed
    gives the same bits. Ctrl-C ends the training and returns what there is. Where the loss is no longer finite, the
    training ends with a RuntimeWarning that names epoch and batch, and `last` holds the last parameters whose loss
    was finite.

    Parameters
    ----------
    network : Module
    params : dict of arrays
        Where to start; not changed.
    data : (x, y)
        Signals (samples, features, nodes) and their targets. A DataFrame, with a row per sample and a column per node,
        is read by the names of the nodes and stands for signals of one feature; so is one of targets, where the network
        gives such signals.
    loss : Loss
    optimizer : Optimizer
    epochs : int
    batch_size : int, optional
        By default all samples in one batch.
    validation : (x, y), optional
        Data to choose the best parameters on.
    validate_every : int, optional
        Steps between validations; by default one validation at the end of each epoch.
    metric : {"accuracy", "loss"} or callable, optional
        What is best: the highest accuracy (default with CrossEntropy), the lowest validation loss (default otherwise),
        or the highest value of `metric(prediction, target)`. Of equals, the first.
    patience : int, optional
        Stop after so many validations in a row without a new best.
    schedule : callable, optional
        Factor of the learning rate as a function of the epoch, from 0; see :mod:`evref.learn.schedules`.
    rng : None, int or Generator
        Shuffles the samples.
    progress : {"auto", True, False}
        "auto": a bar on a terminal with tqdm installed, else nothing. True: a bar, or without tqdm a line per epoch.
    checkpoint : path, optional
        Written after each epoch. If the file exists, the training goes on from there (`params` and `rng` are then
        those of the file) and ends with the same bits as if it had never stopped. `epochs` and `patience` may
        change in between.
    check_finite : bool
        Look for NaN and inf in data and parameters before the start.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError
        For arguments that do not fit each other; for a checkpoint that is damaged or of another training.

    >>> from evref.learn import Adam, CrossEntropy, Dense, Network, fit
    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> net = Network([Dense((1,), outputs=2)])
    >>> data = x, [0, 0, 1, 1]
    >>> result = fit(net, net.init(rng=0), data, loss=CrossEntropy(), optimizer=Adam(0.1), epochs=50, rng=0)
    >>> result
    FitResult(epochs: 50 epochs, 50 steps)
    >>> net.predict(result.params, x).argmax(axis=1)
    array([0, 0, 1, 1])
    """
    if not isinstance(network, Module):
        raise TypeError(f"network is {type(network).__name__}; expected a Network, a filter or a layer")
    if not isinstance(loss, Loss):
        raise TypeError(f"loss is {loss!r}; expected an instance of Loss such as CrossEntropy()")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer is {optimizer!r}; expected an instance of Optimizer such as Adam()")
    if schedule is not None and not callable(schedule):
        raise TypeError(f"schedule is {schedule!r}; expected a function of the epoch")
    check_finite = checks.as_flag("check_finite", check_finite)
    start = network._checked_parameters(params, check_finite=check_finite)
    start = {key: array.copy() for key, array in start.items()}
    x, y = _checked_data("data", data, network, loss, check_finite)
    held_out = None if validation is None else _checked_data("validation", validation, network, loss, check_finite)
    if held_out is None and (validate_every is not None or patience is not None):
        raise ValueError("validate_every and patience need validation data; validation is None")
    epochs = checks.as_count("epochs", epochs)
    batch_size = len(x) if batch_size is None else min(checks.as_count("batch_size", batch_size, minimum=1), len(x))
    patience = None if patience is None else checks.as_count("patience", patience, minimum=1)
    batches = -(-len(x) // batch_size)
    every = batches if validate_every is None else checks.as_count("validate_every", validate_every, minimum=1)
    if held_out is not None and 0 < epochs * batches < every:
        raise ValueError(
            f"validate_every is {every}; the training has {epochs * batches} steps and would never validate"
        )
    trainer = Trainer(
        network=network,
        loss=loss,
        optimizer=optimizer,
        start=start,
        x=x,
        y=y,
        batch_size=batch_size,
        validation=held_out,
        validate_every=every,
        metric=_checked_metric(metric, loss),
        patience=patience,
        schedule=constant if schedule is None else schedule,
        rng=checks.as_rng(rng),
    )

    run = trainer.fresh()
    if checkpoint is not None:
        identity = _identity(trainer)
        run = checkpoints.resume(checkpoint, run, trainer.rng, identity)
        _require_same_course(checkpoint, run, epochs, trainer)
    started = time.perf_counter() - run.seconds
    display = displays.start(progress, epochs * batches, run.step, epochs)
    stopped, reason = "epochs", f"all {epochs} epochs done"
    try:
        # A diverging loss is reported below, once; NumPy need not say it at every operation.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while run.epoch < epochs:
                trainer.epoch(run, display, started)
                run.seconds = time.perf_counter() - started
                if checkpoint is not None:
                    checkpoints.save(checkpoint, run, trainer.rng, identity)
    except KeyboardInterrupt:
        stopped, reason = "interrupted", f"interrupted after step {run.step}"
        if not run.is_finite():
            run.params = run.proven
    except Stop as stop:
        stopped, reason = stop.stopped, stop.reason
    finally:
        display.close()
    if stopped == "diverged":
        warnings.warn(f"training stopped: {reason}; the last good parameters are kept", RuntimeWarning, stacklevel=2)
    return FitResult(
        best=run.params if run.best is None else run.best,
        last=run.params,
        history=run.history,
        stopped=stopped,
        reason=reason,
        best_step=run.best_step,
        best_metric=run.best_metric,
        epochs=run.epoch,
        steps=run.step,
        seconds=time.perf_counter() - started,
    )


def _checked_data(argument: str, data: Any, network: Module, loss: Loss, check_finite: bool) -> tuple[Array, Array]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"{argument} is {type(data).__name__}; expected a pair (x, y)")
    x = checks.as_floating(f"{argument}[0]", network._by_name(f"{argument}[0]", data[0], network.in_shape))
    core = network.in_shape
    if x.ndim < 1 or len(x) == 0 or (core is not None and x.shape[1:] != core):
        expected = "(samples, ...)" if core is None else f"(samples, {', '.join(map(str, core))})"
        hint = "" if core is None else shape_hint(f"{argument}[0]", x.shape, core)
        raise ValueError(f"{argument}[0] has shape {x.shape}; expected {expected} with at least one sample{hint}")
    out = x.shape[1:] if network.out_shape is None else network.out_shape
    target = network._target_by_name(f"{argument}[1]", data[1])
    y = loss.check_target(target, (len(x), *out), f"{argument}[1]")
    if check_finite:
        checks.require_finite(f"{argument}[0]", x)
        checks.require_finite(f"{argument}[1]", y)
    return x, y


def _checked_metric(metric: Any, loss: Loss) -> Metric:
    if callable(metric):
        return Metric(getattr(metric, "__qualname__", type(metric).__name__), metric, 1)
    if metric is None:
        metric = "accuracy" if isinstance(loss, CrossEntropy) else "loss"
    if checks.as_choice("metric", metric, ("accuracy", "loss")) == "loss":
        return Metric("loss", None, -1)
    if not isinstance(loss, CrossEntropy):
        raise ValueError(f"metric is 'accuracy'; expected 'loss' or a callable with {loss!r}, which takes no labels")
    return Metric("accuracy", accuracy, 1)


def _identity(trainer: Trainer) -> dict[str, Any]:
    """What must be the same for a checkpoint to be this training's."""
    return {
        "network": checkpoints.network_identity(trainer.network),
        "optimizer": repr(trainer.optimizer),
        "loss": repr(trainer.loss),
        "data": checkpoints.fingerprint(trainer.x, trainer.y),
        "validation": None if trainer.validation is None else checkpoints.fingerprint(*trainer.validation),
        "batch_size": trainer.batch_size,
        "validate_every": trainer.validate_every,
        "metric": trainer.metric.name,
    }


def _require_same_course(path: Any, run: Run, epochs: int, trainer: Trainer) -> None:
    """A schedule may be any function: hold the rates it gives against those the checkpoint was trained with."""
    if run.epoch > epochs:
        raise ValueError(f"{path}: the checkpoint has finished {run.epoch} epochs; epochs is {epochs}")
    for row in run.history:
        now = trainer.rate(row["epoch"])
        if row["learning_rate"] != now:
            raise ValueError(
                f"{path}: the checkpoint of another training; learning rate in epoch {row['epoch']} was "
                f"{row['learning_rate']!r}, is now {now!r}"
            )
