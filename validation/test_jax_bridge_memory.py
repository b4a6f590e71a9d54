"""Memory, threads and devices around the JAX bridge."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax_examples import FILTER, GRAPH, X, equal, in_float64, signals  # noqa: E402, F401

import evref as ev  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

f, PARAMS = as_jax(FILTER), FILTER.init(0)


def loss(params, x):
    return (f(params, x) ** 2).sum()


# ---- memory ----------------------------------------------------------------------------------------------------------
def test_results_have_memory_of_their_own():
    """JAX takes an array of NumPy as it is, without a copy: nothing may be written there later."""
    run = jax.value_and_grad(loss, (0, 1))
    for call in (run, jax.jit(run)):
        first = call(PARAMS, X)
        kept = jax.tree.map(lambda a: np.array(a, copy=True), first)
        for seed in range(5):
            call(FILTER.init(seed), signals(3, 1, 5, seed=seed))
        assert equal(first, kept)


def test_arguments_stay_as_they_are():
    x, params = X.copy(), {name: p.copy() for name, p in PARAMS.items()}
    jax.jit(jax.hessian(loss))(params, x)
    jax.grad(loss, (0, 1))(params, x)
    assert equal((params, x), (PARAMS, X))


@pytest.mark.skipif(jax.__version_info__ < (0, 6), reason="JAX 0.5 keeps programs for ever")
def test_a_module_is_let_go_with_the_caches_of_jax():
    filt = ev.EdgeVariant(GRAPH, order=1)
    kept, functions = weakref.ref(filt), [as_jax(filt)]
    jax.jit(jax.grad(lambda params, x: functions[0](params, x).sum()))(filt.init(0), X)
    functions.clear()
    del filt
    jax.clear_caches()
    gc.collect()
    assert kept() is None


# ---- threads, devices ------------------------------------------------------------------------------------------------
def test_threads():
    """Callers side by side get what each gets alone; second derivatives change kernels for their own thread only."""
    gradient, curvature = jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))

    def work(seed):
        params, x = FILTER.init(seed), signals(3, 1, 5, seed=seed)
        return gradient(params, x), curvature(params, x), jax.grad(loss)(params, x)

    expected = [work(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert all(map(equal, pool.map(work, range(8)), expected))
    assert ev.kernels.backend() == "numba" or os.environ.get("EVREF_BACKEND") == "numpy"


def test_kernels_with_threads_inside_a_callback():
    """Enough work for evref's own threads; the bits are those of one thread."""
    graph = ev.generators.erdos_renyi(300, 0.05, rng=0)
    filt = ev.EdgeVariant(graph, order=3, in_features=2, out_features=4)
    params, x, large = filt.init(0), signals(64, 2, 300), as_jax(filt)
    y, tape = filt.forward(params, x)
    value, pull = jax.jit(lambda params, x: jax.vjp(large, params, x))(params, x)
    assert equal(value, y) and equal(pull(y), filt.backward(params, tape, y))


TWO_DEVICES = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax_examples import FILTER, signals
from evref.bridges.jax import as_jax

f, params, x = as_jax(FILTER), FILTER.init(0), signals(4, 1, 5)
devices = jax.devices()
assert len(devices) == 2
expected = jax.value_and_grad(lambda params, x: (f(params, x) ** 2).sum(), (0, 1))(params, x)
mesh = Mesh(np.array(devices), ("devices",))

def by_shards(params, x):
    y = jax.shard_map(f, mesh=mesh, in_specs=(P(), P("devices")), out_specs=P("devices"), check_vma=False)(params, x)
    return (y ** 2).sum()

if hasattr(jax, "shard_map"):
    found = jax.jit(jax.value_and_grad(by_shards, (0, 1)))(params, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), found, expected)
spread = jax.device_put(x, NamedSharding(mesh, P("devices")))
for call in (f, jax.jit(f)):
    np.testing.assert_allclose(call(params, spread), f(params, x), rtol=1e-12)
on_second = jax.jit(f)(params, jax.device_put(x, devices[1]))
assert on_second.devices() == {devices[1]}
print("right")
"""


def test_two_devices():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    environment["PYTHONPATH"] = os.path.dirname(__file__)
    run = subprocess.run([sys.executable, "-c", TWO_DEVICES], capture_output=True, text=True, env=environment)
    assert run.stdout.strip() == "right", run.stderr
