"""Tests of the tests: a fault in the mathematics must be caught by the check named beside it.

Each fault is a small edit of the source of the reference kernels (or of the plain loops); the edited module is run in
place of the real one. A fault that no longer applies, because the source changed, fails too.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from strategies import close, edited, normal, poison_memory, random_graph, random_params

import evref as ev
from evref.kernels import compiled, loops, packing, recursions, reference, rows, steps

GRAPH = random_graph(11, 6, directed=True, density=0.5)
FILTERS = [
    ev.EdgeVariant(GRAPH, 3, G, F, zeroth=zeroth)
    for G, F, zeroth in ((2, 2, "none"), (2, 2, "diagonal"), (2, 5, "none"), (1, 1, "diagonal"))
]
LAID_OUT = [ev.EdgeVariant(GRAPH.with_local_layout(), 3, 2, 2, zeroth="diagonal")]


def oracle_check(filt: ev.Filter, params: dict, x: np.ndarray) -> None:
    close(filt.forward(params, x)[0], np.einsum("fgij,bgj->bfi", filt.matrix(params), x))


def dot_test(filt: ev.Filter, params: dict, x: np.ndarray) -> None:
    ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


def complex_step(filt: ev.Filter, params: dict, x: np.ndarray) -> None:
    ev.gradcheck.complex_step(filt, params, x).raise_if_failed()


FAULTS = [
    # what is wrong, source as it is, source as it must not be, the check that sees it
    ("order of the product", "for k in range(len(phi)):", "for k in reversed(range(len(phi))):", oracle_check),
    ("Phi transposed", "phi[k, f, g]) @ states[-1]", "phi[k, f, g]).T @ states[-1]", oracle_check),
    ("one step short", "for k in range(len(phi)):", "for k in range(len(phi) - 1):", oracle_check),
    ("a term dropped from the sum", "states[1:] if phi0 is None", "states[2:] if phi0 is None", oracle_check),
    ("k = 0 dropped", "else states:", "else states[1:]:", oracle_check),
    ("sign of the adjoint", "lam = v + back if", "lam = v - back if", dot_test),
    ("adjoint not transposed", "phi[k - 1, f, g]).T @ lam", "phi[k - 1, f, g]) @ lam", dot_test),
    ("adjoint not seeded", "lam = v + back if", "lam = back if", dot_test),
    ("k off by one in the adjoint", "graph.to_csr(phi[k - 1, f, g]).T", "graph.to_csr(phi[k - 2, f, g]).T", dot_test),
    ("k off by one in the state", "w[k - 1][columns]", "w[k][columns]", dot_test),
    ("rows and columns swapped", "lam[rows], w[k - 1][columns]", "lam[columns], w[k - 1][rows]", dot_test),
    ("grad_x overwritten", "grad_x[:, g] += (phi0", "grad_x[:, g] = (phi0", dot_test),
    ("grad_phi0 from the wrong signal", '"ib,ib->i", lam, x[:, g].T', '"ib,ib->i", lam, lam', dot_test),
    ("tangent without dPhi", "+ graph.to_csr(dphi[k - 1, f, g]) @ w[k - 1]", "", dot_test),
    ("tangent of the diagonal dropped", "+ dphi0[f, g][:, None] * x[:, g].T", "", dot_test),
    ("one per mille in the gradient", 'w[k - 1][columns])\n', 'w[k - 1][columns]) * 1.001\n', complex_step),
    ("conjugated state", "dw = dx[:, g].T", "dw = -dx[:, g].T", dot_test),
]  # fmt: skip


@pytest.mark.parametrize(("what", "old", "new", "check"), FAULTS, ids=[f[0] for f in FAULTS])
def test_faults_in_the_reference_are_caught(monkeypatch, what, old, new, check):
    broken = edited(reference, old, new)
    caught = 0
    with ev.use_backend("numpy"):
        for filt in FILTERS:
            params, x = random_params(filt), normal(1, 2, *filt.in_shape)
            check(filt, params, x)  # healthy: passes
            with monkeypatch.context() as patch:
                patch.setitem(ev.kernels._loaded, "reference", broken)
                try:
                    check(filt, params, x)
                except AssertionError:
                    caught += 1
    assert caught >= 1, f"{what}: not caught by {check.__name__}"


LOOP_FAULTS = [
    (rows, "self instead of neighbour", "load(w, indices[p], zero), row)", "load(w, i, zero), row)"),
    (rows, "sum not carried on", "load(w, indices[p], zero), row)", "load(w, indices[p], zero), zero)"),
    (recursions, "state overwritten", "else mine[(k + 1) % 2]", "else mine[k % 2]"),
    (recursions, "kept state of another step", "states[k - 1 + has0] if k > 0", "states[0] if k > 0"),
    (recursions, "stretch begun too late", "// stretch * stretch + 1, k + 1)", "// stretch * stretch + 2, k + 1)"),
    (recursions, "sum never begun", "fresh = g == first_g and k == 0 and not has0", "fresh = False"),
    (recursions, "sum begun again", "fresh = g == first_g and k == 0 and not has0", "fresh = k == 0 and not has0"),
    (rows, "columns not seeded", "load(seed, i, zero) if seeded else zero", "zero"),
    (rows, "permutation forgotten", "q = transpose[p]", "q = p"),
    (recursions, "wrong seed", "seeded = k > 0 or has0", "seeded = k > 0"),
    (recursions, "cotangents share a buffer", "out = own[k % 2]", "out = own[0]"),
    (rows, "gradient of one tile only", "else grad_phi[q] + dot(li, wj)", "else dot(li, wj)"),
    (loops, "gradient of the last filter only", "task], f == first_f", "task], True"),
    (loops, "second half of the tiles lost", "add_numbers(spare[k, f, g], grad_phi[k, f, g])", "pass"),
    (loops, "diagonal of the second half lost", "add_numbers(spare0[f, g], grad_phi0[f, g])", "pass"),
    (loops, "halves of tiles that overlap", "first_t = T // 2 if second_half else 0", "first_t = 0"),
    (loops, "features mixed up", "first_f = task // T // halves * pair", "first_f = task % F"),
    (loops, "half of the features left out", "for half in range(1, halves):", "for half in range(2, halves):"),
    (loops, "halves that overlap", "inputs = (half * G // halves,", "inputs = (0,"),
    (loops, "blocks that overlap", "+ 1) * F + more) // blocks", "+ 1) * F + blocks - 1) // blocks"),
    (recursions, "last state kept out", "zero, k + 1 < K, 0, N", "zero, k + 2 < K, 0, N"),
    (loops, "filters left out of grad_x", "for block in range(1, blocks):", "for block in range(2, blocks):"),
    (rows, "pair with one filter", "scale_add(phi2[p], neighbor, row2)", "scale_add(phi[p], neighbor, row2)"),
    (rows, "second sum begun again", "row2 if fresh else add(load(y2, i, zero), row2)", "row2"),
    (recursions, "pair that takes its first step twice", "if k > 0 or not shared:", "if True:"),
    (recursions, "pair in one place", "mine = own[2 * (f - first_f) :]", "mine = own"),
    (recursions, "state of the other of a pair", "again = ahead if second and j == 1 else", "again = "),
    (recursions, "first state of the other of a pair", "w = ahead if second and k == 1 else", "w = "),
    (rows, "nothing sent", "store(out, indices[p], scale_add", "store(out, i, scale_add"),
    (steps, "second block left out", "for block in range(1, n_blocks):", "for block in range(2, n_blocks):"),
    (steps, "second block seeded", "seeded and share == 0", "seeded"),
    (steps, "steps not seeded", "seeded = k > 0 or has0", "seeded = False"),
    (steps, "state of another step", "w = own[k % stretch]", "w = own[0]"),
    (steps, "steps of a stretch begun late", "// stretch * stretch + 1, k + 1)", "// stretch * stretch + 2, k + 1)"),
    (steps, "stretch from another place", "w = own[stretch - 1 + k // stretch]", "w = own[0]"),
    (steps, "last state first", "fresh = g == 0 and k == -has0", "fresh = g == 0 and k == 0"),
    (steps, "gradient of x of one filter", "total, f == 0, zero", "total, True, zero"),
    (packing, "edges of blocks forgotten", "samples if i < nodes else 0, full", "samples, full"),
    (packing, "padding not cleared", "tile[row + i, s] = 0", "tile[row + i, s] = 1"),
    (rows, "layout: phi of another row", "return starts[i]", "return starts[0]"),
    (packing, "layout: signals of another node", "store(tile, places[i],", "store(tile, i,"),
    (packing, "layout: results of another node", "load(tile, places[i],", "load(tile, i,"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*value.s. that are not finite:RuntimeWarning")  # from memory never written to
@pytest.mark.parametrize(("module", "what", "old", "new"), LOOP_FAULTS, ids=[f[1] for f in LOOP_FAULTS])
def test_faults_in_the_loops_are_caught(monkeypatch, module, what, old, new):
    """Plain Python runs of the edited loops differ from the reference, or stop at an index."""
    poison_memory(monkeypatch)
    broken = edited(module, old, new)
    if module is not loops:  # put its functions where the passes look for them
        for place in (loops, steps, recursions):
            for name in vars(place).keys() & vars(broken).keys():
                if getattr(vars(broken)[name], "__module__", None) == broken.__name__:
                    monkeypatch.setattr(place, name, vars(broken)[name])
        broken = loops
    monkeypatch.setattr(loops, "kernels_for", broken.plain_kernels)
    laid_out = what.startswith("layout")
    if module is steps or laid_out or what == "nothing sent":
        monkeypatch.setattr(compiled, "STEP_SIZE", 0)
        monkeypatch.setattr(compiled, "LOCAL_BYTES", 0)
    caught = 0
    names = ("KEPT_BYTES", "BLOCK_BYTES", "STRETCH", "PAIR_BYTES")
    for filt, values in itertools.product(
        LAID_OUT if laid_out else FILTERS, ((0, 0, 0, 2**30), (2**22, 2**22, 0, 2**30), (0, 0, 16, 0))
    ):
        for name, value in zip(names, values, strict=True):
            monkeypatch.setattr(compiled, name, value)
        params = random_params(filt)
        for batch in (3, 4, 60):
            x, u = normal(1, batch, *filt.in_shape), normal(2, batch, *filt.out_shape)
            results = {}
            for backend in ("numpy", "numba"):
                with (
                    ev.use_backend(backend),
                    ev.use_threads(1),
                    np.errstate(all="ignore"),
                ):  # what was in memory, perhaps
                    try:
                        y, tape = filt.forward(params, x)
                        grads, grad_x = filt.backward(params, tape, u)
                        results[backend] = [y, grad_x, *grads.values()]
                    except IndexError:
                        caught += 1
            if len(results) == 2:
                caught += not all(  # a NaN is off too
                    np.abs(a - b).max() <= 1e-9 * np.abs(b).max()
                    for a, b in zip(results["numba"], results["numpy"], strict=True)
                )
    assert caught >= 1, f"{what}: not caught"
