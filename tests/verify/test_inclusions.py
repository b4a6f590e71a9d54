"""Every arrow of the lattice, on directed and undirected graphs: same matrix, same output, same gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import close, normal

import evref as ev
from evref.verify import inclusions
from evref.verify.paper.architectures import ELEVEN

LATTICE = inclusions.lattice
IDS = [f"{i.small} in {i.large}" for i in LATTICE]


def random_graph(seed: int, n_nodes: int, directed: bool) -> ev.Graph:
    """Positive weights and no isolated node: what most of the architectures ask for."""
    rng = np.random.default_rng(seed)
    S = rng.uniform(0.5, 1.5, (n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < 0.4)
    np.fill_diagonal(S, 0)
    S += np.roll(np.eye(n_nodes), 1, axis=0) * (n_nodes > 1)
    return ev.Graph(S if directed else S + S.T)


@pytest.mark.parametrize("inclusion", LATTICE, ids=IDS)
@settings(max_examples=8)
@given(seed=st.integers(0, 999), n_nodes=st.integers(3, 7), directed=st.booleans())
def test_same_map_and_same_gradient(inclusion, seed, n_nodes, directed):
    small = inclusion.instance(random_graph(seed, n_nodes, directed), np.random.default_rng(seed))
    large = inclusion.embed(*small)
    assert small[0].name == inclusion.small
    assert large[0].name in (inclusion.large, "edge_variant")  # one recursion is a sum of one
    assert inclusions.matrix_error(small, large) < 1e-8
    x = normal(seed, 2, *small[0].in_shape)
    close(large[0].forward(large[1], x)[0], small[0].forward(small[1], x)[0], rtol=1e-8)
    assert inclusions.gradient_error(inclusion, small) < 1e-6


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("inclusion", LATTICE, ids=IDS)
def test_always_means_every_configuration(inclusion, directed):
    """An arrow without a condition takes every example of its class; the others take it or say why not."""
    graph = random_graph(2, 6, directed)
    for filt in ev.catalogue[inclusion.small].examples(graph, 0):
        case = inclusions.with_positive_parameters(filt, np.random.default_rng(0))
        try:
            large = inclusion.embed(*case)
        except ev.NotRepresentable:
            assert not inclusion.condition.startswith("always"), filt
        else:
            assert inclusions.matrix_error(case, large) < 1e-8, filt


@pytest.mark.parametrize("inclusion", LATTICE, ids=IDS)
def test_the_condition_names_a_learned_zeroth_term(inclusion):
    """The recursion of the README starts at k = 1; where the map needs a Phi^(0), its condition says so."""
    large, _ = inclusion.embed(*inclusion.instance(random_graph(1, 6, False), np.random.default_rng(0)))
    if inclusion.large == "edge_variant":
        assert (large.zeroth == "diagonal") == ('zeroth="diagonal"' in inclusion.condition)


@pytest.mark.parametrize(
    "inclusion", [i for i in LATTICE if i.outside], ids=[n for i, n in zip(LATTICE, IDS, strict=True) if i.outside]
)
def test_outside_its_condition_an_inclusion_is_refused(inclusion):
    case = inclusion.outside(random_graph(1, 6, False), np.random.default_rng(0))
    with pytest.raises(ev.NotRepresentable):
        inclusion.embed(*case)


def test_a_wrong_map_is_seen():
    """Tests of the test: a map that forgets a term, and one whose value is right but whose derivative is not."""
    graph, rng = random_graph(3, 5, True), np.random.default_rng(0)
    inclusion = next(i for i in LATTICE if i.small == "chebyshev")
    filt, params = inclusion.instance(graph, rng)
    large, large_params = inclusion.embed(filt, params)
    dropped = {
        **large_params,
        "phi": large_params["phi"] * np.array([1, 1, 0] + [1] * 9)[: len(large_params["phi"]), None, None],
    }
    assert inclusions.matrix_error((filt, params), (large, dropped)) > 1e-3
    frozen = inclusions.Inclusion("a", "b", "", "", lambda f, p: (large, large_params), inclusion.instance)
    assert inclusions.gradient_error(frozen, (filt, params)) > 0.5


def test_every_filter_has_its_place():
    """All but attention, whose weights come from the signal, reach the edge-variant recursions along the arrows."""
    reached = {"parallel_edge_variant"}
    while True:
        more = {i.small for i in LATTICE if i.large in reached} - reached
        if not more:
            break
        reached |= more
    assert set(ev.catalogue) - reached == {"attention"}


def test_the_eleven_are_eleven_and_run_here():
    assert len(ELEVEN) == 11 and set(ELEVEN.values()) <= set(ev.catalogue)


def test_a_null_space_of_dimension_2_is_not_always_that_of_i_and_s():
    """Two nodes without an edge: d = 2, and S = 0 has the multiples of I for polynomials."""
    with pytest.warns(ev.graph.RepeatedEigenvaluesWarning):
        filt = ev.ShiftInvariantEdgeVariant(ev.Graph(np.zeros((2, 2))), order=1)
    assert filt.basis.dimension == 2
    (inclusion,) = (i for i in LATTICE if (i.small, i.large) == ("shift_invariant_edge_variant", "polynomial"))
    with pytest.raises(ev.NotRepresentable, match="dimension 2; expected 1, span"):
        inclusion.embed(filt, filt.init(rng=0))
