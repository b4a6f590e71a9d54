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

import numpy as np

import evref as ev
from evref.bench import cases, child, clock, machine, report
from evref.bench.cases import Case, Contender, Problem, Results, Skipped
from evref.bench.run import note
from evref.learn.trainer import Learner

PAGE = Path(__file__).with_suffix(".md")
NETWORK = replace(cases.select(["training F=8"])[0], name="network", F=5)  # the paper's: F = 5
CASES = [*cases.select(["small 1->5", "small 5->5", "medium"]), NETWORK]
DTYPES = ("float32", "float64")
LIBRARIES = ("evref", "bridge", "torch", "compile")
# malloc keeps its memory: else the larger forms would pay for fresh pages in every step (glibc; ignored elsewhere)
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "-1"}
RATE = 1e-3
SECONDS, LEAST, SAMPLE = 9.0, 8, 0.02  # of a line; samples of a contender; seconds of a sample
HOPELESS = 2.0  # a form of torch's that takes so many times as long as its best after two rounds is not sampled further

# ---- the same work, by everyone --------------------------------------------------------------------------------------
MODULE = "bridge"  # FilterModule or NetworkModule
AROUND = "bridge, torch's layers"  # FilterModule between torch.nn.ReLU and torch.nn.Linear
COMPILED = "bridge, compiled"
OPS = "bridge, ops"  # the custom ops in eager mode: without a tape
PASSES, BARE = "passes, bridge", "passes, evref"  # neither loss nor optimiser


def module_of(p: Problem) -> ev.Module:
    return cases.network(p.case, p.graph()) if p.case.kind == "training" else cases.make_filter(p, p.graph())


def start_of(p: Problem, module: ev.Module) -> dict[str, Any]:
    return {name: p[short(name)] for name in module.parameter_shapes()}


def short(name: str) -> str:
    return name.rpartition(".")[2]


def evref_alone(p: Problem) -> Contender:
    """As `ev.fit` steps: evref's own loss and Adam."""
    module = module_of(p)
    start, adam = start_of(p, module), ev.Adam(RATE)
    classifies = p.case.kind == "training"
    target = p["label"] if classifies else p["grad_y"]
    learner = Learner(module, ev.CrossEntropy() if classifies else ev.MeanSquaredError(), adam, start)
    now = learner.fresh()

    def run() -> float:
        return learner.step(now, p["x"], target, RATE, "the benchmark")

    def result() -> Results:
        value, grads = learner.gradients(start, p["x"], target)
        run()
        found: Results = {"loss": np.asarray(value)}
        for name in start:
            found |= {f"grad_{short(name)}": grads[name], f"moved_{short(name)}": now.params[name] - start[name]}
        return found

    return Contender(run, result)


def reference(p: Problem) -> Results:
    """By the NumPy kernels in float64."""
    arrays = {name: a.astype("float64") if a.dtype == p.dtype else a for name, a in p.arrays.items()}
    with ev.use_backend("numpy"):
        return evref_alone(Problem(p.case, "float64", p.S, arrays)).result()


def stepping(
    params: dict[str, Any], loss: Callable[[], Any], on_support: Callable[[Any], Any] | None = None
) -> Contender:
    """Training steps of torch; `on_support` takes the entries on the support out of a dense phi."""
    import torch

    adam = torch.optim.Adam(params.values(), lr=RATE, fused=True)  # of torch's three ways the fastest here

    def run() -> Any:
        adam.zero_grad()
        value = loss()
        value.backward()
        adam.step()
        return value

    def result() -> Results:
        before = {name: tensor.detach().clone() for name, tensor in params.items()}
        found: Results = {"loss": run().detach().numpy()}
        for name, tensor in params.items():
            for what, value in (("grad", tensor.grad), ("moved", tensor.detach() - before[name])):
                value = on_support(value) if on_support and short(name) == "phi" else value
                found[f"{what}_{short(name)}"] = value.numpy(force=True)
        return found

    return Contender(run, result)


