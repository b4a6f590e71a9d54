"""What evref cannot take from JAX is refused by name, and before a callback: errors inside one are undefined in JAX."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402 - needs jax
from jax_examples import FILTER, GRAPH, NET, X, equal, in_float64  # noqa: E402, F401

import evref as ev  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

f, net = as_jax(FILTER), as_jax(NET)
PARAMS, OF_NET = FILTER.init(0), NET.init(0)
RUNS = {
    "plain": f,
    "jit": jax.jit(f),
    "grad": jax.grad(lambda params, x: f(params, x).sum()),
    "jit grad": jax.jit(jax.grad(lambda params, x: f(params, x).sum())),
    "vmap": lambda params, x: jax.vmap(f, (None, 0))(params, x[None]),
    "jacfwd": jax.jacfwd(f),
}
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


# ---- what comes in ---------------------------------------------------------------------------------------------------
@each_run
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((3, 2, 5)), r"x has shape \(3, 2, 5\); EdgeVariant expects \(batch, 1, 5\) or \(1, 5\)"),
        (np.ones((5, 3)), r"x has shape \(5, 3\); EdgeVariant expects"),
        (np.ones(4), r"x has shape \(4,\); EdgeVariant expects"),
    ],
)
def test_shapes_of_x(run, x, words):
    with pytest.raises(ValueError, match=words):
        run(PARAMS, jnp.asarray(x))


@each_run
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "complex128"])
def test_dtypes_of_x(run, dtype):
    with pytest.raises(TypeError, match=f"x has dtype {dtype}; supported are float32, float64, integers and bools"):
        run(PARAMS, jnp.asarray(X, dtype))


def test_keys():
    with pytest.raises(TypeError, match=r"x has dtype key<fry>; supported are"):
        f(PARAMS, jax.random.key(0))


@each_run
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"phi": PARAMS["phi"]}, r"params has the names \['phi'\]; EdgeVariant expects \['bias', 'phi'\]"),
        ({**PARAMS, "theta": PARAMS["phi"]}, r"params has the names \['bias', 'phi', 'theta'\]; EdgeVariant expects"),
        ({**PARAMS, "phi": PARAMS["phi"][:1]}, r"params\['phi'\] has shape \(1, 2, .*; expected \(2, 2, 1, 16\)"),
    ],
)
def test_parameters(run, params, words):
    with pytest.raises(ValueError, match=words):
        run(params, X)


def test_dtypes_of_parameters():
    with pytest.raises(TypeError, match=r"params\['phi'\] has dtype float16; supported are"):
        jax.jit(f)({**PARAMS, "phi": PARAMS["phi"].astype(np.float16)}, X)


def test_a_layer_inside_a_network_is_named():
    with pytest.raises(ValueError, match=r"params has the names \[\]; Network expects \['0.phi', '2.bias', "):
        net({}, X)
    with pytest.raises(ValueError, match=r"x has shape \(2, 5\); Network expects \(batch, 1, 5\)"):
        net(OF_NET, np.ones((2, 5)))


@pytest.mark.parametrize("params", [None, [1.0], PARAMS["phi"]])
def test_parameters_that_are_no_dict(params):
    with pytest.raises(TypeError, match=f"params is {type(params).__name__}; expected a dict of named arrays"):
        f(params, X)


@pytest.mark.parametrize("module", [3, "gcn", None, ev.EdgeVariant])
def test_no_module(module):
    with pytest.raises(TypeError, match="module is .*; expected a filter, a layer or a network"):
        as_jax(module)


def test_without_jax():
    code = "import sys; sys.modules['jax'] = None; import evref.bridges; import evref.bridges.jax"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    assert "evref.bridges.jax needs JAX, which is not installed; the extra evref[jax] brings it" in run.stderr


def test_evref_alone_does_not_import_jax():
    code = "import sys, evref, evref.bridges; evref.Tanh(); print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


# ---- numbers that are not finite -------------------------------------------------------------------------------------
def test_numbers_that_are_not_finite_pass():
    """With the same numbers in and out of jit, and nothing said by NumPy, whose warnings are errors here."""
    for bad in (np.nan, np.inf):
        x = X.copy()
        x[0, 0, 0] = bad
        y = f(PARAMS, x)
        assert not np.isfinite(y[0]).all() and np.isfinite(y[1:]).all()
        assert equal(jax.jit(f)(PARAMS, x), y)
        grads = RUNS["grad"](PARAMS, x)
        assert not np.isfinite(grads["phi"]).all() and equal(RUNS["jit grad"](PARAMS, x), grads)


@pytest.mark.parametrize("cls", [*ev.catalogue.values(), *ev.layer_catalogue.values()])
def test_no_warnings_of_numbers_that_are_not_finite(cls):
    """NumPy's are errors in these tests; so are those that evref gives outside the bridge."""
    module = next(cls.examples(GRAPH, np.random.default_rng(0)))
    x = np.full((1, *(module.in_shape or (2, 5))), np.inf)
    slope = jax.grad(lambda x: (as_jax(module)(module.init(0), x) ** 2).sum())(x)
    assert slope.shape == x.shape


