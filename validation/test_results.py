"""The tables in validation/results follow from the records beside them, and no record is missing."""

from __future__ import annotations

import importlib.util
import io
import itertools

import pytest
import stored
from compare_pictures import same_picture

from evref.experiments.table import csv_text


@pytest.mark.parametrize("name", stored.FOLDERS)
def test_tables_follow_from_records(name):
    run = stored.stored(name)
    assert csv_text(run.rows) == (stored.RESULTS / name / "table.csv").read_text(encoding="utf-8")
    cells = {task.cell for task in run.records}
    assert {(task.model, task.cell) for task in run.records} == set(itertools.product(run.experiment.models, cells))
    assert not any("error" in record for record in run.records.values())


def problem(name):
    run = stored.stored(name)
    if name == "digits" and importlib.util.find_spec("sklearn") is None:
        pytest.skip("the digits come with scikit-learn")
    return run


@pytest.mark.parametrize("name", stored.FOLDERS)
def test_parameters_and_operations_are_those_of_the_networks(name):
    """Of the first and the last cell: on graphs with other edges they differ."""
    run = problem(name)
    for model in run.experiment.models:
        cells = list(run.cells(model).items())
        for cell, record in (cells[0], cells[-1]):
            net, _ = run.experiment.prepare(model, dict(cell))
            assert (record["parameters"], record["operations"]) == (net.n_parameters, net.n_operations()), (model, cell)


@pytest.mark.parametrize("name", stored.WITH_PICTURES)
def test_pictures_are_drawn_from_the_records(name):
    """Those that need no weights: accuracies, confusions, curves."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib").use("Agg")
    from evref.plot.report import pictures

    run = problem(name)
    drawn = dict(itertools.islice(pictures(run.experiment, run.rows, run.records), 3))
    assert list(drawn) == ["accuracy", "confusion", "curves"]
    for picture, figure in drawn.items():
        stored.save(figure, buffer := io.BytesIO())
        with image.open(stored.RESULTS / name / f"{picture}.png") as kept, image.open(buffer) as now:
            assert same_picture(kept, now), f"{picture}.png is not what python validation/stored.py --draw draws"
