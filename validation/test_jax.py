"""evref against JAX: outputs, reverse-mode gradients and forward-mode tangents (reliability ladder, rung 6)."""

from __future__ import annotations

import parity
import peers
import pytest

pytest.importorskip("jax")
peers.enable_jax_float64()


CASES = [(graph, "float64") for graph in parity.GRAPHS] + [("directed", "float32"), ("undirected", "float32")]


@pytest.mark.parametrize("zeroth", parity.ZEROTH)
@pytest.mark.parametrize(("graph", "dtype"), CASES)
def test_filter(graph: str, dtype: str, zeroth: str) -> None:
    """Orders 0..4, with and without bias, both backends: jax.vjp against backward, jax.jvp against jvp.

    JAX compiles anew for every shape: two graphs have all orders, and float32 too; parity.py takes them all.
    """
    orders = range(5) if graph in ("directed", "undirected") else (1, 3)
    for case in parity.cases(graph, zeroth, dtype, banks=[(2, 3)]):
        if case.order not in orders:
            continue
        problem = parity.Problem(case)
        theirs, tangent = problem.peer("jax"), problem.jax_tangent()
        for backend in parity.BACKENDS:
            errors = parity.relative_errors(problem.ours(backend), theirs)
            errors["jvp"] = parity.relative_error(problem.our_tangent(backend), tangent)
            assert max(errors.values()) <= parity.TOLERANCE[dtype], (case, backend, errors)


@pytest.mark.parametrize("bank", parity.BANKS[:-1])
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
def test_banks(zeroth: str, bank: tuple[int, int]) -> None:
    """For the same reason the sizes of the bank vary on one graph and at one order alone."""
    for bias in (False, True):
        case = parity.Case("directed", zeroth, 3, *bank, bias)
        problem = parity.Problem(case)
        theirs, tangent = problem.peer("jax"), problem.jax_tangent()
        for backend in parity.BACKENDS:
            errors = parity.relative_errors(problem.ours(backend), theirs)
            errors["jvp"] = parity.relative_error(problem.our_tangent(backend), tangent)
            assert max(errors.values()) <= parity.TOLERANCE["float64"], (case, backend, errors)


@pytest.mark.parametrize(
    ("act", "loss", "dtype"),
    [
        *((act, loss, "float64") for act in ("relu", "leaky_relu", "tanh", "sigmoid") for loss in parity.LOSSES),
        ("relu", "cross_entropy", "float32"),
        ("tanh", "mean_squared_error", "float32"),
    ],
)
def test_network(act: str, loss: str, dtype: str) -> None:
    """EV -> activation -> Dense -> loss: the loss and the gradient of x and of every parameter."""
    problem = parity.NetworkProblem(act, loss, dtype)
    theirs = problem.by_jax()
    for backend in parity.BACKENDS:
        errors = parity.relative_errors(problem.ours(backend), theirs)
        assert max(errors.values()) <= parity.TOLERANCE[dtype], (backend, errors)
