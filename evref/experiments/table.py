"""Rows as text for a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence

from .statistics import CONFIDENCE, Row, Spread

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
    f"Differences are paired; in brackets Student's {CONFIDENCE:.0%} interval over the groups' means."
)
SPREAD_COLUMNS = {
    "best": "spread",
    "last": "spread_last",
    "best − polynomial": "spread_difference",
    "last − polynomial": "spread_difference_last",
}
SPREAD_NOTE = (
    "Standard deviations in points, within / between groups: of one draw around the mean of its group, and of groups "
    "around their mean."
)


def text(rows: Sequence[Row], spelling: Callable[[str], str] = str) -> str:
    """Columns side by side, every cell as `spelling` has it.

    >>> row = Row("ev", "Edge Variant (EV)", (85.47, 10.77), (90.5, 2.0), (85.0, 3.5), None, 4, 18630, 28750, 0.2)
    >>> for line in text([row]).splitlines():
    ...     print(line[:61].rstrip())
    model              paper          best          last
    Edge Variant (EV)  85.47 ± 10.77  90.50 ± 2.00  85.00 ± 3.50
    """
    return _columns(_cells(rows), spelling)


def markdown(rows: Sequence[Row]) -> str:
    return _markdown(_cells(rows))


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    return [list(COLUMNS), *([column(row) for column in COLUMNS.values()] for row in rows)]


def _columns(lines: list[list[str]], spelling: Callable[[str], str]) -> str:
    lines = [list(map(spelling, line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _markdown(lines: list[list[str]]) -> str:
    lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Where the spread comes from, head first; empty where no group has two draws.

    >>> spread_rows([])
    []
    """
    if not any(row.spread is not None and not math.isnan(row.spread.within) for row in rows):
        return []
    lines = [[row.label, *(_spread(getattr(row, name)) for name in SPREAD_COLUMNS.values())] for row in rows]
    return [["model", *SPREAD_COLUMNS], *lines]


def spread_text(rows: Sequence[Row], spelling: Callable[[str], str] = str) -> str:
    return _columns(spread_rows(rows), spelling)


def spread_markdown(rows: Sequence[Row]) -> str:
    return _markdown(spread_rows(rows))


def csv_text(rows: Sequence[Row]) -> str:
    """A column per number, empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    pairs = ("paper", "best", "last")
    triples = ("difference", "difference_last")
    head = ["model", "label"]
    head += [f"{name}_{part}" for name in pairs for part in ("mean", "sd")]
    head += [f"{name}_{part}" for name in triples for part in ("mean", "low", "high")]
    spreads = tuple(SPREAD_COLUMNS.values())
    plain = ("n", "failed", "parameters", "operations", "seconds_per_epoch")
    writer.writerow([*head, *plain, *(f"{name}_{part}" for name in spreads for part in ("within", "between"))])
    for row in rows:
        numbers: list[float] = []
        for name in pairs:
            numbers += getattr(row, name) or (math.nan,) * 2
        for name in triples:
            numbers += getattr(row, name) or (math.nan,) * 3
        numbers += [getattr(row, name) for name in plain]
        for name in spreads:
            numbers += getattr(row, name) or (math.nan,) * 2
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


def _spread(spread: Spread | None) -> str:
    """
    >>> _spread(Spread(14.9, 8.2)), _spread(Spread(3.0, math.nan)), _spread(None)
    ('14.9 / 8.2', '3.0 / –', '–')
    """
    if spread is None or math.isnan(spread.within):
        return MISSING
    return f"{spread.within:.1f} / " + (MISSING if math.isnan(spread.between) else f"{spread.between:.1f}")
