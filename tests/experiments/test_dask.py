"""A Dask scheduler with workers in processes of their own, one of which is killed midway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

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
    "8",
    "--epochs",
    "8",
]
QUIET = {"DASK_DISTRIBUTED__DASHBOARD__LINK": "", "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}


def installed() -> bool:
    """Asked in another process: distributed warns while it is imported, and warnings are errors here."""
    return subprocess.run([sys.executable, "-c", "import distributed"], capture_output=True).returncode == 0


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler and the processes of its two workers."""
    if os.name == "nt" or not installed():
        pytest.skip('needs POSIX signals and distributed: pip install "evref[dask]"')
    file = tmp_path / "scheduler.json"
    environment = {**os.environ, **QUIET, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    common = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m"]
    where = ["--scheduler-file", str(file)]
    scheduler = [*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    worker = [*python, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    processes = [subprocess.Popen([*scheduler, *where], **common)]
    try:
        processes += [
            subprocess.Popen([*worker, *where, "--local-directory", str(tmp_path / f"worker{i}")], **common)
            for i in range(2)
        ]
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline and processes[0].poll() is None, "no scheduler"
            time.sleep(0.05)
        yield json.loads(file.read_text(encoding="utf-8"))["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_killed_worker_changes_no_figure(tmp_path, cluster, capsys):
    address, workers = cluster
    folder = tmp_path / "dask"
    command = [sys.executable, "-m", "evref", *CALL, "--dask", address, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "results.jsonl").exists() or (folder / "results.jsonl").read_bytes().count(b"\n") < 4:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    workers[0].send_signal(signal.SIGKILL)
    done = (folder / "results.jsonl").read_bytes().count(b"\n") - 1
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert done < 16, "the worker was killed too late to matter"
    assert cli.main([*CALL, "--jobs", "1", "--out", str(tmp_path / "serial")]) == 0
    assert figures(folder) == figures(tmp_path / "serial")
    clock = len("0.00")  # the last column, seconds per epoch, is the machine's
    table = [line[:-clock] for line in out.splitlines()[:3]]
    assert table == [line[:-clock] for line in capsys.readouterr().out.splitlines()[:3]]


def test_no_scheduler(tmp_path, capsys, monkeypatch):
    def refuse(address, timeout):
        raise OSError("timed out")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=refuse))
    assert cli.main([*CALL, "--dask", "tcp://127.0.0.1:1", "--out", str(tmp_path)]) == 2
    assert "--dask is 'tcp://127.0.0.1:1'; no scheduler answers there (timed out)" in capsys.readouterr().err


def test_without_distributed(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main([*CALL, "--dask", "tcp://127.0.0.1:1", "--out", str(tmp_path)]) == 2
    assert "evref[dask]" in capsys.readouterr().err
