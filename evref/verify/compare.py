"""Is my layer right, and if not, what is wrong with it? A layer of yours beside the reference.

>>> import numpy as np, evref as ev
>>> graph = ev.Graph.from_edges(4, source=[0, 1, 2, 0], target=[1, 2, 3, 2], weight=[0.5, 2.0, 1.5, 0.7])
>>> S = graph.S.toarray()
>>> def my_polynomial(params, x):
...     w, y = x, 0
...     for phi in params["phi"]:
...         y = y + np.einsum("fg,bgn->bfn", phi, w)
...         w = w @ S                     # should be S.T: node i hears j where S[i, j] is not 0
...     return y
>>> report = ev.compare(my_polynomial, ev.Polynomial(graph, order=2, in_features=2, out_features=3))
>>> report.ok
False
>>> report.diagnosis
'S is transposed: with that the output agrees to 2e-16 [shift-transposed]'

The layer and the reference run at the same random points; output and every gradient are compared number by number. A
cause is named only if it reproduces *every* number that the layer gives (:mod:`evref.verify.mistakes`). Two checks need
no reference: the layer's gradients against differences of its own output, and that it is a function at all (the same
numbers for the same input, arguments untouched).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .. import checks
from ..contract import Module
from .comparison import DIFFERENCES, CaseResult, Cause, Comparison, MismatchError, Row
from .diagnose import TRAIN_MODE, diagnose, too_large
from .foreign import LayerProblem, NotRepeatable, Subject, make_subject
from .foreign.find import Framework
from .foreign.global_state import set_back
from .foreign.layouts import Layout
from .foreign.subject import UNSEEDED
from .foreign.torch_module import remarks_on
from .patterns import patterns
from .smallest import simplest_failing, smallest_failing
from .trials import SINGLE, Point, Trial, blocks, drawn_params, quiet, reference_at

__all__ = ["Case", "Cause", "Comparison", "MismatchError", "Row", "compare", "compare_cases"]

BATCHES = (3, 1)
SINGLE_ONLY = (
    "it agrees to the precision of float32 only: something inside is float32, or a small number is added somewhere "
    "(dtype=float64 insists)"
)
SQUARE = "there are as many features as nodes: the order of axes is a guess; layout= says which is meant"
LONGEST_TITLE = 300
SIZE = {"off": 3, "nan": 2, "kink": 1, "ok": 0, "not compared": -1}


@dataclass(frozen=True)
class Case:
    """A layer and the filter or network that it should be, on one graph and in one configuration.

    `options` are the keyword arguments of :func:`compare` that say how to run it. `simpler` yields cases that are one
    step simpler (a node less, a lower order), if there are such, for the smallest one that fails.
    """

    name: str
    layer: Any
    reference: Module
    batch: int = 3
    options: Mapping[str, Any] = field(default_factory=dict)
    simpler: Callable[[], Iterable[Case]] | None = None


def compare(
    layer: Any,
    reference: Module,
    *,
    params: Mapping[str, Any] | None = None,
    x: Any = None,
    parameters: Mapping[str, Any] | None = None,
    call: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    framework: Framework | None = None,
    layout: Literal["features, nodes", "nodes, features"] | None = None,
    dtype: Any = None,
    seed: int = 0,
) -> Comparison:
    """Compare a layer with the reference: output, every gradient, and what is wrong.

    Parameters
    ----------
    layer : callable or object
        A function of (params, x), with `params` a dict under our names, or of x and our parameters by keyword, in
        PyTorch, JAX or NumPy; a torch.nn.Module; or an object with forward(params, x) -> (y, tape) and
        backward(params, tape, grad_y) -> (grads, grad_x). It is not changed.
    reference : Module
        A filter of the catalogue, a layer or a network of evref: what the layer should be, on the same graph.
    params : dict of arrays, optional
        Our parameters at which to compare; drawn by default.
    x : array, shape (batch, *in_shape), optional
        Drawn by default.
    parameters : dict, optional
        Their name -> our name, or (our name, step, ...): an index or a slice, "T" (the last two axes exchanged),
        "dense" (phi as N x N matrices) or a function that moves entries, such as ``lambda w: w.reshape(4, 3)``, which
        makes their array of ours. By default the names are ours.
    call : callable, optional
        call(layer, x) for a torch module, call(layer, params, x) for a function; by default layer(x) and
        layer(params, x).
    backward : callable, optional
        backward(params, x, grad_y) -> (grads, grad_x) of a NumPy function; where the function returns (y, tape), the
        tape comes in the place of x. Without it only the output is compared.
    framework : {"torch", "jax", "numpy", "contract"}, optional
        Found out by default, from what the function uses.
    layout : {"features, nodes", "nodes, features"}, optional
        The order of the last two axes of x and y. By default the first that fits, also one sample at a time.
    dtype : float32 or float64, optional
        By default float64; float32 where the layer takes nothing else.
    seed : int
        Of whatever is drawn.

    Returns
    -------
    Comparison
        `ok`, `diagnosis`, `rows`; `print` shows it, `raise_for_error` is for tests.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit each other, or the reference. What the *layer* does wrong is in the report, also
        when it raises.
    """
    options = {
        "parameters": parameters,
        "call": call,
        "backward": backward,
        "framework": framework,
        "layout": layout,
        "dtype": None if dtype is None else checks.as_dtype("dtype", dtype),
    }
    if not isinstance(reference, Module):
        hint = "; a graph alone does not say which filter" if hasattr(reference, "fingerprint") else ""
        raise TypeError(f"reference is {checks.what_is(reference)}; expected a filter, layer or network of evref{hint}")
    points = _points(reference, params, x, checks.as_count("seed", seed))
    case = Case("", layer, reference, options=options)
    report = _compared([(case, point) for point in points])
    if layout is None and _order_is_open(reference) and report.rows and not report.ok and not report.causes:
        report = _in_the_other_order(report, case, points)
    return replace(report, layer=_named(layer), reference=_title(reference), cases=())


def _order_is_open(reference: Module) -> bool:
    """Whether shapes do not tell nodes from features."""
    shape = reference.in_shape
    return shape is not None and len(shape) == 2 and shape[0] == shape[1] > 1


def _in_the_other_order(report: Comparison, case: Case, points: Sequence[Point]) -> Comparison:
    """The report with nodes before features if that one explains the numbers, else the one that is there."""
    found = _compared(
        [(replace(case, options={**case.options, "layout": "nodes, features"}), point) for point in points]
    )
    chosen = found if found.ok or found.causes else report
    return replace(chosen, notes=(*chosen.notes, SQUARE))


def compare_cases(cases: Iterable[Case], *, seed: int = 0, title: str = "") -> Comparison:
    """One report on a layer in many cases: graphs and configurations, each with its reference.

    A known mistake is named only if it reproduces every number of every failing case, and predicts nothing else where
    the layer is right.
    """
    seed = checks.as_count("seed", seed)
    pairs = [
        (case, point)
        for i, case in enumerate(cases)
        for point in _points(case.reference, None, None, seed + i, (checks.as_count("batch", case.batch, 1),))
    ]
    if not pairs:
        raise ValueError("cases is empty; expected at least one Case")
    kinds = sorted({type(case.reference).__name__ for case, _ in pairs})
    return replace(_compared(pairs), layer=title or _named(pairs[0][0].layer), reference=", ".join(kinds))


def _named(layer: Any) -> str:
    try:
        name = layer.__name__
    except Exception:  # there is none, or an object of the user's raises when it is asked
        name = None
    return name if name and isinstance(name, str) else type(layer).__name__


def _title(reference: Module) -> str:
    text = repr(reference)
    return text if len(text) <= LONGEST_TITLE else f"{type(reference).__name__}(...)"


def _points(reference: Module, params: Any, x: Any, seed: int, batches: Sequence[int] = BATCHES) -> list[Point]:
    rng = np.random.default_rng(seed)
    if x is not None:
        batch = reference._as_batch("x", x, check_finite=False).astype(np.float64)
        xs = [batch if batch.ndim else batch[None]]
        if not xs[0].size:
            raise ValueError(f"x has shape {np.shape(x)}, which has no numbers; expected at least one sample")
    else:
        shape = (4,) if reference.in_shape is None else reference.in_shape
        xs = [rng.standard_normal((n, *shape)) for n in batches]
    points = []
    for signal in xs:
        if params is None:
            drawn = drawn_params(reference, rng)
        else:
            checked = reference._checked_parameters(params, check_finite=False)
            drawn = {name: array.astype(np.float64) for name, array in checked.items()}
        with quiet():
            y, _ = reference.forward(drawn, signal, check_finite=False)
        points.append(Point(drawn, signal, rng.standard_normal(y.shape)))
    return points


# ---- all trials ------------------------------------------------------------------------------------------------------
def _compared(pairs: Sequence[tuple[Case, Point]]) -> Comparison:
    with set_back() as changed, quiet():
        trials = _trials(pairs)
        try:
            report = trials if isinstance(trials, Comparison) else _judged(trials, _case_of(trials, pairs))
        except LayerProblem as problem:  # at its hundredth call
            report = _unusable(problem, "", *pairs[0])
    remarks = dict.fromkeys(remark for case, _ in pairs for remark in remarks_on(case.layer))
    return replace(report, notes=(*report.notes, *remarks, *changed))


def _case_of(trials: Sequence[Trial], pairs: Sequence[tuple[Case, Point]]) -> dict[int, Case]:
    return {id(trial): case for trial, (case, _) in zip(trials, pairs, strict=True)}


def _trials(pairs: Sequence[tuple[Case, Point]]) -> list[Trial] | Comparison:
    """Every case at its points, or the report on one that does not run."""
    trials: list[Trial] = []
    layout = None  # of a case whose shape tells nodes from features; another one may have as many of both
    for case, point in pairs:
        same = [trial.subject for trial, (before, _) in zip(trials, pairs, strict=False) if before is case]
        try:
            trial = _trial(case, point, same[0] if same else None, layout)
        except LayerProblem as problem:
            return _unusable(problem, f" ({case.name})" if case.name else "", case, point)
        except (TypeError, ValueError) as error:  # the options do not fit: say on which case
            if not case.name:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} ({case.name})") from error
        trials.append(trial)
        if layout is None and point.x.ndim == 3 and point.x.shape[1] != point.x.shape[2]:
            layout = trial.subject.layout
    return trials


def _trial(case: Case, point: Point, subject: Subject | None, layout: Layout | None = None) -> Trial:
    if subject is None:
        y = reference_at(case.reference, point).y
        subject = make_subject(case.layer, case.reference, point.params, point.x, y, **case.options)
        if layout is not None and layout != subject.layout:
            subject = _in_layout(subject, layout, point, y)
    point = point.rounded(subject.dtype)
    trial = Trial(case.name, subject, case.reference, point)

    first = subject.require_function(point.params, point.x, trial.near)
    if not trial.near(trial.observed.y, first):
        raise LayerProblem("random", "the output is another one when gradients are asked for; expected the same")
    if subject.has_gradients:
        again = subject.observe(point.params, point.x, point.grad_y)
        for (name, a), (_, b) in zip(blocks(trial.observed), blocks(again), strict=True):
            if not trial.near(a, b, name):
                raise LayerProblem("random", f"{name} is another one at the second call; expected the same numbers")
    trial.rows()
    if not trial.near(subject.output(point.params, point.x), first):
        raise NotRepeatable(subject, UNSEEDED)
    return trial


def _in_layout(subject: Subject, layout: Layout, point: Point, y: np.ndarray) -> Subject:
    """In the layout of other cases, unless it does not fit here, or the one that was found gives the reference's y."""
    other = replace(subject, adapter=subject.adapter.fresh(), layout=layout)
    try:
        other.output(point.params, point.x)
        found = subject.output(point.params, point.x)
    except LayerProblem:
        return subject
    return subject if np.allclose(found, y, rtol=0, atol=1e-3 * np.abs(y).max(initial=0)) else other


