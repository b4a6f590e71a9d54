"""The networks of the tables."""

from __future__ import annotations

import numpy as np
import pytest

import evref as ev
from evref import renamed
from evref.experiments.models import EXTRA_MODELS, MODELS, network
from evref.graph.fourier import fourier_basis

GRAPH, _ = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)
GRAPH = GRAPH.with_shift("normalized_adjacency")
N, F, K, B, b, C = 50, 5, 4, 5, 5, 5


def build(model, **options):
    return network(model, GRAPH, 1, F, order=K, n_privileged=B, n_spline=b, classes=C, **options)


@pytest.mark.parametrize(
    ("model", "parameters", "scale"),
    [
        ("spectral", b * F, b**-0.5),
        ("polynomial", (K + 1) * F, (K + 1) ** -0.5),
        ("nv-degree", (K + 1) * F * B, ((K + 1) * B) ** -0.5),
        ("nv-proxies", (K + 1) * F * B, ((K + 1) * B) ** -0.5),
        ("ev", F * (K * GRAPH.nnz + N), ((K + 1) * N) ** -0.5),
        ("ev-equation", F * K * GRAPH.nnz, (K * N) ** -0.5),
        ("hev-degree", None, ((K + 1) * N) ** -0.5),
        ("hev-proxies", None, ((K + 1) * N) ** -0.5),
    ],
)
def test_sizes_and_starts_of_the_paper(model, parameters, scale):
    net = build(model)
    readout = F * N * C + C
    if parameters is not None:
        assert net.n_parameters == parameters + F + readout
    start = net.init(rng=0)
    for name, array in start.items():
        s = scale if name.startswith("0.") else (F * N) ** -0.5
        assert np.abs(array).max() <= s
        assert array.size < 100 or np.abs(array).max() > 0.9 * s, name


@pytest.mark.parametrize("model", [*MODELS, *EXTRA_MODELS])
def test_every_model_has_right_gradients(model):
    net = build(model)
    x = np.random.default_rng(0).standard_normal((2, 1, N))
    assert ev.gradcheck.dot_test(net, net.init(rng=0), x).ok


def test_privileged_nodes():
    degree = np.diff(GRAPH.indptr)
    for kind in ("nv", "hev"):
        by_degree, by_proxies = (build(f"{kind}-{how}").layers[0].nodes for how in ("degree", "proxies"))
        assert sorted(degree[by_degree]) == sorted(degree)[-B:]
        assert set(by_degree) != set(by_proxies) and len(by_proxies) == B
    assert [build(f"hev-degree{r}").layers[0].reading for r in ("", "-equation", "-authors-code")] == [
        "text",
        "equation",
        "authors_code",
    ]


def test_the_spline_without_the_top_row_is_deaf_to_what_a_diffusion_leaves():
    """S^t x tends to the eigenvector of lambda_max: the kernel without a row for it lets nothing of that through."""
    ours, theirs = build("spectral").layers[0], build("spectral-no-top-row").layers[0]
    basis = fourier_basis(GRAPH)
    top = int(np.argmax(basis.eigenvalues.real))
    params = ours.init(rng=0)
    limit = basis.U[:, top].real
    unbiased = {**params, "bias": np.zeros(F)}
    assert np.allclose(theirs.forward(unbiased, limit[None])[0], 0, atol=1e-14)
    assert np.abs(ours.forward(unbiased, limit[None])[0]).max() > 0.01
    assert np.array_equal(np.delete(ours.B, top, 0), np.delete(theirs.B, top, 0))


@pytest.mark.parametrize("model", ["gcn", "nv", "nv-random", "hev-degree-wide", "spectral-", "ev-equation-2"])
def test_unknown_models_are_named(model):
    with pytest.raises(ValueError, match=f"model is '{model}'; expected one of spectral, polynomial"):
        build(model)


@pytest.mark.parametrize(("old", "new"), renamed.CHOICES["models"].items())
def test_models_that_were_renamed_say_their_new_name(old, new):
    assert new in EXTRA_MODELS
    with pytest.raises(ValueError, match=f"model is '{old}'.*is called '{new}' now"):
        build(old)
