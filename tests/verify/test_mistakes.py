"""The models of known mistakes: each computes something else than the filter, with the gradients of what it computes.

A mistake is named by its numbers, so that a model with a wrong gradient would never be found in a layer that makes the
mistake. Gradients are held against differences of the model's own output, one block of parameters at a time. Entries
about gradients are left out there: their output must be the filter's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest

import evref as ev
from evref.verify.examples import named_examples, probe_graph
from evref.verify.mistakes import KNOWN_MISTAKES, variants_of

ABOUT_GRADIENTS = {"detached", "gradient-scaled"}
SHIFTS = ("gcn", "symmetric_adjacency", "random_walk", "laplacian", "scaled_laplacian", "normalized_adjacency")
TOLERANCE = 1e-6
ANOTHER_SHIFT = {"self-loops", "degree", "spectrum-scale", "sign"}  # mostly the filter itself, on another graph
SQUARE = {"in_features": 2, "out_features": 2, "bias": True}


class Case(NamedTuple):
    filt: Any
    point: tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
    right: Any
    variants: list[tuple[str, str, Any]]


def instances(name: str) -> Iterator[Any]:
    """Every configuration of a filter, on S as it is; one that is square and has a bias on every S made of weights."""
    cls = ev.catalogue[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeated eigenvalues
        yield from named_examples(cls, probe_graph(5, "directed")).values()
        for shift in (None, *SHIFTS):
            raw = probe_graph(5, "undirected")
            try:
                graph = raw if shift is None else raw.with_shift(shift)
                example = next(iter(named_examples(cls, graph).values()))
                sizes = SQUARE if "out_features" in example.config() else {"bias": True}
                yield cls(graph, **{**longer(example.config()), **sizes})
            except (ValueError, TypeError):  # no such filter on this graph, or of this size
                continue


def longer(config: dict[str, Any]) -> dict[str, Any]:
    """Of order 2 at least: powers S^k with a k of 0 or 1 alone hide much."""
    return {**config, "order": max(2, config["order"])} if "order" in config else config


@cache
def cases(name: str) -> list[Case]:
    found = []
    for filt in instances(name):
        point = drawn(filt)
        found.append(Case(filt, point, results(filt, *point), list(variants_of(filt))))
    return found


def networks() -> Iterator[Any]:
    graph = probe_graph(4, "directed")
    for kind in (ev.Tanh, ev.Sigmoid, ev.LeakyReLU):
        first = ev.Polynomial(graph, 2, 2, 2, bias=True)
        yield ev.Network([first, kind(), ev.GCN(graph, 2, 2, bias=True), kind()])
    yield ev.Network([ev.GCN(graph, 2, 3, bias=True), ev.Tanh(), ev.Dense((3, 4), 3)])


def drawn(module: Any, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    params = {n: p + 0.3 * rng.uniform(0.5, 1, p.shape) for n, p in module.init(rng).items()}
    x = rng.standard_normal((2, *module.in_shape))
    return params, x, rng.standard_normal((2, *module.out_shape))


def results(model: Any, params: dict[str, np.ndarray], x: np.ndarray, grad_y: np.ndarray) -> Any:
    with np.errstate(all="ignore"):
        y, tape = model.forward(params, x)
        return (y, *model.backward(params, tape, grad_y))


def largest(a: Any, b: Any) -> float:
    """Largest difference in y, in a gradient, in the gradient of x; relative to the second."""
    pairs = [(a[0], b[0]), (a[2], b[2]), *((a[1][name], b[1][name]) for name in b[1])]
    return max(float(np.abs(u - v).max(initial=0) / max(1e-9, np.abs(v).max(initial=0))) for u, v in pairs)


def gradient_errors(
    model: Any, params: dict[str, np.ndarray], x: np.ndarray, grad_y: np.ndarray, step: float = 1e-4
) -> dict[str, float]:
    """Of each block, along a random direction: backward against differences of forward, relative to their size."""
    rng = np.random.default_rng(1)
    y, grads, grad_x = results(model, params, x, grad_y)
    floor = max(1e-3, 1e-5 * float(np.abs(y).max(initial=0)))  # below it a block is lost in the rounding of y
    assert grads.keys() == params.keys(), f"gradients of {sorted(grads)}; expected {sorted(params)}"
    errors = {}
    for name, grad in (*grads.items(), (None, grad_x)):
        along = rng.standard_normal(grad.shape)

        def at(t: float, name: str | None = name, along: np.ndarray = along) -> float:
            moved = params if name is None else {**params, name: params[name] + t * along}
            with np.errstate(all="ignore"):
                return float(np.vdot(model.forward(moved, x + t * along if name is None else x)[0], grad_y))

        near, far = ((at(h) - at(-h)) / (2 * h) for h in (step, 2 * step))
        measured = (4 * near - far) / 3
        given = float(np.vdot(grad, along))
        errors[str(name)] = abs(given - measured) / max(abs(measured), abs(given), float(np.linalg.norm(grad)), floor)
    return errors


def smallest_error(module: Any, model: Any) -> float:
    """Of three points and steps the best: a step may cross a kink, or be too long for a large power.

    A wrong gradient is wrong at each of them.
    """
    error = np.inf
    for seed, step in enumerate((1e-4, 1e-5, 1e-6)):
        error = min(error, max(gradient_errors(model, *drawn(module, seed), step).values()))
        if error < TOLERANCE:
            break
    return error


# ---- gradients -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ev.catalogue)
def test_models_have_the_gradients_of_what_they_compute(name):
    wrong = {}
    for number, case in enumerate(cases(name)):
        for i, (mistake, says, model) in enumerate(case.variants):
            if mistake in ABOUT_GRADIENTS or (mistake in ANOTHER_SHIFT and (i + number) % 4):
                continue
            if np.isfinite(results(model, *case.point)[0]).all():
                error = smallest_error(case.filt, model)
                if not error < TOLERANCE:
                    wrong[f"{mistake}: {says}, {case.filt!r}"] = error
    assert wrong == {}


def test_so_have_the_models_of_networks():
    for net in networks():
        for mistake, says, model in variants_of(net):
            if mistake not in ABOUT_GRADIENTS:
                assert smallest_error(net, model) < TOLERANCE, f"{mistake}: {says}"


def test_and_those_of_a_networks_end_differ_from_it():
    for net in networks():
        point = drawn(net)
        right, variants = results(net, *point), list(variants_of(net))
        assert len({says for _, says, _ in variants}) == len(variants)
        for mistake, says, model in variants:
            if "softmax" in says or mistake == "copied-nodes":
                assert largest(results(model, *point), right) > 1e-6, f"{mistake}: {says}"


@pytest.mark.parametrize("name", ev.catalogue)
def test_a_mistake_in_gradients_has_the_right_output(name):
    for case in cases(name):
        for mistake, says, model in case.variants:
            if mistake in ABOUT_GRADIENTS:
                y, grads, _ = results(model, *case.point)
                assert np.allclose(y, case.right[0], rtol=1e-12, atol=1e-12), f"{mistake}: {says}"
                assert grads.keys() == case.right[1].keys(), f"{mistake}: {says}"


# ---- words and numbers -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ev.catalogue)
def test_no_two_models_of_a_filter_have_the_same_words(name):
    for case in cases(name):
        words = [says for _, says, _ in case.variants]
        assert len(set(words)) == len(words), sorted({w for w in words if words.count(w) > 1})


@pytest.mark.parametrize("name", ev.catalogue)
def test_every_model_differs_from_the_filter_somewhere(name):
    """One that never does could only be named where the layer is right."""
    seen: dict[tuple[str, str], float] = {}
    for case in cases(name):
        for mistake, says, model in case.variants:
            numbers = results(model, *case.point)
            difference = largest(numbers, case.right) if np.isfinite(numbers[0]).all() else np.inf
            seen[mistake, says] = max(seen.get((mistake, says), 0.0), difference)
    assert {key: size for key, size in seen.items() if not size > 1e-6} == {}


def test_an_error_in_a_gradient_would_be_seen():
    """The check of this file, on a model whose gradient is wrong in one entry."""
    filt = ev.Polynomial(probe_graph(5, "directed"), 2, 2, 3)
    point = drawn(filt)
    _, _, model = next(variant for variant in variants_of(filt) if variant[0] == "shift-transposed")

    class Off:
        def forward(self, params, x):
            return model.forward(params, x)

        def backward(self, params, tape, grad_y):
            grads, grad_x = model.backward(params, tape, grad_y)
            grads["phi"][1, 0, 1] *= 1.001
            return grads, grad_x

    assert max(gradient_errors(model, *point).values()) < 1e-9
    assert gradient_errors(Off(), *point)["phi"] > 1e-6


READINGS = ("text", "equation", "authors_code")


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("nodes", [[0, 3], None])
def test_every_reading_of_the_hybrid_is_named_against_every_other_that_has_its_parameters(order, nodes):
    """R11. "equation" and "authors_code" are one filter where every node is privileged."""
    graph, named = probe_graph(6, "directed"), set()
    sizes = {"nodes": nodes, "in_features": 2, "out_features": 2, "bias": order == 2}
    filters = {reading: ev.HybridEdgeVariant(graph, order, reading=reading, **sizes) for reading in READINGS}
    for layer, reference in permutations(READINGS, 2):
        if filters[layer].parameter_shapes() == filters[reference].parameter_shapes():
            report = ev.compare(filters[layer], filters[reference])
            assert report.ok or {cause.name for cause in report.causes} == {"zeroth-term"}, f"{layer}, {reference}"
            named |= set() if report.ok else {(layer, reference)}
    same = set() if nodes else {("authors_code", "equation"), ("equation", "authors_code")}
    pairs = {("text", "equation"), ("equation", "text")} if nodes else set(permutations(READINGS, 2))
    assert named == pairs - same


def test_every_entry_is_about_some_filter():
    names = {mistake for name in ev.catalogue for case in cases(name) for mistake, _, _ in case.variants}
    assert {mistake.name for mistake in KNOWN_MISTAKES} - names == {"train-mode"}  # found by running in eval mode