def _fresh_trial(case: Case, layout: Layout) -> Trial:
    (point,) = _points(case.reference, None, None, 0, (case.batch,))
    return _trial(case, point, None, layout)


def _unusable(problem: LayerProblem, where: str, case: Case, point: Point) -> Comparison:
    causes: tuple[Cause, ...] = ()
    text = problem.text + where
    if isinstance(problem, NotRepeatable):
        causes = _train_mode([Trial(case.name, problem.subject, case.reference, point.rounded(problem.subject.dtype))])
        if causes:
            text += f". {causes[0].says}: with that all rows agree [{causes[0].name}]"
        elif problem.subject.adapter.training:
            text += f". {TRAIN_MODE[0].upper()}{TRAIN_MODE[1:]}"
    return Comparison("", "", problem=text, problem_kind=problem.kind, causes=causes)


def _judged(trials: list[Trial], cases: Mapping[int, Case]) -> Comparison:
    report, off = _verdict(trials)
    return _explained(report, off, [t for t in trials if t not in off], cases) if off else report


def _verdict(trials: list[Trial]) -> tuple[Comparison, list[Trial]]:
    """The report without a diagnosis, and the trials on which the layer is off."""
    dtype, notes = trials[0].subject.dtype, []
    bad = [trial for trial in trials if not all(row.good for row in trial.rows())]
    explicit = dtype == SINGLE or not any(trial.subject.may_be_single for trial in bad)
    if bad and not explicit and all(row.good for trial in bad for row in trial.rows(SINGLE)):
        dtype = SINGLE
        notes.append(SINGLE_ONLY)
    off = [trial for trial in trials if _is_off(trial.rows(dtype))]
    rows = _worst_rows([trial.rows(dtype) for trial in trials])
    report = Comparison(
        "", "", trials[0].subject.setting, rows, notes=tuple(notes), cases=tuple(_case_results(trials, dtype))
    )
    return report, off


