"""What `evref gradcheck TARGET` names: a class of the catalogues, or something of the user's, and how to build it.

Whatever is found there that cannot be checked ends in one sentence: what it is, what was expected, what to do.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from ..checks import did_you_mean
from ..contract import Module
from ..filters import catalogue
from ..graph import Graph
from ..learn import layer_catalogue
from .examples import named_examples
from .loading import TargetError, described, load, one_line, required_arguments, split
from .losses import loss_catalogue

__all__ = ["Target", "TargetError", "known_names", "one_line", "resolve"]

EXPECTED = (
    "expected an object with init(rng), forward(params, x) and backward(params, tape, grad_y), a class with "
    "examples(graph, rng), or a function of a graph that returns such an object"
)


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
            modules = {"": self.found(graph) if required_arguments(self.found) else self.found()}
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
    found = load(target)
    if isinstance(found, type):
        _require_buildable_class(target, found)
        return Target(target, found, on_graph=True)
    if _is_torch(type(found)) or hasattr(found, "forward") or hasattr(found, "backward"):
        _require_module(target, found)
        return Target(target, found, on_graph=False)
    if callable(getattr(found, "examples", None)):
        return Target(target, found, on_graph=True)
    if not callable(found) or inspect.ismodule(found):
        raise TargetError(f"{target} is {described(found)}; {EXPECTED}")
    required = required_arguments(found)
    if len(required) > 1:
        raise TargetError(
            f"{target} is {described(found)} of {len(required)} arguments ({', '.join(required)}); {EXPECTED}"
        )
    return Target(target, found, on_graph=True)


# ---- is it one that can be checked? ----------------------------------------------------------------------------------
def _is_torch(cls: type) -> bool:
    """Whether it is a torch.nn.Module, without importing torch."""
    return any(base.__name__ == "Module" and base.__module__.startswith("torch.nn") for base in cls.__mro__)


def _refuse_torch(target: str, found: Any) -> None:
    raise TargetError(
        f"{target} is {described(found)}, a torch.nn.Module: torch derives its gradients itself, and "
        "torch.autograd.gradcheck checks them. To check a gradient of your own, wrap it in an object with "
        "forward(params, x) and backward(params, tape, grad_y) on NumPy arrays"
    )


def _require_module(target: str, found: Any, made: bool = False) -> None:
    """An object with the three methods."""
    what = f"{target} {'made' if made else 'is'} {described(found)}"
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
        raise TargetError(f"{target} is {described(cls)}, which does not write {unwritten}{hint}")
    missing = [name for name in ("forward", "backward", "init") if not callable(getattr(cls, name, None))]
    if missing:
        raise TargetError(f"{target} is {described(cls)}, which has no {' and no '.join(missing)}; {EXPECTED}{hint}")
    required = required_arguments(cls)
    if len(required) > 1 or (required and required[0] != "graph"):
        raise TargetError(
            f"{target} is {described(cls)}, which needs arguments ({', '.join(required)}); expected an instance, "
            f"such as {split(target)[0]}:layer with layer = {cls.__name__}(...), or a class method "
            f"examples(graph, rng) that yields some{hint}"
        )
