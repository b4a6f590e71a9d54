"""Every peer that is installed agrees with ours on the tiny cases, and a wrong answer is not timed."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from evref.bench import cases, child, peers_evref, peers_shifts, run
from evref.bench.cases import Contender, Skipped

TINY = {case.kind: case for case in cases.ALL_CASES if case.group == "tiny"}
NEEDS = {"torch": "torch", "jax": "jax", "pyg": "torch_geometric", "numpy": None, "evref": None}


@pytest.mark.parametrize("kind", cases.KINDS)
@pytest.mark.parametrize("library", NEEDS)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_peers_agree_with_the_reference(library, kind):
    if NEEDS[library]:
        pytest.importorskip(NEEDS[library], exc_type=ImportError)
    own = child.LIBRARIES[library]
    module = import_module(f"evref.bench.{own.module}")
    if library == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    p = cases.make_problem(TINY[kind], "float64")
    expected = run.reference(p)
    for name in own.names(kind):
        assert child.difference(expected, module.contender(name, p).result(), "float64") is None, name


@pytest.mark.parametrize("kind", cases.KINDS)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_forms_of_torch_compile_agree_uncompiled(kind):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    from evref.bench import peers_torch_compile as peer

    p = cases.make_problem(TINY[kind], "float64")
    with torch.compiler.set_stance("force_eager"):  # a compilation takes seconds
        found = [peer.contender("torch.compile", p).result()]
        if kind == "edge-variant":
            found.append(peer.compiled(p, peer.lists(p), masked=False).result())
    for answer in found:
        assert child.difference(run.reference(p), answer, "float64") is None


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kind", ["polynomial", "node-variant"])
def test_every_layout_agrees_not_only_the_fastest(kind, dense):
    p = cases.make_problem(TINY[kind], "float64")
    expected = run.reference(p)
    forms = peers_shifts.forms(p, dense)
    assert len(forms) >= 2
    for form in forms:
        assert child.difference(expected, peers_evref.named(form)(), "float64") is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ours_is_right_in_both_dtypes(dtype):
    for case in TINY.values():
        p = cases.make_problem(case, dtype)
        found = peers_evref.contender("evref", p).result()
        assert child.difference(run.reference(p), found, dtype) is None, case.name


def test_a_difference_is_named():
    right = {"y": np.array([1.0, 2.0]), "moved_phi": np.array([1.0, -1.0])}

    def difference(**changed):
        return child.difference(right, {**right, **changed}, "float64")

    assert difference() is None
    assert "y is off by 5.0e-04" in difference(y=np.array([1.0, 2.001]))
    assert "y is off by nan" in difference(y=np.array([1.0, np.nan]))
    assert "expected (2,) float64" in difference(y=np.array([1.0]))
    assert "float32" in difference(y=np.array([1.0, 2.0], np.float32))
    assert "moved_phi" in difference(moved_phi=np.array([1.0, 1.0]))
    assert "expected ['moved_phi', 'y']" in child.difference(right, {"y": right["y"]}, "float64")


def test_a_wrong_or_broken_contender_is_not_kept(tmp_path, monkeypatch):
    p = cases.make_problem(TINY["edge-variant"], "float64")
    expected = run.reference(p)
    cases.save(p, expected, tmp_path)

    def contender(name, problem):
        if name == "skips":
            raise Skipped("for a reason")
        if name == "breaks":
            raise MemoryError("too large\nsecond line")
        answer = dict(expected) if name == "right" else {**expected, "grad_x": 1.01 * expected["grad_x"]}
        return Contender(lambda: None, lambda: answer)

    worker = child.Worker("evref", 1)
    monkeypatch.setattr(worker.module, "NAMES", {"edge-variant": ("right", "wrong", "skips", "breaks")})
    monkeypatch.setattr(worker.module, "contender", contender)
    answer = worker.load(str(tmp_path))
    assert answer["ready"] == ["right"]
    assert answer["skipped"] == {"skips": "for a reason", "breaks": "MemoryError: too large"}
    assert "grad_x is off by" in answer["wrong"]["wrong"]
    sample = worker.time("right", seconds=1e-4)
    assert sample["seconds"] > 0 and sample["calls"] >= 1
    worker.drop()
    assert worker.contenders == {}


def test_problems_survive_the_way_to_a_child(tmp_path):
    p = cases.make_problem(TINY["node-variant"], "float32")
    cases.save(p, {"y": np.ones(2)}, tmp_path)
    q = cases.load(tmp_path)
    assert q.case == p.case and q.dtype == p.dtype and (q.S != p.S).nnz == 0
    assert q.arrays.keys() == p.arrays.keys()
    assert all(np.array_equal(q[name], p[name]) for name in p.arrays)
    assert cases.load_arrays(tmp_path, "expected")["y"].sum() == 2
