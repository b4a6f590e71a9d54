"""The stored runs of validation/results: what was run, its records and the rows of its table.

python validation/stored.py            write every table.csv again from its records
python validation/stored.py --draw     and the pictures (the first cell of each is trained once more: minutes)
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import gzip
import io
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from evref import experiments
from evref.experiments.experiment import Experiment
from evref.experiments.records import Record, Task, read
from evref.experiments.statistics import Row, rows
from evref.experiments.table import csv_text

RESULTS = Path(__file__).parent / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/results.jsonl.gz"))
WITH_PICTURES = ("source-localization", "authorship", "digits")


class Stored(NamedTuple):
    """One folder of results."""

    experiment: Experiment
    records: dict[Task, Record]

    @property
    def rows(self) -> list[Row]:
        return rows(self.experiment, self.records)

    def row(self, model: str) -> Row:
        return next(row for row in self.rows if row.model == model)

    def cells(self, model: str) -> dict[tuple[tuple[str, int], ...], Record]:
        """The records of one model by cell, in the order in which they are run."""
        return {task.cell: self.records[task] for task in sorted(self.records, key=_turn) if task.model == model}

    def design(self) -> tuple[int, int]:
        """Groups, and cells in each, such as graphs and draws of the data on each."""
        cells = {task.cell for task in self.records}
        groups = len({cell[0] for cell in cells})
        return groups, len(cells) // groups

    def first(self, cells: int) -> Stored:
        """Of the first `cells` cells alone."""
        kept = {task.cell for task in sorted(self.records, key=_turn)[: cells * len(self.experiment.models)]}
        return self._replace(records={task: r for task, r in self.records.items() if task.cell in kept})


def _turn(task: Task) -> tuple[int, ...]:
    """Cells in the order in which they are run: every graph once, then every graph with other data."""
    return tuple(value for _, value in reversed(task.cell))


@functools.cache
def stored(name: str) -> Stored:
    folder = RESULTS / name
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "results.jsonl"
        path.write_bytes(gzip.decompress((folder / "results.jsonl.gz").read_bytes()))
        settings, records = read(path)
    table = folder / "table.csv"
    models = tuple(row["model"] for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    cls = experiments.load(settings["experiment"])
    fields = {field.name for field in dataclasses.fields(cls)} - {"corpus"}  # type: ignore[arg-type]  # a hash there
    kept = {key: value for key, value in settings.items() if key in fields}
    return Stored(cls(models=models, **kept), records)  # type: ignore[call-arg]


def save(figure: Any, path: Any) -> None:
    """As PNG with a palette: a third of the size, and no difference to be seen in pictures of flat colours."""
    import matplotlib
    from PIL import Image, PngImagePlugin

    drawn_by = PngImagePlugin.PngInfo()
    drawn_by.add_text("Software", f"matplotlib {matplotlib.__version__}")
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100, format="png", metadata={"Software": None})
    flat = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    flat.save(path, format="png", optimize=True, pnginfo=drawn_by)


def draw(name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from evref.plot.report import pictures

    run = stored(name)
    for picture, figure in pictures(run.experiment, run.rows, run.records):
        save(figure, RESULTS / name / f"{picture}.png")
        plt.close(figure)
        print(RESULTS / name / f"{picture}.png", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", nargs="*", metavar="FOLDER", help=f"default: {', '.join(WITH_PICTURES)}")
    arguments = parser.parse_args()
    for name in FOLDERS:
        (RESULTS / name / "table.csv").write_text(csv_text(stored(name).rows), encoding="utf-8")
    if arguments.draw is not None:
        for name in arguments.draw or WITH_PICTURES:
            draw(name)
