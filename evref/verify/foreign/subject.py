"""A layer that was found to run: output and gradients on NumPy arrays, in our names and our order of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...contract import Module
from .find import Adapter, adapters, is_torch_module
from .global_state import generator_states, set_generators
from .layouts import Layout, candidates
from .parameters import ParameterMap
from .problem import LayerProblem, first_told
from .torch_module import require_parameters

Array = np.ndarray
Arrays = dict[str, np.ndarray]
SEEDED = "it draws random numbers"
UNSEEDED = "what it gives depends on earlier calls, or on random numbers that no global seed sets"
KEPT = "the module keeps something from earlier calls, a new copy of it gives other numbers"
ALIKE = 1e-3  # between layouts that both fit, the one whose output is that near to the reference's is meant


class Observed(NamedTuple):
    """What one call of a layer gave, in float64."""

    y: Array
    grads: Arrays | None  # None: the layer has no gradients
    grad_x: Array | None
    outside: Arrays  # gradients of dense matrices outside the support, by their own names


class NotRepeatable(LayerProblem):
    """Carries the subject: a module in train mode may be right in eval mode."""

    def __init__(self, subject: Subject, why: str) -> None:
        super().__init__("random", f"the layer gives different numbers for the same input; expected a function: {why}")
        self.subject = subject


@dataclass(frozen=True, eq=False)
class Subject:
    """A layer, the framework, layout and dtype in which it runs, and where our parameters go."""

    adapter: Adapter
    parameters: ParameterMap
    layout: Layout
    dtype: np.dtype
    y_core: tuple[int, ...]  # shape of the output of one sample
    may_be_single: bool = True  # nobody asked for a dtype: float32 inside is no mistake

    @property
    def has_gradients(self) -> bool:
        return self.adapter.has_gradients

    @property
    def setting(self) -> str:
        """In words, for the report."""
        layout = "" if self.layout == candidates(None, 2)[0] else f", called with ({self.layout.name})"
        return f"{self.adapter.framework}, {self.dtype}{layout}"

    def in_eval_mode(self) -> Subject | None:
        """A torch module that is in train mode, in eval mode; None for all else."""
        if not self.adapter.training:
            return None
        return replace(self, adapter=self.adapter.in_eval_mode())  # type: ignore[union-attr]

    def require_function(self, params: Arrays, x: Array, near: Callable[[Array, Array], bool]) -> Array:
        """The output on a batch, the same at every call but for rounding; else a LayerProblem.

        `near` says whether two outputs differ by no more than rounding.
        """
        new = self.adapter.fresh()
        beside = None if new is self.adapter else replace(self, adapter=new)
        try:
            first, second = self.output(params, x), self.output(params, x)
        except LayerProblem:
            if beside is not None and _succeeds(beside, params, x):
                raise NotRepeatable(self, KEPT) from None
            raise
        if not near(first, second):
            raise NotRepeatable(self, SEEDED if self._draws_random_numbers(params, x, near) else UNSEEDED)
        if beside is not None and not near(beside.output(params, x), first):
            raise NotRepeatable(self, KEPT)
        return first

    def _draws_random_numbers(self, params: Arrays, x: Array, near: Callable[[Array, Array], bool]) -> bool:
        """Whether the same state of the global generators gives the same numbers, and another one others."""
        states = generator_states()
        first = self.output(params, x)
        set_generators(states)
        second, third = self.output(params, x), self.output(params, x)
        return near(first, second) and not near(second, third)

    def output(self, params: Arrays, x: Array) -> Array:
        """The output on a batch."""
        theirs = self.parameters.theirs(params)
        ys = [self.adapter.output(theirs, part) for part in self._parts(x)]
        return self._from_parts(ys, (len(x), *self.y_core), "the output")

    def observe(self, params: Arrays, x: Array, grad_y: Array) -> Observed:
        """Output and gradients of <grad_y, y> on a batch."""
        if not self.has_gradients:
            return Observed(self.output(params, x), None, None, {})
        theirs = self.parameters.theirs(params)
        ys, grads_x = [], []
        total: Arrays = {name: np.zeros(array.shape) for name, array in theirs.items()}
        cotangents = self._parts(grad_y, allow_readout=True)
        for part, cotangent in zip(self._parts(x), cotangents, strict=True):
            y, grads, grad_x = self.adapter.gradients(theirs, part, _constant(cotangent))
            ys.append(y)
            grads_x.append(grad_x)
            total = {name: total[name] + grads[name] for name in theirs}
        y = self._from_parts(ys, grad_y.shape, "the output")
        ours, outside = self.parameters.ours(total)
        return Observed(y, ours, self._from_parts(grads_x, x.shape, "the gradient of x"), outside)

    # ---- between our batches and their calls ----------------------------------------------------------------------
    def _parts(self, array: Array, allow_readout: bool = False) -> list[Array]:
        theirs = self.layout.to_theirs(array.astype(self.dtype))
        return list(theirs) if self.layout.single else [theirs]

    def _from_parts(self, parts: list[Array], shape: tuple[int, ...], what: str) -> Array:
        stacked = _stacked(parts) if self.layout.single else parts[0]
        ours = None if stacked is None else self.layout.to_ours(stacked, shape)
        if ours is None:
            got = parts[0].shape
            expected = shape[1:] if self.layout.single else shape
            raise LayerProblem(
                "shape", f"{what} has shape {got}; expected {expected}{_axes(shape, self.layout.single)}"
            )
        return ours


def _axes(shape: tuple[int, ...], single: bool) -> str:
    return "" if len(shape) != 3 else ", (features, nodes)" if single else ", (batch, features, nodes)"


def _stacked(parts: list[Array]) -> Array | None:
    return np.stack(parts) if len({part.shape for part in parts}) == 1 else None


def _constant(cotangent: Array) -> Callable[[Array], Array]:
    def grad_y(y: Array) -> Array:
        if y.shape != cotangent.shape:
            raise LayerProblem("shape", f"the output has shape {y.shape}; expected {cotangent.shape}")
        return cotangent

    return grad_y


# ---- finding out how to run it ---------------------------------------------------------------------------------------
def make_subject(
    layer: Any,
    reference: Module,
    params: Arrays,
    x: Array,
    y: Array,
    *,
    parameters: Mapping[str, Any] | None = None,
    call: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    framework: str | None = None,
    layout: str | None = None,
    dtype: Any = None,
) -> Subject:
    """`layer` as a Subject, tried at (params, x), where the reference's output is y; else a LayerProblem."""
    mapped = ParameterMap(reference, parameters)
    theirs = mapped.theirs(params)
    if is_torch_module(layer):
        require_parameters(layer, theirs)
    layouts = candidates(layout, x.ndim - 1)
    tried: list[Subject | LayerProblem] = []  # what did not do, the likeliest framework first
    for adapter in adapters(layer, list(mapped.pieces), call, backward, framework):
        found = _of_dtypes(
            _fitting(
                [Subject(adapter.fresh(), mapped, where, of, y.shape[1:], dtype is None) for where in layouts],
                params,
                x,
                y,
            )
            for of in (adapter.dtypes() if dtype is None else [np.dtype(dtype)])
        )
        if isinstance(found, Subject):
            if adapter.certain or not adapter.autodiff or _gives_gradients(found, params, x, y):
                return found
        elif adapter.certain and found.ran:
            raise found  # it is of this framework, and what it returns is wrong
        tried.append(found)
    chosen = next((found for found in tried if isinstance(found, Subject) or found.ran), tried[0])
    if isinstance(chosen, Subject):  # without gradients, which no other framework has either
        return chosen
    raise chosen


