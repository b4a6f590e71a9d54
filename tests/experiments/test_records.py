"""Results on disk: nothing lost, nothing twice, nothing mixed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from toy_experiment import Toy, record

from evref.experiments import records
from evref.experiments.records import Results, Task

FIRST = Task.of("ev", {"group": 0, "draw": 0})
SECOND = Task.of("ev", {"group": 0, "draw": 1})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    with Results(path, Toy()) as results:
        results.append(FIRST, record(1, 2))
        results.append(SECOND, record(3, 4))
    return path


def test_a_line_per_record_after_a_header(path):
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["settings"] == Toy().settings() and header["versions"].keys() >= {"python", "numpy", "scipy", "numba"}
    assert [line["cell"] for line in lines] == [{"group": 0, "draw": 0}, {"group": 0, "draw": 1}]
    assert records.read(path) == (Toy().settings(), {FIRST: record(1, 2), SECOND: record(3, 4)})


def test_each_line_is_on_disk_when_append_returns(tmp_path):
    with Results(tmp_path / "r", Toy()) as results:
        results.append(FIRST, record(1, 2))
        assert records.read(tmp_path / "r")[1] == {FIRST: record(1, 2)}


@pytest.mark.parametrize("lost", [1, 10, "all but one"])
def test_a_torn_last_line_is_dropped(path, lost):
    whole = path.read_bytes()
    length = len(whole.splitlines()[-1])
    path.write_bytes(whole[: -(length if lost == "all but one" else lost)])
    with Results(path, Toy()) as results:
        assert results.has(FIRST) and not results.has(SECOND)
        results.append(SECOND, record(3, 4))
    assert path.read_bytes() == whole


def test_a_torn_header_is_written_again(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    with Results(path, Toy()) as results:
        assert not results.records
    assert path.read_bytes() == whole.splitlines(keepends=True)[0]


@pytest.mark.parametrize("garbage", [b"{\n", b"[1]\n", b'{"model": "ev"}\n', b"\xff\xfe\n"])
def test_garbage_in_the_middle_is_refused_by_its_line(path, garbage):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], garbage, *lines[2:]]))
    with pytest.raises(ValueError, match=r"results.jsonl, line 3: not a line of results"):
        Results(path, Toy())


def test_other_settings_are_refused_by_name(path):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"holds results with epochs = 1; this run has epochs = 2"):
        Results(path, replace(Toy(), epochs=2))
    assert path.read_bytes() == before


def test_more_of_the_same_is_no_other_setting(path):
    with Results(path, replace(Toy(), models=("logistic",), groups=9, draws=9)) as results:
        assert results.has(FIRST)


def test_a_failure_does_not_count_and_does_not_hide_a_result(path):
    with Results(path, Toy()) as results:
        results.append(FIRST, {"error": "no"})
    third = Task.of("ev", {"group": 1, "draw": 0})
    with Results(path, Toy()) as results:
        assert results.has(FIRST)
        results.append(third, {"error": "no"})
        assert not results.has(third)
        results.append(third, record(5, 6))
    assert records.read(path)[1][third] == record(5, 6)


def test_one_writer_at_a_time(path):
    pytest.importorskip("fcntl", reason="no file locks on this system")
    with Results(path, Toy()), pytest.raises(ValueError, match="another run is writing"):
        Results(path, Toy())
    Results(path, Toy()).close()


def test_other_versions_leave_a_header_of_their_own(path, monkeypatch):
    monkeypatch.setattr(records, "versions", lambda: {"python": "4"})
    for _ in range(2):
        Results(path, Toy()).close()
    headers = [line for line in map(json.loads, path.read_text().splitlines()) if "settings" in line]
    assert [header["versions"]["python"] == "4" for header in headers] == [False, True]


def test_a_file_of_something_else(tmp_path):
    (tmp_path / "r").write_text("hello\nworld\n")
    with pytest.raises(ValueError, match="line 1"):
        Results(tmp_path / "r", Toy())
    (tmp_path / "r").write_text("")
    with pytest.raises(ValueError, match="no header"):
        records.read(tmp_path / "r")
