"""What is particular to MoNet; what it shares with ECC is in test_ecc.py."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev
from evref.filters.generated import degree_coordinates

OPTIONS = [
    {"covariance": c, "aggregation": a, "root": r, "self_entries": s}
    for c, a, (r, s) in product(("diagonal", "full"), ("sum", "mean"), ((False, True), (True, False)))
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))


def wide(filt: ev.MoNet, seed: int = 0) -> dict[str, np.ndarray]:
    """Lively parameters with widths away from zero, of both signs."""
    params = random_params(filt, seed)
    params["sigma"] = np.sign(params["sigma"]) * (0.5 + np.abs(params["sigma"]))
    return params


def by_hand(filt: ev.MoNet, params: dict, x: np.ndarray) -> np.ndarray:
    """One sample, every sum a loop, the density of each Gaussian from its covariance matrix."""
    graph, S, D = filt.graph, filt.graph.S.toarray(), filt.pseudo.shape[1]
    y = np.zeros(filt.out_shape)
    for i in range(graph.n_nodes):
        heard = [
            (p, int(graph.indices[p]))
            for p in range(graph.indptr[i], graph.indptr[i + 1])
            if filt.self_entries or graph.indices[p] != i or S[i, i] != 0
        ]
        share = 1 / len(heard) if filt.aggregation == "mean" and heard else 1
        for r in range(filt.kernels):
            if filt.covariance == "diagonal":
                covariance = np.diag(params["sigma"][r] ** 2)
            else:
                C, entries = np.zeros((D, D)), iter(params["sigma"][r])
                for a in range(D):
                    for b in range(a + 1):
                        C[a, b] = next(entries)
                covariance = C @ C.T
            for p, j in heard:
                d = filt.pseudo[p] - params["mu"][r]
                w = np.exp(-0.5 * d @ np.linalg.inv(covariance) @ d)
                y[:, i] += share * w * params["theta"][r] @ x[:, j]
        if filt.root:
            y[:, i] += params["root"] @ x[:, i]
    return y


@each_option
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_loops_from_the_equation(graph, options):
    filt = ev.MoNet(graph, normal(4, graph.nnz, 3), 2, in_features=2, out_features=3, **options)
    params, x = wide(filt), normal(1, 2, graph.n_nodes)
    expected = by_hand(filt, params, x)
    close(np.einsum("fgij,gj->fi", filt.matrix(params), x), expected, rtol=1e-11)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            close(filt.forward(params, x)[0], expected, rtol=1e-11)


@each_option
def test_gradients_in_every_setting(options):
    graph = GRAPHS["directed"]
    filt = ev.MoNet(graph, normal(4, graph.nnz, 2), 2, in_features=2, out_features=2, bias=True, **options)
    params, x = wide(filt), normal(1, 2, 2, graph.n_nodes)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            ev.gradcheck.dot_test(filt, params, x, rtol=1e-12).raise_if_failed()
            ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()
    free, phi = filt.to_edge_variant(params)
    close(free.matrix(phi), filt.matrix(params), rtol=1e-11)


def test_at_its_mean_a_gaussian_is_one_exactly():
    """0 -> 1, 2 -> 1; both kernels sit on a coordinate that occurs, and far from the other."""
    graph = ev.Graph.from_edges(3, source=[0, 2], target=[1, 1])  # entries (0,0), (1,0), (1,1), (1,2), (2,2)
    u = np.array([[0.0], [1000.0], [0.0], [1000.0], [0.0]])
    filt = ev.MoNet(graph, u, kernels=2)
    params = {"theta": np.array([2.0, 3.0]).reshape(2, 1, 1), "mu": [[0.0], [1000.0]], "sigma": [[1.0], [-4.0]]}
    x = np.array([1.0, 10.0, 100.0])
    y, tape = filt.forward(params, x)
    np.testing.assert_array_equal(y, [2, 3 + 20 + 300, 200])
    np.testing.assert_array_equal(filt.matrix(params)[0, 0], [[2, 0, 0], [3, 2, 3], [0, 0, 2]])
    grads, grad_x = filt.backward(params, tape, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(grads["theta"].ravel(), [1 + 10, 1 + 100])
    np.testing.assert_array_equal(grads["mu"], 0)  # a maximum
    np.testing.assert_array_equal(grad_x, [2 + 3, 2, 3])


def test_one_gaussian_by_hand():
    """w = exp(-d^2 / 2 s^2): dw/dmu = w d / s^2, dw/ds = w d^2 / s^3."""
    filt = ev.MoNet(ev.Graph([[0.0]]), pseudo=[[2.0]], kernels=1)
    params = {"theta": np.full((1, 1, 1), 3.0), "mu": np.array([[0.5]]), "sigma": np.array([[2.0]])}
    y, tape = filt.forward(params, [7.0])
    w = np.exp(-(1.5**2) / 8)
    close(y, [21 * w], rtol=1e-15)
    grads, _ = filt.backward(params, tape, [1.0])
    close(grads["mu"], [[21 * w * 1.5 / 4]], rtol=1e-15)
    close(grads["sigma"], [[21 * w * 1.5**2 / 8]], rtol=1e-15)
    close(grads["theta"].ravel(), [7 * w], rtol=1e-15)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_a_diagonal_covariance_is_a_full_one_with_zeros(graph, seed):
    u = normal(seed, graph.nnz, 3)
    diagonal, full = (ev.MoNet(graph, u, 2, 2, 2, covariance=c) for c in ("diagonal", "full"))
    params = wide(diagonal, seed)
    sigma = np.zeros((2, 6))
    sigma[:, [0, 2, 5]] = params["sigma"]  # (0, 0), (1, 1), (2, 2) of the triangle, row by row
    x = normal(seed, 2, 2, graph.n_nodes)
    (y, tape), (z, tape_full) = diagonal.forward(params, x), full.forward({**params, "sigma": sigma}, x)
    np.testing.assert_array_equal(y, z)
    one, two = diagonal.backward(params, tape, y)[0], full.backward({**params, "sigma": sigma}, tape_full, y)[0]
    close(two["sigma"][:, [0, 2, 5]], one["sigma"], rtol=1e-14)
    for key in ("theta", "mu"):
        close(two[key], one[key], rtol=1e-14)


def test_the_sign_of_a_width_does_not_matter():
    filt = ev.MoNet(GRAPHS["directed"], kernels=2)
    params, x = wide(filt), normal(0, 7)
    turned = {**params, "sigma": -params["sigma"]}
    np.testing.assert_array_equal(filt.forward(params, x)[0], filt.forward(turned, x)[0])
    one, two = (filt.backward(p, filt.forward(p, x)[1], x)[0] for p in (params, turned))
    np.testing.assert_array_equal(one["sigma"], -two["sigma"])


@given(graph=graphs(), seed=st.integers(0, 99))
def test_turning_coordinates_and_covariance_together_changes_nothing(graph, seed):
    """u' = A u, mu' = A mu, Sigma' = A Sigma A^T: only the full covariance follows a shear."""
    u = normal(seed, graph.nnz, 2)
    A = np.array([[2.0, 0.0], [-1.0, 0.5]])  # lower triangular, so that A C is the factor again
    filt, sheared = ev.MoNet(graph, u, 2, covariance="full"), ev.MoNet(graph, u @ A.T, 2, covariance="full")
    params = wide(filt, seed)
    C = filt._factors(params["sigma"])
    moved = {**params, "mu": params["mu"] @ A.T, "sigma": (A @ C)[:, [0, 1, 1], [0, 0, 1]]}
    x = normal(seed, graph.n_nodes)
    close(sheared.forward(moved, x)[0], filt.forward(params, x)[0], rtol=1e-11)


