"""evref against torch and JAX: the same numbers in, the largest difference out.

    python validation/parity.py            print the tables
    python validation/parity.py --write    and write them to validation/parity.md

The tests beside this file assert on the same computations, with errors and tolerances as in `measure.py`.
"""

from __future__ import annotations

import argparse
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import measure
import numpy as np
import peers
from measure import Results

import evref as ev

Array = np.ndarray

DTYPES = ("float64", "float32")
SEEDS, WALKS, STEPS = 20, 5, 1000  # of the page
APART = 10  # times as far as torch from torch may two walks be
FAULT = {"float64": 1e-6, "float32": 1e-2}  # of an entry, which should be seen
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
    """A filter with numbers to put in, all of them standard normal."""

    def __init__(self, case: Case, seed: int = 0, edges: EdgeList | None = None) -> None:
        edges = GRAPHS[case.graph] if edges is None else edges
        rng = np.random.default_rng([zlib.crc32(repr(case).encode()), seed])
        self.case = case
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
            params = {"phi": normal(case.order, F, G, nnz)}
            if case.zeroth == "diagonal":
                params["phi0"] = normal(F, G, edges.n_nodes)
            if case.bias:
                params["bias"] = normal(F)
            return params

        self.params, self.dparams = parameters(), parameters()
        self.x, self.dx = (normal(case.batch, case.in_features, edges.n_nodes) for _ in range(2))
        self.grad_y = normal(case.batch, case.out_features, edges.n_nodes)

    def ours(self, backend: str) -> Results:
        with ev.use_backend(backend):
            return evref_gradients(self.filter, self.params, self.x, self.grad_y)

    def our_tangent(self, backend: str) -> Array:
        with ev.use_backend(backend):
            return self.filter.jvp(self.params, self.x, self.dparams, self.dx)

    def by_torch(self, dense: bool = False) -> Results:
        """y and every gradient, along edges or with dense matrices."""
        function = peers.torch_dense_edge_variant if dense else peers.torch_edge_variant
        return peers.torch_gradients(self.bound(function), self.params, self.x, self.grad_y)

    def terms(self) -> Results:
        """Σ|terms| of y, every gradient and the tangent: multilinear in all that is put in, so that the same programs
        with |numbers| in float64 give it."""
        params, dparams = measure.absolute(self.params), measure.absolute(self.dparams)
        x, dx, grad_y = (np.abs(signal).astype(np.float64) for signal in (self.x, self.dx, self.grad_y))
        function = self.bound(peers.torch_edge_variant)
        tangent = peers.torch_tangent(function, params, x, dparams, dx)
        return {**peers.torch_gradients(function, params, x, grad_y), "jvp": tangent}

    def tolerance(self) -> float:
        """In units of eps: sums over neighbours, K times there and back, then over samples and nodes."""
        degree = int(max(np.bincount(self.rows).max(), np.bincount(self.columns).max()))
        return measure.tolerance(2 * self.case.order * degree + self.x.shape[0] * self.x.shape[2])

    def bound(self, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        return lambda params, x: function(self.rows, self.columns, params, x, self.zeroth)


def filters_by_jax(problems: Sequence[Problem]) -> list[Results]:
    """y, every gradient and the tangent of problems that differ in their numbers alone."""

    def stacked(part: str) -> Any:
        values = [getattr(p, part) for p in problems]
        return {n: np.stack([v[n] for v in values]) for n in values[0]} if "params" in part else np.stack(values)

    function = problems[0].bound(peers.jax_edge_variant)
    results = peers.jax_gradients(function, stacked("params"), stacked("x"), stacked("grad_y"))
    results["jvp"] = peers.jax_tangent(function, stacked("params"), stacked("x"), stacked("dparams"), stacked("dx"))
    return [{name: values[n] for name, values in results.items()} for n in range(len(problems))]


def filter_errors(
    case: Case, names: Iterable[str], seeds: int, backends: Iterable[str] = BACKENDS, edges: EdgeList | None = None
) -> dict[str, float]:
    """Worst error over seeds and backends, in units of eps, under "<peer> <quantity>"; the tangent by JAX only.

    The peers are "torch", "dense" (torch with dense matrices) and "jax". Raises AssertionError where an error is above
    the tolerance.
    """
    problems = [Problem(case, seed, edges) for seed in range(seeds)]
    by_jax = filters_by_jax(problems) if "jax" in names else []
    found = []
    for number, problem in enumerate(problems):
        terms, tolerance = problem.terms(), problem.tolerance()
        theirs = {name: by_jax[number] if name == "jax" else problem.by_torch(name == "dense") for name in names}
        for backend in backends:
            ours = {**problem.ours(backend), "jvp": problem.our_tangent(backend)}
            for name, results in theirs.items():
                errors = measure.errors({q: ours[q] for q in ours if q in results}, results, terms)
                if max(errors.values()) > tolerance:
                    raise AssertionError(f"{case}, {name}, {backend}: {errors}, tolerance {tolerance}")
                found.append({f"{name} {q}": e for q, e in errors.items()})
    return measure.worst(found)


def evref_gradients(module: ev.Module, params: Mapping[str, Array], x: Array, grad_y: Array) -> Results:
    y, tape = module.forward(params, x)
    grads, grad_x = module.backward(params, tape, grad_y)
    return {"y": y, "grad_x": grad_x, **{f"grad_{name}": g for name, g in grads.items()}}


# ---- a network -------------------------------------------------------------------------------------------------------
def activation(name: str, graph: ev.Graph, features: int) -> ev.Module:
    """An activation by its name in evref's catalogue."""
    if name in ("max_activation", "median_activation"):
        return ev.layer_catalogue[name](graph, features=features, hops=2)
    return ev.LeakyReLU(0.2) if name == "leaky_relu" else ev.layer_catalogue[name]()


class NetworkProblem:
    """EV -> activation -> Dense -> loss on a small graph, with data."""

    def __init__(
        self,
        act: str,
        loss: str,
        dtype: str,
        graph: str = "directed",
        classes: int = 4,
        batch: int = 6,
        seed: int = 0,
        scaled: bool = True,
    ) -> None:
        """`scaled`: weights divided by the root of how many of them enter a sum; else standard normal as they are."""
        rng = np.random.default_rng([zlib.crc32(f"{act}/{loss}/{graph}".encode()), seed])
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
        entering = {"0.phi": 2 * len(self.rows) / edges.n_nodes, "0.phi0": 2, "2.weight": 3 * edges.n_nodes}
        self.params = {
            name: (rng.standard_normal(shape) / (entering.get(name, 1) if scaled else 1) ** 0.5).astype(dtype)
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

    def jax_loss(self, params: Mapping[str, Any], x: Any, target: Any) -> Any:
        """The loss by JAX."""
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
        z = peers.jax_edge_variant(self.rows, self.columns, part, x, "diagonal")
        if self.act in pointwise:
            z = pointwise[self.act](z)
        else:
            kind = self.act.removesuffix("_activation")
            z = peers.jax_neighborhood(self.edges.neighborhoods(2), params["1.weight"], z, kind)
        z = z.reshape(len(x), -1) @ params["2.weight"].T + params["2.bias"]
        if self.loss_name == "mean_squared_error":
            return jnp.mean((z - target) ** 2)
        return -jnp.mean(jax.nn.log_softmax(z)[np.arange(len(x)), target])

    def by_torch(self) -> Results:
        return peers.torch_gradients(self.torch_loss, self.params, self.x, 1.0)

    def tolerance(self) -> float:
        """In units of eps: as that of the filter, and the readout over features and nodes."""
        degree = int(max(np.bincount(self.rows).max(), np.bincount(self.columns).max()))
        return measure.tolerance(2 * 3 * degree + (len(self.x) + 3) * self.x.shape[2])


def networks_by_jax(problems: Sequence[NetworkProblem]) -> list[tuple[Results, Results]]:
    """Loss and gradients of problems that differ in their numbers alone, and Σ|terms| of each in float64."""
    first = problems[0]

    def stacked(dtype: Any) -> tuple[Any, ...]:
        params = {name: np.stack([p.params[name] for p in problems]).astype(dtype) for name in first.params}
        x, target = (np.stack([getattr(p, part) for p in problems]) for part in ("x", "target"))
        target = target.astype(dtype) if target.dtype.kind == "f" else target
        return params, x.astype(dtype), np.ones(len(problems), dtype), target

    values, terms = peers.jax_terms(first.jax_loss, *stacked(np.float64))
    if first.x.dtype != np.float64:
        values = peers.jax_gradients(first.jax_loss, *stacked(first.x.dtype))
    return [
        ({name: v[n] for name, v in values.items()}, {name: m[n] for name, m in terms.items()})
        for n in range(len(problems))
    ]


def network_errors(act: str, loss: str, dtype: str, graph: str, seeds: int, scaled: bool = True) -> dict[str, float]:
    """Worst error over seeds and both backends, in units of eps, under "<peer> loss" and "<peer> gradients".

    And under "seen" the share of entries in which an error of `FAULT` of the entry is above the tolerance. Raises
    AssertionError where an error is.
    """
    problems = [NetworkProblem(act, loss, dtype, graph, seed=seed, scaled=scaled) for seed in range(seeds)]
    found, entries, noticed = [], 0, 0
    for problem, (by_jax, terms) in zip(problems, networks_by_jax(problems), strict=True):
        tolerance = problem.tolerance()
        of, some = measure.seen(by_jax, terms, tolerance, FAULT[dtype])
        entries, noticed = entries + of, noticed + some
        theirs = {"torch": problem.by_torch(), "jax": by_jax}
        for backend in BACKENDS:
            ours = problem.ours(backend)
            for peer, results in theirs.items():
                errors = measure.errors(ours, results, terms)
                if max(errors.values()) > tolerance:
                    raise AssertionError(f"{act}, {loss}, {dtype}, {graph}, {peer}, {backend}: {errors} > {tolerance}")
                found.append({f"{peer} loss": errors.pop("y"), f"{peer} gradients": max(errors.values())})
    return {**measure.worst(found), "seen": noticed / entries}


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


def _start(name: str, seed: int) -> tuple[NetworkProblem, dict[str, Any], Any]:
    """The problem whose parameters walk, torch's leaves at their start, and torch's optimiser of them."""
    import torch

    problem = NetworkProblem("tanh", "mean_squared_error", "float64", "undirected", classes=2, batch=40, seed=seed)
    leaves = {key: torch.tensor(p, requires_grad=True) for key, p in problem.params.items()}
    _, theirs_name, settings = OPTIMIZERS[name]
    return problem, leaves, getattr(torch.optim, theirs_name)(leaves.values(), **settings)


class _Distance:
    """Largest |a - b| / (|start| + Σ|steps so far|) of two walks, in units of eps."""

    def __init__(self, params: Mapping[str, Array]) -> None:
        self.terms, self.before, self.worst = measure.absolute(params), dict(params), 0.0

    def step(self, params: Mapping[str, Array], leaves: Mapping[str, Any]) -> None:
        for key, p in params.items():
            self.terms[key] = self.terms[key] + np.abs(p - self.before[key])
            self.before[key] = p.copy()
            self.worst = max(self.worst, measure.error(p, leaves[key].detach().numpy(), self.terms[key]))


def optimizer_error(name: str, backend: str = "numba", seed: int = 0, steps: int = STEPS) -> float:
    """Both are fed one sequence of gradients whose sizes span nine decades, zeros among them; float64."""
    import torch

    problem, leaves, theirs = _start(name, seed)
    params, distance = dict(problem.params), _Distance(problem.params)
    ours = OPTIMIZERS[name][0](**_our_settings(OPTIMIZERS[name][2]))
    rng = np.random.default_rng([7, seed])
    sizes = {key: 10.0 ** rng.uniform(-9, 0, p.shape) * (rng.random(p.shape) < 0.9) for key, p in params.items()}
    with ev.use_backend(backend):
        state = ours.init(params)
        for _ in range(steps):
            grads = {key: size * rng.standard_normal(size.shape) for key, size in sizes.items()}
            for key, leaf in leaves.items():
                leaf.grad = torch.tensor(grads[key])
            params, state = ours.step(params, grads, state)
            theirs.step()
            distance.step(params, leaves)
    return distance.worst


def walk_errors(name: str, backend: str = "numba", seed: int = 0, steps: int = STEPS) -> tuple[float, float]:
    """Each walks alone on EV -> tanh -> Dense -> mean squared error, along the gradient computed where it is; float64.

    A walk multiplies what separates two of them: the second number is the distance of torch from torch, from starts
    that differ by one eps in every number. Adam's rates are small enough for that not to grow without bounds: with
    betas (0.8, 0.99) and rate 1e-3, torch from starts 1e-15 apart ends up 7e-4 apart.
    """
    import torch

    problem, leaves, theirs = _start(name, seed)
    _, other_leaves, other = _start(name, seed)
    signs = np.random.default_rng([8, seed])
    with torch.no_grad():
        for leaf in other_leaves.values():
            leaf *= torch.tensor(1 + np.finfo(np.float64).eps * signs.choice([-1, 1], leaf.shape))
    params, distance, alone = dict(problem.params), _Distance(problem.params), _Distance(problem.params)
    ours, x = OPTIMIZERS[name][0](**_our_settings(OPTIMIZERS[name][2])), torch.tensor(problem.x)
    with ev.use_backend(backend):
        state = ours.init(params)
        for _ in range(steps):
            for optimizer, parameters in ((theirs, leaves), (other, other_leaves)):
                optimizer.zero_grad()
                problem.torch_loss(parameters, x).backward()
                optimizer.step()
            results = problem.ours(backend, params)
            params, state = ours.step(params, {key: results[f"grad_{key}"] for key in params}, state)
            distance.step(params, leaves)
            alone.step({key: leaf.detach().numpy() for key, leaf in other_leaves.items()}, leaves)
    return distance.worst, alone.worst


# ---- the report ------------------------------------------------------------------------------------------------------
def filter_row(graph: str, zeroth: str, dtype: str, seeds: int) -> dict[str, float]:
    """Worst errors over orders, banks, with and without bias; for JAX, which compiles for each, one bank with bias."""
    found = [filter_errors(case, ("torch", "dense"), seeds) for case in cases(graph, zeroth, dtype)]
    of_jax = (case for case in cases(graph, zeroth, dtype, BANKS[-1:]) if case.bias)
    return measure.worst([*found, *(filter_errors(case, ("jax",), seeds) for case in of_jax)])


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = []
    for line in (header, ["---"] * len(header), *rows):
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def _shown(*cells: Any) -> list[str]:
    """A row of the table, and printed: the whole takes minutes."""
    row = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(*row, sep=" | ", flush=True)
    return row


def versions(*more: str) -> str:
    """What a figure was measured with."""
    packages = ("numpy", "scipy", "numba", "torch", "jax", *more)
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages)


def report() -> str:
    """The Markdown text: versions, filters, networks, optimisers."""
    columns = [
        *(f"torch {q}" for q in QUANTITIES),
        *(f"jax {q}" for q in (*QUANTITIES, "jvp")),
        *(f"dense {q}" for q in QUANTITIES),
    ]
    rows = []
    for graph, zeroth, dtype in product(GRAPHS, ZEROTH, DTYPES):
        errors = filter_row(graph, zeroth, dtype, SEEDS)
        of_all = [Problem(case).tolerance() for case in cases(graph, zeroth, dtype)]
        tolerances = f"{min(of_all):.0f}–{max(of_all):.0f}"
        rows.append(_shown(graph, zeroth, dtype, tolerances, *(errors.get(c, "") for c in columns)))
    filters = _table(["graph", "zeroth", "dtype", "tolerance", *columns], rows)

    rows = []
    names = ("relu", "leaky_relu", "tanh", "sigmoid", "max_activation", "median_activation")
    kinds = ("torch loss", "torch gradients", "jax loss", "jax gradients")
    for act, loss, dtype, scaled in product(names, LOSSES, DTYPES, (True, False)):
        errors = network_errors(act, loss, dtype, "directed", SEEDS, scaled)
        seen = f"{100 * errors['seen']:.1f}%"
        rows.append(_shown(act, loss, dtype, "scaled" if scaled else "as drawn", *(errors[k] for k in kinds), seen))
    tolerance = NetworkProblem("relu", "cross_entropy", "float64").tolerance()
    networks = _table(["activation", "loss", "dtype", "weights", *kinds, "sees"], rows)

    rows = []
    for name in OPTIMIZERS:
        same = [max(optimizer_error(name, backend, seed) for seed in range(WALKS)) for backend in BACKENDS]
        own = [[walk_errors(name, backend, seed) for seed in range(WALKS)] for backend in BACKENDS]
        ratio = max(error / max(1, alone) for walks in own for error, alone in walks)
        if max(same) > measure.tolerance(STEPS) or ratio > APART:
            raise AssertionError(f"{name}: {same}, {own}")
        alone = max(alone for _, alone in own[0])
        rows.append(_shown(name, *same, *(max(error for error, _ in walks) for walks in own), alone))
    own_columns = [*(f"own gradients, {b}" for b in BACKENDS), "torch from 1 eps apart"]
    header = ["optimiser", *(f"same gradients, {b}" for b in BACKENDS), *own_columns]
    optimizers, walk = _table(header, rows), measure.tolerance(STEPS)

    return f"""# Parity with torch and JAX

Written by `python validation/parity.py --write` with {versions()}.

Every figure is the largest |ours - theirs| / Σ|terms| in units of eps (2.2e-16 in float64, 1.2e-7 in float32), over
{SEEDS} seeds. Σ|terms| is the sum of the absolute values of the terms that an entry is a sum of, taken in float64.
The tolerance is 4 √n eps with n the length of the longest sum; `measure.py` says why. Parameters, signals, cotangents
and tangents are independent standard normal numbers; no draw is left out, and the page is not written if one of them is
above the tolerance.

## Edge-variant filters

Over orders 0 to 4, with and without bias, banks of several sizes (one for JAX, with bias) and both backends. `torch`
gathers and adds along edges, `jax` uses segment_sum (and jax.jvp for `jvp`), `dense` is a sum of products of dense
matrices in torch. The filter is multilinear in all that is put in: Σ|terms| is what the program along edges returns for
the absolute values, exactly.

{filters}

## Networks: edge-variant filter, activation, dense readout, loss

On the directed graph, both backends; the loss, and the worst of the gradients of x and of every parameter; tolerance
{tolerance:.0f}. Σ|terms| comes from the steps of the JAX program and its gradient (`terms.py`), to first order in the
rounding errors where activation and loss are not linear.

Weights are standard normal numbers divided by the root of how many of them enter a sum (*scaled*), or as drawn: then
the softmax saturates at logits of several tens, most gradients of the cross-entropy are small differences of large
numbers, and rounding leaves little of them to compare. *Sees* tells how much: the share of entries, zeros not counted,
in which an error of {FAULT["float64"]:.0e} of the entry in float64 and {FAULT["float32"]:.0e} in float32 is above the
tolerance.

ReLU, max and median have kinks. Where a number is so close to one that rounding decides the side, gradients differ by
their own size. Nothing guards against it: it would be seen as an error far above the tolerance. In float32 that has a
probability of about 1e-4 for each of these draws (estimated); it happened in none.

{networks}

## Optimisers: {STEPS:,} steps in float64

Largest difference of any parameter at any step, from the same start, relative to |start| + Σ|steps so far|, in units of
eps, over {WALKS} seeds. *Same*: both are fed one sequence of gradients; tolerance {walk:.0f}. *Own*: each steps along
the gradient that it computes at its own parameters. Such a walk multiplies what separates two of them: the last column
is the distance of torch from torch, from starts that differ by one eps in every number, and {APART} times that of the
same seed is the tolerance.

{optimizers}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write validation/parity.md")
    arguments = parser.parse_args()
    peers.enable_jax_float64()
    text = report()
    if arguments.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
