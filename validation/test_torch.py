"""evref against torch: outputs and every gradient of edge-variant filters, and optimisers."""

from __future__ import annotations

import measure
import numpy as np
import parity
import pytest

import evref as ev

pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", parity.DTYPES)
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
@pytest.mark.parametrize("graph", parity.GRAPHS)
def test_filter(graph: str, zeroth: str, dtype: str) -> None:
    """Orders 0..4, banks, bias, both backends: 32 or 40 cases, three draws of each."""
    for case in parity.cases(graph, zeroth, dtype):
        parity.filter_errors(case, ("torch", "dense"), 3)


@pytest.mark.parametrize("dtype", parity.DTYPES)
@pytest.mark.parametrize("batch", [1, 2, 9, 20, 40, 101, 230])
def test_every_tile_width(batch: int, dtype: str) -> None:
    """The compiled kernels lay the batch out in tiles: one sample, part of a tile, several tiles."""
    for zeroth in parity.ZEROTH:
        case = parity.Case("directed, self-loops", zeroth, 3, dtype=dtype, batch=batch)
        for threads in (1, 2):
            with ev.use_threads(threads):
                parity.filter_errors(case, ("torch",), 3, backends=("numba",))


@pytest.mark.parametrize(("n_nodes", "degree", "batch"), [(300, 40, 20), (9000, 12, 20)])
@pytest.mark.parametrize("dtype", parity.DTYPES)
@pytest.mark.parametrize("zeroth", parity.ZEROTH)
def test_larger_graphs(zeroth: str, dtype: str, n_nodes: int, degree: int, batch: int) -> None:
    """Graphs large enough for the kernels to share work among threads, by filters and by nodes."""
    rng = np.random.default_rng(0)
    edges = parity.EdgeList(n_nodes, *rng.integers(0, n_nodes, (2, n_nodes * degree)).tolist())
    case = parity.Case("larger", zeroth, 2, 1, 2, dtype=dtype, batch=batch)
    for threads in (1, 2):
        with ev.use_threads(threads):
            parity.filter_errors(case, ("torch",), 1, backends=("numba",), edges=edges)


def test_one_wrong_entry_is_seen() -> None:
    """An error of 1e-6 in one entry of any array, the one that is largest beside its terms."""
    case = parity.Case("directed", "diagonal", 2)
    for name in parity.QUANTITIES:

        class Faulty(parity.Problem):
            def ours(self, backend: str) -> parity.Results:
                results, terms = super().ours(backend), self.terms()
                results[name].flat[np.argmax(np.abs(results[name]) / terms[name])] *= 1 + parity.FAULT[case.dtype]
                return results

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parity, "Problem", Faulty)
            with pytest.raises(AssertionError, match=name):
                parity.filter_errors(case, ("torch",), 1)


@pytest.mark.parametrize("backend", parity.BACKENDS)
@pytest.mark.parametrize("name", parity.OPTIMIZERS)
def test_optimizer_on_the_same_gradients(name: str, backend: str) -> None:
    """1,000 steps: every parameter beside torch's at every step."""
    for seed in range(2):
        error = parity.optimizer_error(name, backend, seed)
        assert error <= measure.tolerance(parity.STEPS)


@pytest.mark.parametrize("name", parity.OPTIMIZERS)
def test_optimizer_on_its_own_gradients(name: str) -> None:
    """As above, each side with the gradients it computes itself."""
    error, of_torch_alone = parity.walk_errors(name)
    assert error <= parity.APART * max(1, of_torch_alone)