@given(graph=graphs())
def test_infinitely_wide_it_sums_over_the_neighbourhood(graph):
    filt = ev.MoNet(graph, kernels=1)
    params = {"theta": np.ones((1, 1, 1)), "mu": np.zeros((1, 2)), "sigma": np.full((1, 2), 1e12)}
    pattern = graph.to_csr(np.ones(graph.nnz)).toarray()
    np.testing.assert_array_equal(filt.matrix(params)[0, 0], pattern)
    mean = ev.MoNet(graph, kernels=1, aggregation="mean").matrix(params)[0, 0]
    close(mean.sum(axis=1), np.ones(graph.n_nodes), rtol=1e-15)


def test_coordinates_of_the_publication_by_default():
    graph = GRAPHS["undirected"]
    filt = ev.MoNet(graph)
    np.testing.assert_array_equal(filt.pseudo, degree_coordinates(graph))
    with pytest.raises(ValueError, match="read-only"):
        filt.pseudo[0] = 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_narrow_gaussian_far_away_is_zero_and_nothing_worse(dtype):
    filt = ev.MoNet(GRAPHS["directed"], kernels=1)
    params = {"theta": np.ones((1, 1, 1)), "mu": np.full((1, 2), 5.0), "sigma": np.full((1, 2), 2e-8)}
    params = {key: value.astype(dtype) for key, value in params.items()}
    x = np.ones(7, dtype)
    y, tape = filt.forward(params, x)
    grads, grad_x = filt.backward(params, tape, x)
    assert all((value == 0).all() for value in (y, grad_x, *grads.values()))


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_width_of_zero_is_refused(covariance):
    filt = ev.MoNet(GRAPHS["directed"], kernels=2, covariance=covariance)
    params = wide(filt)
    params["sigma"][1, -1] = 1e-9
    message = r"params\['sigma'\] has the width 1e-09 for kernel 1 along coordinate 1; expected at least 1e-08"
    for use in (lambda p: filt.forward(p, np.ones(7)), filt.matrix, filt.to_edge_variant):
        with pytest.raises(ValueError, match=message):
            use(params)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_start_and_counts(covariance):
    graph = ev.generators.path(9)
    filt = ev.MoNet(graph, np.ones((graph.nnz, 3)), 40, 2, 3, covariance=covariance, root=True, bias=True)
    triangle = 3 if covariance == "diagonal" else 6
    assert filt.n_parameters == 40 * (6 + 3 + triangle) + 6 + 3
    assert filt.n_operations(5) == 5 * 6 * graph.nnz
    assert filt.n_generation_operations == graph.nnz * 40 * (triangle + 3 + 6)
    params = filt.init(rng=0)
    widths = params["sigma"][:, [0, 1, 2] if covariance == "diagonal" else [0, 2, 5]]
    assert 0.5 <= widths.min() < 0.7 and 1.3 < widths.max() <= 1.5
    if covariance == "full":
        assert np.abs(params["sigma"][:, [1, 3, 4]]).max() <= 0.5
    assert np.abs(params["theta"]).max() <= 80**-0.5 and 0.9 < np.abs(params["mu"]).max() <= 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"pseudo": np.ones((3, 2))}, ValueError, r"pseudo has shape \(3, 2\); expected \(22, D\)"),
        ({"pseudo": np.full((22, 2), np.inf)}, ValueError, "pseudo has 44 value.* not finite"),
        ({"pseudo": [["a"]]}, TypeError, "pseudo has dtype <U1"),
        ({"kernels": 0}, ValueError, "kernels is 0; expected at least 1"),
        ({"kernels": 2.0}, TypeError, "kernels is 2.0"),
        ({"covariance": "spherical"}, ValueError, "covariance is 'spherical'; expected one of 'diagonal', 'full'"),
        ({"aggregation": "max"}, ValueError, "aggregation is 'max'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.MoNet(GRAPHS["directed"], **arguments)
