"""What is particular to the edge-variant filter; what every filter must do is in test_invariants.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import GRAPHS, close, graphs, normal, random_graph, random_params, tangent_like

import evref as ev
from evref.kernels import compiled

each_zeroth = pytest.mark.parametrize("zeroth", ["none", "identity", "diagonal"])


@given(graph=graphs(), order=st.integers(1, 4), seed=st.integers(0, 99))
def test_readings_of_the_zeroth_term(graph, order, seed):
    """R1: "identity" adds x to "none"; "diagonal" with a diagonal of ones is "identity"."""
    x = normal(seed, 2, 2, graph.n_nodes)
    none, identity, diagonal = (ev.EdgeVariant(graph, order, 2, 3, zeroth=z) for z in ("none", "identity", "diagonal"))
    params = random_params(none, seed)
    y = none.forward(params, x)[0]
    close(identity.forward(params, x)[0], y + x.sum(axis=1, keepdims=True))
    ones = {**params, "phi0": np.ones((3, 2, graph.n_nodes))}
    np.testing.assert_array_equal(diagonal.forward(ones, x)[0], identity.forward(params, x)[0])


@each_zeroth
@given(graph=graphs(), seed=st.integers(0, 99))
def test_parameters_that_move_with_the_nodes(zeroth, graph, seed):
    """Equivariant after all, if Phi is renumbered too: Phi'_{ij} = Phi_{order[i] order[j]}."""
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    moved = graph.permuted(order)
    filt, there = (ev.EdgeVariant(g, 2, 2, 2, zeroth=zeroth, bias=True) for g in (graph, moved))
    params = random_params(filt, seed)
    position = graph.to_csr(np.arange(1.0, graph.nnz + 1))[order][:, order]  # where each entry comes from
    position.sort_indices()
    carried = {**params, "phi": params["phi"][..., position.data.astype(int) - 1]}
    if zeroth == "diagonal":
        carried["phi0"] = params["phi0"][..., order]
    x = normal(seed, 3, 2, graph.n_nodes)
    close(there.forward(carried, x[..., order])[0], filt.forward(params, x)[0][..., order])


@each_zeroth
@given(one=graphs(), two=graphs(), seed=st.integers(0, 99))
def test_a_block_diagonal_graph_is_two_graphs(zeroth, one, two, seed):
    both = ev.Graph(sparse.block_array([[one.S, None], [None, two.S]]))
    filters = [ev.EdgeVariant(g, 2, 2, 2, zeroth=zeroth) for g in (one, two, both)]
    parts = [random_params(f, seed + i) for i, f in enumerate(filters[:2])]
    joined = {key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]}
    x = normal(seed, 3, 2, both.n_nodes)
    split = x[..., : one.n_nodes], x[..., one.n_nodes :]
    apart = [f.forward(p, signal)[0] for f, p, signal in zip(filters[:2], parts, split, strict=True)]
    close(filters[2].forward(joined, x)[0], np.concatenate(apart, axis=-1), rtol=1e-13)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_transpose_duality(graph, seed):
    """One step on the reversed graph with Phi transposed is the adjoint of one step."""
    filt, reversed_ = ev.EdgeVariant(graph, 1), ev.EdgeVariant(graph.transposed(), 1)
    params = random_params(filt, seed)
    turned = {"phi": params["phi"][..., graph.transpose]}  # column order of one is row order of the other
    x, u = normal(seed, graph.n_nodes), normal(seed + 1, graph.n_nodes)
    assert np.isclose(filt.forward(params, x)[0] @ u, x @ reversed_.forward(turned, u)[0], rtol=1e-12, atol=1e-12)


def test_only_the_support_matters():
    """The paper's first property: the weights of S play no part."""
    graph = GRAPHS["directed"]
    other = ev.Graph(graph.S * 7.0)
    x = normal(0, graph.n_nodes)
    outputs = [f.forward(random_params(f), x)[0] for f in (ev.EdgeVariant(g, 3) for g in (graph, other))]
    np.testing.assert_array_equal(*outputs)


