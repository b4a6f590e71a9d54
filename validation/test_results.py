"""The tables in validation/results follow from the records beside them, and no record is missing."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import itertools
from pathlib import Path

import pytest

from evref import experiments
from evref.experiments.records import read
from evref.experiments.statistics import rows
from evref.experiments.table import csv_text

FOLDERS = sorted(path.parent for path in (Path(__file__).parent / "results").glob("*/results.jsonl.gz"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_tables_follow_from_records(folder, tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(gzip.decompress((folder / "results.jsonl.gz").read_bytes()))
    settings, records = read(path)
    table = (folder / "table.csv").read_text(encoding="utf-8")
    models = tuple(row["model"] for row in csv.DictReader(table.splitlines()))
    cls = experiments.load(settings["experiment"])
    fields = {field.name for field in dataclasses.fields(cls)} - {"corpus"}  # there it is the hash of the shipped one
    experiment = cls(models=models, **{key: value for key, value in settings.items() if key in fields})
    assert csv_text(rows(experiment, records)) == table
    cells = {task.cell for task in records}
    assert {(task.model, task.cell) for task in records} == set(itertools.product(models, cells))
    assert not any("error" in record for record in records.values())
