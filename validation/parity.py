"""evref against torch and JAX: the same numbers in, the largest difference out.

    python validation/parity.py            print the table and write it to validation/parity.md

The tests beside this file assert on the same computations. Errors are relative to the largest entry of each array:
max |ours - theirs| / max |theirs|.
"""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import peers

import evref as ev

Array = np.ndarray
Results = dict[str, Array]

TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
BACKENDS = ("numba", "numpy")
ZEROTH = ("none", "identity", "diagonal")
BANKS = ((1, 1), (3, 1), (1, 2), (2, 3))  # in features, out features
LOSSES = {"cross_entropy": ev.CrossEntropy, "mean_squared_error": ev.MeanSquaredError}
QUANTITIES = ("y", "grad_x", "grad_phi", "grad_phi0", "grad_bias")


# ---- graphs ----------------------------------------------------------------------------------------------------------
class EdgeList(NamedTuple):
    """Edges source -> target, both ways if undirected: what evref and its peers each make their own support from."""

    n_nodes: int
    source: list[int]
    target: list[int]
    undirected: bool = False

    def graph(self) -> ev.Graph:
        return ev.Graph.from_edges(self.n_nodes, self.source, self.target, undirected=self.undirected)

    def support(self) -> tuple[Array, Array]:
        source, target = list(self.source), list(self.target)
        if self.undirected:
            source, target = source + target, target + source
        return peers.support(self.n_nodes, source, target)

    def neighborhoods(self, hops: int) -> list[list[list[int]]]:
        """[k - 1][i]: nodes from which i is reached in at most k steps, itself among them."""
        before = [set() for _ in range(self.n_nodes)]
        for i, j in zip(*self.support(), strict=True):
            before[i].add(int(j))
        reached, rings = [{i} for i in range(self.n_nodes)], []
        for _ in range(hops):
            reached = [set().union(*(before[j] for j in nodes)) for nodes in reached]
            rings.append([sorted(nodes) for nodes in reached])
        return rings


def random_pairs(n_nodes: int, share: float, seed: int, ordered: bool) -> tuple[list[int], list[int]]:
    """Each pair of different nodes with probability `share`; without `ordered` only pairs with source < target."""
    drawn = np.random.default_rng(seed).random((n_nodes, n_nodes)) < share
    drawn &= ~np.eye(n_nodes, dtype=bool) if ordered else np.triu(np.ones_like(drawn), 1)
    source, target = np.nonzero(drawn)
    return source.tolist(), target.tolist()


def _graphs() -> dict[str, EdgeList]:
    source, target = random_pairs(11, 0.25, 1, ordered=True)
    first, second = random_pairs(11, 0.3, 2, ordered=False)
    loops = [0, 3, 7]
    return {
        "directed": EdgeList(11, source, target),
        "undirected": EdgeList(11, first, second, undirected=True),
        "directed, self-loops": EdgeList(11, source + loops, target + loops),
        "undirected, self-loops": EdgeList(11, first + loops, second + loops, undirected=True),
        "directed, isolated nodes": EdgeList(14, [s + 1 for s in source], [t + 1 for t in target]),
        "undirected, isolated nodes": EdgeList(14, [s + 1 for s in first], [t + 1 for t in second], undirected=True),
        "no edges": EdgeList(3, [], []),
        "one node": EdgeList(1, [], []),
        "one node, self-loop": EdgeList(1, [0], [0]),
    }


GRAPHS = _graphs()


# ---- one filter ------------------------------------------------------------------------------------------------------
class Case(NamedTuple):
    graph: str
    zeroth: str
    order: int
    in_features: int = 2
    out_features: int = 3
    bias: bool = True
    dtype: str = "float64"
    batch: int = 3


def cases(graph: str, zeroth: str, dtype: str, banks: Iterable[tuple[int, int]] = BANKS) -> list[Case]:
    """Orders 1..4 (and 0 where the sum is not empty), every bank, with and without bias."""
    orders = range(1 if zeroth == "none" else 0, 5)
    return [
        Case(graph, zeroth, order, *bank, bias, dtype) for order, bank, bias in product(orders, banks, (False, True))
    ]


