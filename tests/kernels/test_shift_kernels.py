"""The shift kernels: both twins against the equation, against each other, plain loops against both, faults caught."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, edited, graphs, normal, poison_memory, random_graph

import evref as ev
from evref import kernels
from evref.kernels import compiled, groups, shift_compiled, shift_loops, shift_reference

TWINS = {"reference": shift_reference, "compiled": shift_compiled}
each_twin = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())


def matrices(graph: ev.Graph, taps: int, chebyshev: bool) -> list[np.ndarray]:
    """S^k, or T_k(S) by the definition of T_k from its coefficients."""
    S = graph.S.toarray().astype(np.float64)
    powers = [np.linalg.matrix_power(S, k) for k in range(taps)]
    if not chebyshev:
        return powers
    basis = [np.polynomial.chebyshev.cheb2poly(np.eye(taps)[k][: k + 1]) for k in range(taps)]
    return [sum(c * powers[j] for j, c in enumerate(row)) for row in basis]


def oracle(graph, weights, x, v, chebyshev=False, grouping=None, first=0):
    """y and both gradients with dense matrices, for coefficients per node (a polynomial's are the same at all)."""
    c = weights[..., np.newaxis] if grouping is None else weights
    copied = np.zeros(graph.n_nodes, int) if grouping is None else grouping.copied
    P = matrices(graph, first + len(weights), chebyshev)[first:]
    y = np.zeros((len(x), weights.shape[1], graph.n_nodes))
    grad_x, grad_c = np.zeros(x.shape), np.zeros(c.shape)
    for k, f, g in itertools.product(*map(range, weights.shape[:3])):
        state = x[:, g] @ P[k].T
        y[:, f] += c[k, f, g][copied] * state
        grad_x[:, g] += (c[k, f, g][copied] * v[:, f]) @ P[k]
        np.add.at(grad_c[k, f, g], copied, (v[:, f] * state).sum(axis=0))
    return y, grad_c.reshape(weights.shape), grad_x


def problem(seed, graph, taps, F, G, B, n_groups=0, dtype=np.float64):
    """Weights, x, v and the groups; n_groups=0: a polynomial. Every group has a node, in no order."""
    N, grouping, tail = graph.n_nodes, None, ()
    if n_groups:
        n_groups = min(n_groups, N)
        rng = np.random.default_rng(seed)
        copied = rng.permutation(np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, N - n_groups)]))
        grouping, tail = groups.group_nodes(copied, n_groups), (n_groups,)
    weights = normal(seed, taps, F, G, *tail, dtype=dtype)
    return weights, normal(seed + 1, B, G, N, dtype=dtype), normal(seed + 2, B, F, N, dtype=dtype), grouping


def results(twin, graph, weights, x, v, grouping, chebyshev=False, first=0):
    options = {"chebyshev": chebyshev, "groups": grouping, "first": first}
    y, saved = twin.shift_forward(graph, weights, x, **options)
    once = twin.shift_backward(graph, weights, saved, v, **options)
    again = twin.shift_backward(graph, weights, saved, v, **options)
    for a, b in zip(once, again, strict=True):  # a tape can be used twice
        np.testing.assert_array_equal(a, b)
    return [y, *once]


@each_twin
@given(
    graph=graphs(), taps=st.integers(1, 5), F=st.integers(1, 3), G=st.integers(1, 3), n_groups=st.integers(0, 8),
    chebyshev=st.booleans(), first=st.integers(0, 2), B=st.sampled_from([1, 2, 3, 9]), seed=st.integers(0, 99),
)  # fmt: skip
def test_is_the_equation_and_its_adjoint(twin, graph, taps, F, G, n_groups, chebyshev, first, B, seed):
    weights, x, v, grouping = problem(seed, graph, taps, F, G, B, n_groups)
    ours = results(twin, graph, weights, x, v, grouping, chebyshev, first)
    for actual, expected in zip(ours, oracle(graph, weights, x, v, chebyshev, grouping, first), strict=True):
        close(actual, expected)