ROTATION = ev.CayleyNet(ev.Graph(np.array([[0.0, -1.0], [1.0, 0.0]])), order=2, iterations=None)
SINGULAR = {**ROTATION.init(0), "h": np.ones(1)}  # h S + iI has the eigenvalue 0


def test_numbers_that_have_no_answer():
    """evref's own error outside jit, NaN inside."""
    rotate = as_jax(ROTATION)
    gradient = jax.grad(lambda params, x: rotate(params, x).sum())
    for run in (rotate, gradient):
        with pytest.raises(ValueError, match="hS \\+ iI is singular at h = 1"):
            run(SINGULAR, np.ones(2))
        assert all(np.isnan(a).all() for a in jax.tree.leaves(jax.jit(run)(SINGULAR, np.ones(2))))
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(jax.jit(run)(ROTATION.init(0), np.ones(2))))


# ---- derivatives that there are not ----------------------------------------------------------------------------------
def third(*derivatives):
    def total(x):
        return net(OF_NET, x).sum()

    for by in derivatives:
        total = by(lambda x, inner=total: inner(x).sum())
    return total


@pytest.mark.parametrize("wrap", [lambda g: g, jax.jit], ids=["plain", "jit"])
@pytest.mark.parametrize(
    "by", [(jax.grad,) * 3, (jax.jacfwd,) * 3, (jax.grad, jax.grad, jax.jacfwd), (jax.jacfwd, jax.grad, jax.grad)]
)
def test_third_derivatives(by, wrap):
    with pytest.raises(NotImplementedError, match="derivative of order 3 of Network; expected order 2 at most: evref"):
        wrap(third(*by))(X)
    assert np.isfinite(wrap(third(*by[:2]))(X)).all()


class TangentForRealOnly(ev.Tanh):
    def _jvp(self, params, x, dparams, dx):
        return super()._jvp(params, x, dparams, dx).real.copy()


class Modulus(ev.Tanh):
    """y = x |x|, whose modulus a complex step does not see through."""

    def _value_and_derivative(self, x):
        return x * np.abs(x), 2 * np.abs(x).astype(x.dtype)


@pytest.mark.parametrize("wrap", [lambda g: g, jax.jit], ids=["plain", "jit"])
@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (TangentForRealOnly, "which did not take complex128"),
        (Modulus, "which gave for complex128 something else than differences do"),
    ],
)
def test_modules_that_are_not_analytic(cls, words, wrap):
    """Their first derivatives are right; the second ones would be wrong."""
    layer = as_jax(cls())
    slope = jax.grad(lambda x: layer({}, x).sum())
    assert np.isfinite(wrap(slope)(X)).all()
    with pytest.raises(TypeError, match=f"{cls.__name__} has no second derivatives here: .* {words}"):
        wrap(jax.grad(lambda x: slope(x).sum()))(X)


def test_a_kink_is_no_reason_to_refuse():
    """Pointwise maxima and the like are analytic piece by piece."""
    relu = as_jax(ev.ReLU())
    assert equal(jax.hessian(lambda x: (relu({}, x) ** 2).sum())(X[0, 0]), np.diag(2.0 * (X[0, 0] > 0)))


# ---- what JAX has and evref has not ----------------------------------------------------------------------------------
def test_export():
    """Programs with callbacks run in the process that made them."""
    export = pytest.importorskip("jax.export").export
    with pytest.raises(NotImplementedError, match="serialization of host_callbacks is not yet implemented"):
        export(jax.jit(f))(PARAMS, X).serialize()


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="an older JAX")
def test_shard_map_that_keeps_account_of_axes():
    """Without its account, check_vma=False, all is right: test_jax_bridge_memory.py."""
    mesh, P = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("devices",)), jax.sharding.PartitionSpec
    sharded = jax.shard_map(f, mesh=mesh, in_specs=(P(), P("devices")), out_specs=P("devices"))
    with pytest.raises(NotImplementedError, match=r"values that vary along 'devices'; .* check_vma=False"):
        sharded(PARAMS, X)


def test_linear_transpose_of_what_is_not_linear():
    with pytest.raises(ValueError, match="expected a linear function"):
        jax.linear_transpose(lambda x: f(PARAMS, x), X)(jnp.ones((3, 2, 5)))
