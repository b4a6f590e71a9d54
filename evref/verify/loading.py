"""What a name such as `my_module:layer` or `folder/my_module.py::layer` on the command line stands for.

Whatever is in the way (no such file, an import that raises, no such object) ends in one sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from ..checks import did_you_mean


class TargetError(ValueError):
    """A name that cannot be used; the message says why in one line."""


def load(target: str, what: str = "TARGET") -> Any:
    """The object that MODULE:OBJECT or FILE.py::OBJECT names; MODULE is importable from the current folder.

    `what` is the argument that `target` came from, for messages.
    """
    name, attribute = split(target, what)
    return find(module_of(name, target), attribute, target)


def split(target: str, what: str = "TARGET") -> tuple[str, str]:
    """Module, or file, and object."""
    name, mark, attribute = target.rpartition("::")
    if not mark:
        name, _, attribute = target.rpartition(":")
    if not name or not attribute:
        raise TargetError(f"{what} is {target!r}; expected MODULE:OBJECT with a name on both sides of the colon")
    return name, attribute


def module_of(name: str, target: str) -> ModuleType:
    return _from_file(name, target) if name.endswith(".py") else _by_name(name, target)


def find(found: Any, attribute: str, target: str) -> Any:
    """`attribute` of `found`, which may have dots."""
    for part in attribute.split("."):
        try:
            there = hasattr(found, part)
        except Exception as error:  # a property, or __getattr__, of the user's
            raise TargetError(f"{target}: reading {part!r} raised {one_line(error)}") from error
        if not there:
            names = [name for name in dir(found) if not name.startswith("_")]
            raise TargetError(f"{target}: {described(found)} has no {part!r}{did_you_mean(part, names)}")
        found = getattr(found, part)
    return found


# ---- importing -------------------------------------------------------------------------------------------------------
def _by_name(name: str, target: str) -> ModuleType:
    _search_first(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _needs(name, target, error) from error
        here = [path.stem for path in Path.cwd().glob("*.py")]
        raise TargetError(
            f"{target}: there is no module {name!r} here or on the path of Python{did_you_mean(name, here)}"
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's file does when it runs
        raise _raised(name, target, error) from error


def _from_file(name: str, target: str) -> ModuleType:
    """As `python FILE` would find its neighbours; a file of a package is imported as a part of it."""
    path = Path(name).resolve()
    if not path.is_file():
        near = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise TargetError(f"{target}: there is no file {name!r}{did_you_mean(path.name, near)}")
    folder, dotted = path.parent, path.stem
    while (folder / "__init__.py").is_file():
        folder, dotted = folder.parent, f"{folder.name}.{dotted}"
    _search_first(str(folder))
    try:
        spec = importlib.util.find_spec(dotted)
        same = spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path
        return importlib.import_module(dotted) if same else _alone(path)
    except ModuleNotFoundError as error:
        raise _needs(path.name, target, error) from error
    except (Exception, SystemExit) as error:
        raise _raised(path.name, target, error) from error


def _alone(path: Path) -> ModuleType:
    """The module in a file whose name belongs to another module, such as random.py."""
    name = f"{path.stem} in {path.parent}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"Python cannot import {path.name}")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _search_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # a file may have been written a moment ago


def _needs(name: str, target: str, error: ModuleNotFoundError) -> TargetError:
    return TargetError(f"{target}: importing {name} needs {error.name}, which is not installed")


def _raised(name: str, target: str, error: BaseException) -> TargetError:
    return TargetError(f"{target}: importing {name} raised {one_line(error)}")


# ---- words -----------------------------------------------------------------------------------------------------------
def one_line(error: BaseException) -> str:
    """Kind and message of an exception, and the line where it was raised."""
    text = " ".join(str(error).split())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen importlib")]
    frames = [] if isinstance(error, SyntaxError) else frames  # its text says where
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def described(found: Any) -> str:
    """What an object is, with its article."""
    if inspect.ismodule(found):
        return f"the module {found.__name__}"
    if isinstance(found, type):
        return f"the class {found.__name__}"
    if inspect.isroutine(found):
        return f"the function {found.__name__}"
    name = type(found).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def required_arguments(function: Any) -> list[str]:
    """Names of the arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not say
        return ["graph"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]
