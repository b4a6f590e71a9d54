"""The EV kernels: reference against the equation, compiled against reference, plain loops against both."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, graphs, normal, random_graph

import evref as ev
from evref.kernels import compiled, jit, layout, loops, packing, reference

compiled_once = functools.cache(jit.compiled)
TWINS = {"reference": reference, "compiled": compiled}


def dense(graph: ev.Graph, phi: np.ndarray) -> np.ndarray:
    matrix = np.zeros((graph.n_nodes, graph.n_nodes))
    for i in range(graph.n_nodes):
        for p in range(graph.indptr[i], graph.indptr[i + 1]):
            matrix[i, graph.indices[p]] = phi[p]
    return matrix


def oracle(graph: ev.Graph, phi: np.ndarray, phi0: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """Node by node, edge by edge, straight from the paper's recursion (with R2: phi^(k), not phi^(k-1))."""
    K, F, G, _ = phi.shape
    B, _, N = x.shape
    y = np.zeros((B, F, N))
    for b, f, g in itertools.product(range(B), range(F), range(G)):
        w = [x[b, g, i] for i in range(N)]
        if phi0 is not None:
            w = [phi0[f, g, i] * w[i] for i in range(N)]
            for i in range(N):
                y[b, f, i] += w[i]
        for k in range(K):
            P = dense(graph, phi[k, f, g])
            w = [sum(P[i, j] * w[j] for j in range(N)) for i in range(N)]
            for i in range(N):
                y[b, f, i] += w[i]
    return y


def problem(seed: int, graph: ev.Graph, K: int, F: int, G: int, B: int, with0: bool, dtype: type = np.float64):
    phi = normal(seed, K, F, G, graph.nnz, dtype=dtype)
    phi0 = normal(seed + 1, F, G, graph.n_nodes, dtype=dtype) if with0 else None
    return (
        phi,
        phi0,
        normal(seed + 2, B, G, graph.n_nodes, dtype=dtype),
        normal(seed + 3, B, F, graph.n_nodes, dtype=dtype),
    )


def all_results(twin, graph, phi, phi0, x, u):
    y, saved = twin.ev_forward(graph, phi, phi0, x)
    grad_phi, grad_phi0, grad_x = twin.ev_backward(graph, phi, phi0, saved, u)
    dphi0 = None if phi0 is None else normal(8, *phi0.shape, dtype=phi.dtype)
    dy = twin.ev_jvp(
        graph, phi, phi0, x, normal(7, *phi.shape, dtype=phi.dtype), dphi0, normal(9, *x.shape, dtype=x.dtype)
    )
    assert (grad_phi0 is None) == (phi0 is None)
    return [y, grad_phi, grad_x, dy] + ([] if phi0 is None else [grad_phi0])


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
@given(
    graph=graphs(),
    K=st.integers(0, 4),
    F=st.integers(1, 3),
    G=st.integers(1, 3),
    with0=st.booleans(),
    seed=st.integers(0, 99),
)
def test_forward_is_the_recursion(twin, graph, K, F, G, with0, seed):
    phi, phi0, x, _ = problem(seed, graph, K, F, G, 2, with0)
    close(twin.ev_forward(graph, phi, phi0, x)[0], oracle(graph, phi, phi0, x))


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
@given(graph=graphs(), with0=st.booleans(), seed=st.integers(0, 99))
def test_small_integers_are_exact(twin, graph, with0, seed):
    """Integers small enough for floating point: equal, not close."""
    rng = np.random.default_rng(seed)
    phi = rng.integers(-3, 4, (3, 2, 2, graph.nnz)).astype(float)
    phi0 = rng.integers(-3, 4, (2, 2, graph.n_nodes)).astype(float) if with0 else None
    x = rng.integers(-3, 4, (3, 2, graph.n_nodes)).astype(float)
    np.testing.assert_array_equal(twin.ev_forward(graph, phi, phi0, x)[0], oracle(graph, phi, phi0, x))


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
def test_three_nodes_by_hand(twin):
    """Path 0 -> 1 -> 2, K = 2, written out: the numbers of docs/edge_variant.md."""
    graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    # support rows: (0,0) | (1,0) (1,1) | (2,1) (2,2)
    phi = np.array([[2.0, 3.0, 1.0, 1.0, 2.0], [1.0, 1.0, 2.0, 3.0, 1.0]]).reshape(2, 1, 1, 5)
    x = np.array([1.0, 2.0, 3.0]).reshape(1, 1, 3)
    # w1 = (2, 3 + 2, 2 + 6) = (2, 5, 8); w2 = (2, 2 + 10, 15 + 8) = (2, 12, 23)
    y, saved = twin.ev_forward(graph, phi, None, x)
    np.testing.assert_array_equal(y.ravel(), [4, 17, 31])
    # v = (1, 1, 1): lam2 = v, lam1 = v + Phi2' v = (1 + 1 + 1, 1 + 2 + 3, 1 + 1) = (3, 6, 2)
    grad_phi, _, grad_x = twin.ev_backward(graph, phi, None, saved, np.ones((1, 1, 3)))
    np.testing.assert_array_equal(grad_phi[1].ravel(), [2, 2, 5, 5, 8])  # lam2_i w1_j
    np.testing.assert_array_equal(grad_phi[0].ravel(), [3 * 1, 6 * 1, 6 * 2, 2 * 2, 2 * 3])  # lam1_i x_j
    np.testing.assert_array_equal(grad_x.ravel(), [2 * 3 + 3 * 6, 6 + 2, 4])  # Phi1' lam1