@given(graph=graphs(), order=st.integers(1, 4), F=st.integers(1, 3), G=st.integers(1, 3))
def test_counts_are_the_papers(graph, order, F, G):
    """R14: K F G (M + N) parameters and as many multiply-adds."""
    filt = ev.EdgeVariant(graph, order, G, F)
    M, N = graph.n_edges, graph.n_nodes
    assert filt.n_parameters == order * F * G * (M + N) == filt.n_operations()
    diagonal = ev.EdgeVariant(graph, order, G, F, zeroth="diagonal", bias=True)
    assert diagonal.n_parameters == F * G * (order * (M + N) + N) + F
    assert diagonal.n_operations(5) == 5 * F * G * (order * (M + N) + N)


# ---- without self-loops ----------------------------------------------------------------------------------------------
@each_zeroth
@given(graph=graphs(), order=st.integers(1, 4), F=st.integers(1, 2), G=st.integers(1, 2), seed=st.integers(0, 99))
def test_without_self_loops(zeroth, graph, order, F, G, seed):
    """After eq. (EVout, 7): K M parameters, and the filter with self-loops whose diagonals are zero."""
    filt = ev.EdgeVariant(graph, order, G, F, zeroth=zeroth, self_loops=False, bias=True)
    M, N = graph.n_edges, graph.n_nodes
    assert filt.n_parameters == F * G * (order * M + (N if zeroth == "diagonal" else 0)) + F
    assert filt.n_operations(3) == 3 * F * G * (order * M + (N if zeroth != "none" else 0))
    params, x, v = random_params(filt, seed), normal(seed, 3, G, N), normal(seed + 1, 3, F, N)
    whole, embedded = filt.to_edge_variant(params)
    assert whole.self_loops and not embedded["phi"][..., graph.diagonal].any()
    (y, tape), (expected, expected_tape) = filt.forward(params, x), whole.forward(embedded, x)
    close(y, expected)
    close(y, np.einsum("fgij,bgj->bfi", filt.matrix(params), x) + params["bias"][:, None])
    assert filt.matrix(params).shape == (F, G, N, N)
    (grads, grad_x), (wide, wide_x) = filt.backward(params, tape, v), whole.backward(embedded, expected_tape, v)
    close(grad_x, wide_x)
    between = np.delete(np.arange(graph.nnz), graph.diagonal)
    close(grads["phi"], wide["phi"][..., between])
    for report in ev.gradcheck.check_all(filt, params, x):
        report.raise_if_failed()


@pytest.mark.parametrize("n_nodes", [1, 3])
def test_without_self_loops_and_without_edges_nothing_is_left(n_nodes):
    graph = ev.Graph(np.eye(n_nodes))  # self-loops of S play no part
    filt = ev.EdgeVariant(graph, 2, self_loops=False)
    assert filt.n_parameters == 0
    y, tape = filt.forward(filt.init(0), np.ones((4, 1, n_nodes)))
    assert not y.any()
    assert not filt.backward(filt.init(0), tape, np.ones_like(y))[1].any()
    start = ev.EdgeVariant(graph, 2, zeroth="identity", self_loops=False)
    np.testing.assert_array_equal(start.forward(start.init(0), np.ones((1, n_nodes)))[0], np.ones((1, n_nodes)))


def test_without_self_loops_nan_does_not_pass_unseen():
    """A node without neighbours is heard by nobody: what it holds must be looked at on the way in."""
    graph = ev.Graph.from_edges(3, [0], [1])
    filt = ev.EdgeVariant(graph, 2, self_loops=False)
    params = filt.init(0)
    with pytest.raises(ValueError, match="x has 1 value"):
        filt.forward(params, np.array([1.0, 1.0, np.nan]))
    _, tape = filt.forward(params, np.ones(3))
    with pytest.raises(ValueError, match="grad_y has 1 value"):
        filt.backward(params, tape, np.array([1.0, 1.0, np.nan]))