def _is_off(rows: Sequence[Row]) -> bool:
    return any(row.status == "off" for row in rows)


def _explained(report: Comparison, off: list[Trial], right: list[Trial], cases: Mapping[int, Case]) -> Comparison:
    causes = _train_mode([*off, *right])
    tried = 0
    notes = report.notes
    if too_large(off[0].reference):
        notes = (*notes, "known mistakes were not tried on a filter of this size; compare on a smaller graph")
    elif not causes:
        found, tried = diagnose(off, right, off[0].subject.dtype)
        if not found and off[0].subject.may_be_single and off[0].subject.dtype != SINGLE:
            found, _ = diagnose(off, right, SINGLE)
        causes = tuple(found)
        if not causes and _train_mode_shows(off[0]):
            notes = (*notes, TRAIN_MODE)
    first = min(off, key=lambda trial: trial.reference.n_operations() + trial.point.x.size)
    simplest = simplest_failing(first, cases[id(first)], lambda case: _fresh_trial(case, first.subject.layout))
    smallest = smallest_failing(simplest, 40 if too_large(first.reference) else 300)
    if first.case and len(report.cases) > 1:
        smallest = f"{simplest.case}: {smallest}"
    seen = () if causes else tuple(patterns(off[0], [*off, *right]))
    return replace(report, causes=causes, tried=tried, smallest=smallest, patterns=seen, notes=notes)


