"""Which framework a layer belongs to, and how a function takes its parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal, cast, get_args

from .jax_layer import JaxLayer
from .numpy_layer import NumpyLayer
from .problem import hinting
from .torch_layer import TorchLayer

Framework = Literal["torch", "jax", "numpy", "contract"]
Adapter = TorchLayer | JaxLayer | NumpyLayer
MOST_WRAPPERS = 50  # decorators around a function: an object may claim to wrap itself
DICTS = ("params", "parameters", "p")  # names of an argument that is meant for all parameters
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
    a_module = framework in (None, "torch") and is_torch_module(layer)
    for what, function, expected in (
        ("call", call, ("layer", "x") if a_module else ("layer", "params", "x")),
        ("backward", backward, ("params", "x", "grad_y")),
    ):
        if function is not None and not _takes(function, len(expected)):
            raise TypeError(f"{what} takes {_arguments_of(function)}; expected ({', '.join(expected)})")
    if a_module:
        return [TorchLayer(call or _calling_module(layer), layer)]
    if framework == "contract" or (framework is None and _on_the_contract(layer) and call is None):
        if not callable(_attribute(layer, "forward")):
            raise TypeError(f"layer is {type(layer).__name__}, which has no forward; {EXPECTED}")
        own = _attribute(layer, "backward")
        return [NumpyLayer(layer.forward if own else partial(_output_of, layer), own, "contract")]
    require_no_class(layer)
    if not (callable(layer) or call is not None):
        raise TypeError(f"layer is {type(layer).__name__}; {EXPECTED}")
    function = calling(layer, names) if call is None else partial(call, layer)
    if backward is not None:
        return [NumpyLayer(function, backward)]
    order = {framework: True} if framework is not None else likely_frameworks(layer if call is None else call)
    made: dict[str, Callable[[], Adapter]] = {
        "torch": lambda: TorchLayer(function),
        "jax": lambda: JaxLayer(function),
        "numpy": lambda: NumpyLayer(function, None),
    }
    found = []
    for name, certain in order.items():
        found.append(made[name]())
        found[-1].certain = certain
    return found


def require_no_class(layer: Any) -> None:
    """TypeError where an instance was meant."""
    if isinstance(layer, type):
        raise TypeError(f"layer is the class {layer.__name__}; {EXPECTED}; it is a class: pass an instance")


def _output_of(layer: Any, params: Any, x: Any) -> Any:
    y = layer.forward(params, x)
    return y[0] if isinstance(y, tuple) else y


def is_torch_module(layer: Any) -> bool:
    """Whether it is a torch.nn.Module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(layer, torch.nn.Module)


def _on_the_contract(layer: Any) -> bool:
    return all(callable(_attribute(layer, name)) for name in ("forward", "backward")) and not isinstance(layer, type)


def _calling_module(module: Any) -> Callable[[Any, Any], Any]:
    forward = _attribute(module, "forward")
    if _takes(forward, 1) or _takes(forward, 0):
        return lambda module, x: module(x)
    hint = (
        f"forward takes {_arguments_of(forward)} and was called with x alone; for another call say "
        "call=lambda layer, x: layer(x, ...)"
    )
    return _hinting(lambda module, x: module(x), hint)


def _hinting(function: Callable[[Any, Any], Any], hint: str) -> Callable[[Any, Any], Any]:
    def call(layer_or_params: Any, x: Any) -> Any:
        with hinting(hint):
            return function(layer_or_params, x)

    return call


# ---- how a function takes its parameters -----------------------------------------------------------------------------
def calling(function: Any, names: Sequence[str]) -> Callable[[Any, Any], Any]:
    """`function` as one of (params, x): as it is, with x first, or with the parameters by keyword.

    Where it says neither that it takes a dict nor the names of the parameters, and raises, the message ends with how it
    was called.

    >>> calling(lambda x, phi: x * phi, ["phi"])({"phi": 3}, 2)
    6
    >>> calling(lambda params, x: x * params["phi"], ["phi"])({"phi": 3}, 2)
    6
    >>> calling(lambda x, phi, edges: x * phi, ["phi"])
    Traceback (most recent call last):
    TypeError: layer takes (x, phi, edges); expected (params, x), or x and phi by name; for another call say call=...
    """
    try:
        arguments = dict(inspect.signature(function).parameters)
    except Exception:  # some built-in functions do not say, and objects of the user's may not want to be asked
        return cast(Callable[[Any, Any], Any], function)
    named = {name: a for name, a in arguments.items() if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)}
    any_name = any(a.kind is a.VAR_KEYWORD for a in arguments.values())
    others = [name for name, a in named.items() if name not in names and a.default is a.empty]
    lacking = [] if any_name else [name for name in names if name not in named]
    if names and not lacking and len(others) == 1:
        return _by_name(function, others[0], named)
    first, second = [*named, "", ""][:2]
    if not names and (len(arguments) == 1 or (first == "x" and _takes(function, 1))):
        return lambda params, x: function(x)
    expected = f"(params, x), or x and {', '.join(names)} by name" if names else "(x), or (params, x)"
    expected = f"expected {expected}; for another call say call=lambda layer, params, x: ..."
    if not _takes(function, 2) or (first == "x" and second in names):
        lacks = f" has no argument {', '.join(lacking)} and" if names and set(names) & set(named) and lacking else ""
        raise TypeError(f"layer{lacks} takes {_arguments_of(function)}; {expected}")
    x_first = first == "x" or (second in DICTS and first not in DICTS)
    call = (lambda params, x: function(x, params)) if x_first else cast(Callable[[Any, Any], Any], function)
    if not named or (second if x_first else first) in DICTS or set(names) & set(_strings_in(_code_of(function))):
        return call
    how = "x and params, a dict" if x_first else "params, a dict, and x"
    return _hinting(call, f"layer takes {_arguments_of(function)} and was called with {how}; {expected}")


