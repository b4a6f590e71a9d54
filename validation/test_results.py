"""The tables in validation/results follow from the records beside them, and no record is missing."""

from __future__ import annotations

import itertools

import pytest
import stored

from evref.experiments.table import csv_text


@pytest.mark.parametrize("name", stored.FOLDERS)
def test_tables_follow_from_records(name):
    run = stored.stored(name)
    assert csv_text(run.rows) == (stored.RESULTS / name / "table.csv").read_text(encoding="utf-8")
    cells = {task.cell for task in run.records}
    assert {(task.model, task.cell) for task in run.records} == set(itertools.product(run.experiment.models, cells))
    assert not any("error" in record for record in run.records.values())