def test_a_network_without_self_loops_learns_and_is_saved(tmp_path):
    """The fused step of `fit` uses the pattern of the filter, not that of the graph."""
    graph, label = ev.generators.stochastic_block_model(20, 2, 0.8, 0.1, rng=0)
    x = np.eye(20)[:, None, :]
    net = ev.Network([
        ev.EdgeVariant(graph, 2, 1, 4, self_loops=False, bias=True), ev.ReLU(), ev.Dense((4, 20), outputs=2)
    ])  # fmt: skip
    embedded = ev.Network([ev.EdgeVariant(graph, 2, 1, 4, bias=True), *net.layers[1:]])
    start = net.init(0)
    for optimizer in (ev.SGD(0.1), ev.Adam(0.01)):
        result = ev.fit(net, start, (x, label), loss=ev.CrossEntropy(), optimizer=optimizer, epochs=3, rng=0)
        before, after = (ev.CrossEntropy().forward(net.predict(p, x), label)[0] for p in (start, result.params))
        assert after < before
    _, phi = net.layers[0].to_edge_variant({"phi": result.params["0.phi"], "bias": result.params["0.bias"]})
    close(embedded.predict({**result.params, "0.phi": phi["phi"]}, x), net.predict(result.params, x))
    ev.save_network(tmp_path / "net.npz", net, result.params)
    again, params = ev.load_network(tmp_path / "net.npz")
    assert not again.layers[0].self_loops
    np.testing.assert_array_equal(again.predict(params, x), net.predict(result.params, x))


def test_around_without_self_loops():
    graph = ev.generators.path(30)
    filt = ev.EdgeVariant(graph, 3, self_loops=False, zeroth="diagonal")
    part, params, x = filt.around([10]), random_params(filt), np.zeros(30)
    x[10] = 2.0
    y, tape = part.filter.forward(part.take(params), x[part.nodes])
    whole_y, whole_tape = filt.forward(params, x)
    close(y, whole_y[part.nodes])
    v = normal(0, 30)
    close(part.put(part.filter.backward(part.take(params), tape, v[part.nodes])[0])["phi"],
          filt.backward(params, whole_tape, v)[0]["phi"])  # fmt: skip


