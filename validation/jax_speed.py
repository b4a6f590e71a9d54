"""What a pass through the JAX bridge costs, as multiples of the time that evref's own passes take.

python validation/jax_speed.py            # prints the page; half a minute
python validation/jax_speed.py --write    # writes validation/jax_speed.md
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import evref as ev
from evref.bench import clock, machine, report
from evref.bridges.jax import as_jax

PAGE = Path(__file__).with_suffix(".md")
SIZES = ((10, 1, 1), (50, 100, 1), (200, 64, 8))  # nodes, samples, features in and out
SECONDS, LEAST, SAMPLE = 8.0, 8, 0.02  # of a size; samples of a contender; seconds of a sample
# malloc keeps its memory: else large passes inside `jit` would pay for fresh pages every time (glibc)
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "-1"}
COLUMNS = {  # what is timed, and the passes of evref's own that it is a multiple of
    "output in `jit`": "forward",
    "gradients in `jit`": "forward and backward",
    "gradients outside": "forward and backward",
    "Hessian times a vector, in `jit`": "forward and backward",
}
HEAD = """\
# The speed of the JAX bridge

Written by `python validation/jax_speed.py --write`. {about}.

An edge-variant filter of order 3 on a random graph of degree 5, in float64, evref on one thread. Multiples of the time
that evref's own passes take: the first column of `forward`, the others of `forward` and `backward` together, with the
gradient of x as well. The loss is the sum of the output times a cotangent, and for the Hessian the sum of its squares.
The output is compared before anything is timed; compilation is off the clock. A sample is the mean of the calls that
fill {sample:g} ms; samples are taken in turn, and the table has their medians over at least {rounds} rounds. malloc is
told to keep its memory.
"""


def contenders(n_nodes: int, batch: int, features: int) -> dict[str, Callable[[], Any]]:
    graph = ev.generators.erdos_renyi(n_nodes, 5 / (n_nodes - 1), rng=0)
    filt = ev.EdgeVariant(graph, order=3, in_features=features, out_features=features)
    rng = np.random.default_rng(0)
    params, x = filt.init(rng), rng.standard_normal((batch, features, n_nodes))
    u, f = rng.standard_normal(x.shape), as_jax(filt)
    own = {name: jax.numpy.asarray(array) for name, array in params.items()}
    signal, tangent = jax.numpy.asarray(x), {name: jax.numpy.ones_like(array) for name, array in own.items()}
    gradient = jax.grad(lambda p, x: (u * f(p, x)).sum(), (0, 1))
    squares = jax.grad(lambda p: (f(p, signal) ** 2).sum())
    output, compiled = jax.jit(f), jax.jit(gradient)
    along = jax.jit(lambda p, d: jax.jvp(squares, (p,), (d,))[1])
    if not np.array_equal(output(own, signal), filt(params, x)):
        raise RuntimeError("the bridge gives another output than the filter")

    def both() -> Any:
        _, tape = filt.forward(params, x)
        return filt.backward(params, tape, u)

    return {
        "forward": lambda: filt.forward(params, x),
        "forward and backward": both,
        "output in `jit`": lambda: jax.block_until_ready(output(own, signal)),
        "gradients in `jit`": lambda: jax.block_until_ready(compiled(own, signal)),
        "gradients outside": lambda: jax.block_until_ready(gradient(own, signal)),
        "Hessian times a vector, in `jit`": lambda: jax.block_until_ready(along(own, tangent)),
    }


def sample(run: Callable[[], Any]) -> float:
    """Seconds of a call, the mean of so many as fill a sample."""
    calls, spent = 0, 0.0
    while not calls or spent < SAMPLE:
        spent += clock.duration(run)
        calls += 1
    return spent / calls


def measured(size: tuple[int, int, int], seconds: float, least: int) -> dict[str, float]:
    """By column, the multiple."""
    runs = contenders(*size)
    for run in runs.values():
        run()
    turns = {(name, 1): lambda run=run: sample(run) for name, run in runs.items()}
    taken = clock.round_robin(turns, seconds, least)
    median = {name: clock.summary(values)["median"] for (name, _), values in taken.items()}
    return {column: median[column] / median[of] for column, of in COLUMNS.items()}


def page(rows: list[dict[str, float]], about: str) -> str:
    lines = [HEAD.format(about=about, sample=1e3 * SAMPLE, rounds=LEAST), *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, float]]) -> Iterator[str]:
    yield f"| nodes, samples, features in and out | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for size, row in zip(SIZES, rows, strict=True):
        yield f"| {', '.join(map(str, size))} | {' | '.join(f'{row[column]:.2g}' for column in COLUMNS)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time passes through the JAX bridge.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    write = parser.parse_args().write
    if any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):  # malloc reads them when it starts
        os.execve(sys.executable, [sys.executable, *sys.argv], clock.environment(1, **ALLOCATOR))
    jax.config.update("jax_enable_x64", True)
    ev.set_threads(1)
    text = page([measured(size, SECONDS, LEAST) for size in SIZES], report.about_text(machine.about()))
    if write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