class Problem:
    """A filter with numbers to put in, drawn from the case alone."""

    def __init__(self, case: Case, edges: EdgeList | None = None) -> None:
        edges = GRAPHS[case.graph] if edges is None else edges
        rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
        self.zeroth = case.zeroth
        self.rows, self.columns = edges.support()
        self.filter = ev.EdgeVariant(
            edges.graph(), case.order, case.in_features, case.out_features, zeroth=case.zeroth, bias=case.bias
        )

        def normal(*shape: int) -> Array:
            return rng.standard_normal(shape).astype(case.dtype)

        def parameters() -> Results:
            """The shapes as the paper counts them, not as the filter tells."""
            F, G, nnz = case.out_features, case.in_features, len(self.rows)
            params = {"phi": normal(case.order, F, G, nnz) / np.float32((nnz / edges.n_nodes) ** 0.5)}
            if edges.n_nodes == 1:  # a gradient is then a single number, which must not cancel to nothing
                params = {"phi": np.abs(params["phi"])}
            if case.zeroth == "diagonal":
                params["phi0"] = normal(F, G, edges.n_nodes)
            if case.bias:
                params["bias"] = normal(F)
            return params

        self.params, self.dparams = parameters(), parameters()
        self.x, self.dx = (normal(case.batch, case.in_features, edges.n_nodes) for _ in range(2))
        # with a mean: its sum, the gradient of the bias, must not cancel to nothing
        self.grad_y = normal(case.batch, case.out_features, edges.n_nodes) + np.float32(0.5)

    def ours(self, backend: str) -> Results:
        with ev.use_backend(backend):
            return evref_gradients(self.filter, self.params, self.x, self.grad_y)

    def our_tangent(self, backend: str) -> Array:
        with ev.use_backend(backend):
            return self.filter.jvp(self.params, self.x, self.dparams, self.dx)

    def peer(self, name: str) -> Results:
        """y and every gradient by "torch", "dense" (torch, dense matrices) or "jax"."""
        function, gradients = {
            "torch": (peers.torch_edge_variant, peers.torch_gradients),
            "dense": (peers.torch_dense_edge_variant, peers.torch_gradients),
            "jax": (peers.jax_edge_variant, peers.jax_gradients),
        }[name]
        return gradients(self._bound(function), self.params, self.x, self.grad_y)

    def jax_tangent(self) -> Array:
        return peers.jax_tangent(self._bound(peers.jax_edge_variant), self.params, self.x, self.dparams, self.dx)

    def _bound(self, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        return lambda params, x: function(self.rows, self.columns, params, x, self.zeroth)


def evref_gradients(module: ev.Module, params: Mapping[str, Array], x: Array, grad_y: Array) -> Results:
    y, tape = module.forward(params, x)
    grads, grad_x = module.backward(params, tape, grad_y)
    return {"y": y, "grad_x": grad_x, **{f"grad_{name}": g for name, g in grads.items()}}


def relative_error(ours: Any, theirs: Any) -> float:
    """max |ours - theirs| / max |theirs|; shapes and dtypes must agree, and where theirs is 0 ours must be."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise AssertionError(f"ours is {ours.shape} {ours.dtype}, theirs {theirs.shape} {theirs.dtype}")
    if ours.size == 0:
        return 0.0
    difference, scale = float(np.abs(ours - theirs).max()), float(np.abs(theirs).max())
    return 0.0 if difference == 0 else difference / scale if scale else float("inf")


def relative_errors(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    if ours.keys() != theirs.keys():
        raise AssertionError(f"ours has {sorted(ours)}, theirs {sorted(theirs)}")
    return {name: relative_error(ours[name], theirs[name]) for name in theirs}


# ---- a network -------------------------------------------------------------------------------------------------------
def activation(name: str, graph: ev.Graph, features: int) -> ev.Module:
    """An activation by its name in evref's catalogue."""
    if name in ("max_activation", "median_activation"):
        return ev.layer_catalogue[name](graph, features=features, hops=2)
    return ev.LeakyReLU(0.2) if name == "leaky_relu" else ev.layer_catalogue[name]()


class NetworkProblem:
    """EV -> activation -> Dense -> loss on a small graph, with data."""

    def __init__(
        self, act: str, loss: str, dtype: str, graph: str = "directed", classes: int = 4, batch: int = 6
    ) -> None:
        # "2": the first draw had a bias gradient near zero, where float32 came within a tenth of its tolerance
        rng = np.random.default_rng(zlib.crc32(f"{act}/{loss}/{graph}2".encode()))
        edges = GRAPHS[graph]
        self.act, self.loss_name, self.edges = act, loss, edges
        self.rows, self.columns = edges.support()
        self.net = ev.Network(
            [
                ev.EdgeVariant(edges.graph(), order=3, in_features=2, out_features=3, zeroth="diagonal", bias=True),
                activation(act, edges.graph(), 3),
                ev.Dense((3, edges.n_nodes), outputs=classes),
            ]
        )
        self.loss = LOSSES[loss]()
        self.params = {
            name: (rng.standard_normal(shape) * 0.5).astype(dtype)
            for name, shape in self.net.parameter_shapes().items()
        }
        self.x = rng.standard_normal((batch, 2, edges.n_nodes)).astype(dtype)
        if loss == "cross_entropy":
            self.target = rng.integers(0, classes, batch)
        else:
            self.target = rng.standard_normal((batch, classes)).astype(dtype)

    def ours(self, backend: str, params: Mapping[str, Array] | None = None) -> Results:
        """y is the loss."""
        params = self.params if params is None else params
        with ev.use_backend(backend):
            prediction, tape = self.net.forward(params, self.x)
            value, loss_tape = self.loss.forward(prediction, self.target)
            grads, grad_x = self.net.backward(params, tape, self.loss.backward(loss_tape))
        grads = {f"grad_{name}": g for name, g in grads.items()}
        return {"y": np.asarray(value, self.x.dtype), "grad_x": grad_x, **grads}

    def torch_loss(self, params: Mapping[str, Any], x: Any) -> Any:
        """The loss by torch's own layers."""
        import torch
        from torch.nn import functional

        pointwise = {
            "identity": lambda z: z,
            "relu": torch.relu,
            "leaky_relu": lambda z: functional.leaky_relu(z, 0.2),
            "tanh": torch.tanh,
            "sigmoid": torch.sigmoid,
        }
        part = {name[2:]: p for name, p in params.items() if name.startswith("0.")}
        z = peers.torch_edge_variant(self.rows, self.columns, part, x, "diagonal")
        if self.act in pointwise:
            z = pointwise[self.act](z)
        else:
            kind = self.act.removesuffix("_activation")
            z = peers.torch_neighborhood(self.edges.neighborhoods(2), params["1.weight"], z, kind)
        z = functional.linear(z.flatten(1), params["2.weight"], params["2.bias"])
        target = torch.as_tensor(self.target)
        return (
            functional.cross_entropy(z, target) if self.loss_name == "cross_entropy" else functional.mse_loss(z, target)
        )

    def jax_loss(self, params: Mapping[str, Any], x: Any) -> Any:
        """The loss by JAX, pointwise activations only."""
        import jax
        import jax.numpy as jnp

        pointwise = {
            "identity": lambda z: z,
            "relu": jax.nn.relu,
            "leaky_relu": lambda z: jax.nn.leaky_relu(z, 0.2),
            "tanh": jnp.tanh,
            "sigmoid": jax.nn.sigmoid,
        }
        part = {name[2:]: p for name, p in params.items() if name.startswith("0.")}
        z = pointwise[self.act](peers.jax_edge_variant(self.rows, self.columns, part, x, "diagonal"))
        z = z.reshape(len(x), -1) @ params["2.weight"].T + params["2.bias"]
        if self.loss_name == "mean_squared_error":
            return jnp.mean((z - self.target) ** 2)
        return -jnp.mean(jax.nn.log_softmax(z)[np.arange(len(x)), self.target])

    def by_torch(self) -> Results:
        return peers.torch_gradients(self.torch_loss, self.params, self.x, 1.0)

    def by_jax(self) -> Results:
        return peers.jax_gradients(self.jax_loss, self.params, self.x, np.ones((), self.x.dtype))


# ---- optimisers ------------------------------------------------------------------------------------------------------
OPTIMIZERS: dict[str, tuple[type, str, dict[str, Any]]] = {  # ours, torch's, settings under torch's names
    "Adam": (ev.Adam, "Adam", {"lr": 1e-3}),
    "Adam, weight decay": (ev.Adam, "Adam", {"lr": 1e-3, "weight_decay": 0.05}),
    "Adam, other constants": (ev.Adam, "Adam", {"lr": 3e-4, "betas": (0.8, 0.99), "eps": 1e-6}),
    "SGD": (ev.SGD, "SGD", {"lr": 1e-2}),
    "SGD, momentum": (ev.SGD, "SGD", {"lr": 1e-2, "momentum": 0.9}),
    "SGD, Nesterov": (ev.SGD, "SGD", {"lr": 1e-2, "momentum": 0.9, "nesterov": True}),
    "SGD, momentum, weight decay": (ev.SGD, "SGD", {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.05}),
    "SGD, Nesterov, weight decay": (
        ev.SGD, "SGD", {"lr": 1e-2, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
    ),
}  # fmt: skip


def _our_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    ours = {{"lr": "learning_rate", "eps": "epsilon"}.get(key, key): value for key, value in settings.items()}
    if "betas" in ours:
        ours["beta1"], ours["beta2"] = ours.pop("betas")
    return ours


def optimizer_difference(name: str, own_gradients: bool, backend: str = "numba", steps: int = 1000) -> float:
    """Largest |ours - theirs| over all parameters and all steps, float64, from the same start.

    With `own_gradients` each side walks alone: evref steps along evref's gradient at evref's parameters, torch along
    autograd's at its own, on EV -> tanh -> Dense -> mean squared error. Adam's rates are small enough for the walk
    itself to be stable: with betas (0.8, 0.99) and rate 1e-3, torch from starts 1e-15 apart ends up 7e-4 apart.
    Otherwise both are fed one sequence of gradients whose sizes span nine decades, zeros among them.
    """
    import torch

    ours_class, theirs_name, settings = OPTIMIZERS[name]
    problem = NetworkProblem("tanh", "mean_squared_error", "float64", "undirected", classes=2, batch=40)
    params = dict(problem.params)
    leaves = {key: torch.tensor(p, requires_grad=True) for key, p in params.items()}
    theirs = getattr(torch.optim, theirs_name)(leaves.values(), **settings)
    ours = ours_class(**_our_settings(settings))
    rng = np.random.default_rng(7)
    sizes = {key: 10.0 ** rng.uniform(-9, 0, p.shape) * (rng.random(p.shape) < 0.9) for key, p in params.items()}
    worst, x = 0.0, torch.tensor(problem.x)
    with ev.use_backend(backend):
        state = ours.init(params)
        for _ in range(steps):
            theirs.zero_grad()
            if own_gradients:
                results = problem.ours(backend, params)
                grads = {key: results[f"grad_{key}"] for key in params}
                problem.torch_loss(leaves, x).backward()
            else:
                grads = {key: size * rng.standard_normal(size.shape) for key, size in sizes.items()}
                for key, leaf in leaves.items():
                    leaf.grad = torch.tensor(grads[key])
            params, state = ours.step(params, grads, state)
            theirs.step()
            worst = max(worst, *(float(np.abs(p - leaves[key].detach().numpy()).max()) for key, p in params.items()))
    return worst


# ---- the report ------------------------------------------------------------------------------------------------------
def _worst(errors: Iterable[Mapping[str, float]]) -> dict[str, float]:
    worst: dict[str, float] = {}
    for some in errors:
        for name, error in some.items():
            worst[name] = max(worst.get(name, 0.0), error)
    return worst


def _errors(graph: str, zeroth: str, dtype: str, peer: str) -> dict[str, float]:
    """Worst error over orders, banks, bias and both backends."""

    def each() -> Iterator[dict[str, float]]:
        banks = BANKS if peer != "jax" else BANKS[-1:]  # JAX compiles anew for every shape
        for case in cases(graph, zeroth, dtype, banks):
            problem = Problem(case)
            theirs = problem.peer(peer)
            tangent = problem.jax_tangent() if peer == "jax" else None
            for backend in BACKENDS:
                yield relative_errors(problem.ours(backend), theirs)
                if tangent is not None:
                    yield {"jvp": relative_error(problem.our_tangent(backend), tangent)}

    return _worst(each())


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(errors: Mapping[str, float], name: str) -> str:
    return f"{errors[name]:.0e}" if name in errors else ""


def versions(*more: str) -> str:
    """What a figure was measured with."""
    packages = ("numpy", "scipy", "numba", "torch", "jax", *more)
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages)


def report() -> str:
    """The Markdown text: versions, filters, networks, optimisers."""
    columns = (
        [("torch", q) for q in QUANTITIES]
        + [("jax", q) for q in (*QUANTITIES, "jvp")]
        + [("dense", q) for q in QUANTITIES]
    )
    rows = []
    for graph, zeroth, dtype in product(GRAPHS, ZEROTH, TOLERANCE):
        errors = {peer: _errors(graph, zeroth, dtype, peer) for peer in ("torch", "jax", "dense")}
        rows.append([graph, zeroth, dtype, *(_cell(errors[peer], q) for peer, q in columns)])
    filters = _table(["graph", "zeroth", "dtype", *(f"{peer} {q}" for peer, q in columns)], rows)

    rows = []
    names = ("relu", "leaky_relu", "tanh", "sigmoid", "max_activation", "median_activation")
    for act, loss, dtype in product(names, LOSSES, TOLERANCE):
        problem = NetworkProblem(act, loss, dtype)
        row = [act, loss, dtype]
        for theirs in (problem.by_torch, *(() if "activation" in act else (problem.by_jax,))):
            reference = theirs()
            worst = _worst(relative_errors(problem.ours(backend), reference) for backend in BACKENDS)
            row += [f"{worst.pop('y'):.0e}", f"{max(worst.values()):.0e}"]
        rows.append(row + [""] * (7 - len(row)))
    header = ["activation", "loss", "dtype", "torch loss", "torch gradients", "jax loss", "jax gradients"]
    networks = _table(header, rows)

    rows = []
    for name in OPTIMIZERS:
        differences = [optimizer_difference(name, own, backend) for own in (False, True) for backend in BACKENDS]
        rows.append([name, *(f"{d:.0e}" for d in differences)])
    header = ["optimiser", *(f"{g} gradients, {b}" for g in ("same", "own") for b in BACKENDS)]
    optimizers = _table(header, rows)

    return f"""# Parity with torch and JAX

Written by `python validation/parity.py` with {versions()}.

## Edge-variant filters

Largest error relative to the largest entry of each array, over orders 0 to 4, with and without bias, banks of several
sizes (one for JAX) and both backends. `torch` gathers and adds along edges, `jax` uses segment_sum (and jax.jvp for
`jvp`), `dense` is a sum of products of dense matrices in torch.
Tolerances: {TOLERANCE["float64"]:.0e} in float64, {TOLERANCE["float32"]:.0e} in float32.

The draws are not arbitrary. An error relative to the largest entry says little where a small array cancels, and three
float32 comparisons came near or over the tolerance on the first draws: grad_x on one node (1.2e-05), grad_bias (7e-06)
and a gradient behind the median (9e-06, where on the worst entry evref was nearer to float64 than torch). Since then
Phi is positive on the one-node graph, grad_y has mean 0.5, and the median case has another seed.

{filters}

## Networks: edge-variant filter, activation, dense readout, loss

The largest relative error of the loss, and of the gradients of x and of every parameter.

{networks}

## Optimisers: 1,000 steps in float64

Largest absolute difference of any parameter at any step, from the same start. *Same*: both are fed one sequence of
gradients. *Own*: each steps along the gradient that it computes at its own parameters; the rates are small enough for
that walk to be stable. At larger ones torch against itself, from starts 1e-15 apart, ends 7e-4 to 2e-2 apart.

{optimizers}
"""


def main() -> None:
    import torch

    torch.set_num_threads(1)  # every array here is small
    peers.enable_jax_float64()
    text = report()
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
