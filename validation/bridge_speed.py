"""A training step through the PyTorch bridge, beside torch doing the same work itself, and evref without torch.

    python validation/bridge_speed.py            # prints the page; about four minutes
    python validation/bridge_speed.py --write    # writes validation/bridge_speed.md

A step is zero_grad, output, loss, backward, Adam. Cases, peers, clock and the comparison of answers are those of
`evref bench`; here torch's loss and optimiser are on both sides, and x needs no gradient, as in training.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from bridge_contenders import (
    AROUND,
    BARE,
    COMPILED,
    CONTENDERS,
    FORMS,
    MODULE,
    OPS,
    PASSES,
    reference,
)

import evref as ev
from evref.bench import cases, child, clock, machine, report
from evref.bench.cases import Case, Problem, Skipped
from evref.bench.run import note

PAGE = Path(__file__).with_suffix(".md")
NETWORK = replace(cases.select(["training F=8"])[0], name="network", F=5)  # the paper's: F = 5
CASES = [*cases.select(["small 1->5", "small 5->5", "medium"]), NETWORK]
DTYPES = ("float32", "float64")
LIBRARIES = ("evref", "bridge", "torch", "compile")
# malloc keeps its memory: else the larger forms would pay for fresh pages in every step (glibc; ignored elsewhere)
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "-1"}
SECONDS, LEAST, SAMPLE = 9.0, 8, 0.02  # of a line; samples of a contender; seconds of a sample
HOPELESS = 2.0  # a form of torch's that takes so many times as long as its best after two rounds is not sampled further


# ---- one process for each library and number of threads --------------------------------------------------------------
class Worker(child.Worker):
    """In the process: builds contenders, compares their first step with the reference, takes samples."""

    def __init__(self, library: str, threads: int) -> None:
        self.make, self.names = CONTENDERS[library]
        self.contenders = {}
        ev.set_threads(threads)
        if library == "compile":
            from evref.bench.peers_torch_compile import prepare

            prepare(threads)
        elif library != "evref":
            from evref.bench.peers_torch import prepare

            prepare(threads)

    def load(self, folder: str) -> dict[str, Any]:
        p, expected = cases.load(Path(folder)), cases.load_arrays(Path(folder), "expected")
        wrong: dict[str, str] = {}
        for name in self.names:
            try:
                contender = self.make(name, p)
            except Skipped:
                continue
            found = contender.result()
            if problem := child.difference({key: expected[key] for key in found}, found, p.dtype.name):
                wrong[name] = problem
            else:
                self.contenders[name] = contender
        return {"ready": list(self.contenders), "wrong": wrong}


def serve(pipe: Any, library: str, threads: int) -> None:
    worker = Worker(library, threads)
    while order := pipe.recv():
        method, *arguments = order
        try:
            pipe.send(getattr(worker, method)(*arguments))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")


class Process:
    """The same, seen from the parent; torch must be told of allocator and threads before it is imported."""

    def __init__(self, library: str, threads: int) -> None:
        self.library, self.threads = library, threads
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        before = dict(os.environ)
        os.environ.update(clock.environment(threads, **ALLOCATOR))
        self.process = context.Process(target=serve, args=(theirs, library, threads), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        os.environ.clear()
        os.environ.update(before)

    def ask(self, *order: Any) -> dict[str, Any]:
        self.pipe.send(order)
        answer = self.pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"{self.library} on {self.threads} threads: {answer}")
        return answer

    def close(self) -> None:
        with suppress(OSError):  # it ended earlier
            self.pipe.send(())
        self.process.join()


class Line(NamedTuple):
    """What was measured of one case in one dtype: by contender and number of threads, seconds of a step."""

    case: Case
    dtype: str
    seconds: dict[str, dict[int, dict[str, Any]]]

    def best(self, name: str, threads: int | None = None) -> tuple[int, dict[str, Any]]:
        """Number of threads and times."""
        found = {n: times for n, times in self.seconds[name].items() if threads in (None, n)}
        return min(found.items(), key=lambda item: item[1]["median"])

    def of_torch(self, threads: int | None = None) -> dict[str, float]:
        """Fastest first."""
        names = [name for name in FORMS if name in self.seconds]
        return dict(sorted(((n, self.median(n, threads)) for n in names), key=lambda item: item[1]))

    def median(self, name: str, threads: int | None = None) -> float:
        return self.best(name, threads)[1]["median"]

    def ratio(self, threads: int | None = None) -> float:
        """Torch at its best / the bridge."""
        return next(iter(self.of_torch(threads).values())) / self.median(MODULE, threads)


def measure(
    chosen: list[Case],
    dtypes: tuple[str, ...],
    libraries: tuple[str, ...],
    counts: list[int],
    seconds: float,
    least: int,
) -> Iterator[Line]:
    processes = [Process(library, n) for library in libraries for n in counts]
    try:
        for case in chosen:
            graph = cases.make_graph(case)
            for dtype in dtypes:
                yield line(processes, cases.make_problem(case, dtype, graph), seconds, least)
    finally:
        for process in processes:
            process.close()


def line(processes: list[Process], p: Problem, seconds: float, least: int) -> Line:
    note(f"{p.case.name} {p.dtype}: checking answers")
    with tempfile.TemporaryDirectory() as folder:
        cases.save(p, reference(p), Path(folder))
        answers = [process.ask("load", folder) for process in processes]  # one by one: waiting threads spin
    turns: dict[clock.Setting, Callable[[], float]] = {}
    for process, answer in zip(processes, answers, strict=True):
        if answer["wrong"]:
            raise RuntimeError(f"{p.case.name} {p.dtype}: another answer than the reference's: {answer['wrong']}")
        for name in answer["ready"]:
            turns[name, process.threads] = partial(sample, process, name)
    note(f"{p.case.name} {p.dtype}: timing")
    samples = clock.round_robin(turns, 0, min(2, least))
    limit = HOPELESS * min(min(times) for (name, _), times in samples.items() if name in FORMS)
    running = {
        setting: turn for setting, turn in turns.items() if setting[0] not in FORMS or min(samples[setting]) < limit
    }
    samples |= clock.round_robin(running, seconds, least)
    for process in processes:
        process.ask("drop")
    times: dict[str, dict[int, dict[str, Any]]] = {}
    for (name, threads), values in samples.items():
        times.setdefault(name, {})[threads] = clock.summary(values)
    return Line(p.case, p.dtype.name, times)


def sample(process: Process, name: str) -> float:
    return process.ask("time", name, SAMPLE)["seconds"]


# ---- the page --------------------------------------------------------------------------------------------------------
HEAD = """\
# The speed of the PyTorch bridge