def _by_name(function: Any, x_name: str, named: dict[str, inspect.Parameter]) -> Callable[[Any, Any], Any]:
    by_place = [name for name, a in named.items() if a.kind is a.POSITIONAL_ONLY]

    def call(params: Any, x: Any) -> Any:
        given = {**params, x_name: x}
        return function(*[given.pop(name) for name in by_place if name in given], **given)

    return call


def _takes(function: Any, n: int) -> bool:
    """Whether it can be called with n arguments, as far as it says."""
    try:
        signature = inspect.signature(function)
    except Exception:  # as above
        return True
    try:
        signature.bind(*[None] * n)
    except TypeError:
        return False
    return True


def _arguments_of(function: Any) -> str:
    return f"({', '.join(map(_written, inspect.signature(function).parameters.values()))})"


def _written(argument: inspect.Parameter) -> str:
    stars = 1 if argument.kind is argument.VAR_POSITIONAL else 2 if argument.kind is argument.VAR_KEYWORD else 0
    return "*" * stars + argument.name


# ---- which framework -------------------------------------------------------------------------------------------------
def likely_frameworks(function: Any) -> dict[str, bool]:
    """Those that the function's code names, then those of its file, then NumPy and the rest of what is loaded.

    True where the code names that one of torch and JAX, and not both: if it runs in that one, it is meant for it.
    """
    # Perhaps by the function, when it is called; `import jax.numpy` has that name.
    imported = {name.partition(".")[0] for name in _names_in(_code_of(function))} & {"torch", "jax"}
    known: list[str] = [
        name for name in ("torch", "jax") if name in sys.modules or (name in imported and find_spec(name))
    ]
    used, there = ({_owner(value) for value in values(function)} for values in (_values_used, _values_of_the_file))
    used |= imported
    first = [name for name in known if name in used]
    certain = len(first) == 1
    if not first and "numpy" in used:
        first = ["numpy"]
    order = dict.fromkeys([*first, *(name for name in known if name in there), "numpy", *known], False)
    return {**order, **dict.fromkeys(first, certain)}


def _owner(value: Any) -> str:
    try:
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        kind = type(value).__module__
        roots = (str(name).split(".")[0], str(kind).split(".")[0])
    except Exception:  # an object of the user's that cannot be asked, a proxy that is not bound for instance
        return ""
    return next(({"jaxlib": "jax"}.get(root, root) for root in roots if root in OWNERS), "")


def _unwrapped(function: Any) -> Any:
    """The function inside of partial, method, staticmethod and decorators."""
    for _ in range(MOST_WRAPPERS):
        inside = _attribute(function, "__wrapped__")
        if isinstance(function, partial):
            inside = function.func
        elif isinstance(function, (staticmethod, classmethod, MethodType)):
            inside = function.__func__
        if inside is None:
            break
        function = inside
    return function if isinstance(function, FunctionType) else type(function).__call__


def _attribute(thing: Any, name: str) -> Any:
    """None where there is none, or where asking for it raises."""
    try:
        return getattr(thing, name, None)
    except Exception:  # a property, or __getattr__, of the user's
        return None


def _code_of(function: Any) -> CodeType | None:
    return getattr(_unwrapped(function), "__code__", None)


def _values_used(function: Any) -> Iterator[Any]:
    """What the function names, and what the functions of the same file that it names do."""
    yield function
    todo, seen = [_unwrapped(function)], set[int]()
    file: dict[str, Any] = getattr(todo[0], "__globals__", {})
    while todo:
        plain = todo.pop()
        if id(plain) in seen:
            continue
        seen.add(id(plain))
        for value in _values_named_in(plain, file):
            yield value
            inner = _unwrapped(value) if callable(value) else None
            if isinstance(inner, FunctionType) and inner.__globals__ is file:
                todo.append(inner)


def _values_named_in(plain: Any, file: dict[str, Any]) -> Iterator[Any]:
    yield from (file[name] for name in _names_in(getattr(plain, "__code__", None)) if name in file)
    for cell in getattr(plain, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _names_in(code: CodeType | None) -> Iterator[str]:
    if code is None:
        return
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _strings_in(code: CodeType | None) -> Iterator[str]:
    for constant in () if code is None else code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _strings_in(constant)


def _values_of_the_file(function: Any) -> Iterator[Any]:
    yield from list(getattr(_unwrapped(function), "__globals__", {}).values())
