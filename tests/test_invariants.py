"""What must hold for every filter and every layer, in every configuration that `examples` yields.

A new one is tested by being in the catalogue. A test's `name` is the catalogue's with the configuration behind it; what
is expensive, or a property of the class, runs for the first example alone.
"""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from functools import cache
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params, tangent_like

import evref as ev
from evref import checks
from evref.filters import hybrid
from evref.kernels import compiled
from evref.verify.examples import named_examples, probe_graph


def configurations(catalogue: dict) -> dict[str, tuple[type, int]]:
    """Class and number of every example, by a name that can be read in a test's id."""
    return {
        f"{name}({label})" if label else name: (cls, i)
        for name, cls in sorted(catalogue.items())
        for i, label in enumerate(named_examples(cls, probe_graph(6, "undirected")))
    }


FILTERS, LAYERS = configurations(ev.catalogue), configurations(ev.layer_catalogue)
CONFIGURATIONS = {**FILTERS, **LAYERS}
EVERYTHING = [("filter", name) for name in FILTERS] + [("layer", name) for name in LAYERS]
each_module = pytest.mark.parametrize(("kind", "name"), EVERYTHING, ids=[f"{k}-{n}" for k, n in EVERYTHING])
each_filter = pytest.mark.parametrize("name", FILTERS)
each_filter_class = pytest.mark.parametrize("name", [name for name, (_, i) in FILTERS.items() if i == 0])
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_backend = pytest.mark.parametrize("backend", ["numpy", "numba"])


@cache
def example(name: str, graph: ev.Graph) -> ev.Filter:
    cls, i = CONFIGURATIONS[name]
    return list(cls.examples(graph, np.random.default_rng(0)))[i]


def module_and_input(kind: str, name: str, graph: ev.Graph, batch: int = 3) -> tuple[ev.Module, dict, np.ndarray]:
    module = example(name, graph)
    shape = module.in_shape or (2, graph.n_nodes)
    return module, random_params(module), normal(1, batch, *shape)


def everything(module: ev.Module, params: dict, x: np.ndarray) -> dict[str, np.ndarray]:
    """Output, every gradient and the tangent, for one set of directions."""
    y, tape = module.forward(params, x)
    grads, grad_x = module.backward(params, tape, normal(2, *y.shape, dtype=y.dtype))
    dy = module.jvp(params, x, tangent_like(params), normal(3, *x.shape, dtype=x.dtype))
    return {"y": y, "grad_x": grad_x, "dy": dy, **{f"grad_{name}": value for name, value in grads.items()}}


