"""Eigenvectors, transforms and transfer functions, against formulae and against SciPy and networkx."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, normal, random_graph

import evref as ev
from evref.graph import Fourier, NotDiagonalizable, fourier_basis, partial_fourier_basis

JORDAN = ev.Graph([[2.0, 1.0], [0.0, 2.0]])
DFT = np.exp(2j * np.pi * np.outer(np.arange(9), np.arange(9)) / 9)


def usable(graph: ev.Graph) -> Fourier | None:
    try:
        return fourier_basis(graph, max_condition=1e3)
    except NotDiagonalizable:
        return None


@given(seed=st.integers(0, 2**20), n_nodes=st.integers(1, 8), directed=st.booleans())
def test_eigenvectors_and_round_trip(seed, n_nodes, directed):
    graph = random_graph(seed, n_nodes, directed)
    fourier = usable(graph)
    if fourier is None:
        return
    S = graph.S.toarray()
    scale = max(np.abs(S).max(), 1) * fourier.condition
    assert np.abs(S @ fourier.U - fourier.U * fourier.eigenvalues).max() <= 1e-13 * scale
    assert np.abs(fourier.U @ fourier.U_inverse - np.eye(n_nodes)).max() <= 1e-13 * fourier.condition
    np.testing.assert_allclose(np.linalg.norm(fourier.U, axis=0), 1, rtol=1e-14)
    x = normal(seed, 3, n_nodes)
    close(fourier.inverse(fourier.gft(x)), x, rtol=1e-13 * fourier.condition)
    close(fourier.matrix(fourier.eigenvalues), S, rtol=1e-12 * scale) if S.any() else None
    np.testing.assert_array_equal(fourier.eigenvalues, fourier.eigenvalues[fourier.partner].conj())
    np.testing.assert_array_equal(fourier.U, fourier.U[:, fourier.partner].conj())
    first, second = fourier.pairs
    np.testing.assert_array_equal(second, first + 1)  # conjugates side by side
    assert (fourier.eigenvalues.imag[first] > 0).all()
    assert (np.diff(fourier.eigenvalues.real) >= -1e-9 * scale).all()


@given(seed=st.integers(0, 2**20), n_nodes=st.integers(1, 8))
def test_a_real_spectrum_is_real_whatever_dtype_eig_has(seed, n_nodes):
    """Triangular: the eigenvalues are the diagonal. From NumPy 2.5 on `eig` returns complex arrays all the same."""
    S = np.tril(normal(seed, n_nodes, n_nodes), -1) + np.diag(np.arange(1.0, n_nodes + 1))
    graph, eig = ev.Graph(S), np.linalg.eig
    bases = []
    for dtype in (np.float64, np.complex128):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np.linalg, "eig", lambda S: [a.real.astype(dtype) for a in eig(S)])
            bases.append(fourier_basis(graph, max_condition=1e12))
    for fourier in bases:
        assert fourier.kind != "complex"
        for name in ("eigenvalues", "U", "U_inverse"):
            assert getattr(fourier, name).dtype == np.float64
            np.testing.assert_array_equal(getattr(fourier, name), getattr(bases[0], name))
        for dtype in (np.float32, np.float64):  # a complex array cast to real would warn
            assert fourier.gft(normal(seed, n_nodes).astype(dtype)).dtype == dtype


@given(seed=st.integers(0, 2**20), n_nodes=st.integers(1, 8), directed=st.booleans())
def test_real_form(seed, n_nodes, directed):
    fourier = usable(random_graph(seed, n_nodes, directed))
    if fourier is None:
        return
    U, V = fourier.real_form
    close(U @ V, np.eye(n_nodes), rtol=1e-12 * fourier.condition)
    h = normal(seed, n_nodes)[fourier.partner] + normal(seed, n_nodes)  # equal on conjugates
    close((U * h) @ V, fourier.matrix(h), rtol=1e-12 * fourier.condition)
    coordinates = normal(seed, n_nodes)
    values = fourier.from_real(coordinates)
    np.testing.assert_array_equal(values, values[fourier.partner].conj())
    np.testing.assert_array_equal(fourier.to_real(values), coordinates)


def test_parseval_for_symmetric_shifts():
    fourier = fourier_basis(GRAPHS["undirected"])
    assert fourier.kind == "orthonormal" and fourier.condition == 1
    x = normal(0, 5, 7)
    close((fourier.gft(x) ** 2).sum(-1), (x**2).sum(-1), rtol=1e-14)


def test_symmetric_eigenvalues_are_those_of_scipy_and_networkx():
    import networkx as nx
    from scipy.linalg import eigvalsh

    G = nx.karate_club_graph()
    graph = ev.Graph.from_networkx(G, weight=None)
    close(fourier_basis(graph).eigenvalues, eigvalsh(graph.S.toarray()), rtol=1e-13)
    laplacian = fourier_basis(graph.with_shift("laplacian")).eigenvalues
    np.testing.assert_allclose(laplacian, nx.laplacian_spectrum(G, weight=None), atol=1e-12)


def test_directed_ring_is_the_discrete_fourier_transform():
    graph = ev.generators.cycle(8, directed=True)
    fourier = fourier_basis(graph)
    assert fourier.kind == "complex" and abs(fourier.condition - 1) < 1e-12
    x = normal(3, 8)
    # S delays by one, S u = λ u for u = λ^-n; the values of the DFT, each found at its own eigenvalue
    spectrum = np.fft.fft(x) / np.sqrt(8)
    for lam, value in zip(fourier.eigenvalues, fourier.gft(x), strict=True):
        k = round(-np.angle(lam) / (2 * np.pi / 8)) % 8
        assert abs(lam - np.exp(-2j * np.pi * k / 8)) < 1e-13
        assert abs(abs(value) - abs(spectrum[k])) < 1e-13
    delayed = fourier.filter(lambda lam: lam**3, x)
    close(delayed, np.roll(x, 3), rtol=1e-13)


def test_a_jordan_block_is_an_error_with_its_condition_number():
    with pytest.raises(NotDiagonalizable, match=r"condition number (\d|inf).*expected at most 1e\+06"):
        fourier_basis(JORDAN)
    rotation = np.linalg.qr(normal(0, 5, 5))[0]  # rounding hides the block: eigenvalues differ by 1e-8
    block = np.diag([1.0, 1.0, 2.0, 3.0, 4.0])
    block[0, 1] = 1
    with pytest.raises(NotDiagonalizable, match="condition number"):
        fourier_basis(ev.Graph(rotation @ block @ rotation.T))
    with pytest.raises(NotDiagonalizable):
        fourier_basis(ev.generators.path(4, directed=True))
    assert issubclass(NotDiagonalizable, ValueError)
    # docs/spectral.md: about 10^8, 10^7 and 10^5 by the coupling; the last is below the threshold
    rng, medians = np.random.default_rng(0), []
    for coupling in (1, 1e-2, 1e-6):
        found = []
        for _ in range(300):
            rotation = np.linalg.qr(rng.standard_normal((2, 2)))[0]
            rotated = ev.Graph(rotation @ [[2, coupling], [0, 2]] @ rotation.T)
            found.append(fourier_basis(rotated, max_condition=1e300).condition)
        medians.append(float(np.median(found)))
        assert (min(found) > 1e6) == (coupling > 1e-6)
    assert 3e7 < medians[0] < 3e8 and 3e6 < medians[1] < 3e7
    slanted = ev.Graph([[0.0, 1.0], [0.0, 0.01]])  # fine, and refused on request
    assert 100 < fourier_basis(slanted).condition < 1000
    with pytest.raises(NotDiagonalizable):
        fourier_basis(slanted, max_condition=100)


def test_repeated_eigenvalues_are_found():
    fourier = fourier_basis(ev.generators.cycle(9))
    assert fourier.repeated and fourier.groups.max() + 1 == 5
    np.testing.assert_array_equal(fourier.groups, [0, 0, 1, 1, 2, 2, 3, 3, 4])
    assert not fourier_basis(ev.generators.path(9)).repeated
    assert fourier_basis(ev.Graph(np.zeros((3, 3)))).groups.tolist() == [0, 0, 0]


def test_a_basis_of_ones_own():
    ring = ev.generators.cycle(9)
    fourier = fourier_basis(ring, eigenvectors=DFT[:, ::-1] * 3)
    assert fourier.kind == "complex" and np.isrealobj(fourier.eigenvalues)
    x = normal(1, 9)
    close(fourier.inverse(fourier.gft(x)), x, rtol=1e-13)
    close(fourier.matrix(fourier.eigenvalues), ring.S.toarray(), rtol=1e-13)
    real = fourier_basis(ring, eigenvectors=1j * fourier_basis(ring).U)  # real up to a factor
    assert real.kind == "orthonormal"
    directed = ev.generators.cycle(9, directed=True)
    close(fourier_basis(directed, eigenvectors=DFT).eigenvalues, fourier_basis(directed).eigenvalues, rtol=1e-13)


@pytest.mark.parametrize(
    ("eigenvectors", "message"),
    [
        (np.eye(3), r"eigenvectors has shape \(3, 3\); expected \(9, 9\)"),
        (np.eye(9), "no basis of eigenvectors of S: .* reaches 1"),
        (np.zeros((9, 9)), "a zero column, number 0"),
        (np.where(np.arange(9) == 2, DFT[:, 7:8], DFT)[:, [0, 1, 2, 3, 4, 5, 6, 7, 2]], "without its conjugate"),
        (np.full((9, 9), np.nan), "not finite"),
    ],
)
def test_a_wrong_basis_is_named(eigenvectors, message):
    with pytest.raises(ValueError, match=message):
        fourier_basis(ev.generators.cycle(9), eigenvectors=eigenvectors)


def test_imaginary_parts_are_checked_before_they_are_dropped():
    fourier = fourier_basis(GRAPHS["directed"])
    x_hat = fourier.gft(normal(0, 7))
    first, _ = fourier.pairs
    x_hat[first[0]] *= 1j  # its conjugate does not follow
    with pytest.raises(ValueError, match="the inverse transform has an imaginary part of"):
        fourier.inverse(x_hat)
    with pytest.raises(ValueError, match="the filter has an imaginary part"):
        fourier.matrix(fourier.eigenvalues.imag)
    assert np.isrealobj(fourier.matrix(np.abs))
    assert np.isrealobj(fourier.filter(2.0 * np.ones(7), normal(0, 7)))


def test_single_precision_stays_single():
    x = normal(0, 4, 7, dtype=np.float32)
    for name, complex_type in (("undirected", np.float32), ("directed", np.complex64)):
        fourier = fourier_basis(GRAPHS[name])
        assert fourier.gft(x).dtype == complex_type
        back = fourier.inverse(fourier.gft(x))
        assert back.dtype == np.float32
        close(back, x, rtol=1e-5)
    assert fourier_basis(ev.Graph(GRAPHS["directed"].S.astype(np.float32))).U.dtype == np.complex128


def test_total_variation():
    graph = GRAPHS["directed"]
    fourier = fourier_basis(graph)
    largest = np.abs(fourier.eigenvalues).max()
    for n, expected in enumerate(fourier.total_variation()):
        u = fourier.U[:, n] / np.abs(fourier.U[:, n]).sum()
        assert abs(np.abs(u - graph.S @ u / largest).sum() - expected) < 1e-12
    order = fourier.by_variation()
    assert (np.diff(fourier.total_variation()[order]) >= -1e-9).all()
    place = np.argsort(order)
    assert all(abs(place[a] - place[b]) == 1 for a, b in zip(*fourier.pairs, strict=True))
    path = fourier_basis(ev.generators.path(6))
    np.testing.assert_array_equal(path.by_variation(), np.arange(6)[::-1])  # the largest eigenvalue is the smoothest
    with pytest.raises(ValueError, match="lambda_max is 0"):
        fourier_basis(GRAPHS["no edges"]).total_variation()


@pytest.mark.parametrize("which", ["lowest", "highest"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n_nodes", [30, 90])  # dense and iterative
def test_partial_basis_is_part_of_the_whole(n_nodes, directed, which):
    graph = ev.generators.erdos_renyi(n_nodes, 0.3, rng=5, directed=directed, weights="uniform")
    whole = fourier_basis(graph)
    for k in (1, 3, 4):
        part = partial_fourier_basis(graph, k, which=which)
        found = part.eigenvalues.size
        assert found in (k, k + 1) and (found == k or part.kind == "complex")
        expected = whole.eigenvalues[:found] if which == "lowest" else whole.eigenvalues[-found:]
        close(np.sort_complex(part.eigenvalues), np.sort_complex(expected), rtol=1e-9)
        close(part.U_inverse @ part.U, np.eye(found, dtype=part.U.dtype), rtol=1e-9)
        x = normal(0, n_nodes)
        inside = part.inverse(part.gft(x))
        close(part.inverse(part.gft(inside)), inside, rtol=1e-9)  # a projection
        close(graph.S @ inside, part.filter(part.eigenvalues, x), rtol=1e-8)
        again = partial_fourier_basis(graph, k, which=which)
        np.testing.assert_array_equal(part.U, again.U)


def test_bad_input_is_named():
    graph = GRAPHS["undirected"]
    fourier = fourier_basis(graph)
    with pytest.raises(TypeError, match="graph is list"):
        fourier_basis([])
    with pytest.raises(TypeError, match="graph is list"):
        partial_fourier_basis([], 1)
    with pytest.raises(ValueError, match="k is 8; expected at most 7"):
        partial_fourier_basis(graph, 8)
    with pytest.raises(ValueError, match="which is 'middle'"):
        partial_fourier_basis(graph, 1, which="middle")
    with pytest.raises(ValueError, match=r"x has shape \(3,\); expected \(\.\.\., 7\)"):
        fourier.gft(np.ones(3))
    with pytest.raises(ValueError, match="x_hat has shape"):
        fourier.inverse(np.ones(3))
    with pytest.raises(ValueError, match=r"h has shape \(3,\); expected \(7,\)"):
        fourier.filter(np.ones(3), np.ones(7))
    with pytest.raises(TypeError, match="x has dtype complex128"):
        fourier.gft(np.ones(7) * 1j)
    with pytest.raises(ValueError, match="h has 1 value"):
        fourier.values(np.where(np.arange(7) == 2, np.inf, 1.0))
    with pytest.raises(ValueError, match="read-only"):
        fourier.U[0, 0] = 1


@pytest.mark.parametrize(("coupling", "median"), [(1.0, 9e7), (1e-2, 9e6), (1e-6, 9e4)])
def test_condition_number_of_a_rotated_jordan_block(coupling, median):
    """The figures of docs/spectral.md: of the order sqrt(c / (eps |lambda|)), so that weak couplings are accepted."""
    rng = np.random.default_rng(0)
    found, accepted = [], 0
    for _ in range(300):
        Q, _ = np.linalg.qr(rng.standard_normal((2, 2)))
        S = Q @ np.array([[2, coupling], [0, 2]]) @ Q.T
        found.append(np.linalg.cond(np.linalg.eig(S)[1]))
        try:
            fourier_basis(ev.Graph(S))
            accepted += 1
        except NotDiagonalizable:
            pass
    assert median / 3 < np.median(found) < 3 * median
    order = np.sqrt(coupling / (np.finfo(float).eps * 2))
    assert 0.5 * order < np.median(found) < 8 * order
    assert accepted > 150 if coupling == 1e-6 else accepted == 0
