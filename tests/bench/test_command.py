"""`evref bench` as a user meets it, on cases too small to take time."""

from __future__ import annotations

import json
import math

import pytest

from evref import cli
from evref.bench import growth, guard, run, startup, targets


def test_bench_of_a_tiny_case(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    files = [tmp_path / name for name in ("speed.md", "roofline.png")]
    arguments = ["--cases", "tiny filter", "--dtypes", "float64", "--peers", "numpy", "--seconds", "0.01", "--quick"]
    assert cli.main(["bench", *arguments, "--json", "--markdown", str(files[0]), "--plot", str(files[1])]) == 0
    captured = capsys.readouterr()
    assert "numpy dense" in captured.err and "scipy CSR" in captured.err and "GF/s" in captured.err
    assert "tiny filter float64: timing" in captured.err
    results = json.loads(captured.out)  # and nothing else
    assert results["about"]["versions"]["numpy"] and results["about"]["cpu"] and results["about"]["cores"] >= 1
    (line,) = results["lines"]
    assert line["wrong"] == {} and line["skipped"] == {}
    assert {"evref", "numpy dense", "scipy CSR"} == line["seconds"].keys()
    assert {"GEMM", "copy", "triad"} == line["limits"].keys() - {"round trip"}
    for times in line["round_trip"].values():  # with two cores and more: from tens of nanoseconds on
        assert 1e-9 < times["low"] <= times["median"] <= times["high"]
    assert all(file.stat().st_size for file in files)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases", "tall"], "cases has tall; expected groups"),
        (["--peers", "matlab"], "peers has matlab; expected some of numpy, torch"),
        (["--dtypes", "float16"], "--dtypes has float16; expected float32 or float64"),
        (["--seconds", "0"], "--seconds is 0.0; expected a positive number"),
        (["--update"], "--update and --expected belong to --guard"),
    ],
)
def test_a_call_that_makes_no_sense(capsys, arguments, message):
    assert cli.main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_interrupt_prints_what_there_is(capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(run, "run", interrupted)
    assert cli.main(["bench", "--peers", "numpy"]) == 130
    captured = capsys.readouterr()
    assert "so far" in captured.err and "0 of 0 targets met" in captured.out


# ---- growth ----------------------------------------------------------------------------------------------------------
def test_slope_of_a_power():
    assert math.isclose(growth.slope([1, 10, 100], [2, 20, 200]), 1)
    assert math.isclose(growth.slope([1, 4, 9], [5, 10, 15]), 0.5)


def test_growth_covers_three_decades_of_everything():
    for name, points in growth.axes().items():
        sizes = [size for size, _ in points]
        assert sizes == sorted(sizes) and sizes[-1] >= 1000 * sizes[0], name


def test_growth_point_and_table():
    case = growth.axes(quick=True)["nnz"][0][1]
    point = growth.point(case, threads=1, seconds=0.0)
    assert point["seconds"] > 0 and point["bytes"] >= 0
    assert point["bound"] == 4 * (2 * 2 * 11_000 + 4 * 1_000 + 3 * 1_000)
    points = [{"size": n, "seconds": 1e-3 * n, "bytes": 2**20 * n, "bound": 2**20 * m} for n, m in ((1, 1), (100, 50))]
    text = growth.table({"nnz": points})
    assert (
        "time ~ nnz^1.00" in text
        and "(median) 1.00, target ≤ 1.15 met" in text
        and "MISSED at 1 of 2 sizes" in text
        and "OVER" in text
    )


# ---- guard -----------------------------------------------------------------------------------------------------------
def expected(value=10.0):
    return {f"{name} {dtype}": value for name, dtype in guard.CASES}


def test_guard_passes_within_the_margin_and_fails_beyond_it(capsys):
    assert guard.check(expected(), lambda name, dtype: 10 / 1.4) == {}
    lost = guard.check(expected(), lambda name, dtype: 10 / 1.6)
    assert lost.keys() == expected().keys()
    assert "SLOWER" in capsys.readouterr().out


def test_guard_tries_a_failing_case_again():
    calls = []

    def noisy(name, dtype):
        calls.append(name)
        return 1.0 if len(calls) < 3 else 10.0

    assert guard.check(expected(), noisy) == {}
    assert len(calls) == len(guard.CASES) + 2


def test_guard_sees_a_kernel_that_runs_four_times(monkeypatch):
    """The measurement itself: a compiled pass that does its work four times loses about that factor."""
    name, dtype = "edge-variant 5->5", "float32"
    healthy = max(guard.ratio(guard.CASES[name, dtype], dtype, seconds=0.1) for _ in range(3))
    from evref.kernels import compiled

    for function in ("ev_forward", "ev_backward"):
        original = getattr(compiled, function)
        monkeypatch.setattr(compiled, function, lambda *a, original=original: [original(*a) for _ in range(4)][-1])
    slowed = min(guard.ratio(guard.CASES[name, dtype], dtype, seconds=0.1) for _ in range(3))
    assert slowed < healthy / guard.LOSS


def test_guard_without_expectations(capsys, tmp_path):
    assert cli.main(["bench", "--guard", "--expected", str(tmp_path / "none.json")]) == 2
    assert "--guard --update writes it" in capsys.readouterr().err


# ---- startup ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("seconds", "code"), [(0.1, 0), (60.0, 1)])
def test_startup_holds_its_limits(capsys, monkeypatch, seconds, code):
    monkeypatch.setattr(startup, "measure", lambda: dict.fromkeys([*targets.STARTUP, "second call"], seconds))
    assert cli.main(["bench", "--startup"]) == code
    assert ("PASSED" in capsys.readouterr().out) == bool(code)


# ---- pictures --------------------------------------------------------------------------------------------------------
def test_pictures_take_axes_and_name_what_is_missing():
    plt = pytest.importorskip("matplotlib.pyplot")
    from evref import plot

    points = [{"size": n, "seconds": 1e-3 * n, "bytes": 2e6 * n, "bound": 1e6 * n} for n in (1, 10, 100)]
    _, axes = plt.subplots(1, 2)
    assert plot.growth({"growth": {"nnz": points, "K": points[:1]}}, axes) is axes
    assert "nnz, from 1: 1.00" in [text.get_text() for text in axes[0].get_legend().get_texts()]
    with pytest.raises(ValueError, match="two sizes or more"):
        plot.growth({"growth": {"K": points[:1]}})
    with pytest.raises(ValueError, match="no edge-variant case"):
        plot.roofline({"lines": []})
    plt.close("all")


def test_guard_knows_processors_apart(tmp_path, monkeypatch, capsys):
    path = tmp_path / "guard.json"
    path.write_text(json.dumps({"other": expected(100.0), guard.machine.cpu_name(): expected(1.0)}), encoding="utf-8")
    monkeypatch.setattr(guard, "in_child", lambda name, dtype: 2.0)
    monkeypatch.setattr(guard.check, "__defaults__", (guard.in_child,))
    assert cli.main(["bench", "--guard", "--expected", str(path)]) == 0
    path.write_text(json.dumps({"other": expected(100.0)}), encoding="utf-8")
    assert cli.main(["bench", "--guard", "--expected", str(path)]) == 1
    assert "nothing was measured on" in capsys.readouterr().out
    assert cli.main(["bench", "--guard", "--expected", str(path), "--update"]) == 0
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "other": expected(100.0),
        guard.machine.cpu_name(): expected(2.0),
    }