def _of_dtypes(attempts: Iterable[Subject | LayerProblem]) -> Subject | LayerProblem:
    """The first dtype in which a layer runs and fits, or else what is wrong in the first in which it runs.

    A layer that has a dtype of its own is judged in that one: that the output is float32 is no news once float32 was
    tried.
    """
    problems = []
    for found in attempts:
        if isinstance(found, Subject):
            return found
        problems.append(found)
    others = [problem for problem in problems if problem.ran and problem.kind != "dtype"]
    return others[0] if others else first_told(problems)


def _fitting(subjects: list[Subject], params: Arrays, x: Array, y: Array) -> Subject | LayerProblem:
    """The first layout whose output is nearly y, or else the first that fits; or why none does."""
    fitting, problems = [], []
    for subject in subjects:
        try:
            value = subject.output(params, x)
        except LayerProblem as problem:
            problems.append((problem, subject.layout))
            continue
        if _alike(value, y):
            return subject
        fitting.append(subject)
    return fitting[0] if fitting else _most_telling(problems)


def _rank(problem: LayerProblem) -> int:
    """What ran at all says more than what raised, and a wrong kind of output more than a wrong shape."""
    return {"raises": 2, "shape": 1}.get(problem.kind, 0)


def _most_telling(found: list[tuple[LayerProblem, Layout]]) -> LayerProblem:
    """Of the failures in several layouts: of those that raised the one that got furthest."""
    problem, where = min(found, key=lambda pair: (_rank(pair[0]), -pair[0].line))
    if problem.kind == "raises" and len({other.text for other, _ in found}) > 1:
        return LayerProblem("raises", f"{problem.said}, called with ({where.name})", problem.line, problem.hint)
    return problem


def _gives_gradients(subject: Subject, params: Arrays, x: Array, y: Array) -> bool:
    try:
        replace(subject, adapter=subject.adapter.fresh()).observe(params, x, np.zeros_like(y))
    except LayerProblem:
        return False
    return True


def _succeeds(subject: Subject, params: Arrays, x: Array) -> bool:
    try:
        subject.output(params, x)
    except LayerProblem:
        return False
    return True


def _alike(value: Array, y: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.abs(value - y).max(initial=0) <= ALIKE * np.abs(y).max(initial=0))
