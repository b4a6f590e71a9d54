"""Rows as text for a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence

from .statistics import CONFIDENCE, Row

MISSING = "–"
COLUMNS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.label,
    "paper": lambda row: MISSING if row.paper is None else _plus_minus(row.paper),
    "best": lambda row: _plus_minus(row.best),
    "last": lambda row: _plus_minus(row.last),
    "best − polynomial": lambda row: _interval(row.difference),
    "last − polynomial": lambda row: _interval(row.difference_last),
    "runs": lambda row: f"{row.n}" + (f" ({row.failed} failed)" if row.failed else ""),
    "parameters": lambda row: f"{row.parameters:,}" if row.n else MISSING,
    "operations": lambda row: f"{row.operations:,}" if row.n else MISSING,
    "s/epoch": lambda row: MISSING if math.isnan(row.seconds_per_epoch) else f"{row.seconds_per_epoch:.2f}",
}
NOTE = (
    "Accuracy in percent: mean over groups of the groups' means ± standard deviation (n − 1) over groups. "
    "best: weights best on validation; last: last weights. "
    f"Differences are paired; in brackets {CONFIDENCE:.0%} bootstrap intervals over groups."
)


def text(rows: Sequence[Row]) -> str:
    """Columns side by side.

    >>> row = Row("ev", "Edge Variant (EV)", (85.47, 10.77), (90.5, 2.0), (85.0, 3.5), None, 4, 18630, 28750, 0.2)
    >>> for line in text([row]).splitlines():
    ...     print(line[:61].rstrip())
    model              paper          best          last
    Edge Variant (EV)  85.47 ± 10.77  90.50 ± 2.00  85.00 ± 3.50
    """
    cells = [list(COLUMNS), *([column(row) for column in COLUMNS.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def markdown(rows: Sequence[Row]) -> str:
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *([column(row) for column in COLUMNS.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(rows: Sequence[Row]) -> str:
    """A column per number, empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    pairs = ("paper", "best", "last")
    triples = ("difference", "difference_last")
    head = ["model", "label"]
    head += [f"{name}_{part}" for name in pairs for part in ("mean", "sd")]
    head += [f"{name}_{part}" for name in triples for part in ("mean", "low", "high")]
    plain = ("n", "failed", "parameters", "operations", "seconds_per_epoch")
    writer.writerow([*head, *plain])
    for row in rows:
        numbers: list[float] = []
        for name in pairs:
            numbers += getattr(row, name) or (math.nan,) * 2
        for name in triples:
            numbers += getattr(row, name) or (math.nan,) * 3
        numbers += [getattr(row, name) for name in plain]
        writer.writerow([row.model, row.label, *("" if math.isnan(x) else f"{x:.10g}" for x in numbers)])
    return out.getvalue()


def _plus_minus(figure: tuple[float, float]) -> str:
    """
    >>> _plus_minus((74.55, 7.32)), _plus_minus((74.55, math.nan))
    ('74.55 ± 7.32', '74.55')
    """
    mean, deviation = figure
    if math.isnan(mean):
        return MISSING
    return f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"


def _interval(figure: tuple[float, float, float] | None) -> str:
    """
    >>> _interval((1.5, -0.5, 3.25)), _interval(None)
    ('+1.50 [-0.50, +3.25]', '–')
    """
    if figure is None or math.isnan(figure[0]):
        return MISSING
    mean, low, high = figure
    return f"{mean:+.2f}" if math.isnan(low) else f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
