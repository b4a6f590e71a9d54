"""Somebody's function or module as an object that the gradient checks take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checks import as_rng
from .foreign import LayerProblem
from .foreign.find import Adapter, adapters, is_torch_module
from .gradcheck import CHECKS, central_difference, second_order, why_not
from .jacobian import NotAnalytic
from .report import GradientError, Report

Arrays = dict[str, np.ndarray]


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
    on_contract = call is None and backward is None and framework in (None, "contract") and not is_torch_module(layer)
    if on_contract and all(callable(getattr(layer, name, None)) for name in ("forward", "backward")):
        return _of_contract(layer, params, x, rng)
    if params is None and is_torch_module(layer):
        params = {name: p.detach().cpu().double().numpy() for name, p in layer.named_parameters()}
    if not isinstance(params, Mapping):
        raise TypeError(f"params is {type(params).__name__}; expected a dict of named arrays, at which to check")
    if x is None:
        raise TypeError("x is None; expected an array, at which to check")
    arrays = {name: np.array(array, np.float64) for name, array in params.items()}
    signal = np.array(x, np.float64)
    adapter = _running(adapters(layer, list(arrays), call, backward, framework), arrays, signal)
    named = getattr(layer, "__name__", None) or type(layer).__name__
    module = OfFramework(named, adapter)
    try:
        first, second = (adapter.output(arrays, signal) for _ in range(2))
        if not np.array_equal(first, second, equal_nan=True):
            raise LayerProblem("random", "it gives different numbers for the same input; expected a function")
        return [check(module, arrays, signal, rng=rng) for check in (central_difference, second_order)]
    except LayerProblem as problem:
        raise GradientError(f"{named}: {problem.text}") from problem


def _running(found: list[Adapter], params: Arrays, x: np.ndarray) -> Adapter:
    """The first framework in which the function runs."""
    able = [adapter for adapter in found if adapter.has_gradients]
    if not able:
        raise TypeError("the layer is a NumPy function without a gradient; expected backward=, its gradient")
    problems = []
    for adapter in able:
        try:
            adapter.output(params, x)
            return adapter
        except LayerProblem as problem:
            problems.append(problem)
    raise GradientError(problems[0].text) from problems[0]


def _of_contract(layer: Any, params: Any, x: Any, rng: np.random.Generator) -> list[Report]:
    if params is None and callable(getattr(layer, "init", None)):
        params = layer.init(rng)
    if x is None and getattr(layer, "in_shape", None) is not None:
        x = rng.standard_normal((3, *layer.in_shape))
    reports = []
    for check in CHECKS.values():
        if why_not(check, layer) is None:
            try:
                reports.append(check(layer, params, x, rng=rng))
            except NotAnalytic:  # central differences look at the same
                continue
    return reports
