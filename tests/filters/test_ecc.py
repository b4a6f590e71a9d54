"""What is particular to ECC, and to what it shares with MoNet; what every filter must do is in test_invariants.py."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev
from evref.filters.generated import degree_coordinates, edge_attributes, on_support

OPTIONS = [
    {"aggregation": a, "root": r, "self_entries": s, "activation": sigma, "hidden": hidden}
    for (a, r, s), (sigma, hidden) in product(
        product(("sum", "mean"), (False, True), (False, True)), (("tanh", (4,)), ("relu", (3, 5)), ("tanh", ()))
    )
]


def names(options: dict) -> str:
    return "-".join(map(str, options.values()))


def by_hand(filt: ev.ECC, params: dict, x: np.ndarray) -> np.ndarray:
    """One sample, y_i = sum or mean over j of Theta(u_ij) x_j, every sum a loop."""
    graph, S = filt.graph, filt.graph.S.toarray()
    y = np.zeros(filt.out_shape)
    for i in range(graph.n_nodes):
        heard = [
            (p, int(graph.indices[p]))
            for p in range(graph.indptr[i], graph.indptr[i + 1])
            if filt.self_entries or graph.indices[p] != i or S[i, i] != 0
        ]
        for p, j in heard:
            h = list(filt.attributes[p])
            for layer in range(len(filt.hidden) + 1):
                if layer > 0:
                    h = [np.tanh(a) if filt.activation == "tanh" else max(a, 0.0) for a in h]
                W, b = params[f"w{layer}"], params[f"b{layer}"]
                h = [sum(W[o, k] * h[k] for k in range(len(h))) + b[o] for o in range(len(b))]
            for f in range(filt.out_features):
                for g in range(filt.in_features):
                    share = 1 / len(heard) if filt.aggregation == "mean" else 1
                    y[f, i] += share * h[f * filt.in_features + g] * x[g, j]
        if filt.root:
            y[:, i] += params["root"] @ x[:, i]
    return y


@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_loops_from_the_equation(graph, options):
    filt = ev.ECC(graph, normal(4, graph.nnz, 3), in_features=2, out_features=3, **options)
    params, x = random_params(filt), normal(1, 2, graph.n_nodes)
    expected = by_hand(filt, params, x)
    close(np.einsum("fgij,gj->fi", filt.matrix(params), x), expected)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            close(filt.forward(params, x)[0], expected)


@pytest.mark.parametrize("options", OPTIONS, ids=names)
def test_gradients_in_every_setting(options):
    graph = GRAPHS["directed"]
    filt = ev.ECC(graph, normal(4, graph.nnz, 2), in_features=2, out_features=2, bias=True, **options)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            ev.gradcheck.dot_test(filt, params, x, rtol=1e-12).raise_if_failed()
            ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()


def test_small_integers_are_exact():
    """0 -> 1, 2 -> 1 with attributes 3 and 5, own entries 0: Theta = 2 u + 1, then ReLU with weights of both signs."""
    graph = ev.Graph.from_edges(3, source=[0, 2], target=[1, 1])
    u = on_support(graph, [0, 2], [1, 1], [3.0, 5.0])
    x = np.array([1.0, 10.0, 100.0])
    affine = {"w0": [[2.0]], "b0": [1.0]}
    for aggregation, expected in [("sum", [1, 7 + 10 + 1100, 100]), ("mean", [1, 1117 / 3, 100])]:
        filt = ev.ECC(graph, u, hidden=(), aggregation=aggregation)
        np.testing.assert_array_equal(filt.forward(affine, x)[0], expected)
    open_ = ev.ECC(graph, u, hidden=(), self_entries=False, root=True)
    np.testing.assert_array_equal(open_.forward({**affine, "root": [[-2.0]]}, x)[0], [-2, 7 - 20 + 1100, -200])
    relu = ev.ECC(graph, u, hidden=(2,), activation="relu", self_entries=False)
    params = {
        "w0": [[1.0], [-1.0]],
        "b0": [-4.0, 4.0],
        "w1": [[10.0, 1.0]],
        "b1": [0.0],
    }  # u = 3: (0, 1); u = 5: (1, 0)
    np.testing.assert_array_equal(relu.forward(params, x)[0], [0, 1 + 1000, 0])
    np.testing.assert_array_equal(relu.matrix(params)[0, 0], [[0, 0, 0], [1, 0, 10], [0, 0, 0]])
    _, tape = relu.forward(params, x)
    grads, grad_x = relu.backward(params, tape, np.array([0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(grads["w1"], [[100, 1]])
    np.testing.assert_array_equal(grads["w0"], [[10 * 100 * 5], [1 * 1 * 3]])
    np.testing.assert_array_equal(grads["b0"], [1000, 1])
    np.testing.assert_array_equal(grad_x, [1, 0, 10])


@given(graph=graphs(), seed=st.integers(0, 99))
def test_with_one_attribute_per_entry_it_is_every_edge_variant_step(graph, seed):
    """u = the identity: the generator is a table, and the class is the whole of eq. (evConv, 9) at K = 1."""
    free = ev.EdgeVariant(graph, 1, 2, 3)
    phi = random_params(free, seed)["phi"]
    filt = ev.ECC(graph, np.eye(graph.nnz), hidden=(), in_features=2, out_features=3)
    params = {"w0": phi.reshape(6, graph.nnz), "b0": np.zeros(6)}
    x = normal(seed, 2, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], free.forward({"phi": phi}, x)[0], rtol=1e-14)
    grads = filt.backward(params, filt.forward(params, x)[1], filt.forward(params, x)[0])[0]
    expected = free.backward({"phi": phi}, free.forward({"phi": phi}, x)[1], free.forward({"phi": phi}, x)[0])[0]
    close(grads["w0"].reshape(phi.shape), expected["phi"])


@given(graph=graphs(), a=st.integers(-3, 3), b=st.integers(-3, 3))
def test_affine_in_the_shift_it_is_a_polynomial_of_order_one(graph, a, b):
    own = np.zeros(graph.nnz)
    own[graph.diagonal] = 1
    filt = ev.ECC(graph, np.stack([own, graph.shift_values()], axis=1), hidden=())
    H = filt.matrix({"w0": [[float(a), float(b)]], "b0": [0.0]})[0, 0]
    close(H, a * np.eye(graph.n_nodes) + b * graph.S.toarray(), rtol=1e-15)


def test_embedding_has_the_generated_weights():
    graph = GRAPHS["directed"]
    filt = ev.ECC(
        graph, normal(4, graph.nnz, 3), in_features=2, out_features=3, aggregation="mean", root=True, bias=True
    )
    params, x = random_params(filt), normal(1, 4, 2, graph.n_nodes)
    free, phi = filt.to_edge_variant(params)
    assert (type(free), free.order, free.zeroth, free.bias) == (ev.EdgeVariant, 1, "none", True)
    close(free.matrix(phi), filt.matrix(params))
    np.testing.assert_array_equal(free.forward(phi, x)[0], filt.forward(params, x)[0])


@given(graph=graphs(), seed=st.integers(0, 99))
def test_attributes_that_move_with_the_nodes_make_it_equivariant(graph, seed):
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    u = normal(seed, graph.nnz, 2)
    position = graph.to_csr(np.arange(1.0, graph.nnz + 1))[order][:, order]
    position.sort_indices()
    carried = u[position.data.astype(int) - 1]
    filt, moved = ev.ECC(graph, u, (3,), 2, 2), ev.ECC(graph.permuted(order), carried, (3,), 2, 2)
    params, x = random_params(filt), normal(seed, 2, 2, graph.n_nodes)
    close(moved.forward(params, x[..., order])[0], filt.forward(params, x)[0][..., order])


def test_attributes_that_stay_do_not():
    graph, order = GRAPHS["directed"], np.array([6, 5, 4, 3, 2, 1, 0])
    u = normal(0, graph.nnz, 2)
    filt, moved = ev.ECC(graph, u), ev.ECC(graph.permuted(order), u)
    params, x = random_params(filt), normal(0, graph.n_nodes)
    assert np.abs(moved.forward(params, x[order])[0] - filt.forward(params, x)[0][order]).max() > 0.01


def test_isolated_nodes():
    """A node without edges hears itself, or nothing: 0, not 0/0."""
    graph = ev.Graph(np.zeros((3, 3)))
    for aggregation in ("sum", "mean"):
        alone = ev.ECC(graph, hidden=(), aggregation=aggregation, self_entries=False)
        np.testing.assert_array_equal(alone.forward(random_params(alone), np.ones(3))[0], 0)
        np.testing.assert_array_equal(alone.matrix(random_params(alone)), 0)
    own = ev.ECC(graph, np.full((3, 1), 2.0), hidden=(), aggregation="mean")
    np.testing.assert_array_equal(own.forward({"w0": [[3.0]], "b0": [1.0]}, np.ones(3))[0], 7)


def test_counts():
    """The network's parameters, whatever the size of the graph; its multiply-adds once per pass."""
    for graph in (GRAPHS["directed"], ev.generators.path(50)):
        filt = ev.ECC(graph, hidden=(4, 5), in_features=2, out_features=3, root=True, bias=True)
        assert filt.n_parameters == (3 * 4 + 4) + (4 * 5 + 5) + (5 * 6 + 6) + 6 + 3
        assert filt.n_operations(7) == 7 * 6 * graph.nnz
        assert filt.n_generation_operations == graph.nnz * (12 + 20 + 30)


