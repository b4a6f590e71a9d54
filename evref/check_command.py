"""`evref check`: a layer of yours beside the filter that it should be, from the command line."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, get_args

from . import checks
from .contract import Module
from .filters import catalogue
from .graph import Graph
from .graph.shifts import Shift
from .verify.compare import Comparison, MismatchError, compare
from .verify.foreign.find import Framework
from .verify.loading import TargetError, described, find, load, module_of, split

DESCRIPTION = """\
    Compare a layer with a filter of the catalogue: output and every gradient; name the mistake if it is a known one.

    LAYER is FILE.py::OBJECT, or MODULE:OBJECT, importable from here. OBJECT is one of

      a function or class build(graph, ...) whose first argument is called graph and that returns a layer: it is built
      on many graphs, on which wrong readings differ, in many configurations; arguments that the filter has too
      (order, in_features, out_features, bias, ...) are varied, unless --set fixes them; S is the matrix of weights, and
      where the filter's publication has another one, such as "gcn", that one in its turn, unless --shift says which;

      a layer on one graph: a function of (params, x), a torch.nn.Module, a JAX function, or an object with forward and
      backward. The graph is the object `graph` of the same file, or that of --graph; --set says which configuration.

    Exit code 0: it is right; 1: it is not, and the report says where and, if it can, why; 2: it could not be compared.
    EVREF_DEBUG=1 shows tracebacks."""
EPILOG = """\
    examples:
      evref check my_layers.py::build_chebyshev --as chebyshev
      evref check my_layers.py::build_ev --as edge_variant --set zeroth=diagonal
      evref check my_layers.py::layer --as gcn --graph my_graphs.py::cora --set in_features=2 --set out_features=3
      evref check my_layers.py::model --as my_layers.py::reference --call my_layers.py::call
      evref check my_layers.py::build_chebyshev --as chebyshev --json > report.json

    docs/check_my_layer.md has a paragraph on every mistake that is known by name."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("layer", metavar="LAYER", help="FILE.py::OBJECT or MODULE:OBJECT")
    command.add_argument(
        "--as",
        dest="filter",
        metavar="FILTER",
        required=True,
        help="name in the catalogue, or FILE.py::OBJECT, a filter or network of evref",
    )
    command.add_argument("--graph", metavar="OBJECT", help="evref.Graph of a layer on one graph (default: graph)")
    command.add_argument(
        "--set",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the filter, e.g. order=3; again for others",
    )
    command.add_argument(
        "--shift", choices=get_args(Shift), help="S that is made of the weights, as by graph.with_shift"
    )
    command.add_argument("--parameters", metavar="OBJECT", help="dict: your names of the parameters -> ours")
    command.add_argument("--call", metavar="OBJECT", help="function (layer, x) or (layer, params, x) that runs it")
    command.add_argument("--framework", choices=get_args(Framework), help="of the layer (default: found out)")
    command.add_argument("--seed", type=int, default=0, help="of parameters and signals (default 0)")
    command.add_argument("--json", action="store_true", help="the report as JSON on standard output, and nothing else")
    command.set_defaults(run=main)


def main(arguments: argparse.Namespace) -> int:
    seed = checks.as_count("--seed", arguments.seed)
    with redirect_stdout(sys.stderr), _descriptor_to_stderr():  # what the user's file prints is no part of the report
        report = _report(arguments, seed)
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else report)
    return 2 if report.problem else 0 if report.ok else 1


@contextmanager
def _descriptor_to_stderr() -> Iterator[None]:
    """To standard error what is written past sys.stdout too: by C code, by child processes, by os.write(1, ...)."""
    try:
        ours = sys.stdout is sys.__stderr__ and sys.__stdout__ is not None and sys.__stdout__.fileno() == 1
        kept = os.dup(1) if ours else None
    except (OSError, ValueError):  # closed, or no file
        kept = None
    if kept is None:
        yield
        return
    sys.__stdout__.flush()  # type: ignore[union-attr]
    try:
        os.dup2(2, 1)
        yield
    finally:
        with suppress(OSError, ValueError):
            sys.__stdout__.flush()  # type: ignore[union-attr]
        os.dup2(kept, 1)
        os.close(kept)


