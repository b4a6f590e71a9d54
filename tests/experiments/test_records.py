"""Results on disk: nothing lost, nothing twice, nothing mixed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
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
    header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert header["settings"] == Toy().settings() and header["versions"].keys() >= {"python", "numpy", "scipy", "numba"}
    assert [line["cell"] for line in lines] == [{"group": 0, "draw": 0}, {"group": 0, "draw": 1}]
    assert records.read(path) == (Toy().settings(), {FIRST: record(1, 2), SECOND: record(3, 4)})


def test_each_line_is_on_disk_when_append_returns(tmp_path):
    with Results(tmp_path / "r", Toy()) as results:
        results.append(FIRST, record(1, 2))
        assert records.read(tmp_path / "r")[1] == {FIRST: record(1, 2)}


def forged(line) -> bytes:
    """A line with a good checksum, whatever it says."""
    return records.with_checksum(line if isinstance(line, str) else json.dumps(line))


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


RECORD = {"model": "ev", "cell": {"group": 0, "draw": 0}, **record(1, 2)}
FULL = {**RECORD, "epochs": 2, "train_loss": [1.0, 0.5], "validation_accuracy": [50.0], "confusion": [[1, 0], [2, 3]]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "expected a JSON object|not a line"),
        ('{"model" "ev"}', "expected JSON"),
        ('{"a": ' + "[" * 100_000 + "}", "expected JSON"),
        ({"model": "ev"}, "cell is None; expected an object"),
        ({**RECORD, "model": ["ev"]}, r"model is \['ev'\]; expected a string"),
        ({**RECORD, "model": None}, "model is None"),
        ({**RECORD, "cell": [0, 0]}, "cell is .*; expected an object"),
        ({**RECORD, "cell": {}}, "cell is {}; expected an object that names a group"),
        ({**RECORD, "cell": {"group": 0.5}}, r"cell\['group'\] is 0.5"),
        ({**RECORD, "cell": {"group": [0]}}, r"cell\['group'\] is \[0\]"),
        ({**RECORD, "cell": {"group": True}}, r"cell\['group'\] is True"),
        ({**RECORD, "error": 3}, "error is 3; expected a string"),
        *(({k: v for k, v in RECORD.items() if k != key}, f"{key} is None") for key in record(1, 2)),
        ({**RECORD, "best": "100"}, "best is '100'"),
        ({**RECORD, "best": float("nan")}, "best is nan"),
        ({**RECORD, "best": 10**400}, "best is an integer of 1329 bits; expected a number that fits a float"),
        ({**FULL, "epochs": 0}, "epochs is 0"),
        ({k: v for k, v in FULL.items() if k != "epochs"}, "epochs is None"),
        ({**FULL, "train_loss": 1}, "train_loss is 1; expected a list"),
        ({**FULL, "train_loss": [None]}, r"train_loss\[0\] is None"),
        ({**FULL, "confusion": 1}, "confusion is 1; expected a list"),
        ({**FULL, "confusion": [1]}, r"confusion\[0\] is 1; expected a list"),
        ({**FULL, "confusion": [[1, 2]]}, r"confusion\[0\] has 2 entries; expected 1"),
        ({**FULL, "confusion": [["a"]]}, r"confusion\[0\]\[0\] is 'a'"),
        ({"settings": 3, "versions": {}, "evref": ""}, "settings is 3; expected an object"),
        ({"settings": {}, "evref": ""}, "versions is None; expected an object"),
        ({"settings": {}, "versions": {}}, "evref is None; expected a string"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_forged_line_is_refused_by_its_place(path, line, message):
    path.write_bytes(path.read_bytes() + forged(line))
    for reader in (records.read, lambda path: Results(path, Toy())):
        with pytest.raises(ValueError, match=message) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}, line 4: ")


def test_the_forged_lines_are_otherwise_good(path):
    path.write_bytes(path.read_bytes() + forged(FULL))
    assert records.read(path)[1][FIRST]["confusion"] == [[1, 0], [2, 3]]


def test_single_bit_flips_are_noticed_or_harmless(path):
    """2,000 of them: no flip turns a record into another one, and no error is without its place."""
    whole, expected = path.read_bytes(), records.read(path)
    last = whole.rindex(b"\n", 0, -1) + 1
    noticed = 0
    for bit in np.random.default_rng(0).choice(8 * len(whole), size=2000, replace=False):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(flipped)
        try:
            found = records.read(path)
        except ValueError as error:
            noticed += 1
            assert f"{path}, line " in str(error)
        else:  # the newline at the end of the file: the last line counts as torn, and its cell runs again
            assert bit // 8 == len(whole) - 1 and last < bit // 8
            assert found == (expected[0], {FIRST: expected[1][FIRST]})
    assert noticed >= 1990


def test_lines_from_before_there_were_checksums(path):
    whole, expected = path.read_bytes(), records.read(path)
    old = b"".join(text[: text.rindex(b', "crc32"')] + b"}\n" for text in whole.splitlines())
    path.write_bytes(old)
    with pytest.raises(ValueError, match=r"line 1: not a line of results; .*add_checksums adds them"):
        records.read(path)
    path.write_bytes(records.add_checksums(old + b'{"torn'))
    assert path.read_bytes() == whole and records.read(path) == expected


class PartlyFull:
    """A file on a disk that takes `room` bytes of a line and then, as POSIX has it, says how many."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, text):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(text[: self.room])

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_line_that_the_disk_takes_in_part_is_taken_back(path, room):
    whole = path.read_bytes()
    third = Task.of("ev", {"group": 1, "draw": 0})
    with Results(path, Toy()) as results:
        real, results._file = results._file, PartlyFull(results._file, room)
        with pytest.raises(OSError, match=r"disk took|No space left"):
            results.append(third, record(5, 6))
        assert path.read_bytes() == whole and not results.has(third)
        results._file = real
        results.append(third, record(5, 6))  # room again
    assert records.read(path)[1][third] == record(5, 6)


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk_leaves_a_file_that_can_be_gone_on_with(path):
    whole = path.read_bytes()
    code = """
        import resource, signal, sys
        from toy_experiment import Toy, record
        from evref.experiments.records import Results, Task
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with Results(sys.argv[1], Toy()) as results:
            limit = int(sys.argv[2])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            for draw in range(2):
                try:
                    results.append(Task.of("ev", {"group": 1, "draw": draw}), record(5, 6))
                except OSError as error:
                    print("OSError", error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path), str(len(whole) + 40)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.count("OSError") == 2, done.stderr
    assert path.read_bytes() == whole
    with Results(path, Toy()) as results:
        assert results.has(FIRST) and results.has(SECOND)


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_refused_and_not_read(tmp_path, kind):
    """/dev/full never ends, and a pipe waits for a writer."""
    path = tmp_path / "r"
    {"device": lambda: path.symlink_to("/dev/full"), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    for reader in (records.read, lambda path: Results(path, Toy())):
        with pytest.raises(ValueError, match="r: not a regular file; expected a results file"):
            reader(path)


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
    headers = [line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if "settings" in line]
    assert [header["versions"]["python"] == "4" for header in headers] == [False, True]


def test_a_file_of_something_else(tmp_path):
    (tmp_path / "r").write_text("hello\nworld\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        Results(tmp_path / "r", Toy())
    (tmp_path / "r").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="no header"):
        records.read(tmp_path / "r")
