"""evref's JAX functions in use: kinds of x, dtypes, scan, vmap, training, memory, threads, devices."""

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

import jax.numpy as jnp  # noqa: E402 - needs jax
from jax_examples import FILTER, GRAPH, NET, X, equal, float64, in_float64, signals  # noqa: E402, F401

import evref as ev  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

f, net = as_jax(FILTER), as_jax(NET)
PARAMS, OF_NET = FILTER.init(0), NET.init(0)


def loss(params, x):
    return (f(params, x) ** 2).sum()


# ---- inputs ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrap", [lambda g: g, jax.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("features", [1, 2])
@pytest.mark.parametrize("shape", [(3, 1, 5), (0, 1, 5), (1, 5), (5,)])
def test_every_kind_of_x_comes_back_in_kind(shape, features, wrap):
    filt = ev.EdgeVariant(GRAPH, order=2, out_features=features)
    params, x = filt.init(0), signals(*shape)
    y = wrap(as_jax(filt))(params, x)
    assert equal(y, filt(params, x))
    grads = wrap(jax.grad(lambda params, x: as_jax(filt)(params, x).sum(), (0, 1)))(params, x)
    _, tape = filt.forward(params, x)
    assert equal(grads, filt.backward(params, tape, np.ones(y.shape)))


def test_tables_are_read_by_name():
    pandas = pytest.importorskip("pandas")
    filt = ev.EdgeVariant(ev.Graph(GRAPH.S, nodes=list("abcde")), order=2)
    table = pandas.DataFrame(signals(3, 5), columns=list("edcba"))
    assert equal(as_jax(filt)(filt.init(0), table), filt(filt.init(0), table))


def test_double_precision_is_off_unless_asked_for():
    """JAX's own rule: float64 becomes float32, second derivatives included."""
    curvature = jax.jit(jax.hessian(loss, 1))
    exact = np.asarray(curvature(PARAMS, X))
    with float64(False):
        for run in (f, jax.jit(f), jax.grad(loss), jax.jit(jax.grad(loss)), curvature):
            assert {a.dtype for a in jax.tree.leaves(run(PARAMS, X))} == {np.dtype(np.float32)}
        single = {name: p.astype(np.float32) for name, p in PARAMS.items()}
        assert equal(f(PARAMS, X), FILTER(single, X.astype(np.float32)))
        rounded = np.asarray(curvature(PARAMS, X))
    assert np.abs(rounded - exact).max() < 1e-5 * np.abs(exact).max()


def test_dtypes_mix_as_in_numpy():
    assert f(PARAMS, X.astype(np.float32)).dtype == np.float64
    assert f(PARAMS, np.ones((3, 1, 5), int)).dtype == np.float64
    single = {name: p.astype(np.float32) for name, p in PARAMS.items()}
    grads = jax.jit(jax.grad(loss))(single, X)
    assert {g.dtype for g in grads.values()} == {np.dtype(np.float32)}


# ---- JAX's transformations together ----------------------------------------------------------------------------------
FILTER_OF_ONE = ev.EdgeVariant(GRAPH, order=2)
step, OF_ONE = as_jax(FILTER_OF_ONE), {"phi": 0.3 * FILTER_OF_ONE.init(0)["phi"]}


def by_scan(params, x):
    """The filter applied four times, the signal after each."""
    return jax.lax.scan(lambda x, _: (jnp.tanh(step(params, x)),) * 2, x, None, length=4)[1]


def by_loop(params, x):
    kept = []
    for _ in range(4):
        x = jnp.tanh(step(params, x))
        kept.append(x)
    return jnp.stack(kept)


@pytest.mark.parametrize("x", [X, X[0, 0]], ids=["batch", "one"])
def test_scan(x):
    def total(run):
        return lambda params, x: (run(params, x) ** 2).sum()

    for derivative in (lambda g: g, jax.grad, lambda g: jax.jacfwd(jax.grad(g)), lambda g: jax.jacrev(jax.grad(g))):
        found, expected = (jax.jit(derivative(total(run)))(OF_ONE, x) for run in (by_scan, by_loop))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_control_flow_and_checkpoints():
    def branch(params, x):
        return jax.lax.cond(x.sum() > 0, lambda x: f(params, x), lambda x: 2 * f(params, x), x)

    assert equal(jax.jit(branch)(PARAMS, np.abs(X)), f(PARAMS, np.abs(X)))
    assert equal(jax.jit(branch)(PARAMS, -np.abs(X)), 2 * f(PARAMS, -np.abs(X)))
    assert equal(jax.lax.map(lambda x: f(PARAMS, x), X), f(PARAMS, X))
    remembered = jax.jit(jax.grad(lambda params, x: (jax.checkpoint(f)(params, x) ** 2).sum()))
    assert equal(remembered(PARAMS, X), jax.jit(jax.grad(loss))(PARAMS, X))


