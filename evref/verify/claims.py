"""Claims that a machine can decide: what is said, where, how it turned out, and the figure that shows it.

A claim is a function that measures and returns an :class:`Outcome`; the decorator :func:`claim` puts it on the list
that `evref verify` runs. The verdict is what is checked: that a claim of the paper "fails as printed" is confirmed
when the machine finds exactly that, and is not confirmed, loudly, on the day it should hold after all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..checks import did_you_mean

VERDICTS = ("holds", "holds under a condition", "holds only in the limit", "fails as printed")


@dataclass(frozen=True)
class Outcome:
    """What one measurement found."""

    passed: bool  # the verdict was confirmed
    figure: str  # in words and numbers, one line
    values: dict[str, Any] = field(default_factory=dict)  # the numbers behind it
    counterexample: str = ""  # where the printed statement fails


@dataclass(frozen=True)
class Claim:
    name: str  # "R1", or the name of one of evref's own
    where: str  # label in the paper, or the part of evref that is meant
    statement: str  # what is confirmed
    verdict: str
    measure: Callable[[], Outcome]


@dataclass(frozen=True)
class Result:
    """A claim with its outcome and the time it took."""

    claim: Claim
    outcome: Outcome
    seconds: float

    @property
    def passed(self) -> bool:
        return self.outcome.passed

    @property
    def summary(self) -> str:
        """The verdict, and whether the measurement bears it out, e.g. "confirmed: fails as printed"."""
        return f"{'confirmed' if self.passed else 'NOT CONFIRMED'}: {self.claim.verdict}"

    def to_dict(self) -> dict[str, Any]:
        claim = {key: value for key, value in self.claim.__dict__.items() if key != "measure"}
        return {**claim, **asdict(self.outcome), "seconds": round(self.seconds, 3)}


registry: dict[str, Claim] = {}


def claim(name: str, where: str, statement: str, verdict: str = "holds") -> Callable[[Callable[[], Outcome]], Any]:
    """Put the decorated measurement on the list under `name`."""
    if verdict not in VERDICTS:
        raise ValueError(f"verdict of claim {name!r} is {verdict!r}; expected one of {VERDICTS}")

    def register(measure: Callable[[], Outcome]) -> Callable[[], Outcome]:
        known = registry.get(name)
        if known is not None and known.measure.__code__.co_filename != measure.__code__.co_filename:
            raise ValueError(f"claim {name!r} is made twice, here and in {known.measure.__module__}")
        registry[name] = Claim(name, where, statement, verdict, measure)
        return measure

    return register


def all_claims() -> dict[str, Claim]:
    """Name to claim, in the order of the readings; evref's own come last."""
    from . import gradient_claims, paper  # noqa: F401  (importing them registers their claims)

    def order(name: str) -> tuple[int, int, str]:
        reading = re.fullmatch(r"R(\d+)(.*)", name)
        return (0, int(reading[1]), reading[2]) if reading else (1, list(registry).index(name), "")

    return {name: registry[name] for name in sorted(registry, key=order)}


def run(names: list[str] | None = None) -> Iterator[Result]:
    """Measure the named claims (all of them by default), one after the other."""
    claims = all_claims()
    unknown = [name for name in names or [] if name not in claims]
    if unknown:
        raise ValueError(
            f"no claim is called {', '.join(unknown)}; expected some of {', '.join(claims)}"
            f"{did_you_mean(unknown[0], claims)}"
        )
    for name in names or claims:
        start = time.perf_counter()
        outcome = claims[name].measure()
        yield Result(claims[name], outcome, time.perf_counter() - start)
