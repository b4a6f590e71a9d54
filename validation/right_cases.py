"""`evref.compare` on random layers that are right, on which it must be silent, and on the same layers spoilt a little.

python validation/right_cases.py                  print the page
python validation/right_cases.py --write          and write it to validation/right_cases.md
python validation/right_cases.py --cases 100      fewer of them, printed alone
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from right_changes import Change, Object, draw_change
from right_draws import GRAPHS, NETWORK, random_reference
from right_kinds import KINDS, base_of
from right_layers import STYLES

import evref as ev
from evref.verify import compare as comparing
from evref.verify.comparison import DIFFERENCES, Comparison
from evref.verify.trials import SINGLE, Point, Trial, blocks, reference_at

SEED = 20
CASES = 2000
REFERENCES = (*ev.catalogue, NETWORK)
DTYPES = ("float64", "float32")
POINTS = ("drawn", "normal", "large", "tiny", "zeros")
WHOLE_EVERY = 10  # of the spoilt layers so many go through diagnosis and shrinking as well


@dataclass(frozen=True)
class Case:
    """One right layer beside its reference: what it is, how it is handed over, in which dtype, where."""

    number: int
    name: str
    kind: str
    style: str | None
    dtype: str
    graph: str
    point: str

    @property
    def label(self) -> str:
        parts = (self.name, self.kind, self.style, self.dtype, self.graph, self.point)
        return f"{self.number}: " + ", ".join(part for part in parts if part)


@dataclass
class Outcome:
    """What was seen of one case."""

    case: Case
    report: Comparison
    seconds: float
    change: Change | None = None
    moved: float = 0.0  # by how many tolerances the change moves the numbers of the reference
    moved_single: float = 0.0  # the same for one who suspects float32 inside
    spoilt: Comparison | None = field(default=None, repr=False)
    spoilt_seconds: float | None = None  # with diagnosis and shrinking

    @property
    def silent(self) -> bool:
        report = self.report
        return report.ok and not report.causes and all(row.status == "ok" for row in _judged(report))

    @property
    def fate(self) -> str:
        """What came of the spoilt layer.

        "seen"; "no trace" where the change moves no number by more than the tolerance; "float32?" where it moves none by
        more than float32 inside would, and the report says so; "missed".
        """
        if self.change is None:
            return ""
        if self.spoilt is not None and not self.spoilt.ok:
            return "seen"
        if self.moved <= 1:
            return "no trace"
        if self.spoilt is not None and self.spoilt.notes and self.moved_single <= 1:
            return "float32?"
        return "missed"


def _judged(report: Comparison) -> list[Any]:
    """The rows on numbers of the reference; differences of the layer itself may cross a kink."""
    return [row for row in report.rows if row.status != "not compared" and row.name != DIFFERENCES]


# ---- cases -----------------------------------------------------------------------------------------------------------
def strata() -> list[tuple[str, str, str | None, str]]:
    """Filter or network, kind of layer, style where it is in PyTorch, dtype."""
    found = []
    for name, (kind, how), dtype in product(REFERENCES, KINDS.items(), DTYPES):
        if not how.fits(name) or (kind == "float32 inside" and dtype == "float32"):
            continue  # that is what float32 is
        styles = STYLES.get(name, ("dense", "edges")) if how.framework == "torch" else (None,)
        found += [(name, kind, style, dtype) for style in styles]
    return found


def cases() -> Iterator[Case]:
    """Without end: all strata, again and again, with other graphs and points."""
    every, number = strata(), 0
    while True:
        for name, kind, style, dtype in every:
            rng = np.random.default_rng([SEED, number, 0])
            points = POINTS[:-1] if KINDS[kind].framework == "jax" else POINTS  # at a kink JAX takes another side
            yield Case(number, name, kind, style, dtype, str(rng.choice(GRAPHS)), str(rng.choice(points)))
            number += 1


def sample(of_jax: Sequence[str] = ()) -> list[Case]:
    """One case of every filter in every kind, without JAX but for the filters named."""
    chosen: dict[tuple[str, str], list[Case]] = {}
    for case in islice(cases(), len(strata())):
        if KINDS[case.kind].framework != "jax" or (case.name in of_jax and case.dtype == "float64"):
            chosen.setdefault((case.name, case.kind), []).append(case)
    return [group[i % len(group)] for i, group in enumerate(chosen.values())]


def _point(case: Case, reference: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Arguments params and x of `compare`; none where it draws them itself."""
    if case.point == "drawn":
        return {}
    params = {name: rng.standard_normal(shape) for name, shape in reference.parameter_shapes().items()}
    x = rng.standard_normal((int(rng.integers(1, 4)), *reference.in_shape))
    if case.point == "zeros":
        params = {name: p * (rng.random(p.shape) < 0.7) for name, p in params.items()}
        params = {name: np.where(p == 0, 1.0, p) if name in ("sigma", "h") else p for name, p in params.items()}
        x = x * (rng.random(x.shape) < 0.7)
    return {"params": params, "x": x * {"large": 1e3, "tiny": 1e-6}.get(case.point, 1.0)}


