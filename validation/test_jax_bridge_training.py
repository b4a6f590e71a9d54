"""Networks of evref in loops of plain JAX learn what they learn with evref's own steps."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402 - needs jax
from jax_examples import NET, in_float64  # noqa: E402, F401

import evref as ev  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

net, OF_NET = as_jax(NET), NET.init(0)


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