Written by `python validation/bridge_speed.py --write`. {about}.

What a training step of PyTorch takes: `zero_grad`, output, loss, `backward`, a step of `torch.optim.Adam(fused=True)`.
Loss and optimiser are torch's on both sides: `mse_loss` for a filter, `cross_entropy` for the network of the paper
(edge-variant filter, ReLU, dense readout). The same batch in every step; no gradient of x, as in training.

- **bridge**: `FilterModule(filt)(x)`, for the network `NetworkModule(net)(x)`, in eager mode.
- **torch**: the best of what torch has for the same function. *dense, masked*: N×N parameters times a mask, `matmul`;
  *dense, scattered*: parameters on the support alone, put into N×N matrices by `index_copy`; *gather*: `index_select`
  and `index_add` along the edges; *torch.sparse CSR*: `torch.sparse.mm`; *torch.compile*: on small graphs the faster
  dense form with the loss in one graph, on others lists of neighbours with an adjoint by hand
  (`evref/bench/peers_torch_compile.py`).

Each library and number of threads ({threads}) has a process of its own, all with the same settings of malloc. Loss,
gradients and Adam's step are compared with the NumPy kernels in float64 before anything is timed; compilation is off
the clock. A sample is the mean of the calls that fill {sample:g} ms. Samples are taken in turn, and the table has their
medians over at least {rounds} rounds, quartiles in brackets, for each at its better number of threads. A form of
torch's that takes {hopeless:g} times as long as its best has two samples.
"""


def microseconds(times: dict[str, Any]) -> str:
    return f"{1e6 * times['median']:,.0f} µs ({1e6 * times['low']:,.0f}–{1e6 * times['high']:,.0f})"


def with_threads(line: Line, name: str) -> str:
    threads, times = line.best(name)
    return f"{microseconds(times)}, {threads} thread{'s'[: threads != 1]}"


def speed_row(line: Line) -> list[str]:
    best, *others = line.of_torch()
    ours = line.median(MODULE)
    one = f"{line.ratio(1):.2f}" if 1 in line.seconds[MODULE] else ""
    rest = " · ".join(f"{name} {line.median(name) / ours:.3g}" for name in others)
    name = f"{line.case.name}: {line.case.label}"
    return [
        name, line.dtype, with_threads(line, MODULE), f"{best}: {with_threads(line, best)}", f"**{line.ratio():.2f}**",
        one, rest,
    ]  # fmt: skip


def cost(line: Line) -> dict[str, float]:
    """Of the bridge's step at its number of threads, in seconds: evref's passes, what the bridge adds, what is left."""
    threads = line.best(MODULE)[0]
    step, through, bare = (line.median(name, threads) for name in (MODULE, PASSES, BARE))
    return {"step": step, "passes": bare, "bridge": through - bare, "rest": step - through}


def cost_row(line: Line) -> list[str]:
    parts = [f"{1e6 * value:,.0f}" for value in cost(line).values()]
    others = (OPS, COMPILED, AROUND, "evref")
    return [
        line.case.name, line.dtype, *parts,
        *(f"{1e6 * line.median(name):,.0f}" if name in line.seconds else "" for name in others),
    ]  # fmt: skip


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def span(values: list[float], form: str = ".2f") -> str:
    """Least and most, as they are written."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def goal(lines: list[Line]) -> str:
    ratios = [line.ratio() for line in lines]
    text = f"Torch's own step takes {span(ratios)} times as long as the one through the bridge"
    slower = [f"{line.case.name} {line.dtype} ({line.ratio():.2f})" for line in lines if line.ratio() < 1]
    return f"{text}.\nThe bridge is slower on {', '.join(slower)}." if slower else f"{text}: it is slower on no line."


