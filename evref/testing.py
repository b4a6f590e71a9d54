"""For other people's test suites: layers against the reference on many graphs, gradients, Hypothesis strategies.

    from evref.testing import assert_matches

    def test_my_chebyshev():
        assert_matches(build_my_layer, "chebyshev")      # build_my_layer(graph, order, in_features, out_features)

NumPy is all that it needs; the strategies need Hypothesis, which is imported when the first one is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from . import checks
from .graph import Graph
from .graph.shifts import SHIFTS as SHIFT_NAMES
from .verify.built import Builder, BuildError, as_filter
from .verify.compare import Comparison, MismatchError, compare_cases
from .verify.foreign.find import Framework
from .verify.revealing import PLAIN, revealing_graphs

__all__ = ["BuildError", "Comparison", "MismatchError", "assert_matches", "revealing_graphs"]


def assert_matches(
    build: Callable[..., Any],
    filt: Any,
    *,
    seed: int = 0,
    graphs: Mapping[str, Graph] | None = None,
    shift: str | None = None,
    parameters: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None = None,
    call: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    framework: Framework | None = None,
    layout: Literal["features, nodes", "nodes, features"] | None = None,
    dtype: Any = None,
    **settings: Any,
) -> Comparison:
    if not callable(build):
        raise TypeError(f"build is {type(build).__name__}; expected a function build(graph, ...) that returns a layer")
    filt = as_filter(filt)
    options = {
        "call": call,
        "backward": backward,
        "framework": framework,
        "layout": layout,
        "dtype": None if dtype is None else checks.as_dtype("dtype", dtype),
    }
    shifts = None if shift is None else (_as_shift(shift),)
    builder = Builder(build, filt, settings, options, parameters, shifts)
    cases = builder.cases(revealing_graphs() if graphs is None else _as_graphs(graphs))
    title = getattr(build, "__name__", None) or type(build).__name__
    report = compare_cases(cases, seed=checks.as_count("seed", seed), title=title)
    return replace(report, notes=(*report.notes, *builder.notes())).raise_for_error()


def _as_shift(shift: Any) -> str:
    if shift == "adjacency":
        return PLAIN
    if not isinstance(shift, str) or shift not in SHIFT_NAMES:
        hint = checks.did_you_mean(shift, SHIFT_NAMES)
        raise ValueError(f"shift is {shift!r}; expected one of {', '.join(SHIFT_NAMES)}{hint}")
    return shift


def _as_graphs(graphs: Any) -> Mapping[str, Graph]:
    if not isinstance(graphs, Mapping):
        raise TypeError(f"graphs is {type(graphs).__name__}; expected a dict: name -> Graph")
    for name, graph in graphs.items():
        if not isinstance(graph, Graph):
            raise TypeError(f"graphs[{name!r}] is {type(graph).__name__}; expected an evref.Graph")
    return graphs
