"""`evref.compare` is silent on right layers, and not on the same layers spoilt a little: a sample of right_cases.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("torch")

import right_cases
from right_cases import CASES, CHANGES, DTYPES, FATES, GRAPHS, KINDS, POINTS, REFERENCES, STYLES, Case, bound, run
from right_changes import draw_change
from right_draws import random_reference

import evref as ev
from evref.verify.comparison import Row

PAGE = Path(__file__).with_name("right_cases.md")
OF_JAX = ("gcn", "dcnn")  # JAX compiles for every shape: two filters alone
SAMPLE = right_cases.sample(OF_JAX)
STRATIFIED = {name: [case for case in SAMPLE if case.name == name] for name in REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_silent_on_right_layers_and_not_on_spoilt_ones(name: str) -> None:
    outcomes = [run(case) for case in STRATIFIED[name]]
    loud = [f"{outcome.case.label}\n{outcome.report}" for outcome in outcomes if not outcome.silent]
    assert not loud, "\n".join(loud)
    missed = [f"{o.case.label}: {o.change} moves {o.moved:.2g} tolerances" for o in outcomes if o.fate == "missed"]
    assert not missed, "\n".join(missed)
    assert sum(outcome.fate == "seen" for outcome in outcomes) >= len(outcomes) // 2


def test_the_sample_has_every_filter_in_every_kind() -> None:
    here = {(case.name, case.kind) for case in SAMPLE}
    there = {(name, kind) for name, kind, *_ in right_cases.strata()}
    left_out = {kind for _, kind in there - here}
    assert left_out == {kind for kind, how in KINDS.items() if how.framework == "jax"}
    assert len(SAMPLE) >= 150
    for part, values in (("graph", GRAPHS), ("point", POINTS), ("dtype", DTYPES)):
        assert {getattr(case, part) for case in SAMPLE} == set(values)
    assert {case.style for case in SAMPLE if case.style} == {style for styles in STYLES.values() for style in styles}


def test_a_case_is_drawn_from_its_number() -> None:
    first, second = (run(right_cases.case_of(5)) for _ in range(2))
    assert [(row.error, row.theirs) for row in first.report.rows] == [
        (row.error, row.theirs) for row in second.report.rows
    ]
    assert first.change is not None and second.change is not None
    assert (first.change.name, first.change.entry) == (second.change.name, second.change.entry)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_moves_numbers(change: str) -> None:
    """A change that did nothing would make all of them "no trace", and nothing would be missed."""
    rng = np.random.default_rng(0)
    case = Case(0, "polynomial", "function", "dense", "float64", "directed", "drawn")
    moved = []
    while len(moved) < 5:
        reference = random_reference("polynomial", "directed", rng)
        drawn = draw_change(reference, True, rng)
        if drawn is not None and drawn.name == change and reference.order and reference.graph.n_edges:
            moved.append(right_cases._moved(drawn, reference, case, {}, np.dtype("float64"), True))
    assert np.median(moved) > 1e3


def test_an_alarm_is_counted_as_one() -> None:
    outcome = run(right_cases.case_of(5), spoil=False)
    assert outcome.silent
    for status in ("off", "nan", "kink"):
        object.__setattr__(outcome.report, "rows", (Row("output", status, 1.0, 1e-10),))  # type: ignore[arg-type]
        assert not outcome.silent


def test_the_bound() -> None:
    assert bound(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000))  # 0.3%
    assert bound(1, 1000) > bound(0, 1000) > bound(0, 2000)


def test_the_page_is_of_the_code_that_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert right_cases.headline(CASES) in page, "python validation/right_cases.py --write"
    assert f"**False alarms: 0 of {CASES:,}.**" in page
    assert f"below {100 * bound(0, CASES):.2f}%" in page and bound(0, CASES) <= 0.003
    for name in (*REFERENCES, *KINDS, *GRAPHS, *POINTS, *CHANGES):
        assert f"\n| {name} | " in page
    table = page.split("## By filter")[1].split("##")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    assert [row[0] for row in rows[1:]] == list(REFERENCES)
    assert rows[0][-len(FATES) :] == list(FATES)
    assert sum(int(row[1]) for row in rows[1:]) == CASES >= 1000
    assert all(int(row[-1]) == 0 for row in rows[1:])  # missed
    assert set(REFERENCES) - {"network"} == set(ev.catalogue)
