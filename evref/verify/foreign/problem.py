"""A layer that cannot be compared, and why: in one sentence, in the words of whoever wrote the layer."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

CAST = "the output is {0} for parameters and x of {1}; expected {1}: something is cast inside"
NOT_OF_NUMPY = ' (for a function of NumPy say framework="numpy")'
INSTALLED = ("site-packages", "dist-packages")
FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy", "scipy", "numba")
ARRAYS_OF = ("torch", "jax", "jaxlib", "numpy")
TYPED = ("<ipython", "<stdin", "<doctest", "<console", "<python-input")  # files of what a user types
LONGEST = 300  # letters of a message that are shown
_EVREF = Path(__file__).parents[2]
_STANDARD = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


class LayerProblem(Exception):
    """`kind` is one word: raises, type, shape, dtype, device, random, mutates.

    `line` is the one in the user's file where something was raised: among attempts, the larger got further. `hint` ends
    the text. `elsewhere`: an array of another framework came back, so what the layer does in this one is no news.
    """

    def __init__(self, kind: str, said: str, line: int = 0, hint: str = "", elsewhere: bool = False) -> None:
        super().__init__(said)
        self.kind, self.said, self.line, self.hint, self.elsewhere = kind, said, line, hint, elsewhere

    @property
    def text(self) -> str:
        return f"{self.said}; {self.hint}" if self.hint else self.said

    @property
    def ran(self) -> bool:
        """Whether the layer returned something, in the framework that was tried."""
        return self.kind != "raises" and not self.elsewhere


@contextmanager
def running(what: str) -> Iterator[None]:
    """Whatever the user's code raises becomes a LayerProblem; an interrupt from the keyboard passes.

    Its warnings are not shown (a layer runs hundreds of times), and none of them becomes an error.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except LayerProblem:
        raise
    except (Exception, SystemExit) as error:
        raise LayerProblem("raises", f"{what} raised {raised(error)}", (_own_line(error) or ("", 0))[1]) from error


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """Whatever the layer raises becomes a LayerProblem that ends with `hint`."""
    try:
        with running("the layer"):
            yield
    except LayerProblem as problem:
        raise LayerProblem(problem.kind, problem.said, problem.line, hint) from problem


def first_told(problems: Sequence[LayerProblem]) -> LayerProblem:
    """Of attempts in several frameworks, the likeliest first: a later one matters only where the earlier did not run.

    >>> first_told([LayerProblem("raises", "a"), LayerProblem("shape", "b"), LayerProblem("type", "c")]).text
    'b'
    """
    return next((problem for problem in problems if problem.ran), problems[0])


def raised(error: BaseException) -> str:
    """Kind, message and line of an exception; the line is the last one in a file of the user's, if there is one."""
    try:
        text = " ".join(str(error).split())
    except Exception as second:  # an exception of the user's whose __str__ raises
        text = f"(its message cannot be read: __str__ raised {type(second).__name__})"
    text = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    last = _own_line(error)
    place = f" ({Path(last[0]).name}, line {last[1]})" if last else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def _own_line(error: BaseException) -> tuple[str, int] | None:
    """File and line of the last frame that is the user's; else of a package that is no framework; else None."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [(name, line) for name, line in frames if _nearness(name) > 1]
    return max(reversed(frames), key=lambda frame: _nearness(frame[0]), default=None)


@lru_cache(maxsize=1000)
def _nearness(filename: str) -> int:
    """3 for a file of the user's, 2 for an installed package or code from a string, 1 for Python and the frameworks."""
    path = Path(filename)
    if filename.startswith("<"):
        return 3 if filename.startswith(TYPED) else 2 if filename == "<string>" else 1
    if _EVREF in path.parents:
        return 1
    folders = [i for i, part in enumerate(path.parts) if part in INSTALLED]
    if folders:
        return 1 if path.parts[folders[-1] + 1].removesuffix(".py") in FRAMEWORKS else 2
    return 1 if any(folder in path.parents for folder in _STANDARD) else 3


def described(value: Any) -> str:
    """What a function returned, in a few words.

    >>> described((1, 2)), described(None), described(3.0)
    ('a tuple of 2', 'None', 'a float')
    """
    if value is None:
        return "None"
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody awaited it
        return "a coroutine (it is an async function)"
    if inspect.isgenerator(value):
        return "a generator (there is a yield in it)"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}" + _size_of(value)


def not_of(framework: str, value: Any, expected: str) -> LayerProblem:
    """The problem with an output that is no array of this framework."""
    owner = type(value).__module__.partition(".")[0]
    own = ("jax", "jaxlib") if framework == "jax" else (framework,)
    hint = NOT_OF_NUMPY if isinstance(value, np.ndarray) and framework != "numpy" else ""
    return LayerProblem(
        "type",
        f"the layer returned {described(value)}; expected {expected}{hint}",
        elsewhere=owner in ARRAYS_OF and owner not in own,
    )


def _size_of(value: Any) -> str:
    return f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""


def require_same_entries(given: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """That a layer left the dict of its parameters alone: the same names with the same arrays."""
    removed, added = ([str(name) for name in a.keys() - b.keys()] for a, b in ((before, given), (given, before)))
    replaced = [name for name in before.keys() & given.keys() if given[name] is not before[name]]
    for what, names in (("removes {} from", removed), ("puts {} into", added), ("replaces {} in", replaced)):
        if names:
            raise LayerProblem(
                "mutates",
                f"the layer {what.format(', '.join(sorted(names)))} the dict params that it is given; "
                "expected it untouched (dict(params) is a copy)",
            )
