"""From samples to verdicts: targets, ratios, tables, files."""

from __future__ import annotations

import pytest

from evref.bench import cases, clock, report, run, targets


def line(case="huge", dtype="float32", ours=1.0, **peers):
    """A line as `run` makes it, with made-up times in seconds."""
    chosen = next(c for c in cases.ALL_CASES if c.name == case)
    times = {"evref": {"1": clock.summary([2 * ours] * 3), "2": clock.summary([ours] * 3)}}
    times |= {name: {"1": clock.summary([t])} for name, t in peers.items()}
    return {
        "case": case,
        "group": chosen.group,
        "kind": chosen.kind,
        "label": chosen.label,
        "dtype": dtype,
        "nodes": chosen.N,
        "nnz": 11 * chosen.N,
        "F": chosen.F,
        "flops": chosen.flops(11 * chosen.N),
        "traffic": chosen.traffic(11 * chosen.N, 4),
        "limits": {"GEMM": {"1": 1e11, "2": 2e11}, "copy": {"2": 0.5e9}, "triad": {"2": 1e9}},
        "seconds": times,
        "skipped": {"torch.sparse": "N×N"},
        "wrong": {},
    }


def test_every_target_belongs_to_a_case():
    for target in targets.TARGETS:
        assert target.case in {name for case in cases.CASES for name in (case.name, case.group)}, target
        assert target.at_least > 0 and target.dtype in (None, "float32", "float64")


def test_ratios_are_between_best_settings_and_stand_beside_their_targets():
    found = {c.peer: c for c in report.comparisons(line(**{"JAX BCOO": 9.0, "JAX segment_sum": 1.2, "PyG": 2.5}))}
    assert found["JAX segment_sum"].ratio == 1.2 and found["JAX segment_sum"].target == 1.3
    assert found["JAX segment_sum"].met is False
    assert found["JAX BCOO"].target is None and found["JAX BCOO"].met is None  # the strongest of a family counts
    assert found["PyG"].met is True
    share = found[targets.BANDWIDTH]
    assert share.ratio == pytest.approx((2 * 11e6 * 20 + 4 * 1e6 * 4) / 1e9) and share.target == 0.5


def test_a_target_can_depend_on_the_dtype():
    (single,) = [t for t in targets.of_line(line("medium")) if t.peer == "torch.compile"]
    (double,) = [t for t in targets.of_line(line("medium", "float64")) if t.peer == "torch.compile"]
    assert (single.at_least, double.at_least) == (4, 3.5)


def test_closing_counts_and_names_what_was_missed():
    text = report.closing([line(PyG=2.0)])
    assert text.startswith("0 of 2 targets met; missed: huge float32 PyG: 2 of 2.5; huge float32 share of bandwidth")


def test_text_and_markdown_say_the_same():
    wrong = line(PyG=5.0)
    wrong["wrong"] = {"JAX BCOO": "y is off"}
    text = report.block(wrong)
    assert "target ≥ 2.5× met" in text and "MISSED" in text and "2 threads" in text
    assert "torch.sparse           skipped: N×N" in text and "WRONG, not timed: y is off" in text
    results = {
        "about": {"date": "d", "cpu": "c", "cores": 2, "system": "s", "versions": {"evref": "0"}},
        "lines": [wrong],
    }
    markdown = report.markdown(results)
    assert "PyG 5 (≥ 2.5: met)" in markdown and "- huge, torch.sparse: N×N" in markdown
    table = [row for row in markdown.splitlines() if row.startswith("|")]
    assert len(table) == 3 and len({row.count("|") for row in table}) == 1


def test_json_round_trip(tmp_path):
    results = {"about": {"cpu": "é"}, "lines": [line(PyG=5.0)]}
    report.write_json(tmp_path / "figures.json", results)
    assert report.read_json(tmp_path / "figures.json") == results


def test_work_is_counted_as_documented():
    case = next(c for c in cases.CASES if c.name == "small 5->5")
    assert case.flops(856) == 6 * 856 * 100 * 4 * 25
    assert case.traffic(856, 4) == 4 * 25 * 856 * 20 + 2 * 10 * 100 * 50 * 4
    polynomial = next(c for c in cases.CASES if c.name == "polynomial 5->5")
    assert polynomial.flops(856) == 4 * 806 * 100 * 4 * 5 + 6 * 5 * 25 * 50 * 100
    assert polynomial.traffic(856, 4) is None


def test_cases_are_selected_by_name_or_group():
    assert [c.name for c in cases.select(["large", "small 5->5"])] == ["small 5->5", "large B=8", "large B=1"]
    with pytest.raises(ValueError, match="cases has middling; expected groups \\(small, medium"):
        cases.select(["middling"])


# ---- the clock -------------------------------------------------------------------------------------------------------
def test_round_robin_takes_turns_and_stops_the_slow_early():
    order = []

    def turn(name, seconds):
        def take():
            order.append(name)
            return seconds

        return take

    turns = {("a", 1): turn("a1", 1.0), ("b", 1): turn("b1", 1.0), ("b", 2): turn("b2", 5.0)}
    samples = clock.round_robin(turns, seconds=0.0, least=4)
    assert order[:6] == ["a1", "b1", "b2"] * 2
    assert [len(values) for values in samples.values()] == [4, 4, 2]  # b on two threads is hopeless after two rounds
    samples = clock.round_robin(turns, seconds=0.0, least=4, keep=("b",))
    assert [len(values) for values in samples.values()] == [4, 4, 4]


def test_a_child_that_dies_leaves_the_others_alone():
    def dies():
        raise clock.Gone("killed")

    assert clock.round_robin({("a", 1): lambda: 1.0, ("b", 1): dies}, 0.0, 2) == {("a", 1): [1.0, 1.0]}


def test_summary_has_quartiles():
    assert clock.summary([1.0, 2.0, 3.0, 4.0, 5.0]) == {"median": 3, "low": 2, "high": 4, "best": 1, "samples": 5}


def test_a_dead_child_says_why_and_is_replaced():
    with run.Bench([], [1]) as bench:
        limits, child = bench.children
        assert (limits.library, child.library) == ("machine", "evref")
        with pytest.raises(clock.Gone, match="ended with code 1: .*'nonsense'"):
            child.ask(do="nonsense")
        with pytest.raises(clock.Gone, match="ended earlier"):
            child.ask(do="drop")
        bench._revive()
        assert bench.children[0] is limits and bench.children[1] is not child
        assert bench.children[1].ask(do="drop") == {}
