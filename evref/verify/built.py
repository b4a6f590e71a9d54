"""Cases from a function that builds a layer on a graph: every graph and shift, in several configurations.

``builder.cases(graphs)`` are what :func:`evref.testing.assert_matches` compares. Each of them knows how to make simpler
ones of its kind (fewer nodes and edges, a lower order, fewer features), among which the smallest failing one is looked
for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import isabstract
from itertools import islice
from typing import Any

import numpy as np

from ..checks import did_you_mean, what_is
from ..contract import Module, NotRepresentable
from ..filters import Filter, catalogue
from ..graph import Graph, NotDiagonalizable, RepeatedEigenvaluesWarning
from .compare import Case
from .configurations import VALUES, Choices, choices, how_many, parameters_of, rows, shown
from .foreign.problem import raised
from .revealing import PLAIN, SHIFTS, in_words

BATCHES = (3, 1)
MOST = 4  # configurations on one graph with one shift
NAMED = 3  # graphs in a note on what was left out


class BuildError(ValueError):
    """The function that builds the layer raised, or gave nothing; the message says on which graph and why."""


class LeftOut(ValueError):
    """The filter does not exist on this graph."""


@dataclass(frozen=True)
class Setting:
    """What a case is built from: weights, the shift made of them, a configuration, a batch size."""

    where: str  # name of the graph
    weights: Graph
    shift: str
    config: Mapping[str, Any]
    batch: int

    @property
    def graph(self) -> str:
        return f"{self.shift} of {self.where}" if self.shift else self.where

    @property
    def name(self) -> str:
        return ", ".join([self.graph, *shown(self.config), f"batch {self.batch}"])


@dataclass
class Builder:
    """A function that builds somebody's layer, beside the filter or the function that builds the reference."""

    build: Callable[..., Any]
    filt: Any  # class of a filter, or a function graph, ... -> reference
    fixed: Mapping[str, Any]
    options: Mapping[str, Any]  # of ev.compare
    parameters: Any = None
    shifts: tuple[str, ...] | None = None  # None: those of the filter
    left_out: dict[str, list[Setting]] = field(default_factory=dict)  # by the reason

    def __post_init__(self) -> None:
        owner = self._signed
        self.name = getattr(owner, "name", "") if isinstance(owner, type) else ""
        own = SHIFTS.get(self.name, (PLAIN,)) if owner is self.filt else (PLAIN,)  # `GCN.on` makes its shift itself
        self.shifts = own if self.shifts is None else self.shifts
        theirs, ours = parameters_of(self.build), parameters_of(self._signed)
        self.all_theirs, self.all_ours = (_takes_all(arguments) for arguments in (theirs, ours))
        self.theirs, self.ours = (
            {name for name, p in arguments.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
            for arguments in (theirs, ours)
        )
        for name in self.fixed:
            if not (name in self.theirs | self.ours or self.all_theirs or self.all_ours):
                raise TypeError(
                    f"{name} is no argument of {self.title} or of build; expected some of "
                    f"{', '.join(sorted(self.ours))}{did_you_mean(name, self.ours)}"
                )
        shared = [name for name in (theirs if self.all_ours else ours) if self._takes(name)]
        self.choices: Choices = choices(self.name, owner, [name for name in shared if name not in self.fixed])
        self._require("build", theirs, {*self.choices, *self.fixed}, f"{self.title} has no such argument")
        self._require(self.title, ours, {*self.choices, *self.fixed}, "build does not take it")

    @property
    def title(self) -> str:
        return self.name or getattr(self.filt, "__qualname__", None) or type(self.filt).__name__

    @property
    def _signed(self) -> Any:
        """Whose signature says what the reference takes: `GCN.on` takes what GCN does."""
        owner = getattr(self.filt, "__self__", None)
        return owner if isinstance(owner, type) and issubclass(owner, Filter) else self.filt

    @property
    def _defaults(self) -> dict[str, Any]:
        ours = parameters_of(self._signed)
        return {name: p.default for name, p in ours.items() if p.default is not p.empty}

    def _takes(self, name: str) -> bool:
        return self.all_theirs or name in self.theirs

    def _require(self, whose: str, arguments: Mapping[str, Any], known: set[str], why: str) -> None:
        for name, p in arguments.items():
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and name not in known:
                raise TypeError(f"{whose} needs {name}, and {why}; expected {name}=... among the settings")

    # ---- one case --------------------------------------------------------------------------------------------------
    def case(self, setting: Setting) -> Case:
        """The layer and its reference; LeftOut where there is no such filter."""
        config = {**self.fixed, **setting.config}
        graph, reference = self._reference(setting, config)
        values = self._values(config, graph)
        own = {name: value for name, value in values.items() if self._takes(name)}
        layer = self._guarded("build", setting, self.build, graph, **own)
        if layer is None:
            raise BuildError(f"build returned None on {setting.name}; expected a layer")
        parameters = self.parameters
        if callable(parameters):
            parameters = self._guarded("parameters", setting, parameters, reference)
        options = {**self.options, "parameters": parameters}
        return Case(setting.name, layer, reference, setting.batch, options, lambda: self._simpler(setting))

    def _values(self, config: Mapping[str, Any], graph: Graph) -> dict[str, Any]:
        """On this graph. A function that is no argument of the filter is left to the layer."""
        return {n: v(graph) if callable(v) and n in self.ours else v for n, v in config.items()}

    def _guarded(self, what: str, setting: Setting, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except (Exception, SystemExit) as error:  # whatever it does
            raise BuildError(f"{what} raised {raised(error)} on {setting.name}") from error

    def _reference(self, setting: Setting, config: Mapping[str, Any]) -> tuple[Graph, Module]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", RepeatedEigenvaluesWarning)
                graph = setting.weights.with_shift(setting.shift) if setting.shift else setting.weights  # type: ignore[arg-type]
                values = self._values(config, graph)
                reference = self.filt(graph, **{n: v for n, v in values.items() if self.all_ours or n in self.ours})
        except RepeatedEigenvaluesWarning:
            raise LeftOut("repeated eigenvalues: the eigenvectors, and with them the filter, are a choice") from None
        except NotDiagonalizable:
            raise LeftOut("S is not diagonalizable") from None
        except (ValueError, NotRepresentable) as error:
            raise LeftOut(" ".join(str(error).split())) from error
        if not isinstance(reference, Module):
            raise TypeError(f"{self.title} returned {what_is(reference)}; expected a filter or network of evref")
        return graph, reference

    # ---- all cases -------------------------------------------------------------------------------------------------
    def cases(self, graphs: Mapping[str, Graph]) -> list[Case]:
        """On every graph, with every shift, the next few configurations; what does not exist is counted."""
        options: Choices = {**self.choices, "batch": BATCHES}
        endless, number = rows(options, self._defaults | dict(self.fixed)), min(MOST, how_many(options))
        cases: list[Case] = []
        refused: dict[str, LeftOut] = {}
        for where, graph in graphs.items():
            for shift in self.shifts or ():
                for config in islice(endless, number):
                    batch = config.pop("batch")
                    try:
                        cases.append(self.case(Setting(where, graph, shift, config, batch)))
                    except LeftOut as reason:
                        self.left_out.setdefault(str(reason), []).append(Setting(where, graph, shift, config, batch))
                        refused.setdefault(str(reason), reason)
        if not cases:
            reasons = "; ".join(refused) or "graphs is empty"
            raise ValueError(f"there is no {self.title} on any of the graphs: {reasons}")
        return cases

    def notes(self) -> tuple[str, ...]:
        """What was left out, how often and why."""
        return tuple(
            f"left out {len(cases)} case{'s' if len(cases) > 1 else ''}, on {_graphs_of(cases)}: {reason}"
            for reason, cases in self.left_out.items()
        )

    # ---- simpler ones ----------------------------------------------------------------------------------------------
    def _simpler(self, setting: Setting) -> Iterator[Case]:
        for simpler in _simpler_settings(setting, self.fixed, self.shifts or ()):
            try:
                yield self.case(replace(simpler, where=in_words(simpler.weights)))
            except (LeftOut, BuildError):
                continue


def _graphs_of(cases: list[Setting]) -> str:
    names = list(dict.fromkeys(case.graph for case in cases))
    rest = f" and {len(names) - NAMED} more graphs" if len(names) > NAMED + 1 else ""
    return ", ".join(names[:NAMED] if rest else names) + rest


def _takes_all(arguments: Mapping[str, Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in arguments.values())


def _simpler_settings(setting: Setting, fixed: Mapping[str, Any], shifts: tuple[str, ...]) -> Iterator[Setting]:
    """One step simpler each: what removes most comes first. An order that the caller fixed is lowered too."""
    if setting.batch > 1:
        yield replace(setting, batch=1)
    if setting.shift and PLAIN in shifts:
        yield replace(setting, shift=PLAIN)
    graph = setting.weights
    for node in range(graph.n_nodes if graph.n_nodes > 1 else 0):
        yield replace(setting, weights=_without(graph, node))
    for name, value in {**fixed, **setting.config}.items():
        if name in VALUES and isinstance(value, int):
            for lower in sorted(v for v in VALUES[name] if isinstance(v, int) and v < value):
                yield replace(setting, config={**setting.config, name: lower})
    S = graph.S.toarray()
    edges = [(int(i), int(j)) for i, j in zip(*np.nonzero(S), strict=True) if i <= j or S[i, j] != S[j, i]]
    for weight in (0.0, 1.0):
        for i, j in edges:
            if S[i, j] not in (0.0, weight):
                changed = S.copy()
                changed[i, j] = weight
                if S[i, j] == S[j, i]:
                    changed[j, i] = weight
                yield replace(setting, weights=Graph(changed))


def _without(graph: Graph, node: int) -> Graph:
    kept = np.delete(np.arange(graph.n_nodes), node)
    return Graph(graph.S.toarray()[np.ix_(kept, kept)])


def as_filter(filt: Any) -> Any:
    """The class of a filter's name; a class or a function itself."""
    if isinstance(filt, str):
        if filt not in catalogue:
            raise ValueError(f"filt is {filt!r}; expected one of {', '.join(catalogue)}{did_you_mean(filt, catalogue)}")
        return catalogue[filt]
    expected = "expected a filter's name, its class or a function of the graph"
    if isinstance(filt, type) and (isabstract(filt) or not issubclass(filt, Filter)):
        raise TypeError(f"filt is the class {filt.__name__}; {expected}")
    if isinstance(filt, Module):  # which can be called, on signals
        what = "a filter on one graph" if isinstance(filt, Filter) else "a layer or network already"
        raise TypeError(f"filt is {type(filt).__name__}; {expected}; it is {what}: evref.compare is for that")
    if not callable(filt):
        raise TypeError(f"filt is {type(filt).__name__}; {expected}")
    return filt
