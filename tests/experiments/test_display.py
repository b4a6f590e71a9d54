"""Progress, watched and unwatched."""

from __future__ import annotations

import io

import pytest
from toy_experiment import record

from evref.experiments import display
from evref.experiments.records import Task

TASK = Task.of("ev", {"graph": 3, "draw": 1})


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_few_lines_where_nobody_watches(clock):
    stream = io.StringIO()
    shown = display.Display(104, 4, lambda: "table", stream)
    for _ in range(100):
        clock[0] += 6
        shown.update(TASK, record(1, 2))
    shown.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "4 of 104 are there already"
    assert lines[1] == "5 of 104 (5%), 0:06 gone, about 9:54 left"
    assert len(lines) == 2 + 19 + 1 and lines[-1] == "104 of 104 (100%), 10:00 gone"
    assert "table" not in stream.getvalue() and "\x1b" not in stream.getvalue()


def test_the_table_fills_on_a_terminal(clock):
    stream = Terminal()
    filled = []
    shown = display.Display(3, 0, lambda: "\n".join(["head", *filled]), stream)
    for n in range(3):
        clock[0] += 5
        filled.append(f"row {n}")
        shown.update(TASK, record(1, 2))
    shown.close()
    assert screen(stream.getvalue()) == []
    before_close = stream.getvalue().rpartition("\x1b[")[0].rpartition("\x1b[")[0]
    assert screen(before_close) == ["head", "row 0", "row 1", "row 2", "3 of 3 (100%), 0:15 gone"]


def screen(text):
    """Lines that a terminal shows in the end; understands the two sequences that Display writes."""
    lines = []
    for piece in text.replace("\x1b[J", "").split("\x1b["):
        up, found, rest = piece.partition("F")
        if found and up.isdecimal():
            del lines[len(lines) - int(up) :]
            piece = rest
        lines += piece.splitlines()
    return lines


def test_long_lines_do_not_wrap(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    display.Display(2, 0, lambda: "x" * 500, stream).update(TASK, record(1, 2))
    assert max(map(len, stream.getvalue().splitlines())) == 19


def test_failures_are_named_and_stay(clock):
    stream = Terminal()
    shown = display.Display(3, 0, lambda: "table", stream)
    clock[0] += 5
    shown.update(TASK, record(1, 2))
    clock[0] += 5
    shown.update(TASK, {"error": "ValueError: no good"})
    assert screen(stream.getvalue())[0] == "FAILED ev on graph 3, draw 1: ValueError: no good"
    assert "1 failed" in screen(stream.getvalue())[-1]
