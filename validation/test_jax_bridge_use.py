"""evref's JAX functions in use: kinds of x, dtypes, scan, vmap."""

from __future__ import annotations

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


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 5)])
def test_layers_for_any_shape(shape):
    relu, x = as_jax(ev.ReLU()), np.asarray(signals(*shape))
    for wrap in (lambda g: g, jax.jit):
        assert equal(wrap(lambda x: relu({}, x))(x), np.maximum(x, 0))
        assert equal(wrap(jax.grad(lambda x: relu({}, x).sum()))(x), np.where(x > 0, 1.0, 0.0))
    several = signals(4, *shape)
    assert equal(jax.vmap(lambda x: relu({}, x))(several), np.maximum(several, 0))


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
