"""What a long run shows while it runs: on a terminal the table, filling; elsewhere a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from .records import Record, Task

PAUSE = 30.0  # seconds between lines where nobody watches
FRAME = 1.0  # seconds between pictures where somebody does


class Display:
    """Progress on `stream`, with the time left.

    Parameters
    ----------
    total, done : int
        Tasks, and how many of them an earlier run has finished.
    table : callable
        Gives the table as it now stands; asked for on a terminal only.
    stream : text stream
        Standard error by default.
    """

    def __init__(self, total: int, done: int, table: Callable[[], str], stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.total, self.before, self.done, self.failed = total, done, done, 0
        self.table = table
        self.live = self.stream.isatty()
        self.started = self.shown = time.monotonic()
        self.height = 0  # lines of the picture that is there
        if done:
            self._print(f"{done} of {total} are there already")

    def update(self, task: Task, record: Record) -> None:
        """Another task is finished."""
        self.done += 1
        if "error" in record:
            self.failed += 1
            self._clear()
            where = ", ".join(f"{key} {value}" for key, value in task.cell)
            self._print(f"FAILED {task.model} on {where}: {record['error']}")
        now = time.monotonic()
        first = self.done == self.before + 1
        if first or self.done == self.total or now - self.shown >= (FRAME if self.live else PAUSE):
            self.shown = now
            self._show()

    def close(self) -> None:
        """Take the picture away; lines stay."""
        self._clear()

    def _show(self) -> None:
        if not self.live:
            self._print(self._progress())
            return
        width = shutil.get_terminal_size().columns - 1  # a line that wraps would be two to clear
        lines = [line[:width] for line in (*self.table().splitlines(), self._progress())]
        self._clear()
        self._print("\n".join(lines))
        self.height = len(lines)

    def _progress(self) -> str:
        seconds = time.monotonic() - self.started
        left = seconds / (self.done - self.before) * (self.total - self.done)
        text = f"{self.done} of {self.total} ({self.done / self.total:.0%}), {clock(seconds)} gone"
        text += f", about {clock(left)} left" if self.done < self.total else ""
        return text + (f", {self.failed} failed" if self.failed else "")

    def _clear(self) -> None:
        if self.height:
            self.stream.write(f"\x1b[{self.height}F\x1b[J")  # up to the first line of the picture, and erase from there
            self.height = 0

    def _print(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()


def clock(seconds: float) -> str:
    """
    >>> clock(59.6), clock(75), clock(3 * 3600 + 62)
    ('1:00', '1:15', '3:01:02')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