# ---- gradients ------------------------------------------------------------------------------------------------------
@each_backend
@each_module
def test_gradients_without_that_of_the_input_are_the_same(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    with ev.use_backend(backend):
        y, tape = module.forward(params, x)
        u = normal(2, *y.shape)
        expected, _ = module.backward(params, tape, u)
        found = module._parameter_gradients(params, tape.saved, u)
    assert found.keys() == expected.keys() == params.keys()
    for key in params:
        np.testing.assert_array_equal(found[key], expected[key])


@each_backend
@each_graph
@each_module
def test_dot_test(kind, name, graph, backend):
    module, params, x = module_and_input(kind, name, graph)
    with ev.use_backend(backend):
        ev.gradcheck.dot_test(module, params, x, rtol=1e-12).raise_if_failed()


@each_backend
@each_graph
@each_module
def test_complex_step(kind, name, graph, backend):
    module, params, x = module_and_input(kind, name, graph, batch=2)
    with ev.use_backend(backend):
        ev.gradcheck.complex_step(module, params, x, rtol=1e-10).raise_if_failed()


@each_graph
@each_module
def test_central_difference(kind, name, graph):
    module, params, x = module_and_input(kind, name, graph, batch=2)
    ev.gradcheck.central_difference(module, params, x).raise_if_failed()


@each_graph
@each_module
def test_second_order(kind, name, graph):
    module, params, x = module_and_input(kind, name, graph)
    ev.gradcheck.second_order(module, params, x).raise_if_failed()


@each_backend
@each_module
def test_tape_test(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    with ev.use_backend(backend):
        ev.gradcheck.tape_test(module, params, x).raise_if_failed()


# ---- the examples are all there is to check --------------------------------------------------------------------------
CHOICES = {
    "edge_variant": {"zeroth": ("none", "identity", "diagonal")},
    "parallel_edge_variant": {"zeroth": ("none", "identity", "diagonal")},
    "shift_invariant_edge_variant": {"zeroth": ("none", "identity"), "repeated": ("free", "tied")},
    "hybrid_edge_variant": {"reading": get_args(hybrid.Reading)},
    "cayley": {"iterations": (None, 0, 1)},
    "monet": {"covariance": ("diagonal", "full"), "aggregation": ("sum", "mean")},
    "ecc": {"aggregation": ("sum", "mean"), "activation": ("tanh", "relu")},
}


@pytest.mark.parametrize("name", [*ev.catalogue, *ev.layer_catalogue])
def test_examples_show_every_option(name):
    """Every choice of a word, and both of every flag: a new option without an example fails here."""
    cls = {**ev.catalogue, **ev.layer_catalogue}[name]
    examples = list(cls.examples(probe_graph(), np.random.default_rng(0)))
    choices = dict(CHOICES.get(name, {}))
    for option, parameter in inspect.signature(cls).parameters.items():
        if isinstance(parameter.default, bool):
            choices[option] = (True, False)
        if isinstance(parameter.default, str):
            assert option in choices or option == "kernel", f"{name}: which {option} are there?"
    for option, values in choices.items():
        assert {getattr(filt, option) for filt in examples} >= set(values), f"{name}: {option}"


@each_graph
@pytest.mark.parametrize("name", [*ev.catalogue, *ev.layer_catalogue])
def test_number_of_examples_does_not_depend_on_the_graph(name, graph):
    cls = {**ev.catalogue, **ev.layer_catalogue}[name]
    assert len(list(cls.examples(graph, 0))) == len(list(cls.examples(probe_graph(), 0)))


# ---- what a filter computes -----------------------------------------------------------------------------------------
@each_backend
@each_graph
@each_filter
def test_output_is_the_matrix_times_the_signal(name, graph, backend):
    filt = example(name, graph)
    if not filt.linear:
        return
    params, x = random_params(filt), normal(1, 3, *filt.in_shape)
    with ev.use_backend(backend):
        y, tape = filt.forward(params, x)
        H = filt.matrix(params)
        u = normal(2, *y.shape)
        _, grad_x = filt.backward(params, tape, u)
    assert H.shape == (filt.out_features, filt.in_features, graph.n_nodes, graph.n_nodes)
    bias = params["bias"][:, None] if filt.bias else 0
    close(y, np.einsum("fgij,bgj->bfi", H, x) + bias)
    close(grad_x, np.einsum("fgij,bfi->bgj", H, u))


@each_filter_class
@given(graph=graphs(), a=st.floats(-3, 3), seed=st.integers(0, 99))
def test_linear_in_the_signal(name, graph, a, seed):
    filt = example(name, graph)
    if not filt.linear:
        return
    params = random_params(filt)
    x1, x2 = normal(seed, 2, *filt.in_shape), normal(seed + 1, 2, *filt.in_shape)
    y1, y2, y = (filt.forward(params, x)[0] for x in (x1, x2, a * x1 + x2))
    constant = filt.forward(params, np.zeros_like(x1))[0]
    close(y - constant, a * (y1 - constant) + (y2 - constant), rtol=1e-11)


@each_backend
@each_filter_class
@given(seed=st.integers(0, 999))
def test_local_to_the_bit(name, backend, seed):
    """A change more than `reach` hops away leaves the same bits."""
    graph = ev.generators.path(9)
    filt = example(name, graph)
    if filt.reach is None:
        return
    params, x = random_params(filt), normal(seed, 2, *filt.in_shape)
    node = seed % 9
    changed = x.copy()
    changed[..., node] += 1.0
    indptr, indices = graph.neighborhoods(filt.reach)
    near = np.array([node in indices[indptr[i] : indptr[i + 1]] for i in range(9)])
    with ev.use_backend(backend):
        y, y_changed = (filt.forward(params, signal)[0] for signal in (x, changed))
    np.testing.assert_array_equal(y[..., ~near], y_changed[..., ~near])
    assert (y[..., node] != y_changed[..., node]).any()


@each_filter_class
@given(graph=graphs(), seed=st.integers(0, 99))
def test_permutation(name, graph, seed):
    """Equivariant filters follow a renumbering of the nodes with the same parameters; the others must not."""
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    filt, moved = example(name, graph), example(name, graph.permuted(order))
    params, x = random_params(filt), normal(seed, 2, *filt.in_shape)
    there, here = moved.forward(params, x[..., order])[0], filt.forward(params, x)[0][..., order]
    if filt.equivariant:
        close(there, here)
    elif (order != np.arange(graph.n_nodes)).any():
        assert np.abs(there - here).max() > 1e-6


def embedding(filt: ev.Filter, params: dict) -> tuple[ev.Filter, dict] | None:
    """The filter as an edge-variant one; None where it says, with a reason, that it is not."""
    try:
        return filt.to_edge_variant(params)
    except ev.NotRepresentable as error:
        assert len(str(error)) > 20
        return None


@each_graph
@each_filter
def test_embedding_is_the_same_map(name, graph):
    filt = example(name, graph)
    params, x = random_params(filt), normal(1, 2, *filt.in_shape)
    embedded = embedding(filt, params)
    if embedded is None:
        return
    ev_filt, ev_params = embedded
    assert isinstance(ev_filt, (ev.EdgeVariant, ev.ParallelEdgeVariant))
    assert ev_filt.graph.fingerprint == filt.graph.fingerprint
    close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-10)
    close(ev_filt.forward(ev_params, x)[0], filt.forward(params, x)[0], rtol=1e-10)


@each_graph
@each_filter_class
def test_gradient_pulled_back_through_the_embedding(name, graph):
    """dL/dparams = (d ev_params / d params)^T dL/d ev_params, the map differentiated by complex step."""
    filt = example(name, graph)
    params, x = random_params(filt), normal(1, 2, *filt.in_shape)
    embedded = embedding(filt, params)
    if embedded is None:
        return
    ev_filt, ev_params = embedded
    y, tape = filt.forward(params, x)
    u = normal(2, *y.shape)
    grads, grad_x = filt.backward(params, tape, u)
    ev_grads, ev_grad_x = ev_filt.backward(ev_params, ev_filt.forward(ev_params, x)[1], u)
    close(ev_grad_x, grad_x, rtol=1e-9)
    for key, grad in grads.items():
        pulled = np.zeros(grad.size)
        for entry in range(grad.size):
            moved = {k: value.astype(complex) for k, value in params.items()}
            moved[key].flat[entry] += 1e-30j
            with checks.complex_allowed():
                _, ev_moved = filt.to_edge_variant(moved)
            pulled[entry] = sum(np.vdot(ev_moved[k].imag / 1e-30, ev_grads[k]) for k in ev_grads)
        close(pulled.reshape(grad.shape), grad, rtol=1e-8)


# ---- one result, however it is asked for ----------------------------------------------------------------------------
@each_graph
@each_module
def test_backends_agree(kind, name, graph):
    module, params, x = module_and_input(kind, name, graph)
    results = {}
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            results[backend] = everything(module, params, x)
    for key, expected in results["numpy"].items():
        close(results["numba"][key], expected, rtol=1e-13)


@each_backend
@each_module
def test_batch_is_a_loop(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"], batch=5)
    with ev.use_backend(backend):
        y, tape = module.forward(params, x)
        u = normal(2, *y.shape)
        grads, grad_x = module.backward(params, tape, u)
        total = {key: np.zeros_like(value) for key, value in grads.items()}
        for b in range(len(x)):
            y_one, tape_one = module.forward(params, x[b : b + 1])
            grads_one, grad_x_one = module.backward(params, tape_one, u[b : b + 1])
            close(y_one[0], y[b], rtol=1e-13)
            close(grad_x_one[0], grad_x[b], rtol=1e-13)
            for key in total:
                total[key] += grads_one[key]
    for key, value in grads.items():
        close(value, total[key])


@each_module
def test_threads_do_not_change_a_bit(kind, name, monkeypatch):
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    module, params, x = module_and_input(kind, name, GRAPHS["directed"], batch=130)
    results = []
    for n in (1, 2, 3):
        with ev.use_backend("numba"), ev.use_threads(n):
            results.append(everything(module, params, x))
    for other in results[1:]:
        for key, expected in results[0].items():
            np.testing.assert_array_equal(other[key], expected, err_msg=key)


@each_backend
@each_module
def test_float32_stays_float32(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["undirected"])
    narrow = {key: value.astype(np.float32) for key, value in params.items()}
    with ev.use_backend(backend):
        results = everything(module, narrow, x.astype(np.float32))
        expected = everything(module, params, x)
    floor = 0.1 * max(np.abs(value).max(initial=0) for value in expected.values())  # a gradient may vanish
    for key, value in results.items():
        assert value.dtype == np.float32, key
        close(value, expected[key].astype(np.float32), rtol=2e-5, floor=floor)


@each_module
def test_one_sample_comes_back_in_kind(kind, name):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"], batch=1)
    if module.in_shape is None:
        return
    batch, tape = module.forward(params, x)
    single, tape_one = module.forward(params, x[0])
    np.testing.assert_array_equal(single, batch[0])
    u = normal(2, *batch.shape)
    grads, grad_x = module.backward(params, tape, u)
    grads_one, grad_x_one = module.backward(params, tape_one, u[0])
    np.testing.assert_array_equal(grad_x_one, grad_x[0])
    for key, value in grads.items():
        np.testing.assert_array_equal(grads_one[key], value)


@each_backend
@each_module
def test_empty_batch(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"], batch=0)
    with ev.use_backend(backend):
        y, tape = module.forward(params, x)
        assert y.shape == (0, *(module.out_shape or x.shape[1:]))
        grads, grad_x = module.backward(params, tape, y)
        assert module.jvp(params, x, params, x).shape == y.shape
    assert grad_x.shape == x.shape
    assert all((value == 0).all() for value in grads.values())


# ---- manners --------------------------------------------------------------------------------------------------------
@each_backend
@pytest.mark.parametrize("batch", [2, 40])
@pytest.mark.parametrize("graph", [GRAPHS["directed"], GRAPHS["no edges"]], ids=["directed", "no edges"])
@each_module
def test_nothing_that_is_not_finite_gets_through_the_doors(kind, name, graph, batch, backend):
    """Some look at what comes out instead of what goes in: whatever it meets on its way, zeros too, it must be seen."""
    module, params, x = module_and_input(kind, name, graph, batch)
    rng = np.random.default_rng(7)
    arrays = {**params, "x": x}
    arrays = {key: np.where(rng.random(a.shape) < 0.5, 0.0, a) for key, a in arrays.items()}
    if name.startswith("monet"):  # widths of zero are no kernels
        arrays |= {key: params[key] for key in params}
    x = arrays.pop("x")
    with ev.use_backend(backend):
        y, tape = module.forward(arrays, x)
        u = np.where(rng.random(y.shape) < 0.5, 0.0, normal(2, *y.shape))
        for key, array in {**arrays, "x": x, "grad_y": u}.items():
            places = rng.choice(array.size, min(5, array.size), replace=False)
            for place, bad in zip(places, (np.nan, np.inf, -np.inf, np.nan, np.inf), strict=False):
                changed = array.copy()
                changed.flat[place] = bad
                given = {**arrays, key: changed} if key in arrays else arrays
                argument = f"params['{key}']" if key in arrays else key
                if key != "grad_y":
                    with pytest.raises(ValueError, match=rf"^{re.escape(argument)} has 1 value.*the first {bad} "):
                        module.forward(given, changed if key == "x" else x)
                if key != "x":
                    with pytest.raises(ValueError, match=rf"^{re.escape(argument)} has 1 value.*the first {bad} "):
                        module.backward(given, tape, changed if key == "grad_y" else u)


@each_backend
@each_module
def test_inputs_are_never_changed(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    before = {key: value.copy() for key, value in params.items()}, x.copy()
    with ev.use_backend(backend):
        y, tape = module.forward(params, x)
        u = np.ones_like(y)
        module.backward(params, tape, u)
        module.jvp(params, x, params, x)
    np.testing.assert_array_equal(x, before[1])
    np.testing.assert_array_equal(u, 1.0)
    for key, value in params.items():
        np.testing.assert_array_equal(value, before[0][key])


@each_backend
@each_module
def test_the_tape_outlives_its_input(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    with ev.use_backend(backend):
        y, tape = module.forward(params, x)
        u = normal(2, *y.shape)
        expected = module.backward(params, tape, u)
        x[...] = np.nan
        y[...] = np.nan
        grads, grad_x = module.backward(params, tape, u)
    np.testing.assert_array_equal(grad_x, expected[1])
    for key, value in grads.items():
        np.testing.assert_array_equal(value, expected[0][key])


def _read_only(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def _strided(a):
    wide = np.zeros((*a.shape, 2), a.dtype)
    wide[..., 0] = a
    return wide[..., 0]


def _unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)
    shifted = memory[1:].view(a.dtype).reshape(a.shape)
    shifted[...] = a
    return shifted


LAYOUTS = {
    "read-only": _read_only,
    "Fortran": np.asfortranarray,
    "strided": _strided,
    "backwards": lambda a: np.flip(np.flip(a).copy()),
    "unaligned": _unaligned,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
}


@each_backend
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@each_module
def test_memory_layout_does_not_change_a_bit(kind, name, layout, backend):
    """Of parameters, signals, cotangents and tangents. 40 samples: enough for sums that are split in blocks."""
    module, params, x = module_and_input(kind, name, GRAPHS["directed"], batch=40)
    laid_out = {key: layout(value) for key, value in params.items()}
    dparams = {key: layout(value) for key, value in tangent_like(params).items()}
    with ev.use_backend(backend):
        expected = everything(module, params, x)
        y, tape = module.forward(laid_out, layout(x))
        grads, grad_x = module.backward(laid_out, tape, layout(normal(2, *y.shape)))
        dy = module.jvp(laid_out, layout(x), dparams, layout(normal(3, *x.shape)))
    found = {"y": y, "grad_x": grad_x, "dy": dy, **{f"grad_{key}": value for key, value in grads.items()}}
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@each_module
def test_memory_mapped_input(kind, name, tmp_path):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(module.forward(params, mapped)[0], module.forward(params, x)[0])


@each_module
def test_parameters_are_as_announced(kind, name):
    module, _, _ = module_and_input(kind, name, GRAPHS["undirected"])
    params = module.init(rng=0)
    assert {key: value.shape for key, value in params.items()} == module.parameter_shapes()
    assert module.n_parameters == sum(value.size for value in params.values())
    assert module.n_operations(6) == 6 * module.n_operations(1)
    again, other = module.init(rng=0), module.init(rng=1)
    for key, value in params.items():
        np.testing.assert_array_equal(value, again[key])
        assert not value.size or not np.array_equal(value, other[key])
        assert module.init(0, dtype="float32")[key].dtype == np.float32


@each_module
def test_rebuilt_from_its_config_and_from_a_pickle(kind, name):
    module, params, x = module_and_input(kind, name, GRAPHS["undirected"])
    first = (module.graph,) if "graph" in inspect.signature(type(module)).parameters else ()
    for copy in (type(module)(*first, **module.config()), pickle.loads(pickle.dumps(module))):
        assert copy.signature == module.signature
        np.testing.assert_array_equal(copy.forward(params, x)[0], module.forward(params, x)[0])


# ---- bad input ------------------------------------------------------------------------------------------------------
BAD_SIGNALS = {
    "swapped axes": (lambda x: np.swapaxes(x, -1, -2), ValueError, "x has shape"),
    "too many nodes": (lambda x: np.concatenate([x, x], -1), ValueError, "x has shape"),
    "NaN": (lambda x: np.where(x == x.flat[0], np.nan, x), ValueError, "x has 1 value.* not finite"),
    "complex": (lambda x: x.astype(complex), TypeError, "x has dtype complex128"),
    "float16": (lambda x: x.astype(np.float16), TypeError, "x has dtype float16"),
    "longdouble": (lambda x: x.astype(np.longdouble), TypeError, "x has dtype float128|longdouble"),
    "object": (lambda x: x.astype(object), TypeError, "x has dtype object"),
    "text": (lambda x: x.astype(str), TypeError, "x has dtype <U"),
    "ragged": (lambda x: [[1.0], [1.0, 2.0]], ValueError, "x is not a rectangular array"),
}


@pytest.mark.parametrize("case", BAD_SIGNALS.values(), ids=BAD_SIGNALS.keys())
@each_module
def test_bad_signals_are_named(kind, name, case):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    spoil, error, message = case
    if module.in_shape is None and message == "x has shape":
        return  # a pointwise layer takes any shape
    with pytest.raises(error, match=message):
        module.forward(params, spoil(x))


@each_module
def test_bad_parameters_are_named(kind, name):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    with pytest.raises(ValueError, match="params has the names"):
        module.forward({**params, "stray": np.ones(1)}, x)
    for key, value in params.items():
        with pytest.raises(ValueError, match="has shape"):
            module.forward({**params, key: value[..., None]}, x)
        if not value.size:  # no step, or no privileged node
            continue
        spoilt = value.copy()
        spoilt.flat[-1] = np.inf
        with pytest.raises(ValueError, match="not finite, the first inf"):
            module.forward({**params, key: spoilt}, x)
    with pytest.raises(TypeError, match="params is list"):
        module.forward([], x)


@each_backend
@each_module
def test_check_finite_can_be_turned_off_and_nan_propagates(kind, name, backend):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    x[0] = np.nan
    with ev.use_backend(backend):
        y, _ = module.forward(params, x, check_finite=False)
    if not name.startswith(("max", "median")):  # an order of NaN is nobody's promise
        assert np.isnan(y[0]).any() and np.isfinite(y[1:]).all()


@each_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_module
def test_a_result_that_overflows_is_said(kind, name, dtype, backend):
    """Finite arguments, a result that is not: a warning for each such result, and none for the others."""
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    large = dtype(0.1 * np.finfo(dtype).max)
    # Widths of MoNet's kernels and Cayley's h are divided by or solved with: those errors have names of their own.
    size = {key: 1 if name.startswith("monet") or key == "h" else large for key in params}
    params = {key: (value * size[key]).astype(dtype) for key, value in params.items()}
    x = (x / np.abs(x).max() * large).astype(dtype)
    with ev.use_backend(backend), np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y, tape = module.forward(params, x)
        grads, grad_x = module.backward(params, tape, np.full_like(y, large))
        dy = module.jvp(params, x, params, x)
        results = {"y": y, "grad_x": grad_x, "dy": dy, **{f"grads['{key}']": value for key, value in grads.items()}}
        silent = module.forward(params, x, check_finite=False)[0]
    np.testing.assert_array_equal(silent, y)
    messages = [str(warning.message) for warning in caught if "too large for" in str(warning.message)]
    assert all(warning.filename == __file__ for warning in caught if "too large for" in str(warning.message))
    overflowed = [key for key, value in results.items() if not np.isfinite(value).all()]
    said = [re.search(r": (\S+) has \d+ value", message).group(1) for message in messages]
    assert sorted(said) == sorted(overflowed)


def test_a_filter_overflows_where_its_equation_does():
    """The test above would pass if nothing overflowed."""
    filt = ev.EdgeVariant(GRAPHS["directed"], 2)
    params = {"phi": np.full((2, 1, 1, filt.graph.nnz), 1e200)}
    with pytest.warns(RuntimeWarning, match="EdgeVariant: y has .* too large for float64"):
        filt.forward(params, np.ones(7))


@each_module
def test_tapes_and_cotangents_are_checked(kind, name):
    module, params, x = module_and_input(kind, name, GRAPHS["directed"])
    y, tape = module.forward(params, x)
    with pytest.raises(ValueError, match="grad_y has shape"):
        module.backward(params, tape, y[..., None])
    with pytest.raises(TypeError, match="tape is"):
        module.backward(params, None, y)
    if module.graph is not None:
        other, _, _ = module_and_input(kind, name, GRAPHS["directed"].transposed())
        with pytest.raises(ValueError, match="tape was written by .* on graph"):
            other.backward(params, tape, y)


@each_filter
def test_a_tape_knows_the_weights_of_its_graph(name):
    """Two shifts of one graph share the support; what one filter saved is nothing to the other."""
    graph = GRAPHS["undirected"]
    filt, other = (example(name, g) for g in (graph, ev.Graph(graph.S * 2)))
    params, x = random_params(filt), normal(1, 2, *filt.in_shape)
    y, tape = filt.forward(params, x)
    if filt.graph != other.graph:  # an example may put its own shift on the support
        with pytest.raises(ValueError, match="tape was written by .* with weights"):
            other.backward(params, tape, y)
