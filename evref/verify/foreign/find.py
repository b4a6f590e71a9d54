"""Which framework a layer belongs to, and how a function takes its parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, ModuleType
from typing import Any, Literal, get_args

from .jax_layer import JaxLayer
from .numpy_layer import NumpyLayer
from .torch_layer import TorchLayer

Framework = Literal["torch", "jax", "numpy", "contract"]
Adapter = TorchLayer | JaxLayer | NumpyLayer
OWNERS = ("torch", "jax", "jaxlib", "numpy")
EXPECTED = (
    "expected a function of (params, x), a torch.nn.Module, or an object with forward(params, x) and "
    "backward(params, tape, grad_y)"
)


def adapters(layer: Any, names: Sequence[str], call: Any, backward: Any, framework: str | None) -> list[Adapter]:
    """Ways to run `layer`, the likeliest first; `names` are those of its parameters."""
    if framework is not None and framework not in get_args(Framework):
        raise ValueError(f"framework is {framework!r}; expected one of {', '.join(get_args(Framework))}, or None")
    for what, function in (("call", call), ("backward", backward)):
        if function is not None and not callable(function):
            raise TypeError(f"{what} is {type(function).__name__}; expected a function")
    if framework in (None, "torch") and is_torch_module(layer):
        return [TorchLayer(call or (lambda module, x: module(x)), layer)]
    if framework == "contract" or (framework is None and _on_the_contract(layer) and call is None):
        if not callable(getattr(layer, "forward", None)):
            raise TypeError(f"layer is {type(layer).__name__}, which has no forward; {EXPECTED}")
        own = getattr(layer, "backward", None)
        return [NumpyLayer(layer.forward if own else partial(_output_of, layer), own, "contract")]
    if isinstance(layer, type) or not (callable(layer) or call is not None):
        hint = "; it is a class: pass an instance" if isinstance(layer, type) else ""
        raise TypeError(f"layer is {_called(layer)}; {EXPECTED}{hint}")
    function = calling(layer, names) if call is None else partial(call, layer)
    if backward is not None:
        return [NumpyLayer(function, backward)]
    order = [framework] if framework is not None else list(likely_frameworks(layer if call is None else call))
    made: dict[str, Callable[[], Adapter]] = {
        "torch": lambda: TorchLayer(function),
        "jax": lambda: JaxLayer(function),
        "numpy": lambda: NumpyLayer(function, None),
    }
    return [made[name]() for name in order]


def _called(layer: Any) -> str:
    return f"the class {layer.__name__}" if isinstance(layer, type) else type(layer).__name__


def _output_of(layer: Any, params: Any, x: Any) -> Any:
    y = layer.forward(params, x)
    return y[0] if isinstance(y, tuple) else y


def is_torch_module(layer: Any) -> bool:
    """Whether it is a torch.nn.Module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(layer, torch.nn.Module)


def _on_the_contract(layer: Any) -> bool:
    return all(callable(getattr(layer, name, None)) for name in ("forward", "backward")) and not isinstance(layer, type)


# ---- how a function takes its parameters -----------------------------------------------------------------------------
def calling(function: Any, names: Sequence[str]) -> Callable[[Any, Any], Any]:
    """`function` as one of (params, x): as it is, with x first, or with the parameters by keyword.

    >>> calling(lambda x, phi: x * phi, ["phi"])({"phi": 3}, 2)
    6
    >>> calling(lambda params, x: x * params["phi"], ["phi"])({"phi": 3}, 2)
    6
    """
    try:
        arguments = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions do not say
        return function
    others = [name for name, a in arguments.items() if name not in names and a.default is a.empty]
    if names and set(names) <= arguments.keys() and len(others) == 1:
        return lambda params, x: function(**{others[0]: x}, **params)
    if list(arguments)[:2] in (["x", "params"], ["x", "parameters"]):
        return lambda params, x: function(x, params)
    if len(arguments) == 1 and not names:
        return lambda params, x: function(x)
    return function


# ---- which framework -------------------------------------------------------------------------------------------------
def likely_frameworks(function: Any) -> Iterator[str]:
    """Those that the function's code names, then those of its file, then NumPy and the rest of what is loaded."""
    known: list[str] = [name for name in ("torch", "jax") if name in sys.modules]
    used, there = ({_owner(value) for value in values(function)} for values in (_values_used, _values_of_the_file))
    first = [name for name in known if name in used]
    if not first and "numpy" in used:
        first = ["numpy"]
    yield from dict.fromkeys([*first, *(name for name in known if name in there), "numpy", *known])


def _owner(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    kind = type(value).__module__
    roots = (str(name).split(".")[0], kind.split(".")[0])
    return next(({"jaxlib": "jax"}.get(root, root) for root in roots if root in OWNERS), "")


def _unwrapped(function: Any) -> Any:
    while True:
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        inner = inner or getattr(function, "__func__", None)
        if inner is None:
            break
        function = inner
    return function if hasattr(function, "__code__") else type(function).__call__


def _values_used(function: Any) -> Iterator[Any]:
    yield function
    plain = _unwrapped(function)
    code: CodeType | None = getattr(plain, "__code__", None)
    file: dict[str, Any] = getattr(plain, "__globals__", {})
    if code is not None:
        yield from (file[name] for name in _names_in(code) if name in file)
    for cell in getattr(plain, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield value
        inner = getattr(value, "__code__", None)
        if inner is not None and getattr(value, "__globals__", None) is file:
            yield from (file[name] for name in _names_in(inner) if name in file)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _values_of_the_file(function: Any) -> Iterator[Any]:
    yield from list(getattr(_unwrapped(function), "__globals__", {}).values())
