"""What :func:`evref.compare` found: rows, a diagnosis, the smallest failing case; as text, as a dict, as an error."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "off", "kink", "nan", "not compared"]
DIFFERENCES = "own differences"  # the row that holds the layer's gradients against differences of its own output
WIDTH = 100
CASES_SHOWN = 8
LEFT = (0, 1, 4)  # columns of text, to the left; numbers go to the right


class MismatchError(AssertionError):
    """A layer that is not what the reference is, or could not be compared; `report` has the details."""

    def __init__(self, report: Comparison) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True)
class Row:
    """The verdict on the output, or on one gradient, over all cases.

    Attributes
    ----------
    name : str
        "output", "grad x", "grad phi", ...
    status : str
        "ok"; "off"; "kink": the function has a kink here, and both sides of it are gradients; "nan": not a number in
        both; "not compared": there is no gradient to compare.
    error : float
        Largest difference, relative to the largest entry.
    tolerance : float
        What rounding in the dtype of the comparison may explain.
    where : str
        The worst place, in words of the graph.
    theirs, ours : float
        The value there, in the layer and in the reference.
    """

    name: str
    status: Status
    error: float = math.nan
    tolerance: float = math.nan
    where: str = ""
    theirs: float = math.nan
    ours: float = math.nan

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the layer. Differences that cross a kink say nothing."""
        return self.status in ("ok", "not compared") or (self.status == "kink" and self.name == DIFFERENCES)


@dataclass(frozen=True)
class Cause:
    """A known mistake that gives every number that the layer gives.

    Attributes
    ----------
    name : str
        In :data:`evref.verify.mistakes.KNOWN_MISTAKES`.
    says : str
        What exactly is wrong.
    error : float
        Largest difference between its numbers and the layer's, relative as in a row.
    """

    name: str
    says: str
    error: float


@dataclass(frozen=True)
class CaseResult:
    """One graph and configuration of several."""

    name: str
    ok: bool
    worst: str  # name of the worst row
    error: float


@dataclass(frozen=True)
class Comparison:
    """The outcome of :func:`evref.compare`; true where every row is good.

    Attributes
    ----------
    layer, reference : str
        What was compared with what.
    setting : str
        Framework, dtype and layout in which the layer was run.
    rows : tuple of Row
    problem, problem_kind : str
        Why the layer could not be compared, in a sentence and in a word; empty if it could.
    causes : tuple of Cause
        Known mistakes that explain every number. Several give the same numbers on every case.
    patterns : tuple of str
        What else can be seen in the differences.
    smallest : str
        The smallest failing case that was found.
    tried : int
        How many ways to go wrong were tried.
    notes : tuple of str
        What a reader should know although it does not change the verdict.
    cases : tuple of CaseResult
        One per graph and configuration.
    """

    layer: str
    reference: str
    setting: str = ""
    rows: tuple[Row, ...] = ()
    problem: str = ""
    problem_kind: str = ""
    causes: tuple[Cause, ...] = ()
    patterns: tuple[str, ...] = ()
    smallest: str = ""
    tried: int = 0
    notes: tuple[str, ...] = ()
    cases: tuple[CaseResult, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the layer computes what the reference does, as far as it was compared."""
        return not self.problem and all(row.good for row in self.rows)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def diagnosis(self) -> str:
        """What is wrong, in a sentence or two; empty if nothing is."""
        if self.ok:
            return ""
        if self.problem:
            return self.problem
        if all(row.status != "off" for row in self.rows):
            return _undecided(self.rows)
        if self.causes:
            return _named(self.causes, [row for row in self.rows if row.status in ("ok", "off", "kink")])
        text = f"none of {self.tried} known ways to go wrong explains it"
        return f"{text}; the smallest failing case is: {self.smallest}" if self.smallest else text

    def raise_for_error(self) -> Comparison:
        """The report itself, or a :class:`MismatchError` that carries it."""
        if not self.ok:
            raise MismatchError(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings for a JSON file; NaN and inf, which JSON lacks, become strings."""
        return {"ok": self.ok, "diagnosis": self.diagnosis, **_plain(asdict(self))}

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "NOT COMPARED" if self.problem else "DIFFERENT"
        lines = [f"{self.layer}: {verdict}", *_paragraph("against", self.reference)]
        if self.setting:
            lines.append(f"  run by: {self.setting}")
        if self.rows:
            lines += _table(self.rows)
        for note in self.notes:
            lines += _paragraph("note", note)
        if not self.ok:
            lines += _paragraph("problem" if self.problem else "diagnosis", self.diagnosis)
            if self.causes and self.smallest:
                lines += _paragraph("smallest", self.smallest)
            for pattern in self.patterns:
                lines += _paragraph("seen", pattern)
        wrong = [case for case in self.cases if not case.ok]
        if len(self.cases) > 1:
            lines.append(f"  cases: {len(self.cases) - len(wrong)} of {len(self.cases)} ok")
            lines += [f"    off: {case.name} ({case.worst}, {case.error:.1g})" for case in wrong[:CASES_SHOWN]]
            if len(wrong) > CASES_SHOWN:
                lines.append(f"    and {len(wrong) - CASES_SHOWN} more, in report.cases")
        return "\n".join(lines)


def _undecided(rows: tuple[Row, ...]) -> str:
    if any(row.status == "nan" for row in rows):
        names = ", ".join(row.name for row in rows if row.status == "nan")
        return (
            f"both give values that are not a number, in {names}: nothing can be said there; try other parameters or x"
        )
    names = ", ".join(row.name for row in rows if row.status == "kink" and not row.good)
    return f"the function has a kink at this point, and {names} may lie on either side of it; try another x or seed"


def _named(causes: tuple[Cause, ...], rows: list[Row]) -> str:
    first, count = causes[0], sum(row.name != DIFFERENCES for row in rows)
    agree = "the output agrees" if count == 1 else f"all {count} rows agree"
    text = f"{first.says}: with that {agree} to {max(c.error for c in causes):.0e} [{first.name}]"
    if len(causes) > 1:
        others = "; ".join(f"{cause.says} [{cause.name}]" for cause in causes[1:])
        text += f". The same numbers come of: {others}. Other graphs, sizes or parameters may tell them apart"
    return text


def _paragraph(head: str, text: str) -> list[str]:
    """Wrapped; a name with hyphens in it, [shift-transposed], stays in one piece."""
    return textwrap.wrap(
        f"{head}: {text}", WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _table(rows: tuple[Row, ...]) -> list[str]:
    header = ("", "", "error", "tolerance", "worst place", "layer", "reference")
    table: list[tuple[str, ...]] = [header]
    for row in rows:
        if row.status == "not compared":
            table.append((row.name, "not compared", "", "", "", "", ""))
            continue
        bad = row.status == "off"
        numbers = (f"{row.theirs:.6g}", f"{row.ours:.6g}") if bad else ("", "")
        sign = row.status.upper() if bad else row.status
        table.append((row.name, sign, f"{row.error:.1g}", f"{row.tolerance:.1g}", row.where if bad else "", *numbers))
    if not any(row.status == "off" for row in rows):
        table = [cells[:4] for cells in table]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for cells in table:
        padded = [c.ljust(w) if i in LEFT else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        lines.append(("  " + "  ".join(padded)).rstrip())
    return lines


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