@given(
    graph=graphs(), K=st.integers(0, 3), F=st.integers(1, 3), G=st.integers(1, 3), with0=st.booleans(),
    B=st.sampled_from([1, 2, 9, 20, 60]), seed=st.integers(0, 99),
)  # fmt: skip
def test_twins_agree(graph, K, F, G, with0, B, seed):
    case = problem(seed, graph, K, F, G, B, with0)
    for ours, expected in zip(all_results(compiled, graph, *case), all_results(reference, graph, *case), strict=True):
        close(ours, expected, rtol=1e-13)


@pytest.mark.parametrize("B", [1, 2, 17, 33, 65, 113, 250])
def test_twins_agree_in_float32_at_every_width(B):
    graph = random_graph(4, 12)
    case = problem(3, graph, 3, 2, 2, B, True, np.float32)
    for ours, expected in zip(all_results(compiled, graph, *case), all_results(reference, graph, *case), strict=True):
        assert ours.dtype == np.float32
        close(ours, expected, rtol=1e-5)


@pytest.mark.parametrize("with0", [False, True])
@pytest.mark.parametrize("B", [1, 7, 130])
@pytest.mark.parametrize(("F", "G"), [(3, 1), (1, 3), (2, 2), (5, 2), (1, 1)])
def test_every_way_to_share_the_work_gives_the_same_bits(monkeypatch, F, G, B, with0):
    """States kept or not; filters in pairs or not; one, two or five threads: the same sums in the same order.

    Whole recursions and single steps, one or several blocks may differ in their last bits; sizes decide on these.
    """
    graph = random_graph(5, 40, density=0.2)
    case = problem(2, graph, 3, F, G, B, with0)
    results = {}
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    names = ("STEP_SIZE", "KEPT_BYTES", "BLOCK_BYTES", "PAIR_BYTES")
    for key in itertools.product((0, 10**9), (0, 2**22), (0, 2**30), (0, 2**30), (1, 2, 5)):
        for name, value in zip(names, key, strict=False):
            monkeypatch.setattr(compiled, name, value)
        with ev.use_threads(key[-1]):
            results[key] = all_results(compiled, graph, *case)
    for key, other in results.items():
        for ours, expected in zip(other, results[key[0], 0, key[2], 2**30, 1], strict=True):
            np.testing.assert_array_equal(ours, expected, err_msg=str(key))
    for key in itertools.product((0, 10**9), (0,), (0, 2**30), (2**30,), (1,)):
        for ours, expected in zip(results[key], results[0, 0, 0, 2**30, 1], strict=True):
            close(ours, expected, rtol=1e-12)


def test_no_steps_make_no_pairs(monkeypatch):
    """An empty sum: nothing may be read of a first step that is not there."""
    graph = random_graph(5, 20)
    case = problem(2, graph, 0, 8, 2, 60, False)
    monkeypatch.setattr(compiled, "PAIR_BYTES", 0)
    monkeypatch.setattr(loops, "kernels_for", loops.plain_kernels)  # where an index out of range is an error
    with ev.use_threads(1):
        y, _ = compiled.ev_forward(graph, case[0], None, case[2])
    assert not y.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with0", [False, True])