def objective(p: Problem) -> Callable[[Any], Any]:
    import torch

    if p.case.kind == "training":
        return partial(torch.nn.functional.cross_entropy, target=torch.tensor(p["label"]))
    return partial(torch.nn.functional.mse_loss, target=torch.tensor(p["grad_y"]))


# ---- through the bridge ----------------------------------------------------------------------------------------------
def through_bridge(name: str, p: Problem) -> Contender:
    import torch

    from evref.bridges.torch import EvrefModule, FilterModule
    from evref.bridges.torch_ops import key_of

    module, dtype, x = module_of(p), getattr(torch, p.dtype.name), torch.tensor(p["x"])
    if name in (PASSES, BARE):
        return passes(p, module, name == PASSES)
    if name == AROUND:
        if p.case.kind != "training":
            raise Skipped("a filter alone")
        filt, readout = FilterModule(module.layers[0], {"phi": p["phi"]}, dtype=dtype), torch.nn.Linear(1, 1)
        readout.weight, readout.bias = (torch.nn.Parameter(torch.tensor(p[a])) for a in ("weight", "bias"))
        model: Any = torch.nn.Sequential(filt, torch.nn.ReLU(), torch.nn.Flatten(), readout)
    else:
        model = EvrefModule(module, start_of(p, module), dtype=dtype)
    params, value = dict(model.named_parameters()), objective(p)
    if name == OPS:
        learned = list(params.values())
        return stepping(params, lambda: value(torch.ops.evref.forward(key_of(module), learned, x)))
    if name == COMPILED:
        whole = torch.compile(lambda x: value(model(x)), fullgraph=True, dynamic=False)
        return first_answer(stepping(params, lambda: whole(x)))
    return stepping(params, lambda: value(model(x)))


def passes(p: Problem, module: ev.Module, through: bool) -> Contender:
    """Forward and backward for one cotangent, through the bridge or not: the same kernels on the same arrays."""
    import torch

    from evref.bridges.torch import EvrefModule

    params, x = start_of(p, module), torch.tensor(p["x"])
    model, value = EvrefModule(module, params, dtype=x.dtype), objective(p)
    y = model(x).detach().requires_grad_()
    (grad_y,) = torch.autograd.grad(value(y), y)
    learned, cotangent = list(model.parameters()), grad_y.numpy()

    def bare() -> Any:
        _, tape = module.forward(params, p["x"], check_finite=False)
        grads = module._parameter_gradients(params, tape.saved, cotangent)
        return [grads[name] for name in params]

    run = (lambda: torch.autograd.grad(model(x), learned, grad_y)) if through else bare
    return Contender(run, lambda: {f"grad_{short(n)}": np.asarray(g) for n, g in zip(params, run(), strict=True)})


def first_answer(contender: Contender) -> Contender:
    """Compiled by the first call, whose answer is the one that is checked."""
    answer = contender.result()
    return Contender(contender.run, lambda: answer)


# ---- by torch itself -------------------------------------------------------------------------------------------------
def scattered(p: Problem) -> Any:
    """Dense matrices made from entries on the support: less for Adam to do than with N x N parameters and a mask."""
    import torch

    N, F, G, K = p.case.N, p.case.F, p.case.G, p.case.K
    places = torch.tensor(p.rows * N + p.indices)

    def forward(phi: Any, x: Any) -> Any:
        w = x.permute(1, 2, 0).expand(F, G, N, -1)
        total: Any = 0.0
        for Phi_k in phi.new_zeros(K, F, G, N * N).index_copy(-1, places, phi).view(K, F, G, N, N).unbind():
            w = Phi_k @ w
            total = total + w
        return total.sum(1).permute(2, 0, 1)

    return forward


