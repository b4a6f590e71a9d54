"""How often a 95% interval over the means of ten graphs holds the true mean: Student's t and the bootstrap (BCa).

    python validation/interval_coverage.py          print the table (half a minute)

Data are made up in which the truth is known, with the deviations within and between graphs that table I has for the
paired difference of EV and polynomial, last weights: `graphs` graphs, `draws` draws on each, the mean over draws of
each graph, an interval over these means. Twice: with normal deviations, and with deviations of the shape that was
observed (residuals of the records drawn again, around a true mean of zero, and scaled to the same deviations).
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import stored

from evref.experiments.statistics import CONFIDENCE, Spread, components, interval

DESIGNS = ((10, 10), (40, 1))  # graphs, draws on each: table I and its repetitions
REPEATS, RESAMPLES, SEED = 4000, 1999, 0
BATCH = 100  # of the repeats: memory for the resamples of so many at a time

Array = np.ndarray


def differences(name: str = "source-localization", which: str = "last") -> list[Array]:
    """EV - polynomial of every draw, an array per graph."""
    records = stored.stored(name).records
    groups: dict[int, list[float]] = {}
    for task, record in records.items():
        if task.model == "ev":
            reference = next(r for t, r in records.items() if t.model == "polynomial" and t.cell == task.cell)
            groups.setdefault(task.cell[0][1], []).append(record[which] - reference[which])
    return [np.array(values) for values in groups.values()]


def group_means(shape: str, spread: Spread, observed: list[Array], graphs: int, draws: int, rng: Any) -> Array:
    """Means over draws with true mean zero, (REPEATS, graphs)."""
    size = (REPEATS, graphs)
    if shape == "normal":
        own = rng.standard_normal((*size, draws))
        common = rng.standard_normal(size)
    else:
        own = rng.choice(_standardised(np.concatenate([values - values.mean() for values in observed])), (*size, draws))
        common = rng.choice(_standardised(np.array([values.mean() for values in observed])), size)
    return spread.between * common + spread.within * own.mean(axis=-1)


def _standardised(values: Array) -> Array:
    return (values - values.mean()) / values.std()


def covered(means: Array) -> dict[str, float]:
    """Share of the rows whose interval holds zero."""
    from scipy.stats import bootstrap

    seeded = "rng" if "rng" in inspect.signature(bootstrap).parameters else "random_state"  # its name before SciPy 1.15
    student = np.array([interval(row) for row in means])  # (REPEATS, 2)
    options: dict[str, Any] = {seeded: np.random.default_rng(SEED)}
    ends = []
    for start in range(0, len(means), BATCH):
        found = bootstrap(
            (means[start : start + BATCH],), np.mean, axis=-1, n_resamples=RESAMPLES, method="BCa",
            confidence_level=CONFIDENCE, vectorized=True, **options,
        )  # fmt: skip
        ends.append(np.stack([found.confidence_interval.low, found.confidence_interval.high], axis=-1))
    holds = {name: (e[:, 0] <= 0) & (e[:, 1] >= 0) for name, e in (("t", student), ("BCa", np.concatenate(ends)))}
    return {name: float(held.mean()) for name, held in holds.items()}


def table() -> str:
    observed = differences()
    spread = components(observed)
    error = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / REPEATS)
    lines = [
        "| graphs × draws | deviations | Student's t | bootstrap (BCa) |",
        "| --- | --- | --- | --- |",
    ]
    for graphs, draws in DESIGNS:
        for shape in ("normal", "as observed"):
            rng = np.random.default_rng((SEED, graphs, draws))
            share = covered(group_means(shape, spread, observed, graphs, draws, rng))
            lines.append(f"| {graphs} × {draws} | {shape} | {100 * share['t']:.1f}% | {100 * share['BCa']:.1f}% |")
    note = (
        f"{REPEATS:,} simulated experiments per line (standard error {100 * error:.1f} points), "
        f"{spread.within:.1f} points within and {spread.between:.1f} between graphs: `validation/interval_coverage.py`."
    )
    return "\n".join([*lines, "", note])


if __name__ == "__main__":
    print(table())
