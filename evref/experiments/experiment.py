"""What an experiment is: settings, the cells of its Monte-Carlo runs, and how to run one model on one cell."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks
from ..contract import Parameters
from ..kernels import use_threads
from ..learn import Network
from .train import Splits, fitted, train

PURPOSES = ("graph", "data", "training")  # what random numbers are drawn for; the place in here is part of the seed


class Experiment:
    """Base of the experiments. A subclass is a frozen dataclass whose fields are its settings, all fit for JSON.

    Nothing but settings is kept in the object, so that it can be sent to another process or machine; graphs and data
    are made there, from `seed` and the cell alone. Every model thus meets the same data, and a figure depends neither
    on the number of processes nor on the order in which they finish.

    Fields with ``metadata={"help": ...}`` become options of ``evref reproduce NAME``.
    """

    name: ClassVar[str]  # the command line's word for it
    summary: ClassVar[str]  # one line for a list of experiments
    paper: ClassVar[dict[str, tuple[float, float]]] = {}  # model -> mean and deviation in percent, as printed
    labels: ClassVar[dict[str, str]] = {}  # names of rows beyond those in models.LABELS
    classes: ClassVar[tuple[str, ...]] = ()  # names of the labels 0, 1, ...; by default the numbers
    extent: ClassVar[tuple[str, ...]] = ("models",)  # fields that say how much is run, not what: they may grow later

    models: tuple[str, ...]
    features: int
    order: int
    privileged: int
    spline: int
    seed: int
    epochs: int
    batch: int
    learning_rate: float
    validate_every: int

    def _require_sound(self, *counts: str) -> None:
        """ValueError or TypeError for a setting that would fail in every cell; of `counts` there must be at least 1."""
        for name in ("features", "spline", "epochs", "batch", "validate_every", *counts):
            checks.as_count(name, getattr(self, name), minimum=1)
        for name in ("order", "privileged", "seed"):
            checks.as_count(name, getattr(self, name))
        checks.as_number("learning_rate", self.learning_rate, 0)

    def cells(self) -> list[dict[str, int]]:
        """One per Monte-Carlo run, e.g. {"graph": 3, "draw": 7}; the first key is the group the paper averages over."""
        raise TypeError(f"{type(self).__name__} defines no cells")

    def prepare(self, model: str, cell: dict[str, int]) -> tuple[Network, Splits]:
        """The network of one model and the data of one cell."""
        raise TypeError(f"{type(self).__name__} defines no prepare")

    def run(self, model: str, cell: dict[str, int]) -> dict[str, Any]:
        """Train one model on one cell; the record of :func:`evref.experiments.train.train`."""
        return train(*self.prepare(model, cell), **self._training(cell))

    def trained(self, model: str, cell: dict[str, int]) -> tuple[Network, Parameters]:
        """The network that `run` trains, and its weights best on validation: records hold none."""
        net, data = self.prepare(model, cell)
        with use_threads(1):
            return net, fitted(net, data, **self._training(cell)).best

    def _training(self, cell: dict[str, int]) -> dict[str, Any]:
        names = ("epochs", "batch", "learning_rate", "validate_every")
        return {
            **{name: getattr(self, name) for name in names},
            "seed_sequence": self.seeds("training", *cell.values()),
        }

    def quick(self) -> Self:
        """The same in small: it ends in well under a minute, and its figures mean nothing."""
        raise TypeError(f"{type(self).__name__} defines no quick")

    def positions(self, cell: dict[str, int]) -> np.ndarray | None:
        """Where a drawing of the cell's graph puts its nodes, (N, 2); None leaves it to the drawing."""
        return None

    def in_paper(self, model: str) -> tuple[float, float] | None:
        """The paper's figure to show beside ours; None where these settings are of another task than the paper's."""
        return self.paper.get(model)

    def settings(self) -> dict[str, Any]:
        """What decides the figures of a cell: every field but those of `extent`."""
        fields: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {"experiment": self.name, **{key: value for key, value in fields.items() if key not in self.extent}}

    def seeds(self, purpose: str, *where: int) -> np.random.SeedSequence:
        """The seed for one purpose ("graph", "data" or "training") in one place, such as the values of a cell."""
        return np.random.SeedSequence(self.seed, spawn_key=(PURPOSES.index(purpose), *where))
