"""No filter without a torch and a JAX twin, and none that differs from them or from PyG, in any configuration."""

from __future__ import annotations

import warnings

import family
import measure
import numpy as np
import peers
import pytest

import evref as ev

pytest.importorskip("jax")
pytest.importorskip("torch")
peers.enable_jax_float64()

SEEDS = 20  # the page has more
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PyG's own import
    try:
        import torch_geometric
    except ImportError:
        torch_geometric = None


@pytest.mark.parametrize("name", ev.catalogue)
def test_against_independent_implementations(name):
    with_pyg = name in family.collected("PYG") and torch_geometric is not None
    compared = set()
    for label, filt in family.configurations(name):
        comparison = family.Comparison(label, filt, SEEDS)
        for kind in ("TORCH", "JAX", "PYG") if with_pyg else ("TORCH", "JAX"):
            error = comparison.error(kind)
            assert error is None or error <= family.tolerance(filt), (label, kind)
            assert error is not None or kind == "PYG", f"{name} has no {kind} implementation in validation/peers_*.py"
            compared |= set() if error is None else {kind}
        entries, seen = comparison.seen()
        assert seen > 0.8 * entries, f"{label}: Σ|terms| is too large to see a fault of 1e-6"
        one_wrong_entry_is_seen(comparison, label)
    assert not with_pyg or "PYG" in compared


def one_wrong_entry_is_seen(comparison: family.Comparison, label: str) -> None:
    """An error of 1e-6 in one entry of any array, the one that is largest beside its terms."""
    for name, right in comparison.ours["numpy"].items():
        if np.any(right):
            terms = comparison.terms[name]
            share = np.divide(np.abs(right), terms, out=np.zeros_like(right), where=right != 0)
            wrong = right.copy()
            wrong.flat[np.argmax(share)] *= 1 + family.FAULT
            error = measure.error(wrong, comparison.jax[name], terms)
            assert error > family.tolerance(comparison.filt), (label, name)


def test_no_peer_without_a_filter():
    for kind in family.KINDS:
        assert set(family.collected(kind)) <= set(ev.catalogue), kind


def test_the_page_is_what_the_script_writes():
    """Its words, but for the versions, are those of family.py; its table has every filter, within the tolerance."""
    page = (family.HERE / "family.md").read_text(encoding="utf-8")
    table = page[page.index("| filter |") :].strip()

    def without_versions(text):
        return [line for line in text.splitlines() if not line.startswith("Written by")]

    assert without_versions(page) == without_versions(family.page(table))
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert [row["filter"] for row in rows] == list(ev.catalogue)
    for row in rows:
        errors = [float(row[f"{kind}, eps"]) for kind in ("torch", "JAX", "PyG") if row[f"{kind}, eps"]]
        assert len(errors) >= 2 and max(errors) <= family.measure.tolerance(family.SAMPLES * 8)
