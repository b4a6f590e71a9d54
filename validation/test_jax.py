"""evref against JAX: outputs, reverse-mode gradients and forward-mode tangents of edge-variant filters."""

from __future__ import annotations

import parity
import peers
import pytest

pytest.importorskip("jax")
pytest.importorskip("torch")  # for Σ|terms|
peers.enable_jax_float64()

SEEDS = 10
CASES = [(graph, "float64") for graph in parity.GRAPHS] + [("directed", "float32"), ("undirected", "float32")]


@pytest.mark.parametrize("zeroth", parity.ZEROTH)
@pytest.mark.parametrize(("graph", "dtype"), CASES)
def test_filter(graph: str, dtype: str, zeroth: str) -> None:
    """Orders 0..4, with and without bias, both backends: jax.vjp against backward, jax.jvp against jvp.

    JAX compiles anew for every shape: two graphs have all orders, and float32 too; parity.py takes them all.
    """
    orders = range(5) if graph in ("directed", "undirected") else (1, 3)
    for case in parity.cases(graph, zeroth, dtype, banks=[(2, 3)]):
        if case.order in orders:
            parity.filter_errors(case, ("jax",), SEEDS)


@pytest.mark.parametrize("bank", parity.BANKS[:-1])
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
def test_banks(zeroth: str, bank: tuple[int, int]) -> None:
    """For the same reason the sizes of the bank vary on one graph and at one order alone."""
    for bias in (False, True):
        parity.filter_errors(parity.Case("directed", zeroth, 3, *bank, bias), ("jax",), SEEDS)
