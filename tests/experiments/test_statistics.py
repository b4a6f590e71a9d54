"""Rows against numbers worked out by hand."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest
from toy_experiment import Toy, record

from evref.experiments import statistics, table
from evref.experiments.records import Task


def records(figures):
    """{(model, group, draw): (best, last)} as records."""
    return {Task(m, (("group", g), ("draw", d))): record(*pair) for (m, g, d), pair in figures.items()}


TWO_GROUPS = records(
    {
        ("polynomial", 0, 0): (50.0, 40.0),
        ("polynomial", 0, 1): (70.0, 60.0),
        ("polynomial", 1, 0): (80.0, 80.0),
        ("ev", 0, 0): (60.0, 45.0),
        ("ev", 0, 1): (90.0, 55.0),
        ("ev", 1, 0): (82.0, 90.0),
        ("ev", 1, 1): (100.0, 100.0),
    }
)


def test_means_within_groups_first():
    polynomial, ev = statistics.rows(Toy(), TWO_GROUPS)
    assert polynomial.best == (70.0, pytest.approx(20 / math.sqrt(2)))  # of 60 and 80: n − 1
    assert polynomial.last == (65.0, pytest.approx(30 / math.sqrt(2)))
    assert ev.best == (83.0, pytest.approx(16 / math.sqrt(2)))  # of 75 and 91, not 83.0 = mean of four by chance
    assert ev.last == (72.5, pytest.approx(45 / math.sqrt(2)))
    assert (polynomial.n, ev.n) == (3, 4)


def test_differences_are_paired_on_common_cells():
    polynomial, ev = statistics.rows(Toy(), TWO_GROUPS)
    assert polynomial.difference is None and polynomial.difference_last is None
    # group 0: +10 and +20; group 1: +2, and a cell that the polynomial does not have
    assert ev.difference[0] == (15 + 2) / 2 and ev.difference_last[0] == (0 + 10) / 2
    half = 12.7062047 * 13 / 2  # t with one degree of freedom, of 15 and 2
    assert ev.difference[1:] == pytest.approx((8.5 - half, 8.5 + half))


def ten_groups(draws, seed=0):
    rng = np.random.default_rng(seed)
    effect = rng.normal(3.0, 2.0, 10)
    base = rng.normal(70, 10, 10)
    figures = {}
    for g in range(10):
        for d in range(draws):
            figures["polynomial", g, d] = (base[g], base[g])
            figures["ev", g, d] = (base[g] + effect[g], base[g])
    return effect, records(figures)


def test_interval_is_students_over_groups():
    from scipy.stats import t

    effect, kept = ten_groups(draws=1)
    mean, low, high = statistics.rows(Toy(), kept)[1].difference
    expected = t.interval(0.95, 9, loc=effect.mean(), scale=effect.std(ddof=1) / math.sqrt(10))
    assert mean == pytest.approx(effect.mean())
    assert (low, high) == pytest.approx(expected, rel=1e-12)


def test_more_draws_on_the_same_graphs_are_no_new_graphs():
    assert statistics.rows(Toy(), ten_groups(1)[1])[1].difference == pytest.approx(
        statistics.rows(Toy(), ten_groups(8)[1])[1].difference
    )


def test_one_group_has_no_interval_and_two_have_a_wide_one():
    assert all(map(math.isnan, statistics.interval(np.array([]))))
    assert all(map(math.isnan, statistics.interval(np.array([3.0]))))
    assert statistics.interval(np.array([0.0, 2.0])) == pytest.approx((1 - 12.7062047, 1 + 12.7062047))
    assert statistics.interval(np.full(10, 3.0)) == (3.0, 3.0)


def test_the_interval_covers_what_it_says():
    rng = np.random.default_rng(0)
    ends = np.array([statistics.interval(rng.standard_normal(10)) for _ in range(4000)])
    covered = np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))
    assert abs(covered - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 4000)  # BCa: 0.91


def test_components_find_the_deviations_that_were_put_in():
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 6, 3000)  # unequal, many groups: the estimates are near the truth
    found = statistics.components([4 * rng.standard_normal() + 9 * rng.standard_normal(n) for n in sizes])
    assert found == pytest.approx((9.0, 4.0), rel=0.05)
    pooled = statistics.components([9 * rng.standard_normal(4) for _ in range(3000)])
    assert pooled.within == pytest.approx(9.0, rel=0.05) and pooled.between < 1.5


def test_components_by_hand_and_where_there_are_none():
    # means 2 and 12, deviations √2 in both: MSW 2, MSB 100, (100 − 2) / 2 = 49
    assert statistics.components([np.array([1.0, 3.0]), np.array([11.0, 13.0])]) == (math.sqrt(2), 7.0)
    assert statistics.components([np.array([1.0, 3.0]), np.array([1.0, 3.0])]).between == 0
    assert all(map(math.isnan, statistics.components([np.array([1.0]), np.array([2.0])])))
    assert math.isnan(statistics.components([np.array([1.0, 2.0])]).between)
    ev = statistics.rows(Toy(), ten_groups(draws=4)[1])[1]
    assert ev.spread_difference.within == pytest.approx(0, abs=1e-6)
    assert ev.spread_difference.between == pytest.approx(ten_groups(4)[0].std(ddof=1))


def test_failures_and_rows_without_records():
    kept = {**TWO_GROUPS, Task("ev", (("group", 2), ("draw", 0))): {"error": "no"}}
    experiment = replace(Toy(), models=("ev", "logistic", "polynomial"))
    ev, logistic, polynomial = statistics.rows(experiment, kept)
    assert (ev.n, ev.failed) == (4, 1) and ev.best[0] == 83.0
    assert logistic.n == 0 and math.isnan(logistic.best[0]) and math.isnan(logistic.difference[0])
    assert (ev.label, logistic.label) == ("Edge Variant (EV)", "Logistic regression")
    assert ev.paper == (85.47, 10.77) and polynomial.paper is None
    assert statistics.rows(replace(Toy(), models=("ev",)), kept)[0].difference is None, "no reference, no difference"


def test_text_and_markdown():
    rows = statistics.rows(Toy(), TWO_GROUPS)
    head, polynomial, ev = table.text(rows).splitlines()
    assert head.split()[:4] == ["model", "paper", "best", "last"]
    assert "85.47 ± 10.77" in ev and "83.00 ± 11.31" in ev and "+8.50" in ev and "–" in polynomial
    assert head.index("best") == polynomial.index("70.00") == ev.index("83.00")
    lines = table.markdown(rows).splitlines()
    assert len(lines) == 4 and {line.count("|") for line in lines} == {len(table.COLUMNS) + 1}
    failed = table.text([rows[0]._replace(failed=2)])
    assert "3 (2 failed)" in failed
    nothing = table.text(statistics.rows(Toy(), {}))
    assert "nan" not in nothing and nothing.count("–") > 10


def test_a_narrow_terminal_gets_the_columns_in_blocks():
    rows = statistics.rows(Toy(), TWO_GROUPS)
    blocks = table.text(rows, width=60).split("\n\n")
    assert len(blocks) > 1 and max(map(len, table.text(rows, width=60).splitlines())) <= 60 < len(
        table.text(rows).splitlines()[1]
    )
    wide = [line.split("  ") for line in table.text(rows).splitlines()]
    for number, line in enumerate(wide):
        pieces = [block.splitlines()[number] for block in blocks]
        assert all(piece.startswith(line[0]) for piece in pieces), "the model stands in every block"
        assert [c.strip() for p in pieces for c in p.split("  ")[1:] if c.strip()] == [
            c.strip() for c in line[1:] if c.strip()
        ]
    assert table.text(rows, width=1000) == table.text(rows)


def test_csv_has_every_number():
    rows = list(csv.DictReader(io.StringIO(table.csv_text(statistics.rows(Toy(), TWO_GROUPS)))))
    assert [row["model"] for row in rows] == ["polynomial", "ev"]
    assert float(rows[1]["best_mean"]) == 83.0 and float(rows[1]["difference_last_mean"]) == 5.0
    assert float(rows[1]["paper_sd"]) == 10.77 and rows[0]["paper_mean"] == "" == rows[0]["difference_low"]
    assert float(rows[1]["spread_within"]) == pytest.approx(math.sqrt((450 + 162) / 2))  # of 60, 90 and 82, 100
    assert rows[0]["spread_difference_within"] == ""
    assert rows[0]["n"] == "3" and rows[0]["seconds_per_epoch"] == "0.5"


def test_the_spread_is_shown_where_there_are_draws():
    rows = statistics.rows(Toy(), TWO_GROUPS)
    head, _, ev = table.spread_text(rows).splitlines()
    assert head.split()[:3] == ["model", "best", "last"] and "17.5 / 0.0" in ev
    assert table.spread_markdown(rows).count("\n") == 3
    assert table.spread_rows(statistics.rows(Toy(), ten_groups(1)[1])) == []
