"""`evref.compare` on random layers that are right, on which it must be silent, and on the same layers spoilt a little.

    python validation/right_cases.py               print the page
    python validation/right_cases.py --write       and write it to validation/right_cases.md
    python validation/right_cases.py --cases 100   fewer of them

A case has a number, from which everything about it is drawn: `run(case_of(number))` runs it alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import parity
import torch
from right_changes import CHANGES, Change, Object, draw_change
from right_draws import GRAPHS, NETWORK, random_reference
from right_kinds import KINDS, base_of
from right_layers import STYLES
from scipy.stats import beta

import evref as ev
from evref.verify import compare as comparing
from evref.verify.comparison import DIFFERENCES, Comparison
from evref.verify.trials import FLOOR, INSIDE, ROUNDINGS, SINGLE, Point, Trial, blocks, reference_at

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
        report, expected = self.report, self.case.kind == "float32 inside"
        quiet = not report.causes and (expected or not report.notes)
        return report.ok and quiet and all(row.status == "ok" for row in _judged(report))

    @property
    def fate(self) -> str:
        """What came of the spoilt layer.

        "seen"; "no trace" where the change moves no number by more than the tolerance; "float32?" where it moves none
        by more than float32 inside would, and the report says so; "missed".
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
@cache
def strata() -> list[tuple[str, str, str | None, str]]:
    """Filter or network, kind of layer, style where it is in PyTorch, dtype."""
    found = []
    for name, (kind, how), dtype in product(REFERENCES, KINDS.items(), DTYPES):
        if not how.fits(name) or (kind == "float32 inside" and dtype == "float32"):
            continue  # that is what float32 is
        styles = STYLES.get(name, ("dense", "edges")) if how.framework == "torch" else (None,)
        found += [(name, kind, style, dtype) for style in styles]
    return found


def case_of(number: int) -> Case:
    """Stratum by stratum, again and again, with other graphs and points each time."""
    every = strata()
    name, kind, style, dtype = every[number % len(every)]
    rng = np.random.default_rng([SEED, number, 0])
    points = POINTS[:-1] if KINDS[kind].framework == "jax" else POINTS  # at a kink JAX takes the other side
    return Case(number, name, kind, style, dtype, str(rng.choice(GRAPHS)), str(rng.choice(points)))


def sample(of_jax: Sequence[str] = ()) -> list[Case]:
    """One case of every filter in every kind, without JAX but for the filters named."""
    chosen: dict[tuple[str, str], list[Case]] = {}
    for case in map(case_of, range(len(strata()))):
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


# ---- the page --------------------------------------------------------------------------------------------------------
FATES = ("seen", "float32?", "no trace", "missed")


def bound(false_alarms: int, n: int) -> float:
    """Upper end of the one-sided 95% interval of Clopper and Pearson for the rate of false alarms."""
    return 1.0 if false_alarms >= n else float(beta.ppf(0.95, false_alarms + 1, n - false_alarms))


def headline(n: int) -> str:
    """What the page must say for the code that is there."""
    return f"{n:,} cases from seed {SEED} over {len(strata())} strata"


def _nearest(outcomes: Sequence[Outcome], judged: str) -> str:
    """Largest error of a right layer, in tolerances of its row, among the cases judged by that rounding."""
    worst, any_there = 0.0, False
    for outcome in outcomes:
        inside = outcome.case.kind == "float32 inside"
        if ("float32 inside" if inside else outcome.case.dtype) == judged:
            any_there = True
            ratios = [row.error / row.tolerance for row in _judged(outcome.report)]
            worst = max([worst, *ratios])
    return f"{worst:.1g}" if any_there else "–"


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    fates = Counter(outcome.fate for outcome in outcomes)
    spoilt = sum(fates[fate] for fate in FATES)
    alarms = sum(not outcome.silent for outcome in outcomes)
    nearest = [_nearest(outcomes, judged) for judged in (*DTYPES, "float32 inside")]
    return [name, str(len(outcomes)), str(alarms), *nearest, str(spoilt), *(str(fates[fate]) for fate in FATES)]


def _grouped(outcomes: Sequence[Outcome], names: Sequence[str], key: Any) -> str:
    header = ["", "cases", "false alarms", *DTYPES, "float32 inside", "spoilt", *FATES]
    rows = [_row(name, [outcome for outcome in outcomes if key(outcome) == name]) for name in names]
    return parity._table(header, rows)


def _changed(outcome: Outcome) -> str:
    return outcome.change.name if outcome.change is not None else ""


def _listed(outcomes: Sequence[Outcome], wanted: Any, text: Any) -> str:
    lines = [f"- {outcome.case.label}: {text(outcome)}" for outcome in outcomes if wanted(outcome)]
    return "\n".join(lines) if lines else "None."


