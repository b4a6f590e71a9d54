"""What `fit` shows while it runs."""

from __future__ import annotations

import sys
import time
from typing import Any

from .. import checks


class Progress:
    """Shows nothing; the base of the two that do.

    `step` is called after every step of the optimiser, `row` with every new row of the history.
    """

    def step(self) -> None:
        pass

    def row(self, row: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class Bar(Progress):
    """tqdm's bar over all steps, with the time left."""

    def __init__(self, tqdm: Any, total: int, done: int) -> None:
        self.bar = tqdm(total=total, initial=done, unit="step", file=sys.stderr)

    def step(self) -> None:
        self.bar.update()

    def row(self, row: dict[str, Any]) -> None:
        self.bar.set_postfix_str(_figures(row), refresh=False)

    def close(self) -> None:
        self.bar.close()


class Lines(Progress):
    """One line per epoch, for those without tqdm."""

    def __init__(self, total: int, done: int, epochs: int) -> None:
        self.total, self.before, self.done, self.epochs = total, done, done, epochs
        self.started = time.perf_counter()

    def step(self) -> None:
        self.done += 1

    def row(self, row: dict[str, Any]) -> None:
        if not row["ends_epoch"]:
            return
        seconds = time.perf_counter() - self.started
        left = seconds / (self.done - self.before) * (self.total - self.done)
        text = f"epoch {row['epoch']}/{self.epochs}  {_figures(row)}  ({seconds:.0f} s, about {left:.0f} s left)"
        print(text, file=sys.stderr, flush=True)


def _figures(row: dict[str, Any]) -> str:
    text = f"loss {row['loss']:.4g}"
    return text if row["validation_metric"] is None else f"{text}, validation {row['validation_metric']:.4g}"


def start(progress: Any, total: int, done: int, epochs: int) -> Progress:
    """The display that `progress` ("auto", True or False) asks for and this machine can give."""
    if isinstance(progress, str):
        checks.as_choice("progress", progress, ("auto",))
        wanted = sys.stderr is not None and sys.stderr.isatty()
    else:
        wanted = checks.as_flag("progress", progress)
    if not wanted:
        return Progress()
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return Progress() if progress == "auto" else Lines(total, done, epochs)
    return Bar(tqdm, total, done)
