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
NEAR_CHANCE = 10.0  # points: so far above chance level the mean of all models still counts as near it
SPREAD_COLUMNS = {
    "best": "spread",
    "last": "spread_last",
    "best − polynomial": "spread_difference",
    "last − polynomial": "spread_difference_last",
}


def note(unit: str = "group") -> str:
    """What the columns say; `unit` is what a group is, such as a graph."""
    return (
        f"Accuracy in percent: mean ± standard deviation (n − 1) over the {unit}s; several draws on one {unit} are "
        "averaged first.\n"
        "best: weights best on validation; last: last weights. Differences are paired: the same data for both models; "
        f"[low, high]\nis the {CONFIDENCE:.0%} interval of the mean difference, Student's t over the {unit}s."
    )


def spread_note(unit: str = "group") -> str:
    return (
        f"Standard deviations in points, within / between {unit}s: of one draw around the mean of its {unit}, and of "
        f"{unit}s around their mean."
    )


def quick_note(rows: Sequence[Row], classes: int) -> str:
    """What the figures of a shortened run are worth.

    >>> row = Row("ev", "Edge Variant (EV)", (85.47, 10.77), (24.0, 2.0), (21.0, 3.5), None, 4, 18630, 28750, 0.2)
    >>> quick_note([row], classes=5).split(":")[0]
    'A shortened run (--quick), near chance level (20%, one of 5 classes)'
    """
    chance = 100 / classes
    done = [row.last[0] for row in rows if row.n]
    near = "near " if done and math.fsum(done) / len(done) < chance + NEAR_CHANCE else ""
    return (
        f"A shortened run (--quick), {near}chance level ({chance:.0f}%, one of {classes} classes): its figures are not "
        "to be held against the paper's, nor against those of a full run."
    )


def text(rows: Sequence[Row], width: int | None = None, spelling: Callable[[str], str] = str) -> str:
    """Columns side by side; those that `width` has no place for go below, the models beside them again.

    Every cell is written as `spelling` has it, for terminals that lack signs such as ±.

    >>> row = Row("ev", "Edge Variant (EV)", (85.47, 10.77), (90.5, 2.0), (85.0, 3.5), None, 4, 18630, 28750, 0.2)
    >>> for line in text([row]).splitlines():
    ...     print(line[:61].rstrip())
    model              paper          best          last
    Edge Variant (EV)  85.47 ± 10.77  90.50 ± 2.00  85.00 ± 3.50
    """
    return _columns(_cells(rows), width, spelling)


def markdown(rows: Sequence[Row]) -> str:
    return _markdown(_cells(rows))


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    return [list(COLUMNS), *([column(row) for column in COLUMNS.values()] for row in rows)]


def _columns(lines: list[list[str]], width: int | None, spelling: Callable[[str], str]) -> str:
    lines = [list(map(spelling, line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    blocks, end = [[0]], widths[0]  # the columns of each block; the first column is in all
    for column, w in enumerate(widths[1:], start=1):
        if width is not None and end + 2 + w > width and len(blocks[-1]) > 1:
            blocks.append([0])
            end = widths[0]
        blocks[-1].append(column)
        end += 2 + w
    return "\n\n".join(
        "\n".join("  ".join(line[c].ljust(widths[c]) for c in block).rstrip() for line in lines) for block in blocks
    )


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


def spread_text(rows: Sequence[Row], width: int | None = None, spelling: Callable[[str], str] = str) -> str:
    return _columns(spread_rows(rows), width, spelling)


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
