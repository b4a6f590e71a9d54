"""What bridge_speed.py times: a training step by evref alone, through the PyTorch bridge, and by torch itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import evref as ev
from evref.bench import cases, clock
from evref.bench.cases import Contender, Problem, Results, Skipped
from evref.learn.trainer import Learner

RATE = 1e-3
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
