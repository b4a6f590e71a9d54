"""evref's own claims: the gradients of everything in the catalogues are right, and the two sets of kernels agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import kernels
from ..contract import Module
from ..filters import catalogue
from ..graph import generators
from ..learn import layer_catalogue
from . import gradcheck
from .claims import Outcome, claim
from .examples import KINDS, named_examples, probe_graph
from .report import Report


def _cases() -> Iterator[tuple[str, Module, dict[str, np.ndarray], np.ndarray]]:
    """Every configuration of every filter and layer on both graphs, with parameters and signal of size one."""
    for name, cls in {**catalogue, **layer_catalogue}.items():
        for kind in KINDS:
            graph = probe_graph(5, kind, 1)
            for configuration, module in named_examples(cls, graph, 7).items():
                rng = np.random.default_rng(7)
                params = {key: rng.uniform(-1, 1, shape) for key, shape in module.parameter_shapes().items()}
                x = rng.standard_normal((2, *(module.in_shape or (2, graph.n_nodes))))
                yield f"{name} ({configuration}{', ' if configuration else ''}{kind})", module, params, x


def _worst_over_all(check: Callable[..., Report], tolerance: float) -> Outcome:
    """The worst error of one check over every case, on both sets of kernels."""
    worst, place, failed, n = 0.0, "", [], 0
    for label, module, params, x in _cases():
        for backend in kernels.BACKENDS:
            with kernels.use_backend(backend):
                report = check(module, params, x)
            n += 1
            if report.worst.error >= worst:
                worst, place = report.worst.error, f"{label}, {report.worst.block}"
            if not report.ok:
                failed.append(f"{label}, {backend}: {report}")
    return Outcome(
        passed=not failed,
        figure=f"{n} cases, worst relative error {worst:.0e} ({place}), tolerance {tolerance:.0e}",
        values={"cases": n, "worst": worst, "where": place, "tolerance": tolerance},
        counterexample=failed[0] if failed else "",
    )


@claim("dot-test", "every gradient", "<J d, u> = <d, J^T u> for the input and each parameter")
def dot_test() -> Outcome:
    return _worst_over_all(gradcheck.dot_test, 1e-12)


@claim("complex-step", "every gradient", "the full Jacobian equals Im y(v + ih) / h, h = 1e-30")
def complex_step() -> Outcome:
    return _worst_over_all(gradcheck.complex_step, 1e-10)


@claim("central-difference", "every gradient", "a second opinion on the same Jacobian, away from kinks")
def central_difference() -> Outcome:
    return _worst_over_all(gradcheck.central_difference, 1e-6)


@claim("second-order", "every gradient", "differences of the backward pass make a symmetric Hessian")
def second_order() -> Outcome:
    return _worst_over_all(gradcheck.second_order, 1e-6)


def _results(module: Module, params: dict[str, np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """Output, all gradients, tangent."""
    y, tape = module.forward(params, x)
    grads, grad_x = module.backward(params, tape, np.cos(np.arange(y.size)).reshape(y.shape))
    return [y, grad_x, *grads.values(), module.jvp(params, x, params, np.sin(x))]


@claim("tape", "every gradient", "x, y and parameters may change between the passes, and are not changed by them")
def tape() -> Outcome:
    return _worst_over_all(gradcheck.tape_test, 1e-12)


@claim("backends", "compiled kernels", "numba and NumPy kernels give the same output, gradients and tangents")
def backends_agree() -> Outcome:
    worst, place, n = 0.0, "", 0
    for label, module, params, x in _cases():
        results: dict[str, list[Any]] = {}
        for backend in kernels.BACKENDS:
            with kernels.use_backend(backend):
                results[backend] = _results(module, params, x)
        for a, b in zip(*results.values(), strict=True):
            error = float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-300))
            n += 1
            if error >= worst:
                worst, place = error, label
    return Outcome(
        passed=worst < 1e-13,
        figure=f"{n} arrays, worst relative difference {worst:.0e} ({place})",
        values={"arrays": n, "worst": worst, "where": place},
    )


@claim("threads", "compiled kernels", "one thread and several give the same bits")
def threads_do_not_matter() -> Outcome:
    graph = generators.erdos_renyi(60, 0.4, rng=5, directed=True)
    different, n = 0, 0
    for cls in catalogue.values():
        rng = np.random.default_rng(6)
        filt = next(cls.examples(graph, rng))
        params = filt.init(rng)
        x = rng.standard_normal((2000, *filt.in_shape))  # enough work for threads to be used at all
        results = []
        for count in (1, 2, 3):
            with kernels.use_threads(count):
                results.append(_results(filt, params, x))
        for other in results[1:]:
            n += len(other)
            different += sum(not np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))
    return Outcome(
        passed=different == 0,
        figure=f"{n} arrays compared between 1, 2 and 3 threads, {different} differ in any bit",
        values={"arrays": n, "different": different},
    )