@each_graph
@pytest.mark.parametrize("n_groups", [0, 1, 3, 99])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_twins_agree_at_every_width(graph, n_groups, dtype):
    for B, chebyshev in itertools.product([1, 2, 3, 5, 9, 17, 33, 60, 113, 250], [False, True]):
        case = problem(B, graph, 4, 2, 3, B, n_groups, dtype)
        both = (results(twin, graph, *case, chebyshev=chebyshev) for twin in TWINS.values())
        for expected, ours in zip(*both, strict=True):
            assert ours.dtype == dtype
            close(ours, expected, rtol=1e-13 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_groups", [0, 2, 11])
@pytest.mark.parametrize("B", [1, 3, 8, 100, 130])
def test_blocks_that_are_not_filled(B, n_groups, dtype):
    """Features, taps and nodes in numbers that no block divides."""
    graph = random_graph(3, 11)
    for F, G in itertools.product([1, 2, 3, 5, 7], repeat=2):
        case = problem(B, graph, 3, F, G, B, n_groups, dtype)
        both = (results(twin, graph, *case, first=G % 2) for twin in TWINS.values())
        for expected, ours in zip(*both, strict=True):
            close(ours, expected, rtol=1e-13 if dtype == np.float64 else 2e-5)


@each_twin
def test_small_integers_are_exact(twin):
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3], weight=[2, 3, 5])
    weights = np.array([1.0, 10.0, 100.0]).reshape(3, 1, 1)
    y, grad_weights, grad_x = results(twin, graph, weights, np.eye(4)[:1, None], np.ones((1, 1, 4)), None)
    np.testing.assert_array_equal(y.ravel(), [1, 20, 600, 0])
    np.testing.assert_array_equal(grad_weights.ravel(), [1, 2, 6])
    np.testing.assert_array_equal(grad_x.ravel(), [621, 1531, 51, 1])


@each_twin
def test_an_empty_batch_gives_empty_signals_and_zero_gradients(twin):
    case = problem(0, GRAPHS["directed"], 3, 2, 2, 0)
    y, grad_weights, grad_x = results(twin, GRAPHS["directed"], *case)
    assert y.shape == grad_x.shape == (0, 2, 7)
    assert (grad_weights == 0).all()


@pytest.mark.parametrize("n_groups", [0, 4, 40])
@pytest.mark.parametrize("B", [1, 7, 130])
def test_threads_and_pieces_do_not_change_the_bits(monkeypatch, B, n_groups):
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    monkeypatch.setattr(groups, "PIECE", 6)
    groups.one_group.cache_clear()
    graph = random_graph(5, 40, density=0.2)
    case = problem(2, graph, 4, 3, 2, B, n_groups)
    found = []
    for threads in (1, 2, 5):
        with ev.use_threads(threads):
            found.append(results(shift_compiled, graph, *case, chebyshev=True))
    groups.one_group.cache_clear()
    for other in found[1:]:
        for ours, expected in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(ours, expected)
    for ours, expected in zip(found[0], results(shift_reference, graph, *case, chebyshev=True), strict=True):
        close(ours, expected, rtol=1e-13)


