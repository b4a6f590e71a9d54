"""What `evref gradcheck TARGET` names: a class of the catalogues, or something of the user's, and how to build it.

Whatever is found there that cannot be checked ends in one sentence: what it is, what was expected, what to do.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checks import did_you_mean
from ..contract import Module
from ..filters import catalogue
from ..graph import Graph
from ..learn import layer_catalogue
from .examples import named_examples
from .losses import loss_catalogue

EXPECTED = (
    "expected an object with init(rng), forward(params, x) and backward(params, tape, grad_y), a class with "
    "examples(graph, rng), or a function of a graph that returns such an object"
)


class TargetError(ValueError):
    """A TARGET that cannot be checked; the message says why in one line."""


@dataclass(frozen=True)
class Target:
    """What TARGET names: `found`, and whether it is built on a graph."""

    name: str
    found: Any
    on_graph: bool

    def build(self, graph: Graph, seed: int) -> dict[str, Any]:
        """The modules to check by configuration; "" where there is one alone."""
        if not self.on_graph:
            return {"": self.found}
        if callable(getattr(self.found, "examples", None)):
            modules = named_examples(self.found, graph, seed)
        else:
            modules = {"": self.found(graph) if _required(self.found) else self.found()}
        for module in modules.values():
            _require_module(self.name, module, made=True)
        return modules


def known_names() -> dict[str, Any]:
    return {**catalogue, **layer_catalogue, **loss_catalogue}


def resolve(target: str) -> Target:
    """The target behind a name of the catalogues or behind MODULE:OBJECT; else a TargetError."""
    known = known_names()
    if target in known:
        return Target(target, known[target], on_graph=True)
    if ":" not in target:
        text = f"TARGET is {target!r}; expected MODULE:OBJECT or one of {', '.join(known)}"
        if target.endswith(".json"):
            text = f"TARGET is {target!r}; --json takes no file: evref gradcheck --json > {target}"
        elif target.endswith(".py"):
            text = f"TARGET is {target!r}, a file; expected MODULE:OBJECT, such as {target.removesuffix('.py')}:layer"
        raise TargetError(text + did_you_mean(target, known))
    found = _imported(target)
    if isinstance(found, type):
        _require_buildable_class(target, found)
        return Target(target, found, on_graph=True)
    if _is_torch(type(found)) or hasattr(found, "forward") or hasattr(found, "backward"):
        _require_module(target, found)
        return Target(target, found, on_graph=False)
    if callable(getattr(found, "examples", None)):
        return Target(target, found, on_graph=True)
    if not callable(found) or inspect.ismodule(found):
        raise TargetError(f"{target} is {_described(found)}; {EXPECTED}")
    required = _required(found)
    if len(required) > 1:
        raise TargetError(
            f"{target} is {_described(found)} of {len(required)} arguments ({', '.join(required)}); {EXPECTED}"
        )
    return Target(target, found, on_graph=True)


# ---- finding it ------------------------------------------------------------------------------------------------------
def _imported(target: str) -> Any:
    name, _, attribute = target.partition(":")
    if not name or not attribute:
        raise TargetError(f"TARGET is {target!r}; expected MODULE:OBJECT with a name on both sides of the colon")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise TargetError(f"{target}: importing {name} needs {error.name}, which is not installed") from error
        here = [path.stem for path in Path.cwd().glob("*.py")]
        raise TargetError(
            f"{target}: there is no module {name!r} here or on the path of Python{did_you_mean(name, here)}"
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's file does when it runs
        raise TargetError(f"{target}: importing {name} raised {one_line(error)}") from error
    for part in attribute.split("."):
        try:
            there = hasattr(found, part)
        except Exception as error:  # a property, or __getattr__, of the user's
            raise TargetError(f"{target}: reading {part!r} raised {one_line(error)}") from error
        if not there:
            names = [name for name in dir(found) if not name.startswith("_")]
            raise TargetError(f"{target}: {_described(found)} has no {part!r}{did_you_mean(part, names)}")
        found = getattr(found, part)
    return found


def one_line(error: BaseException) -> str:
    """Kind and message of an exception, and the line where it was raised."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def _described(found: Any) -> str:
    if inspect.ismodule(found):
        return f"the module {found.__name__}"
    if isinstance(found, type):
        return f"the class {found.__name__}"
    if inspect.isroutine(found):
        return f"the function {found.__name__}"
    name = type(found).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


# ---- is it one that can be checked? ----------------------------------------------------------------------------------
def _is_torch(cls: type) -> bool:
    """Whether it is a torch.nn.Module, without importing torch."""
    return any(base.__name__ == "Module" and base.__module__.startswith("torch.nn") for base in cls.__mro__)


def _refuse_torch(target: str, found: Any) -> None:
    raise TargetError(
        f"{target} is {_described(found)}, a torch.nn.Module: torch derives its gradients itself, and "
        "torch.autograd.gradcheck checks them. To check a gradient of your own, wrap it in an object with "
        "forward(params, x) and backward(params, tape, grad_y) on NumPy arrays"
    )


def _require_module(target: str, found: Any, made: bool = False) -> None:
    """An object with the three methods."""
    what = f"{target} {'made' if made else 'is'} {_described(found)}"
    if _is_torch(type(found)):
        _refuse_torch(target, found)
    missing = [name for name in ("forward", "backward", "init") if not callable(getattr(found, name, None))]
    if missing:
        raise TargetError(f"{what}, which has no {' and no '.join(missing)}; {EXPECTED}")


def _require_buildable_class(target: str, cls: Any) -> None:
    if _is_torch(cls):
        _refuse_torch(target, cls)
    if callable(getattr(cls, "examples", None)) and not getattr(cls.examples, "__isabstractmethod__", False):
        return
    hint = "; example(graph, rng) is now examples(graph, rng), which yields one instance per configuration"
    hint = hint if hasattr(cls, "example") else ""
    if issubclass(cls, Module) and inspect.isabstract(cls):
        unwritten = ", ".join(sorted(cls.__abstractmethods__))
        raise TargetError(f"{target} is {_described(cls)}, which does not write {unwritten}{hint}")
    missing = [name for name in ("forward", "backward", "init") if not callable(getattr(cls, name, None))]
    if missing:
        raise TargetError(f"{target} is {_described(cls)}, which has no {' and no '.join(missing)}; {EXPECTED}{hint}")
    required = _required(cls)
    if len(required) > 1 or (required and required[0] != "graph"):
        raise TargetError(
            f"{target} is {_described(cls)}, which needs arguments ({', '.join(required)}); expected an instance, "
            f"such as {target.partition(':')[0]}:layer with layer = {cls.__name__}(...), or a class method "
            f"examples(graph, rng) that yields some{hint}"
        )


def _required(function: Any) -> list[str]:
    """Names of the arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not say
        return ["graph"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]
