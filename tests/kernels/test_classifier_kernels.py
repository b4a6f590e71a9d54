"""The network as a whole: both twins against the layers, against each other, at every way to share the work."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
from strategies import edited, laid_out, poison_memory, random_graph

import evref as ev
from evref import kernels
from evref.kernels import classifier_compiled, classifier_reference, compiled, recursions, rows
from evref.kernels import classifier_loops as LOOPS
from evref.learn.classifier import Classifier

TWINS = {"reference": classifier_reference, "compiled": classifier_compiled}
each_twin = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
GRAPH = random_graph(3, 7, directed=True, density=0.4)
ADAM = (0.05, 0.9, 0.99, 1e-8)


def network(F=3, G=2, K=3, zeroth="none", bias=True, offset=True, classes=4, graph=GRAPH) -> ev.Network:
    filt = ev.EdgeVariant(graph, K, G, F, zeroth=zeroth, bias=bias)
    return ev.Network([filt, ev.ReLU(), ev.Dense((F, graph.n_nodes), outputs=classes, bias=offset)])


def problem(net: ev.Network, batch=40, dtype=np.float64, seed=0):
    """What the kernels take; parameters large enough for every part of the network to count."""
    rng = np.random.default_rng(seed)
    params = {name: (0.6 * rng.standard_normal(p.shape)).astype(dtype) for name, p in net.init(0).items()}
    x = rng.standard_normal((batch, *net.in_shape)).astype(dtype)
    five = Classifier.of(net, ev.CrossEntropy())._five(params)
    return params, five, x, rng.integers(0, net.out_shape[0], batch)


def by_layers(net: ev.Network, params, x, label):
    prediction, tape = net.forward(params, x)
    value, loss_tape = ev.CrossEntropy().forward(prediction, label)
    return value, net.backward(params, tape, ev.CrossEntropy().backward(loss_tape))[0]


def assert_close(found, expected, dtype) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.shape == b.shape and a.dtype == dtype
            assert np.abs(a - b).max(initial=0) <= 200 * np.finfo(dtype).eps * np.abs(b).max(initial=1e-300)


SHAPES = [
    {"F": 1, "G": 1, "classes": 3},
    {"F": 1, "G": 1, "K": 1, "bias": False, "offset": False, "classes": 1},
    {"F": 1, "G": 1, "zeroth": "diagonal"},
    {"F": 1, "G": 1, "zeroth": "identity", "classes": 5},
    {"F": 3, "G": 2},
    {"F": 5, "G": 1, "K": 4, "classes": 2, "offset": False},
    {"F": 2, "G": 3, "K": 2, "zeroth": "diagonal", "bias": False},
    {"F": 4, "G": 1, "K": 0, "zeroth": "identity", "classes": 3},
    {"F": 70, "G": 1, "K": 1, "classes": 2},  # more features than shares
]


@pytest.mark.parametrize("name", ["loss_and_gradients", "adam_step"])
def test_the_twins_have_the_same_signatures(name):
    assert inspect.signature(getattr(classifier_compiled, name)) == inspect.signature(
        getattr(classifier_reference, name)
    )


def test_complex_numbers_go_to_the_reference():
    with kernels.use_backend("numba"):
        assert kernels.for_classifiers(np.dtype(complex)) is classifier_reference
        assert kernels.for_classifiers(np.dtype(np.float32)) is classifier_compiled


@each_twin
@each_dtype
@pytest.mark.parametrize("batch", [1, 17, 100, 230])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients_are_those_of_the_layers(twin, dtype, batch, shape):
    net = network(**shape)
    params, five, x, label = problem(net, batch, dtype)
    exact, grads = by_layers(net, *({k: p.astype(float) for k, p in params.items()}, x.astype(float), label))
    value, found = twin.loss_and_gradients(GRAPH, five, x, label)
    assert isinstance(value, float) and value == pytest.approx(exact, rel=200 * float(np.finfo(dtype).eps))
    learned = dict(zip(("0.phi", "0.phi0", "0.bias", "2.weight", "2.bias"), found, strict=True))
    for name, grad in grads.items():
        assert learned[name].shape == grad.shape and learned[name].dtype == dtype
        error = np.abs(learned[name] - grad).max(initial=0)
        assert error <= 500 * np.finfo(dtype).eps * np.abs(grad).max(initial=1e-300)


def test_the_reference_is_the_derivative():
    """Complex step, entry by entry: independent of every adjoint."""
    net = network(F=2, G=2, K=2, zeroth="diagonal", classes=3)
    _, five, x, label = problem(net, 5)
    _, grads = classifier_reference.loss_and_gradients(GRAPH, five, x, label)
    for i, grad in enumerate(grads):
        for index in np.ndindex(grad.shape):
            moved = [p.astype(complex) for p in five]
            moved[i][index] += 1e-30j
            phi, phi0, bias, weight, offset = moved
            h = np.einsum("fgij,bgj->bfi", _matrix(net, phi, phi0), x) + bias[:, None]
            z = np.where(h.real > 0, h, 0).reshape(len(x), -1) @ weight.T + offset
            z -= z.real.max(axis=1, keepdims=True)
            loss = np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(x)), label])
            assert grad[index] == pytest.approx(loss.imag / 1e-30, rel=1e-10, abs=1e-14)


def _matrix(net, phi, phi0):
    with ev.checks.complex_allowed():
        return ev.EdgeVariant(GRAPH, 2, 2, 2, zeroth="diagonal").matrix({"phi": phi, "phi0": phi0})


@each_dtype
@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[4:7], ids=str)
@pytest.mark.parametrize("kept", [0, 2**22])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, dtype, shape, kept):
    monkeypatch.setattr(compiled, "KEPT_BYTES", kept)
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    _, five, x, label = problem(network(**shape), 100, dtype)
    zeros = tuple(None if p is None else np.zeros_like(p) for p in five)
    results = []
    for threads in (1, 2, 3):
        ev.kernels.layout.release()  # plans are made anew
        with kernels.use_threads(threads):
            for _ in range(20):
                value, grads = classifier_compiled.loss_and_gradients(GRAPH, five, x, label)
                step = classifier_compiled.adam_step(GRAPH, five, zeros, zeros, x, label, *ADAM, 0.0, 1)
                new = [array for three in step[1] if three is not None for array in three]
                results.append([np.array(value), *(g for g in grads if g is not None), np.array(step[0]), *new])
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
    ev.kernels.layout.release()


# ---- a step ----------------------------------------------------------------------------------------------------------
@each_twin
@each_dtype
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[3], SHAPES[4], SHAPES[6]], ids=str)
@pytest.mark.parametrize("batch", [3, 100])
def test_a_step_is_adam_on_the_gradients(twin, dtype, decay, shape, batch):
    _, five, x, label = problem(network(**shape), batch, dtype)
    rng = np.random.default_rng(5)
    learned = [p is not None and not (i == 1 and shape.get("zeroth") == "identity") for i, p in enumerate(five)]
    ms = tuple(
        rng.standard_normal(p.shape).astype(dtype) if yes else None for p, yes in zip(five, learned, strict=True)
    )
    vs = tuple(None if m is None else m * m for m in ms)
    before = [[None if a is None else a.copy() for a in arrays] for arrays in (five, ms, vs)]
    value, grads = twin.loss_and_gradients(GRAPH, five, x, label)
    found_value, found = twin.adam_step(GRAPH, five, ms, vs, x, label, *ADAM, decay, 7)
    assert found_value == value
    for p, g, m, v, new, yes in zip(five, grads, ms, vs, found, learned, strict=True):
        assert (new is not None) == yes
        if yes:
            (expected,) = kernels.learning_reference.adam_update([p], [g + dtype(decay) * p], [m], [v], *ADAM, 7)
            assert_close(new, expected, dtype)
    for arrays, old in zip((five, ms, vs), before, strict=True):
        for a, b in zip(arrays, old, strict=True):
            assert b is None or (a == b).all()  # nothing that came in was changed


# ---- what comes in ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("layout", ["read-only", "strided", "fortran"])
def test_any_layout_gives_the_same(layout):
    _, five, x, label = problem(network(), 100)

    other = tuple(None if p is None else laid_out(p, layout) for p in five)
    for twin in TWINS.values():
        value, grads = twin.loss_and_gradients(GRAPH, five, x, label)
        again, found = twin.loss_and_gradients(GRAPH, other, laid_out(x, layout), laid_out(label, layout))
        assert again == pytest.approx(value, rel=1e-14)
        assert_close(found, grads, np.float64)


@each_dtype
def test_labels_of_any_integer_type(dtype):
    _, five, x, label = problem(network(), 100, dtype)
    expected = classifier_compiled.loss_and_gradients(GRAPH, five, x, label)[0]
    for kind in (np.int8, np.uint16, np.int32):
        assert classifier_compiled.loss_and_gradients(GRAPH, five, x, label.astype(kind))[0] == expected


def test_labels_that_do_not_fit_read_no_foreign_memory():
    _, five, x, label = problem(network(), 100)
    with pytest.raises(ValueError, match=r"label has shape \(99,\); expected \(100,\)"):
        classifier_compiled.loss_and_gradients(GRAPH, five, x, label[:-1])
    label[3] = 1000
    assert np.isnan(classifier_compiled.loss_and_gradients(GRAPH, five, x, label)[0])


@each_dtype
@pytest.mark.parametrize("where", range(6))
def test_a_nan_anywhere_is_seen_in_the_loss(dtype, where):
    _, five, x, label = problem(network(zeroth="diagonal"), 100, dtype)
    arrays = [*five, x]
    arrays[where] = arrays[where].copy()
    arrays[where].flat[arrays[where].size // 2] = np.nan
    assert np.isnan(classifier_compiled.loss_and_gradients(GRAPH, tuple(arrays[:5]), arrays[5], label)[0])


def test_huge_logits():
    _, five, x, label = problem(network(), 100, np.float32)
    five = (*five[:3], five[3] * np.float32(1e6), five[4])
    value, grads = classifier_compiled.loss_and_gradients(GRAPH, five, x, label)
    expected, right = classifier_reference.loss_and_gradients(GRAPH, five, x, label)
    assert value == pytest.approx(expected, rel=1e-4) and all(np.isfinite(g).all() for g in grads if g is not None)
    assert np.abs(grads[3] - right[3]).max() < 1e-4 * np.abs(right[3]).max()


# ---- who is taken as a whole -----------------------------------------------------------------------------------------
def test_only_this_network_with_this_loss_is_a_classifier():
    class Other(ev.ReLU):
        pass

    class OtherLoss(ev.CrossEntropy):
        pass

    filt, _, dense = network().layers
    assert Classifier.of(network(), ev.CrossEntropy()) is not None
    for net, loss in [
        (network(), OtherLoss()),
        (network(), ev.MeanSquaredError()),
        (ev.Network([filt, Other(), dense]), ev.CrossEntropy()),
        (ev.Network([filt, ev.Tanh(), dense]), ev.CrossEntropy()),
        (ev.Network([filt, dense]), ev.CrossEntropy()),
        (filt, ev.CrossEntropy()),
    ]:
        assert Classifier.of(net, loss) is None


def test_large_graphs_and_short_rows_go_layer_by_layer(monkeypatch):
    calls = []
    monkeypatch.setattr(classifier_compiled.Plan, "call", lambda *arguments: calls.append(1) or 0.0)
    for graph, batch, whole in ((GRAPH, 100, 1), (GRAPH, 4, 0), (ev.generators.path(2000), 100, 0)):
        calls.clear()
        _, five, x, label = problem(network(graph=graph), batch)
        classifier_compiled.loss_and_gradients(graph, five, x, label)
        assert len(calls) == whole


# ---- faults ----------------------------------------------------------------------------------------------------------
FAULTS = [
    (LOOPS, "bias forgotten", "positive(add(load(h, i, zero), shift))", "positive(load(h, i, zero))"),
    (LOOPS, "no ReLU", "positive(add(load(h, i, zero), shift))", "add(load(h, i, zero), shift)"),
    (LOOPS, "second class is the first", "scale_add(weight[c + 1, first", "scale_add(weight[c, first"),
    (LOOPS, "last of an odd number of classes", "weight[C - 1, first + i]", "weight[0, first + i]"),
    (LOOPS, "one feature's logits", "row = add(row, load(z[f], c, zero))", "row = load(z[f], c, zero)"),
    (LOOPS, "offset forgotten", "filled(offset[c] if", "filled(number(0) if"),
    (LOOPS, "labels of another tile", "label[first + s])) /", "label[s])) /"),
    (LOOPS, "not divided by the batch", " / number(batch)", ""),
    (LOOPS, "slope past the batch", "slope[c, s] = 0", "slope[c, s] = 1"),
    (LOOPS, "ReLU's derivative forgotten", "back = where_positive(row, back)", "pass"),
    (LOOPS, "weights of another class", "weight[c, first + i], s, back)", "weight[0, first + i], s, back)"),
    (LOOPS, "gradient of one tile only", "product if fresh else grad_weight[c, first + i] + product", "product"),
    (LOOPS, "bias of one tile only", "total += adjoint_logit_rows", "total = adjoint_logit_rows"),
    (LOOPS, "parts not folded", "flat[0, i] += flat[part, i]", "pass"),
    (LOOPS, "loss not a mean", "values[0] /= batch", "pass"),
    (LOOPS, "filters of the first feature", "first = f * hidden.shape[2]", "first = 0"),
    (recursions, "adjoint not seeded", "seeded = k > 0 or has0", "seeded = False"),
    (rows, "permutation forgotten", "q = transpose[p]", "q = p"),
]


@pytest.mark.parametrize(("module", "what", "old", "new"), FAULTS, ids=[f[1] for f in FAULTS])
def test_faults_in_the_loops_are_caught(monkeypatch, module, what, old, new):
    """Plain Python runs of the edited loops differ from the reference."""
    poison_memory(monkeypatch)
    broken = edited(module, old, new)
    if module is not LOOPS:
        for place in (LOOPS, recursions):
            for name in vars(place).keys() & vars(broken).keys():
                if getattr(vars(broken)[name], "__module__", None) == broken.__name__:
                    monkeypatch.setattr(place, name, vars(broken)[name])
        broken = LOOPS
    caught = 0
    for shape, plain, batch in itertools.product((SHAPES[0], SHAPES[4]), (LOOPS, broken), (100,)):
        monkeypatch.setattr(LOOPS, "kernels_for", plain.plain_kernels)
        ev.kernels.layout.release()
        _, five, x, label = problem(network(**shape), batch)
        value, grads = classifier_reference.loss_and_gradients(GRAPH, five, x, label)
        with kernels.use_threads(1), np.errstate(all="ignore"):
            found, slopes = classifier_compiled.loss_and_gradients(GRAPH, five, x, label)
        off = not (  # a NaN is off too
            abs(found - value) <= 1e-9 * value
            and all(
                np.abs(a - b).max() <= 1e-9 * np.abs(b).max()
                for a, b in zip(slopes, grads, strict=True)
                if b is not None
            )
        )
        if plain is not broken:
            assert not off, "the loops as they are"
        caught += off
    ev.kernels.layout.release()
    assert caught >= 1, f"{what}: not caught"
