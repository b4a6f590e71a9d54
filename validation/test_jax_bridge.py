"""validation/jax_bridge.md is what its script has, a sample of it computed again."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax_bridge as bridge  # noqa: E402 - needs jax
from jax_examples import in_float64  # noqa: E402, F401

import evref as ev  # noqa: E402

SUBJECTS = bridge.subjects()
PAGE = bridge.PAGE.read_text(encoding="utf-8")
DEAR = ("fwd - rev", "hessian", "differences")
SOME = ["edge_variant(order=2, zeroth=none, self_loops=True)", "gcn(bias=True)", "layer tanh", "network of the paper"]


# ---- the page --------------------------------------------------------------------------------------------------------
def test_the_page_is_of_these_checks_and_configurations() -> None:
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    head, _, *rows = table
    assert head == ["", *bridge.CHECKS]
    assert [row[0] for row in rows] == list(SUBJECTS)
    total = len(SUBJECTS) * len(bridge.CHECKS)
    assert f"{total} of {total} checks pass." in PAGE and "fails" not in PAGE
    assert bridge.__doc__ is not None and bridge.__doc__.partition("what follows.\n\n")[2] in PAGE


def test_numbers_on_the_page_are_within_the_tolerances() -> None:
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("| |"):
            cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
            for cell, (column, (_, tolerance)) in zip(cells, bridge.CHECKS.items(), strict=True):
                assert cell == "ok" if column == "check_grads" else cell == "–" or float(cell) <= tolerance, line


def test_the_subjects_are_the_catalogues() -> None:
    classes = {type(module) for module in SUBJECTS.values()}
    assert classes >= {*ev.catalogue.values(), *ev.layer_catalogue.values()}
    assert {type(SUBJECTS[name]) for name in bridge.first_of_each()} == classes


# ---- a sample --------------------------------------------------------------------------------------------------------
@cache
def subject(name: str) -> bridge.Subject:
    return bridge.Subject(name, SUBJECTS[name])


@pytest.mark.parametrize("name", bridge.first_of_each())
def test_cheap_columns(name: str) -> None:
    """One configuration of each class."""
    found = {column: bridge.cell(column, subject(name)) for column in bridge.CHECKS if column not in DEAR}
    assert not [cell for cell in found.values() if cell.startswith("fails")], found


@pytest.mark.parametrize("name", SOME)
def test_dear_columns(name: str) -> None:
    found = {column: bridge.cell(column, subject(name)) for column in DEAR}
    assert not [cell for cell in found.values() if cell.startswith("fails")], found


def test_each_column_fails_where_its_tolerance_says(monkeypatch: pytest.MonkeyPatch) -> None:
    tanh = bridge.Subject("tanh", ev.Tanh())
    monkeypatch.setitem(bridge.CHECKS, "jit", (lambda s: 2e-12, 1e-12))
    assert bridge.cell("jit", tanh) == "fails: 2e-12; expected at most 1e-12"
    monkeypatch.setitem(bridge.CHECKS, "jit", (lambda s: np.nan, 1e-12))
    assert bridge.cell("jit", tanh).startswith("fails: nan")
    monkeypatch.setitem(bridge.CHECKS, "jit", (lambda s: 1 / 0, 1e-12))
    assert bridge.cell("jit", tanh) == "fails: ZeroDivisionError: division by zero"
    assert bridge.apart(np.ones(2), np.ones(3)) == bridge.apart(np.ones(2), np.ones(2, np.float32)) == np.inf
