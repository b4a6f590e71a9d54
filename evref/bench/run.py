"""From cases to figures."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import evref as ev

from ..checks import did_you_mean
from . import machine, peers_evref
from .cases import Case, Problem, Results, make_graph, make_problem, save
from .child import LIBRARIES
from .clock import SAMPLE, Child, Gone, Setting, round_robin, summary

PEERS = tuple(name for name in LIBRARIES if name not in ("machine", "evref"))


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def installed(peers: tuple[str, ...] | list[str]) -> list[str]:
    """Those of the peers that can run here; the others are named on standard error."""
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        raise ValueError(
            f"peers has {', '.join(unknown)}; expected some of {', '.join(PEERS)}{did_you_mean(unknown[0], PEERS)}"
        )
    found = [name for name in peers if (needs := LIBRARIES[name].needs) is None or find_spec(needs)]
    for name in peers:
        if name not in found:
            note(f"without {name}: {LIBRARIES[name].needs} is not installed")
    return found


def reference(p: Problem) -> Results:
    """The answer everyone is checked against: our NumPy kernels in float64, whatever the dtype of the case."""
    arrays = {name: a.astype("float64") if a.dtype == p.dtype else a for name, a in p.arrays.items()}
    exact = Problem(p.case, "float64", p.S, arrays)
    with ev.use_backend("numpy"):
        return peers_evref.contender("evref", exact).result()


class Bench:
    """The children, one for each library and number of threads, alive as long as the with-statement."""

    def __init__(self, peers: list[str], thread_counts: list[int]) -> None:
        self.children: list[Child] = []
        self.libraries = ["machine", "evref", *peers]
        self.thread_counts = thread_counts

    def __enter__(self) -> Bench:
        note(f"starting {', '.join(self.libraries)} with {' and '.join(map(str, self.thread_counts))} threads")
        self.children = [Child(library, n) for library in self.libraries for n in self.thread_counts]
        for child in list(self.children):
            self._await(child)
        return self

    def _await(self, child: Child) -> None:
        try:
            child.wait()
        except Gone as reason:
            note(f"without {child.library} on {child.threads} threads: {reason}")
            self.children.remove(child)
            child.close()

    def _revive(self) -> None:
        """A new process for each that died in an earlier case, of a lack of memory perhaps."""
        for place, child in enumerate(list(self.children)):
            if not child.alive:
                child.close()
                self.children[place] = Child(child.library, child.threads)
        for child in [child for child in self.children if not child.ready]:
            self._await(child)

    def __exit__(self, *exc: object) -> None:
        for child in self.children:
            child.close()

    def line(self, p: Problem, seconds: float, least: int) -> dict[str, Any]:
        """One line of the report: load the problem everywhere, check the answers, take the times."""
        case = p.case
        self._revive()
        note(f"{case.name} {p.dtype}: checking")
        with tempfile.TemporaryDirectory() as folder:
            save(p, reference(p), Path(folder))
            answers = [self._load(child, folder) for child in self.children]
        turns: dict[Setting, Callable[[], float]] = {}
        for child, answer in zip(self.children, answers, strict=True):
            for name in answer["ready"]:
                turns[name, child.threads] = _turn(child, name)
        note(f"{case.name} {p.dtype}: timing")
        samples = round_robin(turns, seconds, least, keep=("evref", *machine.NAMES[case.kind]))
        for child in self.children:
            try:
                child.ask(do="drop")
            except Gone:
                continue
        times: dict[str, dict[str, Any]] = {}
        for (name, threads), values in samples.items():
            times.setdefault(name, {})[str(threads)] = summary(values)
        limits = {name: times.pop(name) for name in machine.NAMES[case.kind] if name in times}
        timed = times.keys() | set(machine.NAMES[case.kind])
        skipped = {name: why for answer in answers for name, why in answer["skipped"].items() if name not in timed}
        return {
            "case": case.name,
            "group": case.group,
            "kind": case.kind,
            "label": case.label,
            "dtype": p.dtype.name,
            "nodes": case.N,
            "nnz": p.nnz,
            "F": case.F,
            "flops": case.flops(p.nnz),
            "traffic": case.traffic(p.nnz, p.dtype.itemsize),
            "limits": {  # flops or bytes a second
                name: {n: machine.work(name) / t["best"] for n, t in settings.items()}
                for name, settings in limits.items()
            },
            "round_trip": {  # seconds
                n: {key: t[key] / machine.ROUND_TRIPS for key in ("low", "median", "high")}
                for n, t in limits.get("round trip", {}).items()
            },
            "seconds": times,
            "skipped": skipped,
            "wrong": {name: why for answer in answers for name, why in answer["wrong"].items()},
        }

    def _load(self, child: Child, folder: str) -> dict[str, Any]:
        """One child at a time: two libraries whose threads spin would wait for each other's."""
        start = time.perf_counter()
        try:
            answer = child.ask(do="load", folder=folder)
        except Gone as reason:
            answer = {"ready": [], "skipped": {child.library: str(reason)}, "wrong": {}}
        if (took := time.perf_counter() - start) > 5:
            note(f"  {child.library} on {child.threads} threads took {took:.0f} s to prepare")
        return answer


def _turn(child: Child, name: str) -> Callable[[], float]:
    return lambda: child.ask(do="time", name=name, seconds=SAMPLE)["seconds"]


def run(
    chosen: list[Case], dtypes: list[str], peers: list[str], seconds: float, least: int, thread_counts: list[int]
) -> Iterator[dict[str, Any]]:
    """Lines of the report, as they come."""
    graphs: dict[tuple[str, int], ev.Graph] = {}
    with Bench(peers, thread_counts) as bench:
        for case in chosen:
            key = (case.graph, case.N)
            if key not in graphs:
                graphs = {key: make_graph(case)}  # one at a time: the huge one is large
            for dtype in dtypes:
                yield bench.line(make_problem(case, dtype, graphs[key]), seconds, least)