def _report(arguments: argparse.Namespace, seed: int) -> Comparison:
    name, attribute = split(arguments.layer, "LAYER")
    home = module_of(name, arguments.layer)
    layer = find(home, attribute, arguments.layer)

    def beside(option: str) -> Any:
        """An object of another file, or of the one that LAYER is in."""
        return load(option) if ":" in option else find(home, option, f"{name}::{option}")

    options = {
        "parameters": beside(arguments.parameters) if arguments.parameters else None,
        "call": beside(arguments.call) if arguments.call else None,
        "framework": arguments.framework,
    }
    settings = _settings(arguments.settings)
    if ":" in arguments.filter:
        reference = _own_reference(arguments, settings)
    elif is_builder(layer):
        if arguments.graph:
            raise TargetError(f"{arguments.layer} is built on many graphs; --graph is for a layer on one graph")
        return _on_many_graphs(arguments, layer, settings, options, seed)
    else:
        graph = _graph(arguments, home, beside)
        shifted = graph.with_shift(arguments.shift) if arguments.shift else graph
        reference = _reference(arguments.filter, settings, shifted)
    return compare(layer, reference, seed=seed, **options)


def is_builder(layer: Any) -> bool:
    """Whether it makes a layer on a graph: a function or a class whose first argument is called graph."""
    if not callable(layer) or (hasattr(layer, "forward") and not isinstance(layer, type)):
        return False
    try:
        arguments = list(inspect.signature(layer).parameters)
    except (TypeError, ValueError):  # some built-in functions do not say
        return False
    return arguments[:1] == ["graph"]


def _on_many_graphs(
    arguments: argparse.Namespace, build: Any, settings: dict[str, Any], options: dict[str, Any], seed: int
) -> Comparison:
    from .testing import BuildError, assert_matches  # here: the other commands do without its graphs

    filt = _filter_class(arguments.filter)
    _require_known(settings, filt, also=list(inspect.signature(build).parameters)[1:])
    try:
        return assert_matches(build, filt, seed=seed, shift=arguments.shift, **options, **settings)
    except MismatchError as mismatch:
        return mismatch.report
    except BuildError as error:
        raise TargetError(f"{arguments.layer}: {error}") from error


# ---- the reference ---------------------------------------------------------------------------------------------------
def _filter_class(name: str) -> Any:
    if name not in catalogue:
        hint = checks.did_you_mean(name, catalogue)
        raise TargetError(f"--as is {name!r}; expected FILE.py::OBJECT or one of {', '.join(catalogue)}{hint}")
    return catalogue[name]


def _own_reference(arguments: argparse.Namespace, settings: dict[str, Any]) -> Module:
    found = load(arguments.filter, "--as")
    if not isinstance(found, Module):
        what = f"--as {arguments.filter} is {described(found)}"
        raise TargetError(f"{what}; expected a filter, layer or network of evref")
    if settings or arguments.graph or arguments.shift:
        option = "--set" if settings else "--graph" if arguments.graph else "--shift"
        raise TargetError(f"{option} is for a filter by its name; {arguments.filter} has a graph and sizes of its own")
    return found


def _graph(arguments: argparse.Namespace, home: Any, beside: Any) -> Graph:
    if arguments.graph:
        graph, what = beside(arguments.graph), f"--graph {arguments.graph}"
    elif hasattr(home, "graph"):
        graph, what = home.graph, f"graph, beside {arguments.layer},"
    else:
        raise TargetError(
            f"{arguments.layer} is a layer on one graph, and its file has no object called graph; expected "
            "--graph OBJECT, or a function build(graph, ...) that returns the layer"
        )
    if not isinstance(graph, Graph):
        raise TargetError(f"{what} is {described(graph)}; expected an evref.Graph")
    return graph


def _reference(name: str, settings: dict[str, Any], graph: Graph) -> Module:
    filt = _filter_class(name)
    _require_known(settings, filt)
    missing = [argument for argument in _arguments(filt, needed=True) if argument not in settings]
    if missing:
        raise TargetError(f"{name} needs {' and '.join(missing)}; expected --set {missing[0]}=...")
    return filt(graph, **settings)


def _arguments(filt: Any, needed: bool = False) -> list[str]:
    """Names of the arguments behind the graph; those without a default if `needed`."""
    parameters = list(inspect.signature(filt).parameters.values())[1:]
    return [p.name for p in parameters if not needed or p.default is p.empty]


def _settings(words: Sequence[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise TargetError(f"--set is {word!r}; expected NAME=VALUE, such as order=3")
        if name in settings:
            raise TargetError(f"--set {name} is given twice, as {settings[name]!r} and {value!r}")
        settings[name] = _value(value)
    return settings


def _value(text: str) -> Any:
    """A number, a truth value, None, a list; else the word itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _require_known(settings: dict[str, Any], filt: Any, also: Sequence[str] = ()) -> None:
    known = [*_arguments(filt), *(name for name in also if name not in _arguments(filt))]
    for name in settings:
        if name not in known:
            raise TargetError(
                f"--set {name}: {filt.name} has no such argument; expected some of {', '.join(known)}"
                f"{checks.did_you_mean(name, known)}"
            )
