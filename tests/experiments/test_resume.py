"""An end at any moment, by Ctrl-C or worse: nothing is lost and nothing runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from toy_experiment import figures

from evref import cli

CALL = [
    "reproduce",
    "source-localization",
    "--quick",
    "--no-pictures",
    "--models",
    "polynomial,ev",
    "--graphs",
    "5",
    "--epochs",
    "6",
]


# The background of a shell ignores SIGINT and so would its children: Ctrl-C must arrive here. It is set in the child,
# not by `preexec_fn`, at which JAX warns where a test before this one has imported it.
WITH_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from evref.cli import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def start(folder, jobs):
    command = [sys.executable, "-c", WITH_CTRL_C, *CALL, "--jobs", str(jobs), "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(folder, lines, process):
    path = folder / "results.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < 1 + lines:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.main([*CALL, "--jobs", "1", "--out", str(folder)]) == 0
    return figures(folder)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_and_on(tmp_path, jobs, undisturbed):
    process = start(tmp_path, jobs)
    wait_for(tmp_path, 3, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on from there" in err and "Traceback" not in err
    partial = figures(tmp_path)
    assert 3 <= len(partial) < 10
    process = start(tmp_path, jobs)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and f"{len(partial)} of 10 are there already" in err
    assert figures(tmp_path) == undisturbed


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_kill_tear_and_on(tmp_path, undisturbed):
    process = start(tmp_path, 2)
    wait_for(tmp_path, 3, process)
    process.kill()  # the parent alone: its workers must not outlive it
    try:
        process.communicate(timeout=60)  # returns once nobody holds the pipes any more
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    process = start(tmp_path, 2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert figures(tmp_path) == undisturbed