@each_twin
@pytest.mark.parametrize("n_groups", [0, 3])
def test_nan_reaches_what_it_should_and_nothing_else(twin, n_groups):
    """Path 0 -> 1 -> 2 -> 3 with NaN at node 1 of sample 1: it and node 2 hear it, and the gradients of the weights."""
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3])
    weights, x, v, grouping = problem(0, graph, 2, 1, 1, 3, n_groups)
    x[1, 0, 1] = np.nan
    y, grad_weights, grad_x = results(twin, graph, weights, x, v, grouping)
    np.testing.assert_array_equal(np.isnan(y[:, 0]), [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    assert not np.isnan(grad_x).any()
    assert np.isnan(grad_weights).any()
    if not n_groups:
        assert np.isnan(grad_weights).all()


def test_two_tapes_may_be_open_at_once():
    """Scratch is reused from call to call; nothing of a tape or a result may live in it."""
    graph = GRAPHS["directed"]
    first, second = (problem(seed, graph, 3, 2, 2, 5) for seed in (0, 10))
    alone = [results(shift_compiled, graph, *case) for case in (first, second)]
    runs = [(case, *shift_compiled.shift_forward(graph, *case[:2])) for case in (first, second)]
    grads = [shift_compiled.shift_backward(graph, case[0], saved, case[2]) for case, _, saved in runs]
    for expected, (_, y, _), both in zip(alone, runs, grads, strict=True):
        for ours, value in zip((y, *both), expected, strict=True):
            np.testing.assert_array_equal(ours, value)


def test_complex_goes_to_the_reference():
    with ev.use_backend("numba"):
        assert kernels.for_shifts(np.dtype(complex)) is shift_reference
        assert kernels.for_shifts(np.dtype(float)) is shift_compiled


# ---- without a compiler, and with faults ---------------------------------------------------------------------------
def run_plain(monkeypatch, module):
    monkeypatch.setattr(shift_loops, "kernels_for", module.plain_kernels)


# groups, Chebyshev, B, F, G: with three taps and eleven nodes every kind of block occurs, and what is left over of each
CASES = [(0, False, 3, 1, 5), (3, True, 60, 5, 2), (0, True, 60, 4, 1), (3, False, 3, 2, 3)]


def largest_difference() -> float:
    """Between the twins, over the cases, relative; a failure and a NaN count as infinite."""
    graph, worst = random_graph(6, 11), 0.0
    for n_groups, chebyshev, B, F, G in CASES:
        case = problem(4, graph, 3, F, G, B, n_groups)
        try:
            ours = results(shift_compiled, graph, *case, chebyshev=chebyshev, first=1)
        except (IndexError, AssertionError):  # out of range, or a second use of the tape differs
            return np.inf
        for a, b in zip(ours, results(shift_reference, graph, *case, chebyshev=chebyshev, first=1), strict=True):
            worst = max(worst, np.nan_to_num(np.abs(a - b).max() / np.abs(b).max(), nan=np.inf))
    return worst


def test_plain_loops_are_the_compiled_ones(monkeypatch):
    run_plain(monkeypatch, shift_loops)
    assert largest_difference() < 1e-13


LOOP_FAULTS = [
    ("self instead of neighbour", "origin + indices[p]", "origin + i"),
    ("sum not carried on", "+ indices[p], zero), row)", "+ indices[p], zero), zero)"),
    ("adjoint goes up", "K - 1 - step if adjoint else step + 1", "step + 1"),
    ("adjoint not seeded", "load(states, target + i, zero) if adjoint else zero", "zero"),
    ("three terms with a plus", "scale_add(minus, load", "scale_add(-minus, load"),
    ("three terms from the start", "if chebyshev and step > 0:", "if chebyshev:"),
    ("doubled once too often", "k > 0 if adjoint else k > 1", "True"),
    ("never doubled", "k > 0 if adjoint else k > 1", "False"),
    ("pieces of other nodes", "at = order[n] * parts", "at = n * parts"),
    ("coefficients of another node", "weights, copied[i], strides", "weights, copied[0], strides"),
    ("coefficients of another node, adjoint", "g * C + copied[i]", "g * C + copied[0]"),
    ("taps and features swapped in the gradient", "(k * F + f) * G + g", "(f * taps + k) * G + g"),
    ("pieces not cleared", "store_block(totals, r, 0, one)", "pass"),
    ("sums of a few nodes only", "total = load_block(totals, f * M + m, M, outer", "total = (outer"),
    ("coefficients of one tap", "first + s * strides[0] + t", "first + t"),
    ("coefficients of one feature", "s * strides[0] + t * strides[1]", "s * strides[0]"),
    ("rows of one tap", "row + (s * counts[1] + t) * step", "row + t * step"),
    ("a row left over", "if n_out % 2:", "if False:"),
    ("half of a block", "totals, f, M, column(2, wide))", "totals, f, M, column(1, wide))"),
    ("one of a block left over", "if F % 2:", "if False:"),
    ("products left over", "range(M - M % 4, M)", "range(M - M % 4, M - 1)"),
    ("first blocks of rows only", "range(0, n_out - 1, 2)", "range(0, n_out - 3, 2)"),
    ("taps before the first not cleared", "store(u, r, zero)", "pass"),
    ("gradient of another feature", "grad_x, t, g, 0, N)", "grad_x, t, 0, 0, N)"),
    ("weights of another feature", "weights, g * C + copied[i]", "weights, copied[i]"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "old", "new"), LOOP_FAULTS, ids=[fault[0] for fault in LOOP_FAULTS])
def test_faults_in_the_loops_are_caught(monkeypatch, what, old, new):
    poison_memory(monkeypatch)
    run_plain(monkeypatch, edited(shift_loops, old, new))
    assert largest_difference() > 1e-9, f"{what}: not caught"
