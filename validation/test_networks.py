"""Networks and their layers against torch and JAX: losses, every gradient, and training."""

from __future__ import annotations

import measure
import numpy as np
import parity
import peers
import pytest

import evref as ev
from evref.learn.trainer import Learner

pytest.importorskip("jax")
torch = pytest.importorskip("torch")
peers.enable_jax_float64()

SEEDS = 10
ACTIVATIONS = ["identity", "relu", "leaky_relu", "tanh", "sigmoid", "max_activation", "median_activation"]


@pytest.mark.parametrize(
    ("graph", "dtype"), [("directed", "float64"), ("undirected, isolated nodes", "float64"), ("directed", "float32")]
)
@pytest.mark.parametrize("loss", parity.LOSSES)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_network(act: str, loss: str, graph: str, dtype: str) -> None:
    """EV -> activation -> Dense -> loss: the loss and the gradient of x and of every parameter; faults show."""
    errors = parity.network_errors(act, loss, dtype, graph, SEEDS)
    assert errors["seen"] > (0.99 if dtype == "float64" else 0.5)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "median"])
@pytest.mark.parametrize("graph", ["directed", "undirected, self-loops", "directed, isolated nodes", "one node"])
def test_neighborhood_activation(graph: str, kind: str, hops: int) -> None:
    edges = parity.GRAPHS[graph]
    rings = edges.neighborhoods(hops)
    layer = ev.layer_catalogue[f"{kind}_activation"](edges.graph(), features=2, hops=hops)
    rng = np.random.default_rng(hops)
    weights = rng.standard_normal((SEEDS, hops + 1))
    x, grad_y = rng.standard_normal((2, SEEDS, 5, 2, edges.n_nodes))
    _, terms = peers.jax_terms(
        lambda p, z: peers.jax_neighborhood(rings, p["weight"], z, kind), {"weight": weights}, x, grad_y
    )
    for seed in range(SEEDS):
        params = {"weight": weights[seed]}
        theirs = peers.torch_gradients(
            lambda p, z: peers.torch_neighborhood(rings, p["weight"], z, kind), params, x[seed], grad_y[seed]
        )
        for backend in parity.BACKENDS:
            with ev.use_backend(backend):
                ours = parity.evref_gradients(layer, params, x[seed], grad_y[seed])
            errors = measure.errors(ours, theirs, {name: m[seed] for name, m in terms.items()})
            assert max(errors.values()) <= measure.tolerance(x[seed].size), (seed, backend, errors)


@pytest.mark.parametrize("batch", [6, 60])
@pytest.mark.parametrize("graph", parity.GRAPHS)
def test_the_network_as_a_whole(graph: str, batch: int) -> None:
    """What `fit` runs for the paper's network in one kernel: the loss and every gradient, then 100 steps of Adam."""
    problems = [
        parity.NetworkProblem("relu", "cross_entropy", "float64", graph, batch=batch, seed=seed) for seed in range(3)
    ]
    for problem, (_, terms) in zip(problems, parity.networks_by_jax(problems), strict=True):
        theirs = problem.by_torch()
        del theirs["grad_x"]  # which training does not read
        for decay in (0.0, 0.05):
            for backend in parity.BACKENDS:
                with ev.use_backend(backend):
                    _one_kernel(problem, decay, theirs, terms)


def _one_kernel(problem: parity.NetworkProblem, decay: float, theirs: parity.Results, terms: parity.Results) -> None:
    learner = Learner(problem.net, problem.loss, ev.Adam(1e-3, weight_decay=decay), problem.params)
    value, grads = learner.gradients(problem.params, problem.x, problem.target)
    ours = {"y": np.asarray(value), **{f"grad_{name}": grad for name, grad in grads.items()}}
    errors = measure.errors(ours, theirs, terms)
    assert max(errors.values()) <= problem.tolerance(), errors
    leaves = {key: torch.tensor(p, requires_grad=True) for key, p in problem.params.items()}
    their_adam = torch.optim.Adam(leaves.values(), lr=1e-3, weight_decay=decay)
    x = torch.tensor(problem.x)
    run = learner.fresh()
    for step in range(100):
        learner.step(run, problem.x, problem.target, 1e-3, f"step {step}")
        their_adam.zero_grad()
        problem.torch_loss(leaves, x).backward()
        their_adam.step()
        for key, leaf in leaves.items():
            assert np.abs(run.params[key] - leaf.detach().numpy()).max() <= 1e-11
