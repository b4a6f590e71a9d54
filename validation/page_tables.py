"""The tables of the pages, from the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import interval_coverage
import numpy as np
from stored import Stored, stored

from evref.experiments import table
from evref.experiments.statistics import Row, grouped, mean_and_interval

SHORT = {
    "spectral": "Spectral",
    "polynomial": "Polynomial",
    "nv-degree": "NV Degree",
    "nv-proxies": "NV S. Proxies",
    "ev": "EV",
    "hev-degree": "HEV Degree",
    "hev-proxies": "HEV S. Proxies",
    "logistic": "Logistic regression, no graph",
}


# ---- how figures are written -----------------------------------------------------------------------------------------
def plain(x: float, digits: int = 1) -> str:
    """Rounded in the same way on every machine: last bits of a sum do not decide whether 8.15 is 8.1 or 8.2.

    >>> plain(8.149999999999999), plain(8.15)
    ('8.2', '8.2')
    """
    return f"{float(f'{x:.10g}'):.{digits}f}"


def plus_minus(figure: tuple[float, float] | None, digits: int = 1) -> str:
    return "" if figure is None else f"{plain(figure[0], digits)} ± {plain(figure[1], digits)}"


def signed(x: float, digits: int = 1) -> str:
    """
    >>> signed(-0.51), signed(7.2)
    ('−0.5', '+7.2')
    """
    text = plain(x, digits)
    return text.replace("-", "−") if text.startswith("-") else f"+{text}"


def lead(figure: tuple[float, float, float] | None, digits: int = 1) -> str:
    """A difference and its interval."""
    if figure is None:
        return ""
    mean, low, high = (signed(x, digits) for x in figure)
    return f"{mean} [{low}, {high}]"


def markdown(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


# ---- what is computed ------------------------------------------------------------------------------------------------
class Gap(NamedTuple):
    """How far a row is from the paper's: points, and standard errors of both means over ten graphs or splits."""

    points: float
    errors: float


def gap(row: Row, which: str, groups: int = 10) -> Gap:
    mean, deviation = getattr(row, which)
    if row.paper is None:
        raise ValueError(f"{row.model} is not in the paper's table")
    paper, its = row.paper
    return Gap(mean - paper, abs(mean - paper) / math.sqrt((deviation**2 + its**2) / groups))


def pairs(run: Stored, model: str, other: Stored, reference: str, which: str) -> Mapping:
    """The difference of two models in each cell that both have."""
    one, two = run.cells(model), other.cells(reference)
    return {cell: {"difference": one[cell][which] - two[cell][which]} for cell in one if cell in two}


def difference(run: Stored, model: str, other: Stored, reference: str, which: str) -> tuple[float, float, float]:
    groups = grouped(pairs(run, model, other, reference, which), "difference")
    return mean_and_interval(np.array([values.mean() for values in groups]))


# ---- the tables ------------------------------------------------------------------------------------------------------
def in_full(name: str) -> str:
    return table.markdown(stored(name).rows)


def spread() -> str:
    return table.spread_markdown(stored("source-localization").rows)


def against_paper() -> str:
    lines = []
    for row in stored("source-localization").rows:
        cells = [gap(row, which) for which in ("last", "best")]
        lines.append([SHORT[row.model], *(f"{signed(g.points)} ({plain(g.errors)} s.e.)" for g in cells)])
    return markdown(["model", "last − paper", "best − paper"], lines)


def repetitions() -> str:
    lines = []
    for name, what in (
        ("source-localization", "the table"),
        ("repetition-1", "other seeds, 1"),
        ("repetition-2", "other seeds, 2"),
    ):
        run = stored(name)
        ev, polynomial = run.row("ev"), run.row("polynomial")
        graphs, draws = run.design()
        figures = [plus_minus(polynomial.last), plus_minus(ev.last), lead(ev.difference_last), lead(ev.difference)]
        lines.append([what, f"{graphs} × {draws}", *figures])
    head = ["", "graphs × draws", "polynomial, last", "EV, last", "EV − polynomial, last", "EV − polynomial, best"]
    return markdown(head, lines)


