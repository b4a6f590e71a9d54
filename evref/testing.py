"""For other people's test suites: layers against the reference on many graphs, gradients, Hypothesis strategies.

    from evref.testing import assert_matches

    def test_my_chebyshev():
        assert_matches(build_my_layer, "chebyshev")      # build_my_layer(graph, order, in_features, out_features)

====================  ================================================================================================
assert_matches        a layer, built on many graphs in many configurations, is a filter of the catalogue
assert_gradients      the gradients of a layer belong to its output; no reference is needed
revealing_graphs      the graphs of assert_matches
graphs, signals,      Hypothesis strategies
parameters_of
====================  ================================================================================================

A layer on one graph of yours needs none of this: ``ev.compare(layer, filt).raise_for_error()``. NumPy is all that is
imported here; Hypothesis is, when the first strategy is made.
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
from .verify.own_gradients import checked
from .verify.report import GradientError, Report
from .verify.revealing import PLAIN, revealing_graphs
from .verify.strategies import graphs, parameters_of, signals

__all__ = [
    "BuildError",
    "Comparison",
    "GradientError",
    "MismatchError",
    "Report",
    "assert_gradients",
    "assert_matches",
    "graphs",
    "parameters_of",
    "revealing_graphs",
    "signals",
]


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
    """The layers that `build` makes are the filter, on every graph and in every configuration that is tried.

    All cases go into one report, by :func:`evref.compare`'s rules: a known mistake is named only if it reproduces every
    number of every failing case, and predicts nothing else where the layer is right. The smallest case is then looked
    for among graphs with fewer nodes and edges, lower orders, fewer features.

    Parameters
    ----------
    build : callable
        build(graph, ...) makes the layer on a graph: whatever :func:`evref.compare` takes. Of its other arguments those
        that the filter has too (order, in_features, out_features, bias, ...) are varied: orders 0 to 3, one and several
        features, equal and unequal numbers of them, with and without bias, every word where there is a choice of words.
    filt : str, class or callable
        Name in the catalogue, or class, of the filter; or a function graph, ... -> filter or network. ``ev.GCN.on``,
        ``ev.TAGCN.on`` and ``ev.DCNN.on`` are such: they normalise the weights themselves, and so must the layer.
    seed : int
        Of parameters and signals.
    graphs : dict, optional
        Name -> :class:`evref.Graph`; :func:`revealing_graphs` by default.
    shift : str, optional
        The layer and the filter are built on ``graph.with_shift(shift)``. By default once on the weights as they are
        and once on the shift that the filter's publication uses ("gcn", "scaled_laplacian", ...), where there is one.
        For a layer that normalises the weights itself they are ``graph.origin[0].S``.
    parameters : dict or callable, optional
        As for :func:`evref.compare`, or a function of the reference that gives such a dict: names may depend on the
        order.
    call, backward, framework, layout, dtype
        As for :func:`evref.compare`.
    **settings
        Arguments of `build` and of the filter that are fixed. What `build` does not take goes to the filter alone,
        which has its default otherwise; a function of the graph may stand for a value of the filter.

    Returns
    -------
    Comparison
        `cases` has one entry per graph and configuration; `notes` say which graphs were left out because there is no
        such filter on them.

    Raises
    ------
    MismatchError
        An AssertionError that carries the report: the layer is not the filter, or could not be compared.
    BuildError
        `build` raised; the message says on which graph and in which configuration.
    TypeError, ValueError
        The arguments do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> def build_gcn(graph, in_features, out_features):
    ...     S = graph.S.toarray()
    ...     return lambda params, x: np.einsum("fg,bgj,ij->bfi", params["theta"], x, S)
    >>> assert_matches(build_gcn, "gcn").ok
    True
    """
    if not callable(build):
        raise TypeError(f"build is {type(build).__name__}; expected a function build(graph, ...) that returns a layer")
    if not (parameters is None or isinstance(parameters, Mapping) or callable(parameters)):
        raise TypeError(
            f"parameters is {type(parameters).__name__}; expected a dict: their name -> our name, or a function of the "
            "reference that gives one"
        )
    options = {
        "call": call,
        "backward": backward,
        "framework": framework,
        "layout": layout,
        "dtype": None if dtype is None else checks.as_dtype("dtype", dtype),
    }
    seed = checks.as_count("seed", seed)
    shifts = None if shift is None else (_as_shift(shift),)
    builder = Builder(build, as_filter(filt), settings, options, parameters, shifts)
    cases = builder.cases(revealing_graphs() if graphs is None else _as_graphs(graphs))
    title = getattr(build, "__name__", None) or type(build).__name__
    report = compare_cases(cases, seed=seed, title=title)
    return replace(report, notes=(*report.notes, *builder.notes())).raise_for_error()


def assert_gradients(
    layer: Any,
    params: Mapping[str, Any] | None = None,
    x: Any = None,
    *,
    call: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    framework: Framework | None = None,
    rng: Any = 0,
) -> list[Report]:
    """The gradients of a layer belong to its own output: no reference is needed, and none is asked for.

    Of an object on evref's contract every check of :mod:`evref.gradcheck` that applies: complex step, differences, a
    symmetric Hessian, and, where there is a `jvp`, the dot test. Of functions and modules of PyTorch, JAX and NumPy the
    differences and the Hessian: there automatic differentiation agrees with itself whatever is detached.

    Parameters
    ----------
    layer : callable or object
        An object with forward(params, x) -> (y, tape) and backward(params, tape, grad_y) -> (grads, grad_x); a function
        of (params, x); a torch.nn.Module. It is not changed.
    params : dict of arrays, optional
        Where to check; by default what the object's init(rng) gives, or the parameters that the module has.
    x : array, optional
        Where to check; drawn by default where the object has an `in_shape`.
    call, backward, framework
        As for :func:`evref.compare`.
    rng : None, int or Generator
        Of the directions of the checks, and of what is drawn.

    Returns
    -------
    list of Report

    Raises
    ------
    GradientError
        An AssertionError: the reports of the checks that failed, with the entry and both values.

    Examples
    --------
    >>> def cube(params, x):
    ...     return params["a"] * x**3
    >>> def gradients(params, x, grad_y):
    ...     return {"a": (grad_y * x**3).sum()}, 3 * params["a"] * x * grad_y      # should be x**2
    >>> try:
    ...     assert_gradients(cube, {"a": 2.0}, [0.5, 1.5], backward=gradients)
    ... except AssertionError as error:
    ...     print(str(error).splitlines()[0])
    central_difference of cube: FAILED (full Jacobian)
    """
    reports = checked(layer, params, x, call=call, backward=backward, framework=framework, rng=rng)
    failed = [report for report in reports if not report.ok]
    if failed:
        raise GradientError("\n".join(map(str, failed)))
    return reports


def _as_shift(shift: Any) -> str:
    if shift == "adjacency":
        return PLAIN
    if not isinstance(shift, str) or shift not in SHIFT_NAMES:
        hint = checks.did_you_mean(shift, SHIFT_NAMES) if isinstance(shift, str) else ""
        raise ValueError(f"shift is {shift!r}; expected one of {', '.join(SHIFT_NAMES)}{hint}")
    return shift


def _as_graphs(graphs: Any) -> Mapping[str, Graph]:
    if not isinstance(graphs, Mapping):
        raise TypeError(f"graphs is {type(graphs).__name__}; expected a dict: name -> Graph")
    for name, graph in graphs.items():
        if not isinstance(graph, Graph):
            raise TypeError(f"graphs[{name!r}] is {type(graph).__name__}; expected an evref.Graph")
    return graphs
