"""What a derivative check found: one row per block of variables, readable as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


class GradientError(AssertionError):
    """A derivative that is wrong, or does not have the shape of what it is a derivative of."""


@dataclass(frozen=True)
class Row:
    """The verdict on one block: a parameter, or the input x.

    Attributes
    ----------
    block : str
        Name of the parameter, "x" for the input, "all" for everything at once.
    error : float
        Largest error in the block, relative in the sense of the check that wrote it; inf where a value is NaN.
    tolerance : float
        The row is good where `error` <= `tolerance`.
    ours, expected : float
        The value from `backward` and the one it is held against, at the worst entry (at `index`, if that is known).
    n_entries : int
        How many numbers were compared.
    index : tuple of int or None
        Where in the block the worst entry is.
    output : tuple of int or None
        Which entry of y was differentiated, where a full Jacobian was compared.
    skipped : int
        Entries that were left out because the function has a kink there.
    note : str
        What a failure of this row means, where the numbers do not say it.
    """

    block: str
    error: float
    tolerance: float
    ours: float
    expected: float
    n_entries: int
    index: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    skipped: int = 0
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance


@dataclass(frozen=True)
class Report:
    """The outcome of one check on one module; true where every row is good.

    Attributes
    ----------
    check, module : str
        Name of the check and of what was checked.
    rows : tuple of Row
        One per parameter, and one for the input.
    reference : str
        What the gradients were held against.
    mode : str
        How much was compared, e.g. "full Jacobian".

    Examples
    --------
    >>> row = Row("phi", error=1e-3, tolerance=1e-10, ours=2.002, expected=2.0, n_entries=6, index=(0, 1))
    >>> print(Report("complex_step", "Linear(2, 3)", (row,), "complex step", "full Jacobian"))
    complex_step of Linear(2, 3): FAILED (full Jacobian)
      block  error  tolerance  entries  index   output  backward  complex step
      phi    1e-03      1e-10        6  (0, 1)             2.002             2  FAILED
    """

    check: str
    module: str
    rows: tuple[Row, ...]
    reference: str = "expected"
    mode: str = ""

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def worst(self) -> Row:
        """The row to look at first: a failed one before a good one, and of those one that knows the place."""
        return max(self.rows, key=lambda row: (not row.ok, row.index is not None, row.error / row.tolerance))

    @property
    def skipped(self) -> int:
        """Entries left out because the function has a kink there."""
        return sum(row.skipped for row in self.rows)

    def __str__(self) -> str:
        mode = f" ({self.mode})" if self.mode else ""
        lines = [f"{self.check} of {self.module}: {'passed' if self.ok else 'FAILED'}{mode}"]
        header = ("block", "error", "tolerance", "entries", "index", "output", "backward", self.reference, "")
        table: list[tuple[str, ...]] = [header]
        for row in self.rows:
            numbers = (f"{row.error:.0e}", f"{row.tolerance:.0e}", f"{row.n_entries}")
            places = tuple("" if place is None else str(place) for place in (row.index, row.output))
            values = (f"{row.ours:.12g}", f"{row.expected:.12g}")
            table.append((row.block, *numbers, *places, *values, "" if row.ok else "FAILED"))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        left = (0, 4, 5, 8)  # text to the left, numbers to the right
        for cells in table:
            sized = enumerate(zip(cells, widths, strict=True))
            padded = [cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in sized]
            lines.append(("  " + "  ".join(padded)).rstrip())
        lines += [f"  {row.block}: {row.note}" for row in self.rows if row.note and not row.ok]
        if self.skipped:
            lines.append(f"  skipped at a kink: {self.skipped}")
        return "\n".join(lines)

    def raise_if_failed(self) -> Report:
        """The report itself, or a GradientError that carries it as text."""
        if not self.ok:
            raise GradientError(str(self))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings for a JSON file; NaN and inf, which JSON lacks, become strings."""
        rows = [{**{k: _plain(v) for k, v in asdict(row).items()}, "ok": row.ok} for row in self.rows]
        head = {"check": self.check, "module": self.module, "reference": self.reference, "mode": self.mode}
        return {**head, "ok": self.ok, "skipped": self.skipped, "rows": rows}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
