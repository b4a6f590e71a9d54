"""How public things are called: sizes by position, options by name, choices as Literals that say what is allowed."""

from __future__ import annotations

import inspect
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import evref as ev
from evref.graph import shifts

SIZES = {
    "attributes",
    "features",
    "graph",
    "hidden",
    "hops",
    "in_features",
    "in_shape",
    "iterations",
    "kernels",
    "layers",
    "n_basis",
    "order",
    "out_features",
    "outputs",
    "pseudo",
    "slope",  # LeakyReLU: all that it has
    "terms",
}
CLASSES = {**ev.catalogue, **ev.layer_catalogue}


@pytest.mark.parametrize("name", CLASSES)
def test_options_after_the_sizes_are_keyword_only(name):
    parameters = inspect.signature(CLASSES[name]).parameters.values()
    by_position = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert by_position <= SIZES


def test_constructors_of_graphs_take_what_a_graph_is_by_position():
    what = {
        "from_adjacency": ["A"],
        "from_networkx": ["G"],
        "from_edges": ["n_nodes", "source", "target", "weight"],
        "from_edge_index": ["edge_index", "n_nodes", "edge_weight"],
    }
    for name, expected in what.items():
        parameters = inspect.signature(getattr(ev.Graph, name)).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == expected


@pytest.mark.parametrize("name", CLASSES)
def test_choices_are_literals(name):
    """An argument with a string as its default has a Literal that holds it: editors and mypy know what there is."""
    cls = CLASSES[name]
    hints = get_type_hints(cls.__init__)
    for parameter in inspect.signature(cls).parameters.values():
        if isinstance(parameter.default, str):
            hint = hints[parameter.name]  # a Literal, or "spline" | an array
            literals = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
            assert any(parameter.default in get_args(literal) for literal in literals), parameter


def test_the_names_of_shifts_are_those_of_their_functions():
    assert set(get_args(shifts.Shift)) == set(shifts.SHIFTS)
