"""From records to the rows of a table: means the paper's way, and differences that can be trusted.

An experiment repeats every model on *cells*, and cells come in *groups*: the draws of data on one graph, for instance.
Following the paper, a figure is averaged within each group, and the table shows the mean and the standard deviation
(ddof = 1) over the groups' means.

Models are compared on the cells that both have, cell by cell: they met the same graph, data and order of samples, so
that most of what makes a cell easy or hard cancels. The interval around the mean difference is a bootstrap over
*groups*. Cells of one group share their graph; to resample them one by one would count the same graph several times as
new evidence, and make the interval too narrow. Where every group is a single cell, both are the same.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .experiment import Experiment
from .models import LABELS, REFERENCE
from .records import Record, Task

CONFIDENCE = 0.95
# Of n groups, a resample that is n times the lowest one comes up with probability n^-n: with 3 more often than 2.5%, so
# that the interval would be the range of the data and no statement about the mean.
FEWEST_GROUPS = 4


class Row(NamedTuple):
    """One model in a table; accuracies in percent, unknown numbers NaN."""

    model: str
    label: str
    paper: tuple[float, float] | None  # mean and deviation as printed
    best: tuple[float, float]  # mean over groups and its deviation, weights best on validation
    last: tuple[float, float]  # the same, last weights
    difference: tuple[float, float, float] | None  # to the reference, best weights: mean, ends of the 95% interval
    n: int  # cells
    parameters: int
    operations: int  # multiply-adds of one sample's forward pass
    seconds_per_epoch: float  # median
    difference_last: tuple[float, float, float] | None = None  # the same difference with the last weights
    failed: int = 0  # cells without a record


def rows(experiment: Experiment, records: Mapping[Task, Record]) -> list[Row]:
    """A row for each model of the experiment, in its order; counts of parameters are means over the graphs."""
    return [_row(experiment, model, records) for model in experiment.models]


def _row(experiment: Experiment, model: str, records: Mapping[Task, Record]) -> Row:
    own = {task.cell: record for task, record in records.items() if task.model == model}
    done = {cell: record for cell, record in own.items() if "error" not in record}
    reference = {task.cell: r for task, r in records.items() if task.model == REFERENCE and "error" not in r}
    comparable = REFERENCE in experiment.models and model != REFERENCE
    differences = [_difference(done, reference, which) if comparable else None for which in ("best", "last")]
    return Row(
        model=model,
        label={**LABELS, **experiment.labels}.get(model, model),
        paper=experiment.in_paper(model),
        best=mean_and_deviation(group_means(done, "best")),
        last=mean_and_deviation(group_means(done, "last")),
        difference=differences[0],
        n=len(done),
        parameters=_rounded_mean(done, "parameters"),
        operations=_rounded_mean(done, "operations"),
        seconds_per_epoch=float(np.median([r["seconds_per_epoch"] for r in done.values()])) if done else math.nan,
        difference_last=differences[1],
        failed=len(own) - len(done),
    )


Cells = Mapping[tuple[tuple[str, int], ...], Mapping[str, Any]]


def group_means(done: Cells, which: str) -> np.ndarray:
    """Mean of record[which] in each group, the groups in rising order.

    >>> group_means({(("graph", 0), ("draw", 0)): {"best": 50.0}, (("graph", 0), ("draw", 1)): {"best": 70.0}}, "best")
    array([60.])
    """
    groups: dict[int, list[float]] = {}
    for cell, record in sorted(done.items(), key=lambda item: item[0]):
        groups.setdefault(cell[0][1], []).append(record[which])
    return np.array([np.mean(values) for values in groups.values()])


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation; NaN where there are too few values for one.

    >>> mean_and_deviation(np.array([1.0, 3.0]))
    (2.0, 1.4142135623730951)
    """
    mean = float(np.mean(values)) if values.size else math.nan
    return mean, float(np.std(values, ddof=1)) if values.size > 1 else math.nan


def interval(values: np.ndarray) -> tuple[float, float]:
    """Ends of the bootstrap interval (BCa, 95%) for the mean of independent values; the same every time.

    NaN below `FEWEST_GROUPS` values.

    >>> interval(np.array([2.0, 2.0, 2.0, 2.0]))
    (2.0, 2.0)
    """
    if values.size < FEWEST_GROUPS:
        return math.nan, math.nan
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    from scipy.stats import bootstrap

    seeded = "rng" if "rng" in inspect.signature(bootstrap).parameters else "random_state"  # its name before SciPy 1.15
    options: dict[str, Any] = {seeded: np.random.default_rng(0)}
    found = bootstrap((values,), np.mean, confidence_level=CONFIDENCE, method="BCa", **options)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _difference(done: Cells, reference: Cells, which: str) -> tuple[float, float, float]:
    common = {
        cell: {which: record[which] - reference[cell][which]} for cell, record in done.items() if cell in reference
    }
    values = group_means(common, which)
    return (mean_and_deviation(values)[0], *interval(values))


def _rounded_mean(done: Cells, which: str) -> int:
    return round(float(np.mean([record[which] for record in done.values()]))) if done else 0
