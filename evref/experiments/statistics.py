"""From records to the rows of a table: means the paper's way, and differences that can be trusted.

An experiment repeats every model on *cells*, and cells come in *groups*: the draws of data on one graph, for instance.
Following the paper, a figure is averaged within each group, and the table shows the mean and the standard deviation
(ddof = 1) over the groups' means.

Models are compared on the cells that both have, cell by cell: they met the same graph, data and order of samples, so
that most of what makes a cell easy or hard cancels. The interval around the mean difference is Student's t over the
*groups'* means. Cells of one group share their graph; to count them one by one would take the same graph several times
as new evidence, and make the interval too narrow. Over ten means t covers 95% as it says, a bootstrap (BCa) about 90%:
validation/interval_coverage.py simulates both.

How much of the spread is between graphs and how much between draws on one graph is estimated by :func:`components`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .experiment import Experiment
from .models import LABELS, REFERENCE
from .records import Record, Task

CONFIDENCE = 0.95


class Spread(NamedTuple):
    """Standard deviations of a figure: of one draw around the mean of its graph, and of graphs around their mean."""

    within: float
    between: float


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
    spread: Spread | None = None  # of the accuracy, best weights
    spread_last: Spread | None = None
    spread_difference: Spread | None = None  # of the paired difference, best weights
    spread_difference_last: Spread | None = None


def rows(experiment: Experiment, records: Mapping[Task, Record]) -> list[Row]:
    """A row for each model of the experiment, in its order; counts of parameters are means over the graphs."""
    return [_row(experiment, model, records) for model in experiment.models]


def _row(experiment: Experiment, model: str, records: Mapping[Task, Record]) -> Row:
    own = {task.cell: record for task, record in records.items() if task.model == model}
    done = {cell: record for cell, record in own.items() if "error" not in record}
    reference = {task.cell: r for task, r in records.items() if task.model == REFERENCE and "error" not in r}
    comparable = REFERENCE in experiment.models and model != REFERENCE
    paired = [_paired(done, reference, which) if comparable else None for which in ("best", "last")]
    differences = [None if cells is None else mean_and_interval(group_means(cells, "difference")) for cells in paired]
    spreads = [None if cells is None else components(grouped(cells, "difference")) for cells in paired]
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
        spread=components(grouped(done, "best")),
        spread_last=components(grouped(done, "last")),
        spread_difference=spreads[0],
        spread_difference_last=spreads[1],
    )


Cells = Mapping[tuple[tuple[str, int], ...], Mapping[str, Any]]


def grouped(done: Cells, which: str) -> list[np.ndarray]:
    """record[which] of every cell, an array for each group, the groups in rising order.

    >>> grouped({(("graph", 0), ("draw", 0)): {"best": 50.0}, (("graph", 0), ("draw", 1)): {"best": 70.0}}, "best")
    [array([50., 70.])]
    """
    groups: dict[int, list[float]] = {}
    for cell, record in sorted(done.items(), key=lambda item: item[0]):
        groups.setdefault(cell[0][1], []).append(record[which])
    return [np.array(values) for values in groups.values()]


def group_means(done: Cells, which: str) -> np.ndarray:
    """Mean of record[which] in each group.

    >>> group_means({(("graph", 0), ("draw", 0)): {"best": 50.0}, (("graph", 0), ("draw", 1)): {"best": 70.0}}, "best")
    array([60.])
    """
    return np.array([np.mean(values) for values in grouped(done, which)])


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation; NaN where there are too few values for one.

    >>> mean_and_deviation(np.array([1.0, 3.0]))
    (2.0, 1.4142135623730951)
    """
    mean = float(np.mean(values)) if values.size else math.nan
    return mean, float(np.std(values, ddof=1)) if values.size > 1 else math.nan


def interval(values: np.ndarray) -> tuple[float, float]:
    """Ends of Student's 95% interval for the mean of independent values; NaN for fewer than two.

    >>> low, high = interval(np.array([1.0, 2.0, 3.0]))  # 2 ± 4.303 / √3
    >>> print(f"{low:.3f} {high:.3f}")
    -0.484 4.484
    """
    if values.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    mean, deviation = mean_and_deviation(values)
    half = float(stdtrit(values.size - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(values.size)
    return mean - half, mean + half


def mean_and_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and the ends of its interval."""
    return (mean_and_deviation(values)[0], *interval(values))


def components(groups: Sequence[np.ndarray]) -> Spread:
    """Within- and between-group standard deviations, by the analysis of variance of a one-way random-effects model.

    value_gd = mean + graph_g + draw_gd. With MSW and MSB the mean squares within and between groups and n₀ the size of
    a group (for unequal sizes the usual (n - Σ n_g² / n) / (G - 1)), within² = MSW and between² = (MSB - MSW) / n₀, 0
    where that is negative. NaN where the groups do not tell: no group has two draws, or there is one group.

    >>> components([np.array([1.0, 3.0]), np.array([11.0, 13.0])])
    Spread(within=1.4142135623730951, between=7.0)
    """
    sizes = np.array([values.size for values in groups], dtype=float)
    n, G = sizes.sum(), len(groups)
    if n <= G:
        return Spread(math.nan, math.nan)
    means = np.array([values.mean() for values in groups])
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in groups) / (n - G)
    if G < 2:
        return Spread(math.sqrt(within), math.nan)
    between = float((sizes * (means - (sizes * means).sum() / n) ** 2).sum()) / (G - 1)
    size = (n - (sizes**2).sum() / n) / (G - 1)
    return Spread(math.sqrt(within), math.sqrt(max(0.0, (between - within) / size)))


def _paired(done: Cells, reference: Cells, which: str) -> dict[Any, dict[str, float]]:
    """The difference to the reference in each cell that both have."""
    return {
        cell: {"difference": record[which] - reference[cell][which]}
        for cell, record in done.items()
        if cell in reference
    }


def _rounded_mean(done: Cells, which: str) -> int:
    return round(float(np.mean([record[which] for record in done.values()]))) if done else 0
