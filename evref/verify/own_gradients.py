"""Somebody's function or module as an object that the gradient checks take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import as_rng
from .foreign import LayerProblem
from .foreign.find import Adapter, adapters, is_torch_module, require_no_class
from .foreign.problem import first_told
from .gradcheck import CHECKS, central_difference, second_order, why_not
from .jacobian import NotAnalytic
from .problem import EPS, ROUNDING, Problem, float64_copy, norm_of, peak_of
from .report import GradientError, Report, Row

Arrays = dict[str, np.ndarray]
REACH = 4 * float(np.cbrt(EPS))  # the step of second_order, and room: its directions are others


class OfFramework:
    """A function in PyTorch, JAX or NumPy, with forward and backward on NumPy arrays."""

    autodiff = True

    def __init__(self, name: str, adapter: Adapter) -> None:
        self.name, self.adapter = name, adapter

    def __repr__(self) -> str:
        return self.name

    def forward(self, params: Arrays, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.adapter.output(dict(params), x), x.copy()

    def backward(self, params: Arrays, x: np.ndarray, grad_y: np.ndarray) -> tuple[Arrays, np.ndarray]:
        _, grads, grad_x = self.adapter.gradients(dict(params), x, lambda y: grad_y)
        return grads, grad_x


def checked(
    layer: Any,
    params: Mapping[str, Any] | None,
    x: Any,
    *,
    call: Callable[..., Any] | None,
    backward: Callable[..., Any] | None,
    framework: str | None,
    rng: Any,
) -> list[Report]:
    """The reports of every gradient check that applies."""
    rng = as_rng(rng)
    require_no_class(layer)
    on_contract = call is None and backward is None and framework in (None, "contract") and not is_torch_module(layer)
    if on_contract and all(callable(getattr(layer, name, None)) for name in ("forward", "backward")):
        return _of_contract(layer, params, x, rng)
    if params is None and is_torch_module(layer):
        params = {name: p.detach().cpu().double().numpy() for name, p in layer.named_parameters()}
    if not isinstance(params, Mapping):
        raise TypeError(f"params is {type(params).__name__}; expected a dict of named arrays, at which to check")
    for name in params:
        if not isinstance(name, str):
            raise TypeError(f"params has the key {name!r}; expected names")
    if x is None:
        raise TypeError("x is None; expected an array, at which to check")
    arrays = {name: float64_copy(f"params[{name!r}]", array) for name, array in params.items()}
    signal = float64_copy("x", x)
    adapter = _running(adapters(layer, list(arrays), call, backward, framework), arrays, signal)
    named = getattr(layer, "__name__", None) or type(layer).__name__
    module = OfFramework(named, adapter)
    try:
        first, second = (adapter.output(arrays, signal) for _ in range(2))
        if not np.array_equal(first, second, equal_nan=True):
            raise LayerProblem("random", "it gives different numbers for the same input; expected a function")
        return [_at(check, module, arrays, signal, rng) for check in (central_difference, second_order)]
    except LayerProblem as problem:
        raise GradientError(f"{named}: {problem.text}") from problem


def _running(found: list[Adapter], params: Arrays, x: np.ndarray) -> Adapter:
    """The first framework in which the function runs and has gradients.

    TypeError for a function of NumPy: tensors go through some of them as well, until gradients are asked for.
    """
    problems, runs_in_numpy = [], False
    for adapter in found:
        try:
            adapter.output(params, x)
            if adapter.has_gradients:
                adapter.fresh().gradients(params, x, np.zeros_like)
                return adapter
            runs_in_numpy = not any(other.certain for other in found if other.has_gradients)
        except LayerProblem as problem:
            if adapter.has_gradients:
                problems.append(problem)
    if runs_in_numpy or not problems:
        raise TypeError("the layer is a NumPy function without a gradient; expected backward=, its gradient")
    told = first_told(problems)
    raise GradientError(told.text) from told


def _of_contract(layer: Any, params: Any, x: Any, rng: np.random.Generator) -> list[Report]:
    if params is None and callable(getattr(layer, "init", None)):
        params = layer.init(rng)
    if x is None and getattr(layer, "in_shape", None) is not None:
        x = rng.standard_normal((3, *layer.in_shape))
    reports = []
    for check in CHECKS.values():
        if why_not(check, layer) is None:
            try:
                reports.append(_at(check, layer, params, x, rng))
            except NotAnalytic:  # central differences look at the same
                continue
    return reports


# ---- kinks -----------------------------------------------------------------------------------------------------------
def _at(check: Callable[..., Report], module: Any, params: Any, x: Any, rng: np.random.Generator) -> Report:
    """The report of a check; where the function has a kink, `second_order` says so and skips what it finds.

    There is no Hessian at a kink. The differences look from both sides and judge the gradient there.
    """
    report = check(module, params, x, rng=rng)
    if check is not second_order or report.ok:
        return report
    blocks = _kinks(Problem.of(module, params, x, 0))
    if not blocks:
        return report
    skipped = [
        row if row.ok else Row(row.block, 0.0, row.tolerance, 0.0, 0.0, 0, skipped=row.n_entries) for row in report.rows
    ]
    where = f"no Hessian: the function has a kink here, seen along {' and '.join(blocks)}"
    return replace(report, rows=tuple(skipped), mode=f"{report.mode}; {where}")


def _kinks(problem: Problem) -> list[str]:
    """The blocks along which the slope of the output jumps within the reach of `second_order`.

    Slopes from the left and from the right over ten times the distance differ by ten times as much where the function
    is smooth, and by as much where the kink is at the point. Only values of the output decide: a fault in a gradient
    cannot pass for a kink.
    """
    found = []
    for key, block in problem.point.items():
        size = REACH * max(1.0, float(np.sqrt(np.mean(block**2))) if block.size else 0.0)
        for _ in range(3):
            direction = problem.draw(block.shape)
            direction *= size / (norm_of(direction) or 1.0)

            def jump(factor: float, key: Any = key, along: np.ndarray = direction) -> np.ndarray:
                left, right = (
                    problem.forward({**problem.point, key: problem.point[key] + s * factor * along}) for s in (-1, 1)
                )
                return np.abs(left + right - 2 * problem.y) / factor

            near, far = jump(1), jump(10)
            if (near > np.maximum(far / 5, ROUNDING * peak_of(problem.y))).any():
                found.append(problem.label(key))
                break
    return found
