"""evref against torch: outputs, every gradient, networks and optimisers (reliability ladder, rung 6)."""

from __future__ import annotations

import numpy as np
import parity
import peers
import pytest

import evref as ev
from evref.learn.trainer import Learner

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # every array here is small


@pytest.mark.parametrize("peer", ["torch", "dense"])
@pytest.mark.parametrize("dtype", parity.TOLERANCE)
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
@pytest.mark.parametrize("graph", parity.GRAPHS)
def test_filter(graph: str, zeroth: str, dtype: str, peer: str) -> None:
    """Orders 0..4, banks, bias, both backends."""
    for case in parity.cases(graph, zeroth, dtype):
        problem = parity.Problem(case)
        theirs = problem.peer(peer)
        for backend in parity.BACKENDS:
            errors = parity.relative_errors(problem.ours(backend), theirs)
            assert max(errors.values()) <= parity.TOLERANCE[dtype], (case, backend, errors)


@pytest.mark.parametrize("dtype", parity.TOLERANCE)
@pytest.mark.parametrize("batch", [1, 2, 9, 20, 40, 101, 230])
def test_every_tile_width(batch: int, dtype: str) -> None:
    """The compiled kernels lay the batch out in tiles: one sample, part of a tile, several tiles."""
    for zeroth in parity.ZEROTH:
        problem = parity.Problem(parity.Case("directed, self-loops", zeroth, 3, dtype=dtype, batch=batch))
        theirs = problem.peer("torch")
        for threads in (1, 2):
            with ev.use_threads(threads):
                errors = parity.relative_errors(problem.ours("numba"), theirs)
            assert max(errors.values()) <= parity.TOLERANCE[dtype], (zeroth, threads, errors)


@pytest.mark.parametrize(("n_nodes", "degree", "batch"), [(300, 40, 20), (9000, 12, 20)])
@pytest.mark.parametrize("dtype", parity.TOLERANCE)
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
def test_larger_graphs(zeroth: str, dtype: str, n_nodes: int, degree: int, batch: int) -> None:
    """Graphs large enough for the kernels to share work among threads, by filters and by nodes."""
    rng = np.random.default_rng(0)
    edges = parity.EdgeList(n_nodes, *rng.integers(0, n_nodes, (2, n_nodes * degree)).tolist())
    problem = parity.Problem(parity.Case("larger", zeroth, 2, 1, 2, dtype=dtype, batch=batch), edges)
    theirs = problem.peer("torch")
    for threads in (1, 2):
        with ev.use_threads(threads):
            errors = parity.relative_errors(problem.ours("numba"), theirs)
        assert max(errors.values()) <= parity.TOLERANCE[dtype], (threads, errors)


@pytest.mark.parametrize("dtype", parity.TOLERANCE)
@pytest.mark.parametrize("loss", parity.LOSSES)
@pytest.mark.parametrize(
    "act", ["identity", "relu", "leaky_relu", "tanh", "sigmoid", "max_activation", "median_activation"]
)
def test_network(act: str, loss: str, dtype: str) -> None:
    """EV -> activation -> Dense -> loss: the loss and the gradient of x and of every parameter."""
    for graph in ("directed", "undirected, isolated nodes"):
        problem = parity.NetworkProblem(act, loss, dtype, graph)
        theirs = problem.by_torch()
        for backend in parity.BACKENDS:
            errors = parity.relative_errors(problem.ours(backend), theirs)
            assert max(errors.values()) <= parity.TOLERANCE[dtype], (graph, backend, errors)


@pytest.mark.parametrize("backend", parity.BACKENDS)
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "median"])
@pytest.mark.parametrize("graph", ["directed", "undirected, self-loops", "directed, isolated nodes", "one node"])
def test_neighborhood_activation(graph: str, kind: str, hops: int, backend: str) -> None:
    edges = parity.GRAPHS[graph]
    rng = np.random.default_rng(hops)
    layer = ev.layer_catalogue[f"{kind}_activation"](edges.graph(), features=2, hops=hops)
    params = {"weight": rng.standard_normal(hops + 1)}
    x, grad_y = rng.standard_normal((2, 5, 2, edges.n_nodes))
    rings = edges.neighborhoods(hops)
    theirs = peers.torch_gradients(
        lambda p, z: peers.torch_neighborhood(rings, p["weight"], z, kind), params, x, grad_y
    )
    with ev.use_backend(backend):
        errors = parity.relative_errors(parity.evref_gradients(layer, params, x, grad_y), theirs)
    assert max(errors.values()) <= parity.TOLERANCE["float64"], errors


@pytest.mark.parametrize("backend", parity.BACKENDS)
@pytest.mark.parametrize("name", parity.OPTIMIZERS)
def test_optimizer_on_the_same_gradients(name: str, backend: str) -> None:
    """1,000 steps: every parameter within 1e-12 of torch's at every step."""
    assert parity.optimizer_difference(name, own_gradients=False, backend=backend) <= 1e-12


@pytest.mark.parametrize("name", parity.OPTIMIZERS)
def test_optimizer_on_its_own_gradients(name: str) -> None:
    """As above, each side with the gradients it computes itself."""
    assert parity.optimizer_difference(name, own_gradients=True) <= 1e-12


@pytest.mark.parametrize("backend", parity.BACKENDS)
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("batch", [6, 60])
@pytest.mark.parametrize("graph", parity.GRAPHS)
def test_the_network_as_a_whole(graph: str, batch: int, decay: float, backend: str) -> None:
    """What `fit` runs for the paper's network in one kernel: the loss and every gradient, then 100 steps of Adam."""
    problem = parity.NetworkProblem("relu", "cross_entropy", "float64", graph, batch=batch)
    adam = ev.Adam(1e-3, weight_decay=decay)
    learner = Learner(problem.net, problem.loss, adam, problem.params)
    theirs = problem.by_torch()
    del theirs["grad_x"]  # which training does not read
    leaves = {key: torch.tensor(p, requires_grad=True) for key, p in problem.params.items()}
    their_adam = torch.optim.Adam(leaves.values(), lr=1e-3, weight_decay=decay)
    x = torch.tensor(problem.x)
    with ev.use_backend(backend):
        value, grads = learner.gradients(problem.params, problem.x, problem.target)
        ours = {"y": np.asarray(value), **{f"grad_{name}": grad for name, grad in grads.items()}}
        errors = parity.relative_errors(ours, theirs)
        assert max(errors.values()) <= parity.TOLERANCE["float64"], errors
        run = learner.fresh()
        for step in range(100):
            learner.step(run, problem.x, problem.target, 1e-3, f"step {step}")
            their_adam.zero_grad()
            problem.torch_loss(leaves, x).backward()
            their_adam.step()
            for key, leaf in leaves.items():
                assert np.abs(run.params[key] - leaf.detach().numpy()).max() <= 1e-11