def sensitivity() -> str:
    full, other = stored("source-localization").first(30), stored("readings")
    both: list[tuple[Stored, str, str]] = [
        (full, "polynomial", "Polynomial, as in the table"),
        (full, "ev", "EV, as in the table"),
        (other, "ev-equation", "EV, sum from k=1 (eq. (evConv, 9) as printed)"),
        (full, "hev-degree", "HEV Degree, text, as in the table"),
        (other, "hev-degree-equation", "HEV Degree, equation"),
        (other, "hev-degree-authors-code", "HEV Degree, authors' code"),
        (full, "hev-proxies", "HEV S. Proxies, text, as in the table"),
        (other, "hev-proxies-equation", "HEV S. Proxies, equation"),
        (other, "hev-proxies-authors-code", "HEV S. Proxies, authors' code"),
        (full, "spectral", "Spectral, as in the table"),
        (other, "spectral-no-top-row", "Spectral, spline without the row of λ_max"),
    ]
    for name, what in (("features-8", "F = 8"), ("epochs-60", "60 epochs")):
        run = stored(name)
        both += [(run, model, f"{what}: {SHORT[model]}") for model in run.experiment.models]
    lines = []
    for run, model, label in both:
        row = run.row(model)
        lines.append([label, str(row.n), plus_minus(row.best), plus_minus(row.last), lead(row.difference_last) or "–"])
    return markdown(["", "runs", "best", "last", "last − polynomial"], lines)


VARIANTS = ("no-bias", "noise", "unseen-times", "unseen-sources", "karate", "les-miserables")


def variants() -> str:
    models = ("polynomial", "nv-degree", "ev", "hev-degree")
    lines = []
    for name in VARIANTS:
        rows = [stored(name).row(model) for model in models]
        ev = rows[2]
        cells = [f"{plain(row.best[0])} ({plain(row.last[0])})" for row in rows]
        lines.append([f"`{name}`", *cells, lead(ev.difference), lead(ev.difference_last)])
    head = ["", *(SHORT[model] for model in models), "EV − polynomial, best", "EV − polynomial, last"]
    return markdown(head, lines)


def short(name: str, with_paper: bool = True, digits: int = 1) -> str:
    lines = []
    for row in stored(name).rows:
        paper = [plus_minus(row.paper, 2)] if with_paper else []
        figures = [plus_minus(row.best), plus_minus(row.last), lead(row.difference_last, digits)]
        lines.append([SHORT[row.model], *paper, *figures, f"{row.parameters:,}"])
    head = ["model", *(["paper"] if with_paper else []), "best", "last", "last − polynomial", "parameters"]
    return markdown(head, lines)


def excerpts_and_tales() -> str:
    lines = []
    for row, held in zip(stored("authorship").rows, stored("authorship-tales").rows, strict=True):
        accuracies = [plus_minus(figure) for figure in (row.best, row.last, held.best, held.last)]
        lines.append([SHORT[row.model], plus_minus(row.paper, 2), *accuracies])
    return markdown(["model", "paper", "excerpts, best", "excerpts, last", "tales, best", "tales, last"], lines)


CONTENTS: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: in_full(name) for name in ("source-localization", "authorship", "digits")},
    **{name: lambda name=name: in_full(name) for name in ("authorship-tales", "authorship-50")},
    "spread": spread,
    "against-paper": against_paper,
    "repetitions": repetitions,
    "interval-coverage": interval_coverage.table,
    "sensitivity": sensitivity,
    "variants": variants,
    "table-I": lambda: short("source-localization"),
    "table-II": excerpts_and_tales,
    "digits-short": lambda: short("digits", with_paper=False, digits=2),
}