def test_start():
    filt = ev.ECC(ev.generators.path(5), hidden=(16, 9), in_features=4, out_features=5, root=True)
    limits = {"w0": 3**-0.5, "b0": 3**-0.5, "w1": 1 / 4, "b1": 1 / 4, "w2": 1 / 6, "b2": 1 / 6, "root": 1 / 2}
    for key, value in filt.init(rng=0).items():
        assert 0.7 * limits[key] < np.abs(value).max() <= limits[key], key


def test_attributes_are_kept_as_a_read_only_copy():
    graph = GRAPHS["directed"]
    u = normal(0, graph.nnz, 2).astype(np.float32)
    filt = ev.ECC(graph, u)
    u[...] = np.nan
    assert np.isfinite(filt.attributes).all() and filt.attributes.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        filt.attributes[0] = 1
    assert ev.ECC(graph, filt.attributes).signature == filt.signature
    other = filt.attributes.copy()
    other[-1, -1] += 1
    assert ev.ECC(graph, other).signature != filt.signature


def test_attributes_survive_a_file(tmp_path):
    graph = GRAPHS["directed"]
    net = ev.Network([ev.ECC(graph, normal(0, graph.nnz, 2), hidden=(3, 2)), ev.Tanh()])
    params, x = net.init(rng=0), normal(1, graph.n_nodes)
    ev.save_network(tmp_path / "net.npz", net, params)
    again, read = ev.load_network(tmp_path / "net.npz")
    np.testing.assert_array_equal(again.forward(read, x)[0], net.forward(params, x)[0])