def _train_mode(trials: list[Trial]) -> tuple[Cause, ...]:
    """A torch module that would be right in eval mode."""
    worst = 0.0
    for trial in trials:
        subject = trial.subject.in_eval_mode()
        if subject is None:
            return ()
        evaluated = replace(trial, subject=subject)
        try:
            subject.require_function(trial.point.params, trial.point.x, trial.near)
            rows = evaluated.rows()
            if _is_off(rows) and subject.may_be_single:
                rows = evaluated.rows(SINGLE)
        except LayerProblem:
            return ()
        if _is_off(rows):
            return ()
        worst = max([worst, *(row.error for row in rows if row.status == "ok" and row.name != DIFFERENCES)])
    return (Cause("train-mode", TRAIN_MODE, worst),)


def _train_mode_shows(trial: Trial) -> bool:
    """Whether a torch module gives other numbers in eval mode."""
    subject = trial.subject.in_eval_mode()
    if subject is None:
        return False
    try:
        return not trial.near(subject.output(trial.point.params, trial.point.x), trial.observed.y)
    except LayerProblem:
        return True


def _worst_rows(tables: Iterable[Sequence[Row]]) -> tuple[Row, ...]:
    """Of each row the worst over all trials."""
    worst: dict[str, Row] = {}
    for rows in tables:
        for row in rows:
            held = worst.get(row.name)
            if held is None or _badness(row) > _badness(held):
                worst[row.name] = row
    return tuple(sorted(worst.values(), key=lambda row: row.name == DIFFERENCES))  # that one at the end


def _badness(row: Row) -> tuple[int, float]:
    return SIZE[row.status], 0.0 if np.isnan(row.error) else row.error / (row.tolerance or 1.0)


def _case_results(trials: Sequence[Trial], dtype: np.dtype) -> Iterable[CaseResult]:
    for trial in trials:
        worst = max(trial.rows(dtype), key=_badness)
        ok = worst.good
        yield CaseResult(trial.case, ok, "" if ok else worst.name, 0.0 if np.isnan(worst.error) else worst.error)