def stacked(n: int):
    several = [FILTER.init(seed) for seed in range(n)]
    return several, jax.tree.map(lambda *leaves: np.stack(leaves), *several)


def test_vmap_of_parameters_and_signals_together():
    """Each alone, both in step, and one inside the other, over other axes than the first as well."""
    several, params = stacked(4)
    xs = signals(4, 3, 1, 5)
    gradient = jax.grad(loss, (0, 1))
    in_step = jax.jit(jax.vmap(gradient))(params, xs)
    all_pairs = jax.jit(jax.vmap(jax.vmap(gradient, (None, 0)), (0, None)))(params, xs)
    last = {name: np.moveaxis(p, 0, -1) for name, p in params.items()}
    moved = jax.vmap(gradient, ({"bias": 1, "phi": 4}, 2))(last, np.moveaxis(xs, 0, 2))
    for i, own in enumerate(several):
        here = gradient(own, xs[i])
        assert equal(jax.tree.map(lambda a: a[i], in_step), here)
        assert equal(jax.tree.map(lambda a: a[i], moved), here)
        for j in range(4):
            assert equal(jax.tree.map(lambda a: a[i, j], all_pairs), gradient(own, xs[j]))


def test_the_gradient_through_vmap():
    """What is not mapped gets a sum: of parameters that all share, and of a signal that all share."""
    several, params = stacked(4)
    xs = signals(4, 3, 1, 5)

    def total(params, xs, axes):
        return (jax.vmap(f, axes)(params, xs) ** 2).sum()

    shared = jax.jit(jax.grad(total), static_argnums=2)(PARAMS, xs, (None, 0))
    expected = jax.tree.map(lambda *g: sum(g), *(jax.grad(loss)(PARAMS, x) for x in xs))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), shared, expected)
    of_x = jax.jit(jax.grad(total, 1), static_argnums=2)(params, xs[0], (0, None))
    np.testing.assert_allclose(of_x, sum(jax.grad(loss, 1)(p, xs[0]) for p in several), rtol=1e-12)


def test_a_batch_by_vmap_is_one_pass():
    """Signals side by side are folded into the batch; only sets of parameters take a pass each."""
    passes = []

    class Counted(ev.EdgeVariant):
        def forward(self, params, x, **options):
            passes.append(np.shape(x))
            return super().forward(params, x, **options)

    counted = as_jax(Counted(GRAPH, order=1))
    params = Counted(GRAPH, order=1).init(0)
    jax.vmap(counted, (None, 0))(params, signals(7, 3, 1, 5))
    assert passes == [(21, 1, 5)]
    jax.vmap(counted, (0, None))({"phi": np.stack([params["phi"]] * 4)}, X)
    assert passes[1:] == [(3, 1, 5)] * 4


# ---- training --------------------------------------------------------------------------------------------------------
def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 40)
    x = rng.standard_normal((40, 1, 5)) + np.eye(2, 5)[label][:, None]
    return x.astype(dtype), label


def cross_entropy(params, x, label):
    return -jax.nn.log_softmax(net(params, x))[jnp.arange(len(label)), label].mean()


def test_training_in_plain_jax():
    """The loss falls, and after 30 steps the weights are those of evref's own steps."""
    (x, label), own, sgd, entropy = data(), OF_NET, ev.SGD(0.1), ev.CrossEntropy()
    state, losses, own_losses = sgd.init(own), [], []
    value_and_grad = jax.jit(jax.value_and_grad(cross_entropy))
    params = OF_NET
    for _ in range(30):
        value, grads = value_and_grad(params, x, label)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        losses.append(float(value))
        y, tape = NET.forward(own, x)
        value, of_loss = entropy.forward(y, label)
        own, state = sgd.step(own, NET.backward(own, tape, entropy.backward(of_loss))[0], state)
        own_losses.append(value)
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_allclose(losses, own_losses, rtol=1e-12)
    for name, weights in own.items():
        np.testing.assert_allclose(params[name], weights, rtol=1e-12, atol=1e-12)


def test_training_as_one_program():
    """The whole loop inside `jit`, by `lax.scan`, and an ensemble of it, by `vmap`, learn the same."""
    x, label = data()

    @jax.jit
    def trained(params):
        def one_step(params, _):
            value, grads = jax.value_and_grad(cross_entropy)(params, x, label)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

        return jax.lax.scan(one_step, params, None, length=10)

    several = [NET.init(seed) for seed in range(3)]
    together = jax.jit(jax.vmap(trained))(jax.tree.map(lambda *leaves: np.stack(leaves), *several))
    for i, params in enumerate(several):
        alone = trained(params)
        assert (np.diff(alone[1]) < 0).all()
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-12, atol=1e-13)


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
