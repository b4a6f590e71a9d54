"""How far two programs for the same numbers may be apart, and how far they are.

Errors are relative to Σ|terms|, the sum of the absolute values of the terms that an entry is a sum of: rounding errors
are proportional to it, whatever the sum itself cancels to. They are given in units of eps, the distance of 1 from the
next number of the data's precision (2.2e-16 in float64, 1.2e-7 in float32).

Each of n operations makes a relative error of up to eps/2. With independent errors they add up to about 0.3 √n eps, and
to √2 times that between two programs. The tolerance is 4 √n eps, about ten times as much; n is the length of the
longest sum. It is one formula for all draws: none is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray
Results = dict[str, Array]


def tolerance(n: int) -> float:
    """In units of eps."""
    return 4 * n**0.5


def error(ours: Any, theirs: Any, terms: Any) -> float:
    """max |ours - theirs| / terms in units of eps; shapes and dtypes must agree; not a number is infinitely wrong."""
    ours, theirs, terms = np.asarray(ours), np.asarray(theirs), np.asarray(terms, dtype=np.float64)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise AssertionError(f"ours is {ours.shape} {ours.dtype}, theirs {theirs.shape} {theirs.dtype}")
    if terms.shape != theirs.shape or not np.all(np.isfinite(terms)):
        raise AssertionError(f"terms of shape {terms.shape} with theirs of {theirs.shape}, or not finite")
    limits = np.finfo(ours.dtype)
    eps, least = float(limits.eps), float(limits.smallest_normal)
    with np.errstate(invalid="ignore"):
        ratio = np.abs(ours.astype(np.float64) - theirs) / (terms * eps + least)
    return float(np.max(np.nan_to_num(ratio, nan=np.inf), initial=0.0))


def errors(ours: Mapping[str, Any], theirs: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, float]:
    if ours.keys() != theirs.keys():
        raise AssertionError(f"ours has {sorted(ours)}, theirs {sorted(theirs)}")
    return {name: error(ours[name], theirs[name], terms[name]) for name in theirs}


def worst(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Name by name, over all."""
    found: dict[str, float] = {}
    for some in several:
        for name, value in some.items():
            found[name] = max(found.get(name, 0.0), value)
    return found


def seen(values: Mapping[str, Array], terms: Mapping[str, Array], limit: float, fault: float) -> tuple[int, int]:
    """How many entries are not zero, and in how many a fault of `fault` times the entry is more than `limit` eps."""
    entries = noticed = 0
    for name, value in values.items():
        entries += np.count_nonzero(value)
        noticed += np.count_nonzero(fault * np.abs(value) > limit * np.finfo(value.dtype).eps * terms[name])
    return entries, noticed


def absolute(arrays: Mapping[str, Array]) -> Results:
    """|array| in float64, each."""
    return {name: np.abs(array).astype(np.float64) for name, array in arrays.items()}
