"""What is particular to the node-variant filter; what every filter must do is in test_invariants.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev
from evref.verify.paper.privileged import no_second_order_recursion, only_a_limit

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())


def oracle(filt: ev.NodeVariant, params: dict, x: np.ndarray) -> np.ndarray:
    """Node by node: y_i = sum_k phi^(k) of the node that i copies, times (S^k x)_i."""
    S = filt.graph.S.toarray()
    if filt.mapping is None:
        C = np.eye(filt.nodes.size)[ev.selection.nearest_privileged(filt.graph, filt.nodes)]
    else:
        C = filt.mapping
    y = np.zeros((len(x), filt.out_features, filt.graph.n_nodes))
    for b in range(len(x)):
        for f in range(filt.out_features):
            for g in range(filt.in_features):
                z = x[b, g]
                for k in range(filt.order + 1):
                    for i in range(filt.graph.n_nodes):
                        y[b, f, i] += sum(C[i, p] * params["phi"][k, f, g, p] for p in range(len(filt.nodes))) * z[i]
                    z = S @ z
    return y


@given(graph=graphs(), order=st.integers(0, 4), size=st.integers(1, 8), seed=st.integers(0, 99))
def test_the_equation_in_loops(graph, order, size, seed):
    nodes = np.random.default_rng(seed).permutation(graph.n_nodes)[:size]
    filt = ev.NodeVariant(graph, order, 2, 2, nodes=nodes)
    params, x = random_params(filt, seed), normal(seed, 2, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], oracle(filt, params, x))
    ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


@given(graph=graphs(), order=st.integers(0, 3), size=st.integers(1, 8), seed=st.integers(0, 99))
def test_any_binary_matrix_maps_the_coefficients(graph, order, size, seed):
    """eq. (nodeV, 17): C_B is any matrix of zeros and ones; rows with several ones or none among them."""
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(graph.n_nodes)[:size]
    C = rng.integers(0, 2, (graph.n_nodes, len(nodes)))
    filt = ev.NodeVariant(graph, order, 2, 2, nodes=nodes, mapping=C)
    params, x = random_params(filt, seed), normal(seed, 2, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], oracle(filt, params, x))
    y = np.einsum("fgij,bgj->bfi", filt.matrix(params), x)
    close(filt.forward(params, x)[0], y)
    for report in ev.gradcheck.check_all(filt, params, x):
        report.raise_if_failed()
    unused = ~C.any(axis=0)
    grads, _ = filt.backward(params, filt.forward(params, x)[1], np.ones_like(y))
    assert not grads["phi"][..., unused].any()
    try:
        large, embedded = filt.to_edge_variant(params)
    except ev.NotRepresentable:  # a node without a 1 has the zero polynomial, of degree -1
        assert order >= 2 and not C.any(axis=1).all()
        large, embedded, distance = filt.limit_embedding(params, 1e-9)
        assert distance < 1e-6
    else:
        close(large.matrix(embedded), filt.matrix(params), rtol=1e-9)


@each_graph
def test_the_default_mapping_given_by_hand_is_the_default(graph):
    nodes = np.arange(graph.n_nodes)[::-1][:3]
    C = np.eye(len(nodes))[ev.selection.nearest_privileged(graph, nodes)]
    default, given_ = ev.NodeVariant(graph, 2, nodes=nodes), ev.NodeVariant(graph, 2, nodes=nodes, mapping=C)
    by_sparse = ev.NodeVariant(graph, 2, nodes=nodes, mapping=sparse.csr_array(C))
    params, x = random_params(default), normal(0, 3, 1, graph.n_nodes)
    for filt in (given_, by_sparse):
        close(filt.forward(params, x)[0], default.forward(params, x)[0])
        np.testing.assert_array_equal(filt.mapping, C)
    assert given_.signature == by_sparse.signature != default.signature


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        (np.ones((7, 3)), ValueError, r"mapping has shape \(7, 3\); expected \(7, 2\)"),
        (np.ones((2, 7)), ValueError, r"mapping has shape \(2, 7\); expected \(7, 2\)"),
        (np.full((7, 2), 2), ValueError, r"mapping has 2.0 at index \(0, 0\); expected zeros and ones"),
        (np.full((7, 2), np.nan), ValueError, r"mapping has nan at index \(0, 0\)"),
        ([["a", "b"]] * 7, TypeError, "mapping has dtype"),
    ],
)
def test_mappings_that_are_none(mapping, error, message):
    with pytest.raises(error, match=message):
        ev.NodeVariant(GRAPHS["directed"], 2, nodes=[0, 1], mapping=mapping)


def test_a_mapping_is_saved_with_the_network(tmp_path):
    graph = GRAPHS["directed"]
    C = np.random.default_rng(0).integers(0, 2, (graph.n_nodes, 2))
    net = ev.Network([ev.NodeVariant(graph, 2, nodes=[0, 1], mapping=C)])
    params = net.init(0)
    ev.save_network(tmp_path / "net.npz", net, params)
    again, loaded = ev.load_network(tmp_path / "net.npz")
    np.testing.assert_array_equal(again.layers[0].mapping, C)
    x = normal(0, 2, 1, graph.n_nodes)
    np.testing.assert_array_equal(again.predict(loaded, x), net.predict(params, x))


def test_exact_in_small_integers():
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3])
    filt = ev.NodeVariant(graph, 2, nodes=[1, 3])
    # 2 is one hop behind 1, nothing reaches 0, so that it copies the first-ranked: groups 0 0 0 1
    phi = np.array([[1, 2], [3, 4], [5, 6]], dtype=float).reshape(3, 1, 1, 2)
    x = np.array([1.0, 10.0, 100.0, 1000.0])
    y, tape = filt.forward({"phi": phi}, x)
    np.testing.assert_array_equal(y, [1, 10 + 3, 100 + 30 + 5, 2000 + 400 + 60])
    grads, grad_x = filt.backward({"phi": phi}, tape, np.ones(4))
    np.testing.assert_array_equal(grads["phi"].reshape(3, 2), [[111, 1000], [11, 100], [1, 10]])
    np.testing.assert_array_equal(grad_x, [1 + 3 + 5, 1 + 3 + 6, 1 + 4, 2])


@each_graph
def test_one_privileged_node_is_the_polynomial(graph):
    coefficients = normal(0, 4, 3, 2)
    H = sum(c[..., None, None] * np.linalg.matrix_power(graph.S.toarray(), k) for k, c in enumerate(coefficients))
    for node in (0, graph.n_nodes - 1):
        filt = ev.NodeVariant(graph, 3, 2, 3, nodes=[node])
        close(filt.matrix({"phi": coefficients[..., None]}), H)
        filt.to_edge_variant({"phi": coefficients[..., None]})


def test_the_order_of_the_nodes_is_the_order_of_the_parameters():
    graph = ev.generators.complete(5)
    x = normal(0, 5)
    there = np.array([3, 1, 4])
    filt, turned = ev.NodeVariant(graph, 2), ev.NodeVariant(graph, 2, nodes=[4, 3, 2, 1, 0])
    params = random_params(filt)
    np.testing.assert_array_equal(
        filt.forward(params, x)[0], turned.forward({"phi": params["phi"][..., ::-1].copy()}, x)[0]
    )
    ranked = ev.NodeVariant(graph, 1, nodes=there)
    assert ranked._copied.tolist() == [0, 1, 0, 0, 2]  # nodes next to all three copy the first of the list


# ---- R14 -------------------------------------------------------------------------------------------------------------
@given(graph=graphs(), order=st.integers(0, 3), F=st.integers(1, 3), G=st.integers(1, 3), size=st.integers(1, 8))
def test_counts_are_the_papers(graph, order, F, G, size):
    nodes = np.arange(graph.n_nodes)[:size]
    filt = ev.NodeVariant(graph, order, G, F, nodes=nodes)
    assert filt.n_parameters == (order + 1) * F * G * nodes.size <= (order + 1) * max(F, G) ** 2 * nodes.size
    assert filt.n_operations(3) == 3 * (order * G * graph.S.nnz + (order + 1) * F * G * graph.n_nodes)


def test_init_scale_is_the_authors():
    params = ev.NodeVariant(ev.generators.complete(60), 4, 2, 3, nodes=np.arange(30)).init(rng=0)
    limit = (2 * 5 * 30) ** -0.5
    assert 0.95 * limit < np.abs(params["phi"]).max() <= limit


# ---- R5 --------------------------------------------------------------------------------------------------------------
def embedding_error(filt: ev.NodeVariant, params: dict) -> float:
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert (type(ev_filt), ev_filt.order, ev_filt.zeroth) == (ev.EdgeVariant, filt.order, "diagonal")
    H = filt.matrix(params)
    return np.abs(ev_filt.matrix(ev_params) - H).max() / max(np.abs(H).max(), 1e-300)


@given(graph=graphs(), order=st.integers(0, 5), size=st.integers(1, 8), seed=st.integers(0, 99))
def test_embedding_of_generic_coefficients(graph, order, size, seed):
    nodes = np.random.default_rng(seed).permutation(graph.n_nodes)[:size]
    filt = ev.NodeVariant(graph, order, 1, 2, nodes=nodes)
    assert embedding_error(filt, random_params(filt, seed)) < 1e-9


@each_graph
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_zero_coefficients_do_no_harm(graph, order):
    """Telescoping in powers of S divides by c_0..c_(K-1); common Newton nodes and the free last step do not."""
    filt = ev.NodeVariant(graph, order)
    for k in range(order):
        params = random_params(filt, seed=k)
        params["phi"][k, ..., 0] = 0
        assert embedding_error(filt, params) < 1e-11


def test_first_order_needs_nothing():
    filt = ev.NodeVariant(GRAPHS["directed"], 1)
    params = random_params(filt)
    params["phi"][..., 2] = 0  # not even a polynomial
    params["phi"][0, ..., 3] = 0
    assert embedding_error(filt, params) < 1e-14
    assert embedding_error(filt, {"phi": np.zeros_like(params["phi"])}) == 0


@pytest.mark.parametrize("degrees", [(4, 3, 2), (4, 2, 2), (2, 0, 1), (1, -1, 0), (3, 1, 2), (0, 0, -1), (-1, -1, -1)])
def test_degrees_that_differ_by_two(degrees):
    graph = GRAPHS["undirected"]
    filt = ev.NodeVariant(graph, 4, nodes=[0, 1, 2])
    params = random_params(filt)
    for b, degree in enumerate(degrees):
        params["phi"][degree + 1 :, ..., b] = 0
    assert embedding_error(filt, params) < 1e-12


@pytest.mark.parametrize(("degrees", "low", "high"), [((4, 1, 4), 1, 4), ((2, 2, -1), -1, 2), ((0, 3, 3), 0, 3)])
def test_degrees_that_differ_by_more(degrees, low, high):
    graph = GRAPHS["undirected"]
    filt = ev.NodeVariant(graph, 4, 1, 2, nodes=[3, 4, 5], bias=True)
    params = random_params(filt)
    for b, degree in enumerate(degrees):
        params["phi"][degree + 1 :, 1, 0, b] = 0
    node = 3 + degrees.index(low)
    with pytest.raises(
        ev.NotRepresentable, match=rf"filter \(1, 0\): .* node {node} has degree {low} .* degree {high};"
    ):
        filt.to_edge_variant(params)
    distances = [filt.limit_embedding(params, epsilon)[2] for epsilon in (1e-2, 1e-4)]
    assert np.isclose(distances[0] / distances[1], 100, rtol=1e-4)
    ev_filt, ev_params, _ = filt.limit_embedding(params, 1e-3)
    assert ev_filt.bias and np.array_equal(ev_params["bias"], params["bias"])


def test_the_limit_of_a_representable_filter_is_exact():
    filt = ev.NodeVariant(GRAPHS["directed"], 3, nodes=[1, 2])
    assert filt.limit_embedding(random_params(filt), 0.5)[2] < 1e-12
    for epsilon in (0, -1.0):
        with pytest.raises(ValueError, match="epsilon is"):
            filt.limit_embedding(random_params(filt), epsilon)


def test_the_map_keeps_its_derivative_two_degrees_down():
    """All degrees K - 2: the last step still carries the coefficients of K - 1 and K."""
    filt = ev.NodeVariant(GRAPHS["directed"], 3, nodes=[1, 2])
    params, x, u = random_params(filt), normal(1, 7), normal(2, 7)
    params["phi"][2:] = 0
    recursion, weights = filt.to_edge_variant(params)
    wanted = filt.backward(params, filt.forward(params, x)[1], u)[0]["phi"]
    grads, _ = recursion.backward(weights, recursion.forward(weights, x)[1], u)
    for k in (2, 3):
        moved = {"phi": params["phi"].astype(complex)}
        moved["phi"][k, 0, 0, 1] += 1e-30j
        with ev.checks.complex_allowed():
            _, there = filt.to_edge_variant(moved)
        pulled = sum(np.vdot(there[key].imag / 1e-30, grads[key]) for key in grads)
        assert np.isclose(pulled, wanted[k, 0, 0, 1], rtol=1e-10)


def test_the_map_has_no_derivative_where_all_degrees_are_small():
    filt = ev.NodeVariant(GRAPHS["directed"], 5, nodes=[1, 2])
    params = random_params(filt)
    params["phi"][3:] = 0
    assert embedding_error(filt, params) < 1e-13
    moved = {"phi": params["phi"].astype(complex)}
    moved["phi"][5, ..., 0] += 1e-30j
    with ev.checks.complex_allowed(), pytest.raises(ev.NotRepresentable, match="no derivative in higher"):
        filt.to_edge_variant(moved)


def test_a_case_that_is_only_a_limit():
    """The proof by hand, line by line; D = Phi0, A = I + Phi2, B = Phi1 Phi0, H = D + A B."""
    filt, params = only_a_limit()  # 0 -> 1 -> 2 -> 0, 1 -> 3
    H = filt.matrix(params)[0, 0]
    support = filt.graph.to_csr(np.ones(filt.graph.nnz)).toarray() != 0

    def middles(i, j):
        return [m for m in range(4) if support[i, m] and support[m, j]]

    assert H[0, 1] != 0 and middles(0, 1) == [2]  # A_02 B_21 is not zero, so B_21 is not
    assert H[3, 0] != 0 and middles(3, 0) == [1]  # A_31 B_10 is not zero, so B_10 is not
    assert H[2, 0] == 0 and middles(2, 0) == [1]  # A_21 B_10 = 0, so A_21 = 0
    assert H[2, 1] == 0 and middles(2, 1) == [1, 2]  # A_21 B_11 + A_22 B_21 = 0, so A_22 = 0
    assert H[2, 2] == 0 and middles(2, 2) == [2]  # D_2 + A_22 B_22 = 0, so D_2 = 0: Phi0 erases column 2 of H ...
    assert H[0, 2] != 0  # ... which is not zero
    assert no_second_order_recursion(support, H)
    with pytest.raises(ev.NotRepresentable, match="node 2 has degree -1"):
        filt.to_edge_variant(params)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_no_proof_against_a_recursion_that_exists(graph, seed):
    filt = ev.EdgeVariant(graph, 2, zeroth="diagonal")
    rng = np.random.default_rng(seed)
    params = {k: rng.integers(-1, 2, shape).astype(float) for k, shape in filt.parameter_shapes().items()}
    support = graph.to_csr(np.ones(graph.nnz)).toarray() != 0
    assert not no_second_order_recursion(support, filt.matrix(params)[0, 0])  # whole numbers: zeros are zeros


# ---- bad input -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": -1}, ValueError, "order is -1"),
        ({"order": 1.0}, TypeError, "order is 1.0"),
        ({"order": 1, "nodes": []}, ValueError, "nodes is empty: .* no parameters"),
        ({"order": 1, "nodes": [1, 1]}, ValueError, "nodes has node 1 more than once"),
        ({"order": 1, "nodes": [7]}, ValueError, "nodes holds the index 7"),
        ({"order": 1, "nodes": 3}, ValueError, r"nodes has shape \(\)"),
        ({"order": 1, "bias": "yes"}, TypeError, "bias is 'yes'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.NodeVariant(GRAPHS["directed"], **arguments)


def test_other_privileged_nodes_are_another_filter():
    graph = GRAPHS["directed"]
    one, two = (ev.NodeVariant(graph, 2, nodes=n) for n in ([0, 1], [1, 0]))
    params = random_params(one)
    y, tape = one.forward(params, normal(0, 7))
    with pytest.raises(ValueError, match="tape was written by"):
        two.backward(params, tape, y)


def test_no_transfer_function():
    filt = ev.NodeVariant(GRAPHS["directed"], 2)
    with pytest.raises(ev.NotRepresentable, match="no transfer function"):
        filt.response(random_params(filt))