@pytest.mark.parametrize("B", [1, 5, 16, 130])
def test_a_layout_of_its_own_does_not_show(monkeypatch, B, with0, dtype):
    """Every way through a large graph whose rows lie in another order; the same bits for any number of threads."""
    graph = random_graph(5, 43, density=0.2, directed=True)
    local = graph.with_local_layout()
    assert (local._layout != np.arange(43)).any()
    case = problem(2, graph, 3, 2, 2, B, with0, dtype)
    monkeypatch.setattr(compiled, "STEP_SIZE", 0)
    monkeypatch.setattr(compiled, "LOCAL_BYTES", 0)
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    for kept_bytes in (0, 2**22):
        monkeypatch.setattr(compiled, "KEPT_BYTES", kept_bytes)
        with ev.use_threads(1):
            alone = all_results(compiled, local, *case)
        with ev.use_threads(3):
            for ours, same in zip(all_results(compiled, local, *case), alone, strict=True):
                np.testing.assert_array_equal(ours, same)
        for ours, expected in zip(alone, all_results(reference, graph, *case), strict=True):
            close(ours, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("step_size", [0, 10**9])
@pytest.mark.parametrize("with0", [False, True])
@pytest.mark.parametrize("B", [3, 60])
@pytest.mark.parametrize("K", [1, 2, 4, 5, 6, 9, 10])
def test_long_recursions_come_back_in_stretches(monkeypatch, K, B, with0, step_size):
    """Lengths that are, and are not, a whole number of stretches; the same bits as in one stretch."""
    graph = random_graph(5, 20, density=0.2)
    case = problem(2, graph, K, 2, 1, B, with0)
    monkeypatch.setattr(compiled, "STEP_SIZE", step_size)
    monkeypatch.setattr(compiled, "KEPT_BYTES", 0)
    expected = all_results(compiled, graph, *case)
    monkeypatch.setattr(compiled, "STRETCH", 0)
    for ours, value in zip(all_results(compiled, graph, *case), expected, strict=True):
        np.testing.assert_array_equal(ours, value)
    close(expected[1], all_results(reference, graph, *case)[1], rtol=1e-12)


@pytest.mark.parametrize("step_size", [0, 10**9])
@pytest.mark.parametrize("with0", [False, True])
@pytest.mark.parametrize("B", [3, 130])
def test_the_gradient_of_the_input_can_be_left_out(monkeypatch, step_size, with0, B):
    graph = random_graph(5, 40, density=0.2)
    phi, phi0, x, u = problem(2, graph, 3, 2, 2, B, with0)
    monkeypatch.setattr(compiled, "STEP_SIZE", step_size)
    for twin in (reference, compiled):
        _, saved = twin.ev_forward(graph, phi, phi0, x)
        grad_phi, grad_phi0, _ = twin.ev_backward(graph, phi, phi0, saved, u)
        alone = twin.ev_backward(graph, phi, phi0, saved, u, input_gradient=False)
        assert alone[2] is None
        close(alone[0], grad_phi, rtol=1e-13)
        assert (alone[1] is None) == (not with0)
        if with0:
            np.testing.assert_array_equal(alone[1], grad_phi0)


@pytest.mark.parametrize("by_block", [False, True])
@pytest.mark.parametrize("with0", [False, True])
@pytest.mark.parametrize("B", [3, 20])
def test_plain_loops_are_the_compiled_ones(monkeypatch, with0, by_block, B):
    """The loops run without a compiler too: what a mutation tool changes, this test sees; NumPy checks every index."""
    graph = random_graph(6, 6)
    case = problem(4, graph, 3, 2, 2, B, with0)
    expected = all_results(reference, graph, *case)
    monkeypatch.setattr(loops, "kernels_for", loops.plain_kernels)
    monkeypatch.setattr(compiled, "BLOCK_BYTES", 2**30 if by_block else 0)
    for step_size, kept_bytes in itertools.product((0, 10**9), (0, 2**22)):
        monkeypatch.setattr(compiled, "STEP_SIZE", step_size)
        monkeypatch.setattr(compiled, "KEPT_BYTES", kept_bytes)
        with ev.use_threads(1):
            for ours, value in zip(all_results(compiled, graph, *case), expected, strict=True):
                close(ours, value, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [0, 1, 2, 8, 9, 16, 17, 100, 129])
@pytest.mark.parametrize("made", [compiled_once, lambda function: function], ids=["compiled", "plain"])
def test_packing_is_undone_by_unpacking(made, dtype, batch):
    pack, unpack = made(packing.pack_tile), made(packing.unpack_tile)
    x = normal(0, batch, 3, 37, dtype=dtype)
    tiles = layout.empty_tiles(*x.shape, x.dtype)
    again = np.empty_like(x)
    for t, g in np.ndindex(tiles.shape[:2]):
        for lo, hi in ((0, 11), (11, 37)):
            pack(x, t, g, tiles[t, g], lo, lo, hi)
        for lo, hi in ((0, 20), (20, 37)):
            unpack(tiles[t, g], lo, again, t, g, lo, hi)
    assert batch == 0 or tiles.ctypes.data % 64 == 0
    assert tiles.shape[3] == layout.tile_width(batch, x.dtype)
    np.testing.assert_array_equal(again, x)
    flat = np.moveaxis(tiles, 3, 1).reshape(-1, 3, 37)
    np.testing.assert_array_equal(flat[:batch], x)
    assert (flat[batch:] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_whole_registers_and_padding_is_bounded(dtype):
    lanes = 64 // np.dtype(dtype).itemsize
    for batch in range(1, 400):
        width = layout.tile_width(batch, np.dtype(dtype))
        assert width % lanes == 0 or lanes % width == 0
        padded = -(-batch // width) * width
        assert padded < 2 * batch


def test_complex_is_for_the_reference_kernels():
    graph = random_graph(1, 3)
    phi, _, x, _ = problem(0, graph, 1, 1, 1, 1, False)
    with pytest.raises(TypeError, match="take no complex numbers"):
        compiled.ev_forward(graph, phi + 0j, None, x + 0j)
