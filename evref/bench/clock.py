"""Who runs when, and for how long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

PATIENCE = 600.0  # seconds for one order: the slowest compilation takes a minute or two
SAMPLE = 0.04  # seconds that one sample fills with calls
PRUNE = 1.5  # a setting that is this much slower than another of the same contender is dropped after two rounds


def duration(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fastest(run: Callable[[], Any], calls: int = 5) -> float:
    """Seconds of the best of a few calls, to choose between forms of the same work."""
    run()
    return min(duration(run) for _ in range(calls))


def environment(threads: int, **more: str) -> dict[str, str]:
    """For a child that is to use that many threads, and to find this evref."""
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "EVREF_NUM_THREADS",
    )
    home = str(Path(__file__).parents[2])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        **dict.fromkeys(names, str(threads)),
        "PYTHONPATH": os.pathsep.join(paths),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compilers that lingers
        **more,
    }


class Gone(Exception):
    """The child died or did not answer; the message says what it left behind."""


class Child:
    """A process of :mod:`evref.bench.child`, seen from the parent."""

    def __init__(self, library: str, threads: int) -> None:
        self.library, self.threads = library, threads
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - as long as self
        self._process = subprocess.Popen(
            [sys.executable, "-m", "evref.bench.child", library, str(threads)],
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        self.alive, self.ready = True, False

    def wait(self) -> None:
        """Until its library is imported."""
        self._answer()
        self.ready = True

    def ask(self, **order: Any) -> dict[str, Any]:
        if not self.alive or self._process.stdin is None:
            raise Gone("its process ended earlier")
        with suppress(OSError):  # dead: the answer will say so
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        timer = Timer(PATIENCE, self._process.kill)
        timer.daemon = True
        timer.start()
        line = self._process.stdout.readline() if self._process.stdout else ""
        timer.cancel()
        if line:
            return json.loads(line)
        self.alive = False
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:] or ["nothing on standard error"]
        raise Gone(f"its process ended with code {code}: {last[0][:200]}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream:
                with suppress(OSError):
                    stream.close()


Setting = tuple[str, int]  # a contender and its number of threads


def round_robin(
    turns: Mapping[Setting, Callable[[], float]], seconds: float, least: int, keep: tuple[str, ...] = ()
) -> dict[Setting, list[float]]:
    """Samples of everyone in turn, so that a noisy minute hits all of them.

    `seconds` are shared out evenly: who is slow stops early, with `least` samples at the least. After two rounds a
    setting that is much slower than another of the same contender is not sampled any more; `keep` names exceptions. A
    turn that raises :class:`Gone` is not taken again.
    """
    samples: dict[Setting, list[float]] = {setting: [] for setting in turns}
    spent = dict.fromkeys(turns, 0.0)
    running = list(turns)
    while running:
        for setting in list(running):
            if len(samples[setting]) >= least and spent[setting] >= seconds / len(turns):
                running.remove(setting)
                continue
            start = time.perf_counter()
            try:
                samples[setting].append(turns[setting]())
            except Gone:
                running.remove(setting)
            spent[setting] += time.perf_counter() - start
        running = [setting for setting in running if not _hopeless(setting, samples, keep)]
    return {setting: values for setting, values in samples.items() if values}


def _hopeless(setting: Setting, samples: Mapping[Setting, list[float]], keep: tuple[str, ...]) -> bool:
    mine = samples[setting]
    others = [values for other, values in samples.items() if other[0] == setting[0] and len(values) >= 2]
    if setting[0] in keep or len(mine) < 2 or not others:
        return False
    return min(mine) > PRUNE * min(min(values) for values in others)


def summary(values: list[float]) -> dict[str, Any]:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {"median": median, "low": low, "high": high, "best": min(values), "samples": len(values)}
