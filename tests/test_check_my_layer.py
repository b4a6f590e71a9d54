"""docs/check_my_layer.md against the catalogue of known mistakes: a paragraph each, and what each of them states."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import evref as ev
from evref.verify.examples import named_examples, probe_graph
from evref.verify.mistakes import KNOWN_MISTAKES, variants_of

PAGE = Path(__file__).parents[1] / "docs" / "check_my_layer.md"
NAMES = [mistake.name for mistake in KNOWN_MISTAKES]
PARTS = ("Computed instead.", "How it comes about.", "Seen.", "Filters.", "Hidden by")


def paragraphs() -> dict[str, str]:
    """The text below each heading of the section on known mistakes."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Known mistakes\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", section, re.M | re.S))


def test_every_entry_has_its_paragraph_and_no_paragraph_is_left_over():
    assert list(paragraphs()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_paragraph_says_what_how_where_and_when_not(name):
    text = paragraphs()[name]
    places = [text.find(f"**{part}") for part in PARTS]
    assert -1 not in places and places == sorted(places), f"{name}: expected {PARTS} in this order"


@pytest.mark.parametrize("name", NAMES)
def test_threads_are_named_by_title_and_address(name):
    """What the catalogue names by a number is a link with the title of the thread."""
    links = re.findall(r"\[([^\]]+)\]\((https://github\.com/[^)]+)\)", paragraphs()[name])
    addresses = " ".join(address for _, address in links)
    seen = next(mistake.seen for mistake in KNOWN_MISTAKES if mistake.name == name)
    for number in re.findall(r"(?<![R\d.])\b\d{2,5}\b(?!\.\d)", seen):
        if number != "01":
            assert re.search(rf"/(issues|pull)/{number}\b", addresses), f"{name}: no link to {number}"
    assert all(len(title) > 8 for title, _ in links)


# ---- to which filters it applies -------------------------------------------------------------------------------------
SHIFTS = ("gcn", "symmetric_adjacency", "random_walk", "normalized_laplacian", "laplacian", "scaled_laplacian")


def instances(name: str) -> list[Any]:
    """Every configuration of a filter on graphs of both kinds, with S as it is and made from the weights."""
    found: list[Any] = []
    square = {"in_features": 2, "out_features": 2, "bias": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeated eigenvalues
        for kind in ("undirected", "directed"):
            raw = probe_graph(6, kind)
            for shift in (None, *SHIFTS):
                try:
                    graph = raw if shift is None else raw.with_shift(shift)
                    examples = list(named_examples(ev.catalogue[name], graph).values())
                    found += examples
                    sizes = square if "out_features" in examples[0].config() else {"in_features": 2, "bias": True}
                    found.append(type(examples[0])(graph, **{**examples[0].config(), **sizes}))
                except (ValueError, TypeError):  # no such filter on this graph, or of this size
                    continue
    return found


@cache
def applies() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in NAMES}
    for filt in ev.catalogue:
        for instance in instances(filt):
            for mistake, _, _ in variants_of(instance):
                found[mistake].add(filt)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_filters_are_those_that_have_a_variant(name):
    stated = re.search(r"\*\*Filters\.\*\*(.*?)\*\*Hidden by", paragraphs()[name], re.S)[1]
    listed = set(re.findall(r"`(\w+)`", stated.split(";")[0])) & set(ev.catalogue)
    if "All but" in stated:
        listed = set(ev.catalogue) - listed
    elif re.match(r"\s*All\b", stated):
        listed = set(ev.catalogue)
    assert listed == applies()[name], sorted(applies()[name])


# ---- what hides it ---------------------------------------------------------------------------------------------------
class Hidden(NamedTuple):
    """A filter on a graph on which a variant with these words gives the reference's numbers."""

    filt: Any
    says: str
    batch: int = 3


def cycle(n: int = 6) -> ev.Graph:
    return ev.generators.cycle(n)


def isolated(n: int = 3) -> ev.Graph:
    return ev.Graph(np.zeros((n, n)))


def path_one_way(n: int = 3) -> ev.Graph:
    return ev.Graph.from_edges(n, source=range(n - 1), target=range(1, n))


def ring_one_way(n: int = 5) -> ev.Graph:
    return ev.Graph.from_edges(n, source=range(n), target=np.roll(range(n), -1))


def complete(n: int = 4) -> ev.Graph:
    return ev.Graph(np.arange(1.0, n * n + 1).reshape(n, n))


UNDIRECTED = probe_graph(6, "undirected")

HIDDEN = {
    "shift-transposed": Hidden(ev.Chebyshev(UNDIRECTED, 3), "S is transposed"),
    "taps": Hidden(ev.Polynomial(path_one_way(), 3), "the last term k = K is missing"),
    "product-order": Hidden(ev.EdgeVariant(isolated(), 3), "the products run Phi(1) ... Phi(k)"),
    "self-loops": Hidden(ev.GCN(cycle().with_shift("gcn")), "self-loops are only added where there is none yet"),
    "degree": Hidden(ev.Polynomial(cycle().with_shift("random_walk"), 2), "D^-1/2 A D^-1/2"),
    "spectrum-scale": Hidden(ev.Chebyshev(cycle().with_shift("scaled_laplacian"), 3), "lambda_max is taken as 2 (L"),
    "chebyshev-recurrence": Hidden(ev.Chebyshev(UNDIRECTED, 1), "lacks its 2"),
    "softmax-direction": Hidden(ev.GraphAttention(isolated(), 2, 2), "outgoing instead of incoming edges"),
    "mean-for-sum": Hidden(ev.Polynomial(ring_one_way(), 3), "the mean over a node's neighbours"),
    "exponent": Hidden(ev.GraphAttention(isolated(), 2, 2), "the sign in the exponent"),
    "first-sample": Hidden(ev.GCN(UNDIRECTED), "every sample of a batch gets the output of the first", batch=1),
    "outside-support": Hidden(ev.EdgeVariant(complete(), 3), "the mask is applied to every product"),
    "shift-weights": Hidden(ev.EdgeVariant(cycle(), 2), "multiplied by S_ij, 1 for a node's own entry"),
    "fourier-inverse": Hidden(ev.SpectralGCNN(UNDIRECTED, 4), "U^H stands for U^-1"),
    "sign": Hidden(ev.CayleyNet(isolated(), 2), "the sign of i"),
    "attention-slope": Hidden(ev.GraphAttention(isolated(), 2, 2, slope=0.2), "the slope 0.01"),
    "copied-nodes": Hidden(ev.NodeVariant(UNDIRECTED, 2, nodes=[0, 3]), "copy along outgoing"),
    "detached": Hidden(ev.GraphAttention(isolated(), 2, 2), "the attention alpha is detached"),
    "gradient-scaled": Hidden(ev.GCN(UNDIRECTED), "all gradients are divided by the batch size", batch=1),
}
ALWAYS = [name for name in NAMES if name not in HIDDEN]  # the page says so


def differences(filt: Any, says: str, batch: int = 3, **point: Any) -> tuple[float, float]:
    """Largest difference in the output, and in the gradients, between the filter and its variant."""
    model = next(model for _, words, model in variants_of(filt) if says in words)
    rng = np.random.default_rng(0)
    params = {**filt.init(rng), **point}
    x = rng.standard_normal((batch, *filt.in_shape))
    (y, tape), (other, other_tape) = filt.forward(params, x), model.forward(params, x)
    grad_y = rng.standard_normal(y.shape)
    grads, grad_x = filt.backward(params, tape, grad_y)
    other_grads, other_grad_x = model.backward(params, other_tape, grad_y)
    gradients = [np.abs(grads[name] - other_grads[name]).max(initial=0) for name in grads]
    return float(np.abs(y - other).max()), float(max(*gradients, np.abs(grad_x - other_grad_x).max()))


@pytest.mark.parametrize("name", HIDDEN)
def test_what_the_page_says_hides_it_does(name):
    case = HIDDEN[name]
    assert max(differences(case.filt, case.says, case.batch)) < 1e-12


def elsewhere(filt: Any) -> Any:
    """The same filter on a graph on which wrong readings differ."""
    kind, origin = "undirected" if filt.graph.origin else "directed", filt.graph.origin
    graph = probe_graph(6, kind)
    config = filt.config() | ({"order": 3} if "order" in filt.config() else {})
    return type(filt)(graph.with_shift(origin[1]) if origin else graph, **config)


@pytest.mark.parametrize("name", HIDDEN)
def test_and_it_shows_elsewhere(name):
    assert max(differences(elsewhere(HIDDEN[name].filt), HIDDEN[name].says)) > 1e-3


@pytest.mark.parametrize("name", ALWAYS)
def test_what_no_graph_hides_the_page_calls_so(name):
    assert "**Hidden by** no graph" in paragraphs()[name]
