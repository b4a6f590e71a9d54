"""The spectral GCNN: its kernel, its equation written out, special cases, and its map into the recursion."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import GRAPHS, close, normal, random_params

import evref as ev
from evref import checks
from evref.filters.interpolation import _newton, interpolation_embedding
from evref.filters.spectral import diagonalizable, spline_kernel
from evref.graph import NotDiagonalizable, RepeatedEigenvaluesWarning, fourier_basis

SYMMETRIC, DIRECTED = GRAPHS["undirected"], GRAPHS["directed"]


# ---- the equation ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("graph", [SYMMETRIC, DIRECTED], ids=["undirected", "directed"])
def test_output_is_the_equation_written_out(graph):
    """y_f = sum_g U diag(B b_fg) U^-1 x_g, sum by sum, with eigenvectors from SciPy."""
    from scipy.linalg import eig, inv

    filt = ev.SpectralGCNN(graph, n_basis=5, in_features=2, out_features=3)
    params, x = random_params(filt), normal(1, 2, 2, 7)
    lam, U = eig(graph.S.toarray())
    V, B = inv(U), spline_kernel(lam.real, 5)
    expected = np.zeros((2, 3, 7), complex)
    for s in range(2):
        for f in range(3):
            for g in range(2):
                for n in range(7):
                    h = sum(B[n, m] * params["b"][m, f, g] for m in range(5))
                    expected[s, f] += U[:, n] * h * (V[n] @ x[s, g])
    assert np.abs(expected.imag).max() < 1e-12
    y = filt.forward(params, x)[0]
    assert np.isrealobj(y)
    close(y, expected.real, rtol=1e-12)


def test_exact_case_in_small_integers():
    """S = [[0, 1], [1, 0]] has the eigenvalues -1 and 1; a straight line (b = 2) through 3 and 5 is 4 + lambda."""
    filt = ev.SpectralGCNN(ev.generators.complete(2), n_basis=2)
    np.testing.assert_array_equal(filt.B, np.eye(2))
    np.testing.assert_allclose(filt.matrix({"b": np.array([3.0, 5.0]).reshape(2, 1, 1)})[0, 0], [[4, 1], [1, 4]])


def test_a_transfer_function_that_is_a_polynomial_gives_that_polynomial():
    """Cubics are splines: with b = 4 and the right parameters the filter is S^3, on a directed graph too."""
    for graph in (SYMMETRIC, ev.generators.path(8)):
        filt = ev.SpectralGCNN(graph, n_basis=4)
        lam = filt.fourier.eigenvalues
        b = np.linalg.lstsq(filt.B, lam**3, rcond=None)[0]
        S = graph.S.toarray()
        close(filt.matrix({"b": b.reshape(4, 1, 1)})[0, 0], S @ S @ S, rtol=1e-12)
    linear = ev.SpectralGCNN(ev.generators.cycle(5, directed=True), n_basis=2)
    S = linear.graph.S.toarray()
    lam = linear.fourier.eigenvalues.real  # the real part is the transfer function of (S + S^T)/2 on a ring
    b = np.array([lam.min(), lam.max()])
    close(linear.matrix({"b": b.reshape(2, 1, 1)})[0, 0], (S + S.T) / 2, rtol=1e-12)


def test_response_is_in_the_order_of_the_eigenvalues():
    filt = ev.SpectralGCNN(DIRECTED, n_basis=5, in_features=2, out_features=3)
    params = random_params(filt)
    h = filt.response(params)
    assert h.shape == (3, 2, 7)
    np.testing.assert_array_equal(h, h[..., filt.fourier.partner])
    H = filt.matrix(params)
    for f, g in np.ndindex(3, 2):
        close(filt.fourier.matrix(h[f, g]), H[f, g], rtol=1e-12)


def test_repeated_eigenvalues_and_their_order_do_not_matter():
    """On a ring, any eigenvectors of the double eigenvalues give the same filter: the projectors decide."""
    graph = ev.generators.cycle(8)
    filt = ev.SpectralGCNN(graph, n_basis=5)
    params = random_params(filt)
    dft = np.exp(2j * np.pi * np.outer(np.arange(8), np.arange(8)) / 8)
    other = fourier_basis(graph, eigenvectors=dft)
    h = spline_kernel(other.eigenvalues, 5) @ params["b"][:, 0, 0]
    close(other.matrix(h), filt.matrix(params)[0, 0], rtol=1e-12)


# ---- the kernel -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("b", [1, 2, 3, 4, 5, 9])
def test_spline_kernel(b):
    lam = normal(0, 20)
    B = spline_kernel(lam, b)
    assert B.shape == (20, b) and (B >= 0).all()
    np.testing.assert_allclose(B.sum(1), 1, atol=1e-14)  # no row is zero, least of all that of the largest eigenvalue
    order = np.random.default_rng(1).permutation(20)
    np.testing.assert_array_equal(spline_kernel(lam[order], b), B[order])
    ends = B[[lam.argmin(), lam.argmax()]]
    np.testing.assert_allclose(ends, np.eye(b)[[0, -1]], atol=1e-14)  # clamped
    np.testing.assert_array_equal(spline_kernel(np.repeat(lam, 2), b), np.repeat(B, 2, axis=0))
    degree = min(3, b - 1)
    fitted = B @ np.linalg.lstsq(B, lam**degree, rcond=None)[0]
    np.testing.assert_allclose(fitted, lam**degree, atol=1e-12)


def test_spline_kernel_agrees_with_scipy_piece_by_piece():
    from scipy.interpolate import BSpline

    lam = np.linspace(-1, 3, 17)[::-1]
    knots = np.array([-1, -1, -1, -1, 1 / 3, 5 / 3, 3, 3, 3, 3])
    expected = np.stack([BSpline(knots, np.eye(6)[m], 3)(lam) for m in range(6)], axis=1)
    close(spline_kernel(lam, 6), expected, rtol=1e-13)


def test_one_eigenvalue_only():
    np.testing.assert_allclose(spline_kernel([2.0, 2.0, 2.0], 2), 0.5)
    filt = ev.SpectralGCNN(ev.Graph(np.zeros((3, 3))), n_basis=4)
    params = random_params(filt)
    h = filt.B[0] @ params["b"][:, 0, 0]
    close(filt.matrix(params)[0, 0], h * np.eye(3), rtol=1e-14)


def test_kernel_of_ones_own():
    fourier = fourier_basis(DIRECTED)
    B = np.stack([np.ones(7), np.abs(fourier.eigenvalues)], axis=1)
    filt = ev.SpectralGCNN(DIRECTED, n_basis=2, kernel=B)
    params = {"b": np.array([0.0, 1.0]).reshape(2, 1, 1)}
    close(filt.matrix(params)[0, 0], fourier.matrix(np.abs), rtol=1e-12)
    assert type(filt)(DIRECTED, **filt.config()).signature == filt.signature
    ev.gradcheck.dot_test(filt, random_params(filt)).raise_if_failed()
    with pytest.raises(ValueError, match=r"kernel has shape \(7, 2\); expected \(7, 3\)"):
        ev.SpectralGCNN(DIRECTED, n_basis=3, kernel=B)
    with pytest.raises(ValueError, match="rows on conjugate eigenvalues that differ by .* output would be complex"):
        ev.SpectralGCNN(DIRECTED, n_basis=1, kernel=fourier.eigenvalues.imag[:, None])
    with pytest.raises(ValueError, match="kernel is 'cubic'"):
        ev.SpectralGCNN(DIRECTED, n_basis=3, kernel="cubic")
    with pytest.raises(ValueError, match="kernel has 1 value"):
        ev.SpectralGCNN(DIRECTED, n_basis=2, kernel=np.where(B == B[3, 1], np.nan, B))


def test_kernel_that_tells_equal_eigenvalues_apart():
    ring = ev.generators.cycle(6)
    with pytest.warns(RepeatedEigenvaluesWarning, match="depends on the choice of eigenvectors"):
        filt = ev.SpectralGCNN(ring, n_basis=6, kernel=np.eye(6))
    assert not filt.equivariant and ev.SpectralGCNN(ring, n_basis=6).equivariant
    with pytest.raises(ev.NotRepresentable, match="values on equal ones differ"):
        filt.to_edge_variant({"b": np.arange(6.0).reshape(6, 1, 1)})


# ---- errors, counts -------------------------------------------------------------------------------------------------
def test_not_diagonalizable():
    with pytest.raises(NotDiagonalizable, match="condition number"):
        ev.SpectralGCNN(ev.Graph([[0, 1], [0, 0]]), n_basis=2)
    assert diagonalizable(DIRECTED) is DIRECTED
    assert diagonalizable(ev.generators.path(3, directed=True)).is_symmetric


@pytest.mark.parametrize(("b", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_n_basis(b, error):
    with pytest.raises(error, match="n_basis is"):
        ev.SpectralGCNN(SYMMETRIC, n_basis=b)


def test_counts():
    """b F G parameters, 'at most b F^2'; O(N^2) operations for the transforms."""
    filt = ev.SpectralGCNN(SYMMETRIC, n_basis=5, in_features=2, out_features=3)
    assert filt.n_parameters == 5 * 2 * 3 < 5 * 3**2
    assert ev.SpectralGCNN(SYMMETRIC, n_basis=5, in_features=3, out_features=3).n_parameters == 5 * 3**2
    assert filt.n_operations(2) == 2 * (5 * 49 + 6 * 7)
    b = filt.init(0)["b"]
    assert 0.8 * 10**-0.5 < np.abs(b).max() <= 10**-0.5  # 1 / sqrt(G b)


# ---- the map into the recursion --------------------------------------------------------------------------------------
CASES = {
    "undirected": SYMMETRIC,
    "directed": DIRECTED,
    "one node": GRAPHS["one node"],
    "no edges": GRAPHS["no edges"],
    "path of 60": ev.generators.path(60),
    "ring": ev.generators.cycle(9),
    "directed ring": ev.generators.cycle(9, directed=True),
    "complete": ev.generators.complete(6),
    "grid": ev.generators.grid(3, 4),
}


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES.keys())
def test_embedding_has_one_step_less_than_distinct_eigenvalues(graph):
    filt = ev.SpectralGCNN(graph, n_basis=5, in_features=2, out_features=2, bias=True)
    params = random_params(filt)
    recursion, embedded = filt.to_edge_variant(params)
    assert recursion.order == filt.fourier.groups.max() and recursion.zeroth == "diagonal"
    close(recursion.matrix(embedded), filt.matrix(params), rtol=1e-11)
    x = normal(1, 2, *filt.in_shape)
    close(recursion.forward(embedded, x)[0], filt.forward(params, x)[0], rtol=1e-11)


@pytest.mark.parametrize(
    "b", [np.ones(5), np.zeros(5), np.arange(5.0), np.eye(5)[0], np.eye(5)[2], np.array([1.0, -1.0, 0.0, 1.0, -1.0])]
)
def test_embedding_of_special_transfer_functions(b):
    """Constant, zero, nearly linear, symmetric: divided differences vanish, in some orders of the nodes or in all."""
    filt = ev.SpectralGCNN(ev.generators.path(6), n_basis=5)
    params = {"b": b.reshape(5, 1, 1)}
    recursion, embedded = filt.to_edge_variant(params)
    np.testing.assert_allclose(recursion.matrix(embedded), filt.matrix(params), atol=1e-13)


def test_embedding_says_where_rounding_wins():
    graph = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)[0]
    filt = ev.SpectralGCNN(graph, n_basis=5)
    with pytest.raises(ev.NotRepresentable, match=r"polynomial of order 49 exists, but .* misses the filter by"):
        filt.to_edge_variant(filt.init(0))


def test_embedding_is_analytic():
    filt = ev.SpectralGCNN(DIRECTED, n_basis=3)
    params = random_params(filt)
    h = 1e-6
    for m in range(3):
        moved = {"b": params["b"].astype(complex)}
        moved["b"][m] += 1e-30j
        with checks.complex_allowed():
            _, step = filt.to_edge_variant(moved)
        up, down = ({"b": params["b"] + sign * h * np.eye(3)[m].reshape(3, 1, 1)} for sign in (1, -1))
        for key in ("phi", "phi0"):
            slope = (filt.to_edge_variant(up)[1][key] - filt.to_edge_variant(down)[1][key]) / (2 * h)
            close(step[key].imag / 1e-30, slope, rtol=1e-5)


def test_vanishing_divided_difference():
    """Another order of the nodes is taken where there is one, and the message says so where there is none."""
    graph = ev.generators.path(3)  # eigenvalues -sqrt 2, 0, sqrt 2
    fourier = fourier_basis(graph)
    for values in ([1.0, 3.0, 1.0], [0.0, 1.0, 2.0], [1.0, 0.0, 0.0]):
        recursion, params = interpolation_embedding(graph, fourier, np.reshape(values, (1, 1, 3)))
        close(recursion.matrix(params)[0, 0], fourier.matrix(np.array(values)), rtol=1e-13)
    five = ev.generators.path(5)
    fourier, values = fourier_basis(five), np.array([1.0, 0.0, 1.0, 0.0, 1.0])  # zero in every Leja order
    recursion, params = interpolation_embedding(five, fourier, values.reshape(1, 1, 5))
    close(recursion.matrix(params)[0, 0], fourier.matrix(values), rtol=1e-12)
    with pytest.raises(ev.NotRepresentable, match="vanishes in each of 1 orders of the 5 distinct eigenvalues"):
        _newton(fourier.eigenvalues, values, [np.array([1, 0, 2, 3, 4])])


# ---- pictures -------------------------------------------------------------------------------------------------------
def test_pictures():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from evref import plot

    for graph in (SYMMETRIC, DIRECTED):
        filt = ev.SpectralGCNN(graph, n_basis=5)
        h = filt.response(filt.init(0))[0, 0]
        ax = plot.transfer(filt.fourier.eigenvalues, h, label="spline", kernel=filt.B)
        assert len(ax.lines) == 5 + 1 + 1 and ax.get_legend() is not None  # kernel, response, zero
        assert plot.transfer(filt.fourier.eigenvalues, h, ax) is ax
    rows = [
        {"family": "path", "nodes": 9, "free": 2, "tied": 2},
        {"family": "complete", "nodes": 8, "free": 8, "tied": 2},
    ]
    ax = plot.nullspace_dimensions(rows)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["path", "complete"]
    assert [bar.get_width() for bar in ax.patches] == [2, 8, 2, 2]
    plt.close("all")
    with pytest.raises(ValueError, match=r"response has shape \(3,\); expected \(7,\)"):
        plot.transfer(np.ones(7), np.ones(3))
    with pytest.raises(ValueError, match=r"kernel has shape \(3, 2\); expected \(7, b\)"):
        plot.transfer(np.ones(7), np.ones(7), kernel=np.ones((3, 2)))
    with pytest.raises(ValueError, match="rows is empty"):
        plot.nullspace_dimensions([])
    plt.close("all")


def test_response_between_the_eigenvalues():
    graph = ev.generators.path(7)
    filt = ev.SpectralGCNN(graph, 5, 2, 3)
    params = filt.init(rng=1)
    lam = filt.fourier.eigenvalues
    np.testing.assert_allclose(filt.response(params, lam), filt.response(params), rtol=1e-14)
    # a clamped spline whose coefficients are the Greville points is the straight line h(λ) = λ
    knots = np.array([lam[0]] * 4 + [lam.mean()] + [lam[-1]] * 4)
    knots[4] = (lam[0] + lam[-1]) / 2
    greville = np.array([knots[i + 1 : i + 4].mean() for i in range(5)])
    grid = np.linspace(lam[0], lam[-1], 50)
    line = ev.SpectralGCNN(graph, 5).response({"b": greville[:, None, None]}, grid)[0, 0]
    np.testing.assert_allclose(line, grid, atol=1e-14)
    with pytest.raises(ValueError, match=r"at has shape \(1,\); expected one row of numbers in"):
        filt.response(params, [lam[-1] + 1])


def test_responses_that_exist_at_the_eigenvalues_alone():
    graph = ev.generators.path(4)
    own = ev.SpectralGCNN(graph, 2, kernel=np.ones((4, 2)))
    invariant = ev.ShiftInvariantEdgeVariant(graph, 2)
    for filt in (own, invariant):
        params = filt.init(rng=0)
        assert filt.response(params).shape == (1, 1, 4)
        with pytest.raises(ev.NotRepresentable, match="no value"):
            filt.response(params, [0.5])
