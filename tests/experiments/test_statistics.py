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
    assert all(map(math.isnan, ev.difference[1:])), "two groups say nothing of their spread"


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


def test_interval_is_a_bootstrap_over_groups():
    from scipy.stats import bootstrap

    effect, kept = ten_groups(draws=1)
    mean, low, high = statistics.rows(Toy(), kept)[1].difference
    expected = bootstrap((effect,), np.mean, method="BCa", n_resamples=99_999).confidence_interval
    assert mean == pytest.approx(effect.mean())
    assert statistics.rows(Toy(), kept)[1].difference == (mean, low, high), "the same every time"
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=0.05)
    # about as wide as Student's, though a bootstrap of ten is narrower
    half = 2.262 * effect.std(ddof=1) / math.sqrt(10)
    assert 0.7 * half < (high - low) / 2 < 1.1 * half


def test_more_draws_on_the_same_graphs_are_no_new_graphs():
    assert statistics.rows(Toy(), ten_groups(1)[1])[1].difference == pytest.approx(
        statistics.rows(Toy(), ten_groups(8)[1])[1].difference
    )


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_too_few_groups_have_no_interval(groups):
    assert all(map(math.isnan, statistics.interval(np.arange(groups, dtype=float))))


def test_four_groups_and_equal_ones():
    low, high = statistics.interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert 1 <= low < 2.5 < high <= 4
    assert statistics.interval(np.full(10, 3.0)) == (3.0, 3.0)


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


def test_csv_has_every_number():
    rows = list(csv.DictReader(io.StringIO(table.csv_text(statistics.rows(Toy(), TWO_GROUPS)))))
    assert [row["model"] for row in rows] == ["polynomial", "ev"]
    assert float(rows[1]["best_mean"]) == 83.0 and float(rows[1]["difference_last_mean"]) == 5.0
    assert float(rows[1]["paper_sd"]) == 10.77 and rows[0]["paper_mean"] == "" == rows[1]["difference_low"]
    assert rows[0]["n"] == "3" and rows[0]["seconds_per_epoch"] == "0.5"