def csr(p: Problem) -> Any:
    """torch.sparse in CSR layout; on small graphs the matrices of all filters on the diagonal of one.

    One by one on others: the gradient with respect to a sparse matrix takes the memory of a dense one on the way.
    """
    import torch

    N, F, G, B, nnz = p.case.N, p.case.F, p.case.G, p.case.B, p.nnz
    blocks = F * G if p.case.is_small else 1
    block = torch.arange(blocks)[:, None]
    starts = torch.cat([(block * nnz + torch.tensor(p.indptr[:-1])).flatten(), torch.tensor([blocks * nnz])])
    columns = (block * N + torch.tensor(p.indices)).flatten()

    def filtered(phi: Any, w: Any) -> Any:
        """phi (K, blocks, nnz), w (blocks, N, B)"""
        w, total = w.reshape(blocks * N, B), 0.0
        for phi_k in phi.unbind():
            matrix = torch.sparse_csr_tensor(
                starts, columns, phi_k.flatten(), (blocks * N,) * 2, check_invariants=False
            )
            w = torch.sparse.mm(matrix, w)
            total = total + w
        return total.view(blocks, N, B)

    def forward(phi: Any, x: Any) -> Any:
        w = x.permute(1, 2, 0).expand(F, G, N, B).reshape(F * G, N, B)
        parts = map(filtered, phi.flatten(1, 2).split(blocks, 1), w.split(blocks))
        return torch.cat(list(parts)).view(F, G, N, B).sum(1).permute(2, 0, 1)

    return forward


MASKED, SCATTERED, GATHER = "dense, masked", "dense, scattered", "gather"
CSR, COMPILE = "torch.sparse CSR", "torch.compile"
DENSE = (MASKED, SCATTERED)
FORMS = (*DENSE, GATHER, CSR, COMPILE)


def by_torch(name: str, p: Problem) -> Contender:
    from evref.bench import peers_torch, peers_torch_compile

    if name in DENSE and not p.case.is_small:
        raise Skipped(f"dense {p.case.N}×{p.case.N} matrices")
    if name == COMPILE:
        return compiled(p) if p.case.is_small else torch_step(p, peers_torch_compile.lists(p))
    forms = {MASKED: peers_torch.dense_masked, SCATTERED: scattered, GATHER: peers_torch.gather, CSR: csr}
    return torch_step(p, forms[name](p), masked=name == MASKED)


def compiled(p: Problem) -> Contender:
    """The faster of both dense forms, loss and all in one graph."""
    forms = {name: by_torch(name, p) for name in DENSE}
    name = min(forms, key=lambda name: clock.fastest(forms[name].run, 50))
    from evref.bench import peers_torch

    forward = (peers_torch.dense_masked if name == MASKED else scattered)(p)
    return torch_step(p, forward, masked=name == MASKED, whole=True)


def torch_step(p: Problem, forward: Any, masked: bool = False, whole: bool = False) -> Contender:
    import torch

    from evref.bench.peers_torch import parameter

    value, x = objective(p), torch.tensor(p["x"])
    params = {"phi": parameter(p, masked)[0]}

    def loss(phi: Any, *readout: Any) -> Any:
        y = forward(phi, x)
        return value(torch.nn.functional.linear(torch.relu(y).reshape(len(x), -1), *readout) if readout else y)

    if p.case.kind == "training":
        params |= {name: torch.tensor(p[name]).requires_grad_() for name in ("weight", "bias")}
    run = torch.compile(loss, dynamic=False) if whole else loss
    entries = (lambda phi: phi[..., p.rows, p.indices]) if masked else None
    return first_answer(stepping(params, lambda: run(*params.values()), entries))


CONTENDERS: dict[str, tuple[Callable[[str, Problem], Contender], tuple[str, ...]]] = {
    "evref": (lambda name, p: evref_alone(p), ("evref",)),
    "bridge": (through_bridge, (MODULE, AROUND, OPS, PASSES, BARE)),
    "torch": (by_torch, (*DENSE, GATHER, CSR)),
    "compile": (lambda name, p: (through_bridge if name == COMPILED else by_torch)(name, p), (COMPILE, COMPILED)),
}


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