def page(outcomes: Sequence[Outcome]) -> str:
    n, alarms = len(outcomes), sum(not outcome.silent for outcome in outcomes)
    times = np.array([outcome.seconds for outcome in outcomes if KINDS[outcome.case.kind].framework != "jax"])
    of_jax = np.array([outcome.seconds for outcome in outcomes if KINDS[outcome.case.kind].framework == "jax"])
    whole = np.array([o.spoilt_seconds for o in outcomes if o.spoilt_seconds is not None and o.fate == "seen"])
    kinks = sum(row.status == "kink" for o in outcomes for row in o.report.rows if row.name == DIFFERENCES)
    fates = Counter(outcome.fate for outcome in outcomes)
    visible = fates["seen"] + fates["float32?"] + fates["missed"]
    return f"""# Right layers: how often `evref.compare` cries wolf

Written by `python validation/right_cases.py --write` with {parity.versions()}: {headline(n)}.

**False alarms: {alarms} of {n:,}.** With 95% confidence their rate on such cases is below {100 * bound(alarms, n):.2f}%
(one-sided, Clopper and Pearson). A case counts as a false alarm if the verdict is not ok, if any row is off, not a
number or at a kink, if a cause or a problem is named, or if the note on float32 comes without float32 inside.

Every case is a layer of our own in PyTorch, JAX or NumPy that does not use the mathematics of evref
(`right_layers.py` and its neighbours), or evref's other set of kernels, or the image of the filter among edge-variant
filters. The strata are filter or network × kind of layer × style × dtype; all are visited in turn.
Drawn for each case: the kind of graph, all arguments of the constructor, the point.

- Filters: {", ".join(REFERENCES)}.
- Kinds of layer: {"; ".join(KINDS)}.
- Styles in PyTorch: {", ".join(sorted({style for styles in STYLES.values() for style in styles}))}.
- Graphs of 1 to 12 nodes: {"; ".join(GRAPHS)}.
- Points: {", ".join(POINTS)}. *Drawn* is what `compare` draws; the others are standard normal numbers, *large* and
  *tiny* with x times 1000 and 1e-6, *zeros* with three numbers in ten set to 0 (not for JAX: it takes the other side at
  a kink, and `compare` then says that there is one).
- Dtypes: {", ".join(DTYPES)}. *Float32 inside* computes in float32 what it is given in float64.

And so that silence is worth something, each layer is spoilt by one small change, drawn from what exists for it: one
weight of S too large by 0.1%; one entry of a parameter used in the place of another; the output right, and one entry of
a gradient too large by 1%. What came of it:

- *seen*: the verdict is not ok;
- *float32?*: the verdict is ok with the note that the layer agrees to the precision of float32 only. Without `dtype=`
  a layer that holds float32 constants is right, and a change that moves no number by more than such a layer's rounding
  can not be told from one. `dtype=float64` insists;
- *no trace*: the change moves no number of the reference by more than the tolerance. Mostly it moves none at all: a
  weight into a node that is not read, a number times zero, a softmax over a single neighbour;
- *missed*: anything else.

Of {visible:,} changes that move some number by more than the tolerance, {fates["seen"]:,} are seen,
{fates["float32?"]} come with the note, {fates["missed"]} are missed.

The three columns after the false alarms hold the largest error of a right layer in units of its tolerance: below 1 is
ok. The tolerance is {ROUNDINGS} roundings of the dtype times what the reference itself loses in float32, and at least
{FLOOR:.0e} in float64; for float32 inside it is {INSIDE} roundings.

## By filter

{_grouped(outcomes, REFERENCES, lambda outcome: outcome.case.name)}

## By kind of layer

{_grouped(outcomes, tuple(KINDS), lambda outcome: outcome.case.kind)}

## By graph

{_grouped(outcomes, GRAPHS, lambda outcome: outcome.case.graph)}

## By point

{_grouped(outcomes, POINTS, lambda outcome: outcome.case.point)}

## By change

{_grouped(outcomes, CHANGES, _changed)}

## Differences

The layer's gradients beside differences of its own output are no verdict where all else agrees: a step that crosses a
kink says nothing. That was so in {kinks} of {n:,} cases.

## Time

One comparison of a right layer took {np.median(times):.3f} s in the median and {times.max():.1f} s at most; in JAX,
which compiles for every shape, {_median(of_jax)} and {_most(of_jax)}. Of a spoilt one, with known mistakes tried and
the failure shrunk (every {WHOLE_EVERY}th), {_median(whole)} and {_most(whole)}. On a machine with other work to do.

## False alarms

{_listed(outcomes, lambda o: not o.silent, lambda o: o.report.diagnosis or "a row is not ok")}

## Missed

{_listed(outcomes, lambda o: o.fate == "missed", lambda o: f"{_changed(o)}, {o.moved:.2g} tolerances")}
"""


def _median(seconds: np.ndarray) -> str:
    return f"{np.median(seconds):.2f} s" if seconds.size else "–"


def _most(seconds: np.ndarray) -> str:
    return f"{seconds.max():.1f} s" if seconds.size else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write validation/right_cases.md")
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many (default: {CASES})")
    arguments = parser.parse_args()
    outcomes = []
    for number in range(arguments.cases):
        outcomes.append(run(case_of(number), whole=number % WHOLE_EVERY == 0))
        if not outcomes[-1].silent or outcomes[-1].fate == "missed":
            print(outcomes[-1].case.label, outcomes[-1].fate, outcomes[-1].report, sep="\n", flush=True)
    text = page(outcomes)
    if arguments.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