# ---- running one -----------------------------------------------------------------------------------------------------
def run(case: Case, spoil: bool = True, whole: bool = False) -> Outcome:
    """`whole`: the spoilt layer too is diagnosed and its failure shrunk, as for any user."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([SEED, case.number, 1])
    kind = KINDS[case.kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeated eigenvalues, and of JAX in float32
        reference = random_reference(case.name, case.graph, rng, wide=not kind.narrow)
        embedded = kind.framework != "embedding" or _has_image(reference)
        framework = kind.framework if embedded else "evref"
        layer, options = kind.dress(base_of(framework, reference, case.style), reference, rng)
        explicit = case.dtype == "float32" or (rng.integers(2) and case.kind != "float32 inside")
        options |= {"dtype": case.dtype} if explicit else {}
        point = _point(case, reference, rng)
        start = time.perf_counter()
        report = ev.compare(layer, reference, seed=case.number, **options, **point)
        outcome = Outcome(case, report, time.perf_counter() - start)
        change = draw_change(reference, kind.gradients, rng) if spoil else None
        if change is None:
            return outcome
        outcome.change = change
        base = change.of_base(framework, base_of(framework, change.reference, case.style))
        layer, again = kind.dress(base, reference, np.random.default_rng(rng.bit_generator.seed_seq))
        options = {**again, **{key: value for key, value in options.items() if key == "dtype"}}
        start = time.perf_counter()
        outcome.spoilt = _compared(layer, reference, case, options, point, whole)
        outcome.spoilt_seconds = time.perf_counter() - start if whole else None
        outcome.moved, outcome.moved_single = (
            _moved(change, reference, case, point, judged, kind.gradients) for judged in (_tolerance_of(case), SINGLE)
        )
    return outcome


def _has_image(reference: Any) -> bool:
    """Whether the filter is an edge-variant filter at the parameters in question; if not, its own numbers are used."""
    params = comparing.drawn_params(reference, np.random.default_rng(0))
    try:
        reference.to_edge_variant(params, *(() if reference.linear else (np.ones(reference.in_shape),)))
    except ev.NotRepresentable:
        return False
    return True


def _points(reference: Any, case: Case, given: dict[str, Any]) -> list[Point]:
    return comparing._points(reference, given.get("params"), given.get("x"), case.number)


def _compared(layer: Any, reference: Any, case: Case, options: Any, given: Any, whole: bool) -> Comparison:
    if whole:
        return ev.compare(layer, reference, seed=case.number, **options, **given)
    named = {"dtype": None, **options}
    named["dtype"] = None if named["dtype"] is None else np.dtype(named["dtype"])
    one = comparing.Case("", layer, reference, options=named)
    trials = comparing._trials([(one, point) for point in _points(reference, case, given)])
    return trials if isinstance(trials, Comparison) else comparing._verdict(trials)[0]


def _tolerance_of(case: Case) -> np.dtype:
    """The dtype by whose rounding the case is judged."""
    return SINGLE if case.kind == "float32 inside" else np.dtype(case.dtype)


def _moved(change: Change, reference: Any, case: Case, given: Any, judged: np.dtype, gradients: bool) -> float:
    """Largest difference that the change makes, in tolerances of its row, by the rounding of `judged`."""
    wrong = Object(change, change.reference) if change.block else change.reference
    compared = SimpleNamespace(dtype=np.dtype(case.dtype))
    worst = 0.0
    for point in _points(reference, case, given):
        trial = Trial("", compared, reference, point.rounded(compared.dtype))  # type: ignore[arg-type]
        theirs = dict(blocks(reference_at(wrong, trial.point)))
        for name, ours in blocks(trial.expected):
            if ours.size and (gradients or name == "output"):
                difference = float(np.abs(theirs[name] - ours).max())
                worst = max(worst, difference / trial.scale(name, judged) / trial.tolerance(name, judged))
    return worst
