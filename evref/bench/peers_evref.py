"""Ours, through the public functions: filters with all their checks, the training step as `fit` calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import evref as ev
from evref.learn.trainer import Learner

from .cases import KINDS, Contender, Problem, Results, make_filter, network

CHECKED = True
NAMES = dict.fromkeys(KINDS, ("evref",))


def prepare(threads: int) -> None:
    ev.set_threads(threads)


def contender(name: str, p: Problem) -> Contender:
    return training(p) if p.case.kind == "training" else filtering(p)


def filtering(p: Problem) -> Contender:
    filt = make_filter(p, p.graph())
    params, x, grad_y = {"phi": p["phi"]}, p["x"], p["grad_y"]

    def run() -> tuple[Any, ...]:
        y, tape = filt.forward(params, x)
        grads, grad_x = filt.backward(params, tape, grad_y)
        return y, grads["phi"], grad_x

    return Contender(run, named(run))


def named(run: Callable[[], tuple[Any, ...]], convert: Callable[[Any], Any] = np.asarray) -> Callable[[], Results]:
    return lambda: dict(zip(("y", "grad_phi", "grad_x"), map(convert, run()), strict=True))


def training(p: Problem) -> Contender:
    adam = ev.Adam()
    start = {"0.phi": p["phi"], "2.weight": p["weight"], "2.bias": p["bias"]}
    learner = Learner(network(p.case, p.graph()), ev.CrossEntropy(), adam, start)
    now = learner.fresh()
    x, label = p["x"], p["label"]

    def run() -> None:
        learner.step(now, x, label, adam.learning_rate, "the benchmark")

    def result() -> Results:
        value, grads = learner.gradients(start, x, label)
        run()
        names = {"phi": "0.phi", "weight": "2.weight", "bias": "2.bias"}
        moved = {f"moved_{short}": now.params[name] - start[name] for short, name in names.items()}
        return {"loss": np.asarray(value), **{f"grad_{s}": grads[n] for s, n in names.items()}, **moved}

    return Contender(run, result)