def test_direction():
    """R12: S[i, j] weighs j -> i; a delta at the source of an edge appears at its target."""
    graph = ev.Graph.from_edges(2, source=[0], target=[1])
    filt = ev.EdgeVariant(graph, 1)
    y, _ = filt.forward({"phi": np.array([0.0, 5.0, 0.0]).reshape(1, 1, 1, 3)}, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(y, [0.0, 5.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": -1}, ValueError, "order is -1; expected at least 0"),
        ({"order": 1.5}, TypeError, "order is 1.5"),
        ({"order": True}, TypeError, r"order is True \(bool\)"),
        ({"order": 0}, ValueError, 'order is 0 with zeroth="none"'),
        ({"order": 2, "in_features": 0}, ValueError, "in_features is 0"),
        ({"order": 2, "out_features": 0}, ValueError, "out_features is 0"),
        ({"order": 2, "zeroth": "I"}, ValueError, "zeroth is 'I'; expected one of 'none', 'identity', 'diagonal'"),
        ({"order": 2, "bias": 1}, TypeError, "bias is 1"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.EdgeVariant(GRAPHS["directed"], **arguments)


def test_a_matrix_is_not_a_graph():
    with pytest.raises(TypeError, match=r"graph is numpy\.ndarray; expected an evref\.Graph \(Graph\.from_adjacency"):
        ev.EdgeVariant(np.eye(3), 2)


def test_swapped_axes_get_a_hint():
    filt = ev.EdgeVariant(GRAPHS["directed"], 2, in_features=2)
    with pytest.raises(
        ValueError, match=r"x has shape \(4, 7, 2\); .* with 2 feature\(s\) and 7 nodes; axis 1 has 7 .*swapped"
    ):
        filt.forward(random_params(filt), np.ones((4, 7, 2)))


def test_order_zero_is_a_diagonal():
    graph = GRAPHS["directed"]
    filt = ev.EdgeVariant(graph, 0, zeroth="diagonal")
    params, x = random_params(filt), normal(0, 3, 1, graph.n_nodes)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            close(filt.forward(params, x)[0], params["phi0"] * x, rtol=1e-15)
            ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


def test_edge_variant_has_no_transfer_function():
    filt = ev.EdgeVariant(GRAPHS["directed"], 2)
    with pytest.raises(ev.NotRepresentable, match="EdgeVariant has no transfer function"):
        filt.response(random_params(filt))


def test_mixed_precision_promotes_and_gradients_come_back_in_kind():
    filt = ev.EdgeVariant(GRAPHS["directed"], 2)
    params, x = random_params(filt, dtype=np.float32), normal(0, 1, 1, 7)
    y, tape = filt.forward(params, x)
    grads, grad_x = filt.backward(params, tape, y)
    assert (y.dtype, grads["phi"].dtype, grad_x.dtype) == (np.float64, np.float32, np.float64)
    y, tape = filt.forward(random_params(filt), x > 0)  # bools become float64
    assert y.dtype == np.float64


def test_switching_backends_between_forward_and_backward():
    filt = ev.EdgeVariant(random_graph(8, 9), 3, 2, 2, zeroth="diagonal")
    params, x = random_params(filt), normal(0, 4, 2, 9)
    results = []
    for there, back in [("numpy", "numba"), ("numba", "numpy")]:
        with ev.use_backend(there):
            y, tape = filt.forward(params, x)
        with ev.use_backend(back):
            results.append(filt.backward(params, tape, np.ones_like(y)))
            filt.jvp(params, x, tangent_like(params), x)
    close(results[0][1], results[1][1], rtol=1e-13)
    close(results[0][0]["phi"], results[1][0]["phi"], rtol=1e-13)


def test_init_scale_is_the_authors():
    graph = ev.generators.complete(50)
    params = ev.EdgeVariant(graph, 4, 2, 3, zeroth="diagonal").init(rng=0)
    limit = (2 * 5 * 50) ** -0.5
    for value in params.values():
        assert 0.9 * limit < np.abs(value).max() <= limit


@each_zeroth
@pytest.mark.parametrize(("backend", "batch"), [("numba", 3), ("steps", 3), ("steps", 9), ("numpy", 3)])
@pytest.mark.filterwarnings("error")
def test_nothing_that_is_not_finite_hides(zeroth, backend, batch, monkeypatch):
    """Entry points look at y and grad_x alone; every entry must reach them, also where it meets a zero."""
    if backend == "steps":
        monkeypatch.setattr(compiled, "STEP_SIZE", 0)
        backend = "numba"
    graph = random_graph(0, 9)
    filt = ev.EdgeVariant(graph, 3, 2, 2, zeroth=zeroth, bias=True)
    rng = np.random.default_rng(0)
    arrays = filt.init(0) | {"x": normal(1, batch, 2, 9), "grad_y": normal(2, batch, 2, 9)}
    arrays = {name: np.where(rng.random(a.shape) < 0.5, 0, a) for name, a in arrays.items()}
    names = list(filt.parameter_shapes())

    def run(a, backward):
        params = {name: a[name] for name in names}
        if backward:
            filt.backward(params, tape, a["grad_y"])
        else:
            filt.forward(params, a["x"])

    with ev.use_backend(backend):
        _, tape = filt.forward({name: arrays[name] for name in names}, arrays["x"])
        for name, array in arrays.items():
            for place in range(0, array.size, 5):
                for bad in (np.nan, np.inf, -np.inf):
                    changed = array.copy()
                    changed.flat[place] = bad
                    for backward in (False, True):
                        if name == ("x" if backward else "grad_y"):
                            continue
                        with pytest.raises(ValueError, match=f"{name}.* has 1 value.*the first {bad} "):
                            run({**arrays, name: changed}, backward)


def test_an_empty_batch_hides_nothing_and_too_large_products_are_said():
    graph = random_graph(0, 9)
    filt = ev.EdgeVariant(graph, 2)
    params = filt.init(0, dtype=np.float32)
    params["phi"][0, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="phi"):
        filt.forward(params, np.zeros((0, 1, 9), np.float32))
    large = {"phi": np.full_like(params["phi"], 1e30)}
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="y has .* too large for float32"):
        y, tape = filt.forward(large, np.full(9, 1e30, np.float32))
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="too large for float32"):
        grad_x = filt.backward(large, tape, np.ones(9, np.float32))[1]
    assert np.isinf(y).any() and np.isinf(grad_x).any()
