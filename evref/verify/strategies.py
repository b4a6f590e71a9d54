"""Hypothesis strategies for graphs, signals and parameters. Hypothesis is imported when the first one is made.

They shrink to few nodes, few edges, and small whole numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .. import checks
from ..contract import Module
from ..graph import Graph

Weights = Literal["any", "positive", "unit"]


def hypothesis() -> Any:
    """The package, or an error that says where to get it."""
    try:
        import hypothesis
        import hypothesis.strategies
    except ModuleNotFoundError as error:
        raise ImportError("the strategies of evref.testing need Hypothesis: pip install hypothesis") from error
    return hypothesis


def graphs(
    min_nodes: int = 1,
    max_nodes: int = 6,
    *,
    directed: bool | None = None,
    weights: Weights = "any",
    self_loops: bool = True,
    isolated_nodes: bool = True,
) -> Any:
    """Graphs, for ``@hypothesis.given``.

    Parameters
    ----------
    min_nodes, max_nodes : int
    directed : bool, optional
        True: an edge j -> i says nothing about i -> j (few happen to be symmetric, those without edges for one);
        False: S is symmetric; None: either.
    weights : {"any", "positive", "unit"}
        Of both signs, positive, or all 1. Sizes lie between 1/8 and 8.
    self_loops : bool
        Whether nodes may have one.
    isolated_nodes : bool
        Whether there may be nodes without an edge to or from another node.

    Returns
    -------
    hypothesis.strategies.SearchStrategy of Graph

    Raises
    ------
    ImportError
        Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> @settings(max_examples=20, database=None)
    ... @given(graphs(directed=False, weights="positive"))
    ... def test_laplacians_have_no_negative_eigenvalue(graph):
    ...     L = graph.with_shift("laplacian").S.toarray()
    ...     assert np.linalg.eigvalsh(L).min() > -1e-9
    >>> test_laplacians_have_no_negative_eigenvalue()
    """
    st = hypothesis().strategies
    low = checks.as_count("min_nodes", min_nodes, 1)
    high = checks.as_count("max_nodes", max_nodes, low)
    if directed is not None:
        directed = checks.as_flag("directed", directed)
    if not checks.as_flag("isolated_nodes", isolated_nodes) and low < 2:
        raise ValueError(f"min_nodes is {low} with isolated_nodes=False; expected at least 2")
    self_loops = checks.as_flag("self_loops", self_loops)
    edge = _weight(st, checks.as_choice("weights", weights, Weights))
    kinds = st.booleans() if directed is None else st.just(directed)

    @st.composite
    def drawn(draw: Any) -> Graph:
        n = draw(st.integers(low, high))
        one_way = draw(kinds)
        S = np.zeros((n, n))
        for i in range(n):
            for j in range(n if one_way else i + 1):
                if i != j or self_loops:
                    S[i, j] = draw(st.one_of(st.just(0.0), edge))
                    if not one_way:
                        S[j, i] = S[i, j]
        if not isolated_nodes:
            alone = S.astype(bool) & ~np.eye(n, dtype=bool)
            for i in np.flatnonzero(~(alone.any(axis=0) | alone.any(axis=1))).tolist():
                S[(i + 1) % n, i] = 1.0
                if not one_way:
                    S[i, (i + 1) % n] = 1.0
        return Graph(S)

    return drawn()


def _weight(st: Any, weights: Weights) -> Any:
    one = st.just(1.0)
    if weights == "unit":
        return one
    positive = st.one_of(one, st.integers(2, 8).map(float), st.floats(0.125, 8, width=32))
    if weights == "positive":
        return positive
    return st.one_of(positive, positive.map(lambda w: -w))


def signals(shape: Module | tuple[int, ...], *, batch: int | None = None) -> Any:
    """Batches of signals: arrays (batch, *shape) of finite numbers of size 4 at most.

    Parameters
    ----------
    shape : tuple of int, or a filter, layer or network
        Of one sample, (features, nodes); a filter says its own.
    batch : int, optional
        Number of samples; between 1 and 3 by default.

    Returns
    -------
    hypothesis.strategies.SearchStrategy of ndarray

    Raises
    ------
    ImportError
        Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> import evref as ev
    >>> filt = ev.GCN(ev.generators.cycle(4), in_features=2, out_features=3)
    >>> @settings(max_examples=20, database=None)
    ... @given(signals(filt), parameters_of(filt))
    ... def test_twice_the_signal_gives_twice_the_output(x, params):
    ...     assert np.allclose(filt(params, 2 * x), 2 * filt(params, x))
    >>> test_twice_the_signal_gives_twice_the_output()
    """
    st = hypothesis().strategies
    if isinstance(shape, Module):
        if shape.in_shape is None:
            raise ValueError(f"shape is {type(shape).__name__}, which takes any shape; expected a tuple such as (2, 5)")
        shape = shape.in_shape
    if not isinstance(shape, tuple):
        raise TypeError(f"shape is {type(shape).__name__}; expected a tuple of int or a filter, layer or network")
    core = tuple(checks.as_count("shape", size) for size in shape)
    if batch is not None:
        return _arrays((checks.as_count("batch", batch), *core))
    return st.integers(1, 3).flatmap(lambda n: _arrays((n, *core)))


def parameters_of(module: Module) -> Any:
    """Parameters of a filter, layer or network: a dict of finite arrays, with numbers of size 4 at most.

    Where a parameter must be other than zero (widths of Gaussians), it is.

    Parameters
    ----------
    module : Module

    Returns
    -------
    hypothesis.strategies.SearchStrategy of dict

    Raises
    ------
    ImportError
        Hypothesis is not installed.

    Examples
    --------
    >>> from hypothesis import find
    >>> import evref as ev
    >>> filt = ev.GCN(ev.generators.cycle(4), out_features=2)
    >>> find(parameters_of(filt), lambda params: params["theta"].max() > 1)["theta"].tolist()
    [[2.0], [0.0]]
    """
    st = hypothesis().strategies
    if not isinstance(module, Module):
        raise TypeError(f"module is {type(module).__name__}; expected a filter, layer or network of evref")
    return st.fixed_dictionaries(
        {
            name: _arrays(shape, nonzero=name.split(".")[-1] in NOT_ZERO)
            for name, shape in module.parameter_shapes().items()
        }
    )


NOT_ZERO = ("sigma", "h")  # widths of Gaussians, the zoom of Cayley filters


def _arrays(shape: tuple[int, ...], nonzero: bool = False) -> Any:
    from hypothesis.extra import numpy as extra

    st = hypothesis().strategies
    size = st.one_of(st.integers(1, 4).map(float), st.floats(0.25, 4, width=32))
    elements = size if nonzero else st.one_of(st.just(0.0), size, size.map(lambda value: -value))
    return extra.arrays(np.float64, shape, elements=elements, fill=st.just(1.0 if nonzero else 0.0))
