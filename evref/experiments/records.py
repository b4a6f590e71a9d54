"""The results of an experiment on disk: JSON lines, one per model and cell, each written as soon as it is known."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from .. import checks, renamed
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
    the message of its failure. Every line ends with a checksum of itself. A line goes out in a single write, so that an
    end at any moment leaves at most one torn line, the last, without its newline: it is dropped on the next start and
    its cell runs again. A line that the disk takes only in part is taken back at once. A run with other versions of the
    software leaves a header of its own before its records.

    Parameters
    ----------
    path : path
        Made with its folder if it is not there, gone on with if it is.
    experiment : Experiment
        Must have the settings in the file, apart from its `extent`.

    Raises
    ------
    ValueError
        The file holds results of other settings, lines that evref did not write or that were damaged since, or is being
        written by another run.
    OSError
        The file cannot be written. What it held before it holds still.
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
        text = with_checksum(json.dumps(line))
        size = os.fstat(self._file.fileno()).st_size
        written: int | None = 0
        try:
            written = self._file.write(text)  # unbuffered: one call of the system
            if written != len(text):
                raise OSError(f"{self.path}: the disk took {written} of {len(text)} bytes of a line; is it full?")
            os.fsync(self._file.fileno())
        except BaseException as error:
            # Another line may follow: half a line in between would spoil the file. A whole one stays, if it was only
            # Ctrl-C that came while it was on its way to the disk.
            if written != len(text) or isinstance(error, OSError):
                self._file.truncate(size)
            raise


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
    _require_regular(path)
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


def _require_regular(path: Path) -> None:
    """No device, from which one might read for ever, and no pipe, which waits for somebody at its other end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a regular file; expected a results file")


# ---- lines -----------------------------------------------------------------------------------------------------------
_CHECKSUM = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\n')  # the end of every line
_NUMBERS = ("best", "last", "parameters", "operations", "seconds_per_epoch")  # what tables are made of
_CURVES = ("train_loss", "validation_accuracy")


def with_checksum(text: str) -> bytes:
    """A JSON object as a line whose last entry is the CRC-32 of all before it.

    >>> with_checksum('{"model": "ev"}')
    b'{"model": "ev", "crc32": "4f83074c"}\\n'
    """
    body = text.encode().removesuffix(b"}")
    return body + b', "crc32": "%08x"}\n' % crc32(body)


def add_checksums(contents: bytes) -> bytes:
    """The contents of a results file from the time when lines had no checksum, as they are written now.

    >>> add_checksums(b'{"model": "ev"}\\n{"mod')  # the end of a torn line is dropped
    b'{"model": "ev", "crc32": "4f83074c"}\\n'
    """
    *lines, _torn = contents.decode().split("\n")
    return b"".join(map(with_checksum, lines))


def _parse(path: Path) -> tuple[list[Record], dict[Task, Record], int]:
    """Headers, records, and the number of bytes that are whole lines."""
    _require_regular(path)
    headers: list[Record] = []
    records: dict[Task, Record] = {}
    *lines, torn = path.read_bytes().split(b"\n")
    for number, text in enumerate(lines, start=1):
        try:
            line = _parsed(text + b"\n")
            if "settings" in line:
                headers.append(_header(line))
                continue
            task, record = _record(line)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if "error" not in record or task not in records:
            records[task] = record
    if records and not headers:
        raise ValueError(f"{path}, line 1: no header; expected settings and versions")
    return headers, records, path.stat().st_size - len(torn)


def _parsed(text: bytes) -> Record:
    """The JSON object in a line, without its checksum."""
    end = _CHECKSUM.search(text)
    if end is None or end.end() != len(text):
        raise ValueError(
            "not a line of results; expected JSON that ends with a checksum (older files have none; "
            "evref.experiments.records.add_checksums adds them)"
        )
    body = text[: end.start()]
    if crc32(body) != int(end[1], 16):
        raise ValueError("the line does not have the checksum at its end; it was damaged or changed by hand")
    try:
        line = json.loads(body + b"}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a line of results; expected JSON ({error})") from None
    if not isinstance(line, dict):
        raise ValueError("not a line of results; expected a JSON object")
    return line


def _header(line: Record) -> Record:
    for key, kind in (("settings", dict), ("versions", dict), ("evref", str)):
        if not isinstance(line.get(key), kind):
            raise ValueError(f"{key} is {line.get(key)!r}; expected {'an object' if kind is dict else 'a string'}")
    return line


def _record(line: Record) -> tuple[Task, Record]:
    model, cell = line.pop("model", None), line.pop("cell", None)
    if not isinstance(model, str):
        raise ValueError(f"model is {model!r}; expected a string")
    if not isinstance(cell, dict) or not cell:
        raise ValueError(f"cell is {cell!r}; expected an object that names a group")
    model = renamed.current("models", model)
    for key, value in cell.items():
        checks.as_count(f"cell[{key!r}]", value)
    if "error" in line:
        if not isinstance(line["error"], str):
            raise ValueError(f"error is {line['error']!r}; expected a string")
        return Task.of(model, cell), line
    for key in _NUMBERS:
        checks.as_number(key, line.get(key))
    for key in _CURVES:
        if key in line:
            checks.as_count("epochs", line.get("epochs"), minimum=1)
            for i, value in enumerate(_list(key, line[key])):
                checks.as_number(f"{key}[{i}]", value)
    if "confusion" in line:
        table = _list("confusion", line["confusion"])
        for i, row in enumerate(table):
            if len(_list(f"confusion[{i}]", row)) != len(table):
                raise ValueError(f"confusion[{i}] has {len(row)} entries; expected {len(table)}, one per class")
            for j, value in enumerate(row):
                checks.as_count(f"confusion[{i}][{j}]", value)
    return Task.of(model, cell), line


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is {value!r}; expected a list")
    return value


def _require_same_settings(path: Path, written: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in {**written, **wanted}:
        if written.get(key) != wanted.get(key):
            raise ValueError(
                f"{path}: holds results with {key} = {written.get(key)!r}; this run has {key} = {wanted.get(key)!r}. "
                "Expected the same settings, or another folder"
            )