NNZ = GRAPHS["directed"].nnz


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"attributes": np.ones((3, 2))}, ValueError, rf"attributes has shape \(3, 2\); expected \({NNZ}, D\)"),
        ({"attributes": np.ones(NNZ)}, ValueError, r"attributes has shape \(\d+,\)"),
        ({"attributes": np.ones((NNZ, 0))}, ValueError, r"attributes has shape \(\d+, 0\)"),
        ({"attributes": np.ones((15, 1))}, ValueError, "one row per edge, see evref.filters.generated.on_support"),
        ({"attributes": np.full((NNZ, 1), np.nan)}, ValueError, "attributes has 22 value.* not finite, the first nan"),
        ({"attributes": np.full((NNZ, 1), "a")}, TypeError, "attributes has dtype <U1"),
        ({"attributes": np.ones((NNZ, 1), complex)}, TypeError, "attributes has dtype complex128"),
        ({"hidden": 8}, TypeError, r"hidden is 8 \(int\); expected a sequence of widths"),
        ({"hidden": "88"}, TypeError, "hidden is '88'"),
        ({"hidden": (4, 0)}, ValueError, r"hidden\[1\] is 0; expected at least 1"),
        ({"hidden": (4, 1.5)}, TypeError, r"hidden\[1\] is 1.5"),
        ({"aggregation": "max"}, ValueError, "aggregation is 'max'; expected one of 'sum', 'mean'"),
        ({"activation": "gelu"}, ValueError, "activation is 'gelu'; expected one of 'tanh', 'relu'"),
        ({"root": 1}, TypeError, "root is 1"),
        ({"self_entries": None}, TypeError, "self_entries is None"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    assert GRAPHS["directed"].n_edges == 15 and NNZ == 22
    with pytest.raises(error, match=message):
        ev.ECC(GRAPHS["directed"], **arguments)


# ---- what is known of an entry ---------------------------------------------------------------------------------------
@given(graph=graphs())
def test_degree_coordinates(graph):
    u, A = degree_coordinates(graph), graph.S.toarray() != 0
    for p, (i, j) in enumerate(zip(*graph.to_csr(np.ones(graph.nnz)).nonzero(), strict=True)):
        np.testing.assert_allclose(u[p], [max(A[i].sum(), 1) ** -0.5, max(A[:, j].sum(), 1) ** -0.5], rtol=1e-15)
    full = edge_attributes(graph)
    np.testing.assert_array_equal(full[:, 0], graph.shift_values())
    np.testing.assert_array_equal(full[:, 1:], u)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_an_edge_list_in_any_order(graph, seed):
    target, source = graph.S.nonzero()
    shuffle = np.random.default_rng(seed).permutation(len(source))
    listed = on_support(graph, source[shuffle], target[shuffle], graph.S.toarray()[target, source][shuffle])
    np.testing.assert_array_equal(listed.ravel(), graph.shift_values())


@pytest.mark.parametrize(
    ("source", "target", "values", "message"),
    [
        ([0], [2], [1.0], "edge 0, 0 -> 2, is not in the graph"),
        ([0, 0], [1, 1], [1.0, 2.0], "an edge comes twice"),
        ([0, -1], [1, 2], [1.0, 2.0], "edge 1, -1 -> 2, is not in the graph"),
        ([0, 9], [1, 2], [1.0, 2.0], "edge 1, 9 -> 2, is not in the graph"),
        ([0], [1, 2], [1.0], r"shapes \(1,\), \(2,\) and \(1, 1\)"),
        ([0], [1], np.ones((1, 1, 1)), "have shapes"),
        ([0.5], [1], [1.0], "source has shape .* float64; expected integers"),
        ([0], [[1]], [1.0], r"target has shape \(1, 1\)"),
    ],
)
def test_bad_edge_lists_are_named(source, target, values, message):
    with pytest.raises(ValueError, match=message):
        on_support(ev.Graph.from_edges(3, [0, 1], [1, 2]), source, target, values)
