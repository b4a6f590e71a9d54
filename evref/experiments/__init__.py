"""The paper's experiments and two more, with the runner that repeats them; imported only on request."""

from __future__ import annotations

from importlib import import_module

from . import models
from .experiment import Experiment

__all__ = ["REGISTRY", "Experiment", "load", "models"]

# The command line's word -> where the class is; a module is imported when its experiment is asked for.
REGISTRY = {
    "source-localization": "source_localization:SourceLocalization",
    "authorship": "authorship.task:Authorship",
    "digits": "digits:Digits",
}


def load(name: str) -> type[Experiment]:
    """The class of an experiment.

    >>> load("source-localization").name
    'source-localization'
    """
    if name not in REGISTRY:
        raise ValueError(f"experiment is {name!r}; expected one of {', '.join(REGISTRY)}")
    module, _, attribute = REGISTRY[name].partition(":")
    return getattr(import_module(f".{module}", __name__), attribute)
