"""No filter without a torch and a JAX twin, and none that differs from them."""

from __future__ import annotations

import family
import peers
import pytest

import evref as ev

peers.enable_jax_float64()
PYG = family.collected("PYG")


@pytest.mark.parametrize("kind", ["TORCH", "JAX"])
@pytest.mark.parametrize("name", ev.catalogue)
def test_against_autodiff(name, kind):
    error = family.peer_error(kind, name)
    assert error is not None, f"{name} has no {kind} implementation in validation/peers_*.py"
    assert error < 1e-10


@pytest.mark.parametrize("name", sorted(PYG))
def test_against_pyg(name):
    pytest.importorskip("torch_geometric")
    assert family.peer_error("PYG", name) < 1e-10


def test_no_peer_without_a_filter():
    for kind in ("TORCH", "JAX", "PYG"):
        assert set(family.collected(kind)) <= set(ev.catalogue), kind
