"""The results of an experiment on disk: JSON lines, one per model and cell, each written as soon as it is known."""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .experiment import Experiment

Cell = dict[str, int]
Record = dict[str, Any]


class Task(NamedTuple):
    """One model on one cell."""

    model: str
    cell: tuple[tuple[str, int], ...]  # the items of the dict: a key that can be hashed

    @classmethod
    def of(cls, model: str, cell: Cell) -> Task:
        return cls(model, tuple(cell.items()))


class Results:
    """A results file, open for more.

    The first line says what was run: settings and versions; every other line is the record of one model on one cell, or
    the message of its failure. A line goes out in a single write, so that an end at any moment leaves at most one torn
    line, the last: it is dropped on the next start and its cell runs again. A run with other versions of the software
    leaves a header of its own before its records.

    Parameters
    ----------
    path : path
        Made with its folder if it is not there, gone on with if it is.
    experiment : Experiment
        Must have the settings in the file, apart from its `extent`.

    Raises
    ------
    ValueError
        The file holds results of other settings, lines that evref did not write, or is being written by another run.
    """

    def __init__(self, path: Any, experiment: Experiment) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _exclusive(self.path)
        try:
            headers, self.records, good = _parse(self.path)
            for header in headers:
                _require_same_settings(self.path, header["settings"], _plain(experiment.settings()))
            self._file.truncate(good)
            header = {"evref": _version(), "settings": experiment.settings(), "versions": versions()}
            if not headers or any(headers[-1][key] != header[key] for key in ("evref", "versions")):
                self._write(header)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def has(self, task: Task) -> bool:
        """Whether the task is done; one that failed is not."""
        return "error" not in self.records.get(task, {"error": ""})

    def append(self, task: Task, record: Record) -> None:
        self._write({"model": task.model, "cell": dict(task.cell), **record})
        self.records[task] = record

    def _write(self, line: Record) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")  # unbuffered: one call of the system
        os.fsync(self._file.fileno())


def read(path: Any) -> tuple[dict[str, Any], dict[Task, Record]]:
    """Settings and records of a results file; of several records of one task the last that did not fail."""
    headers, records, _ = _parse(Path(path))
    if not headers:
        raise ValueError(f"{path}: no header; expected a results file of evref reproduce")
    return headers[0]["settings"], records


def versions() -> dict[str, str]:
    """Of what the figures may depend on, apart from evref; where numba is absent, the NumPy kernels run."""
    found = {"python": platform.python_version()}
    for package in ("numpy", "scipy", "numba"):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _version() -> str:
    return getattr(sys.modules["evref"], "__version__", "unknown")


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from the file: tuples are lists there."""
    return json.loads(json.dumps(settings))


def _exclusive(path: Path) -> BinaryIO:
    """The file, open to append, closed to other runs (where the system has locks; they end with the process)."""
    file = open(path, "ab", buffering=0)  # noqa: SIM115, closed by Results
    try:
        import fcntl
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(f"{path}: another run is writing to it; expected a file of its own for each run") from None
    return file


def _parse(path: Path) -> tuple[list[Record], dict[Task, Record], int]:
    """Headers, records, and the number of bytes that are whole lines."""
    headers: list[Record] = []
    records: dict[Task, Record] = {}
    lines = path.read_bytes().splitlines(keepends=True)
    good = 0
    for number, text in enumerate(lines, start=1):
        line = _parsed(text)
        if line is None:
            if number == len(lines):
                break  # torn
            raise ValueError(f"{path}, line {number}: not a line of results; expected JSON with a model and a cell")
        good += len(text)
        if "settings" in line:
            headers.append(line)
            continue
        task = Task.of(line.pop("model"), line.pop("cell"))
        if "error" not in line or task not in records:
            records[task] = line
    if records and not headers:
        raise ValueError(f"{path}, line 1: no header; expected settings and versions")
    return headers, records, good


def _parsed(text: bytes) -> Record | None:
    """The line as a dict, None if it is none of ours."""
    try:
        line = json.loads(text) if text.endswith(b"\n") else None
    except ValueError:
        return None
    wanted = isinstance(line, dict) and ("settings" in line or {"model", "cell"} <= line.keys())
    return line if wanted else None


def _require_same_settings(path: Path, written: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in {**written, **wanted}:
        if written.get(key) != wanted.get(key):
            raise ValueError(
                f"{path}: holds results with {key} = {written.get(key)!r}; this run has {key} = {wanted.get(key)!r}. "
                "Expected the same settings, or another folder"
            )
