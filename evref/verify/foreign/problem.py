"""A layer that cannot be compared, and why: in one sentence, in the words of whoever wrote the layer."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CAST = "the output is {0} for parameters and x of {1}; expected {1}: something is cast inside"
INSTALLED = ("site-packages", "dist-packages")


class LayerProblem(Exception):
    """`kind` is one word: raises, type, shape, dtype, device, random, mutates."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


@contextmanager
def running(what: str) -> Iterator[None]:
    """Whatever the user's code raises becomes a LayerProblem; an interrupt from the keyboard passes."""
    try:
        yield
    except LayerProblem:
        raise
    except (Exception, SystemExit) as error:
        raise LayerProblem("raises", f"{what} raised {raised(error)}") from error


def raised(error: BaseException) -> str:
    """Kind, message and line of an exception; the line is the last one that is not inside an installed package."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else text[:297] + "..."
    here = Path(__file__).parents[1]  # evref/verify, which called
    frames = [f for f in traceback.extract_tb(error.__traceback__) if here not in Path(f.filename).parents]
    own = [frame for frame in frames if not any(part in frame.filename for part in INSTALLED)]
    last = (own or frames)[-1:]
    place = f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"