def times_as_long(lines: list[Line], name: str, other: str) -> str:
    return f"{span([line.median(name) / line.median(other) for line in lines if name in line.seconds])} times as long"


def costs(lines: list[Line]) -> str:
    """Sentences on the second table."""
    small = [cost(line) for line in lines if line.case.is_small]
    texts = [
        f"On graphs of 50 nodes the bridge adds {span([1e6 * c['bridge'] for c in small], '.0f')} µs to evref's "
        f"passes, {span([100 * c['bridge'] / c['step'] for c in small], '.0f')}% of the step.",
        f"Without the tape a step takes {times_as_long(lines, OPS, MODULE)}, and compiled "
        f"{times_as_long(lines, COMPILED, MODULE)}: a compiled step has no tape either.",
    ]
    if any(AROUND in line.seconds for line in lines):
        texts.append(f"With ReLU and readout by torch the network's step takes {times_as_long(lines, AROUND, MODULE)}.")
    texts.append(f"The step through the bridge takes {times_as_long(lines, MODULE, 'evref')} as that of `ev.fit`.")
    return textwrap.fill(" ".join(texts), 120)


COSTS = """
## What the bridge costs

In µs. *step*: as above. *passes*: forward and the gradients of the parameters, by evref alone, on the same arrays and
threads. *bridge*: what the same takes more through `FilterModule` or `NetworkModule`: checks of dtypes and devices,
tensors to arrays and back, and PyTorch's own work for an `autograd.Function` and a backward pass. *rest*: loss,
`zero_grad`, Adam. Then steps of other kinds, each at its better number of threads. *no tape*: the custom ops in eager
mode, which compute the forward pass again. *compiled*: `torch.compile(fullgraph=True)` of module and loss. *layers*:
`FilterModule`, `torch.nn.ReLU`, `torch.nn.Flatten`, `torch.nn.Linear`. *fit*: evref without torch, with its own loss
and Adam.
"""


def page(lines: list[Line], about: str) -> str:
    rounds = min(line.best(name)[1]["samples"] for line in lines for name in (MODULE, next(iter(line.of_torch()))))
    threads = " and ".join(map(str, sorted(lines[0].seconds[MODULE])))
    head = HEAD.format(about=about, threads=threads, sample=1e3 * SAMPLE, rounds=rounds, hopeless=HOPELESS)
    speed = [
        "case",
        "dtype",
        "bridge",
        "torch at its best",
        "torch / bridge",
        "on one thread",
        "torch's others / bridge",
    ]
    parts = ["case", "dtype", "step", "passes", "bridge", "rest", "no tape", "compiled", "layers", "fit"]
    rows = [speed_row(line) for line in lines], [cost_row(line) for line in lines]
    return f"{head}\n{goal(lines)}\n\n{table(speed, rows[0])}\n{COSTS}\n{costs(lines)}\n\n{table(parts, rows[1])}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time training steps through the PyTorch bridge.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each of the eight lines (default %(default)s)"
    )
    arguments = parser.parse_args()
    counts = sorted({1, machine.n_cores()})
    lines = list(measure(CASES, DTYPES, LIBRARIES, counts, arguments.seconds, LEAST))
    text = page(lines, report.about_text(machine.about()))
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
