"""Every filter, layer and network as a JAX function, held against evref's own passes and by JAX's own checks.

    python validation/jax_bridge.py            # prints the table
    python validation/jax_bridge.py --write    # writes validation/jax_bridge.md

The page begins with what follows.

Every configuration that the catalogues' `examples` yield, and a network of the paper's kind, on a directed graph with
5 nodes, 2 samples; standard normal parameters, signals, cotangents and directions (the widths of MoNet, by which it
divides, are at least 1). float64, and float32 too in the first column.

- first: output, gradients (`jax.vjp`) and tangent (`jax.jvp`) against `forward`, `backward` and `jvp` of evref itself,
  with and without `jit`, in float64 and float32.
- jit: `jax.jit(jax.grad(loss))` against `jax.grad(loss)`, with loss(params, x) = sum(u sin f(params, x)).
- vmap x, vmap params: `jax.jit(jax.vmap(jax.grad(loss)))` over 3 signals, and over 3 sets of parameters, against a
  loop; – where there are no parameters.
- fwd - rev: `jax.jacfwd(f)` against `jax.jacrev(f)`, by all parameters and x at once.
- hessian: `jax.jit(jax.hessian(loss))` by all parameters and x at once: against itself transposed, its mixed blocks
  against derivatives by x of gradients by the parameters and the other way round, and on 4 random curves against all
  four nestings of jacfwd and jacrev.
- differences: that Hessian against central differences of evref's own backward pass, step 1e-6.
- check_grads: `jax.test_util.check_grads` to order 2, in forward mode, in reverse mode and in both, with its own
  tolerances.

Numbers are the largest difference in a column's arrays, each relative to the largest entry of the array it is in; 0
means equal to the bit.
"""

from __future__ import annotations

import argparse
import platform
import sys
import zlib
from collections.abc import Callable
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import bridge_subjects
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.test_util import check_grads

import evref as ev
from evref.bridges.jax import as_jax

PAGE = Path(__file__).with_suffix(".md")
NODES, BATCH, COPIES, DIRECTIONS, STEP = 5, 2, 3, 4, 1e-6
TOLERANCE = 1e-12  # 4,500 times rounding; the worst on the page is below a tenth of it
OF_DIFFERENCES = 1e-6  # what central differences can see
Array = np.ndarray
Point = tuple[dict[str, Any], Any]  # params, x


# ---- what is compared ------------------------------------------------------------------------------------------------
subjects = partial(bridge_subjects.subjects, NODES)
first_of_each = partial(bridge_subjects.first_of_each, NODES)


class Draw:
    """Standard normal numbers of a module's shapes; every name has numbers of its own."""

    def __init__(self, name: str, module: ev.Module) -> None:
        self.module = module
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def point(self) -> Point:
        shapes = self.module.parameter_shapes()
        params = {name: self.rng.standard_normal(shape) for name, shape in shapes.items()}
        if "sigma" in params:  # the Gaussians of MoNet divide by these
            params["sigma"] += np.sign(params["sigma"])
        return params, self.x()

    def x(self) -> Array:
        return self.rng.standard_normal((BATCH, *(self.module.in_shape or (2, NODES))))

    def like(self, array: Array) -> Array:
        return self.rng.standard_normal(array.shape)


def apart(a: Any, b: Any) -> float:
    """The largest difference of two trees of arrays, relative to the largest entry of each array of `b`."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max((_apart(np.asarray(p), np.asarray(q)) for p, q in pairs), default=0.0)


def _apart(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    difference = np.abs(a - b).max(initial=0.0)
    return float(difference / max(np.abs(b).max(initial=0.0), np.finfo(b.dtype).tiny)) if difference else 0.0


# ---- the checks ------------------------------------------------------------------------------------------------------
class Subject:
    """A module and its JAX function, at a point."""

    def __init__(self, name: str, module: ev.Module) -> None:
        self.module, self.f, self.draw = module, as_jax(module), Draw(name, module)
        self.at = self.draw.point()
        self.u = self.draw.like(module(*self.at))

    def loss(self, params: Any, x: Any) -> Any:
        return (self.u * jnp.sin(self.f(params, x))).sum()

    def flat(self, function: Callable[..., Any]) -> tuple[Callable[[Any], Any], Array]:
        """`function` as one of a vector, and that vector."""
        z, unflat = ravel_pytree(self.at)
        return lambda z: function(*unflat(z)), np.asarray(z)

    @cached_property
    def hessian(self) -> Array:
        """Of the loss, by all parameters and x."""
        loss, z = self.flat(self.loss)
        return np.asarray(jax.jit(jax.hessian(loss))(z))

    def own_gradient(self, z: Array) -> Array:
        """Of the loss, by evref alone."""
        params, x = jax.tree.map(np.asarray, ravel_pytree(self.at)[1](z))
        y, tape = self.module.forward(params, x)
        return np.asarray(ravel_pytree(self.module.backward(params, tape, self.u * np.cos(y)))[0])


def first(s: Subject) -> float:
    def passes(params: Any, x: Any, u: Any, dparams: Any, dx: Any) -> Any:
        y, pull = jax.vjp(s.f, params, x)
        return y, pull(u), jax.jvp(s.f, (params, x), (dparams, dx))[1]

    found = []
    directions = s.draw.point()
    for dtype, run in product((np.float64, np.float32), (passes, jax.jit(passes))):
        params, x, u, dparams, dx = jax.tree.map(lambda a, dtype=dtype: a.astype(dtype), (*s.at, s.u, *directions))
        y, tape = s.module.forward(params, x)
        own = y, s.module.backward(params, tape, u), s.module.jvp(params, x, dparams, dx)
        found.append(apart(run(params, x, u, dparams, dx), own))
    return max(found)


def jit(s: Subject) -> float:
    gradient = jax.grad(s.loss, (0, 1))
    return apart(jax.jit(gradient)(*s.at), gradient(*s.at))


def vmap_x(s: Subject) -> float:
    return _vmap(s, (None, 0), [(s.at[0], s.draw.x()) for _ in range(COPIES)])


def vmap_params(s: Subject) -> float | str:
    if not s.at[0]:
        return "–"
    return _vmap(s, (0, None), [(s.draw.point()[0], s.at[1]) for _ in range(COPIES)])


def _vmap(s: Subject, axes: tuple[int | None, int | None], points: list[Point]) -> float:
    gradient = jax.grad(s.loss, (0, 1))
    stacked = [points[0][i] if axis is None else stack([point[i] for point in points]) for i, axis in enumerate(axes)]
    return apart(jax.jit(jax.vmap(gradient, axes))(*stacked), stack([gradient(*point) for point in points]))


def stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def fwd_rev(s: Subject) -> float:
    f, z = s.flat(s.f)
    return apart(jax.jit(jax.jacfwd(f))(z), jax.jit(jax.jacrev(f))(z))


def hessian(s: Subject) -> float:
    H, (params, x) = s.hessian, s.at
    loss, z = s.flat(s.loss)
    # Along all entries forward over forward would take a pass for every entry of the Hessian: 4 directions have to do.
    # They are tangents of curves, so that derivatives of the directions count as well.
    P = s.draw.rng.standard_normal((z.size, DIRECTIONS))

    def along_curves(t: Any) -> Any:
        return loss(z + P @ (t + t**2))

    def by_other_ways(params: Any, x: Any, t: Any) -> Any:
        nested = [outer(inner(along_curves))(t) for outer, inner in product((jax.jacfwd, jax.jacrev), repeat=2)]
        if not params:
            return nested, {}, {}
        return nested, jax.jacfwd(jax.grad(s.loss, 0), 1)(params, x), jax.jacfwd(jax.grad(s.loss, 1), 0)(params, x)

    nested, params_x, x_params = jax.jit(by_other_ways)(params, x, np.zeros(DIRECTIONS))
    expected = P.T @ H @ P + np.diag(2 * P.T @ s.own_gradient(z))
    found = [apart(H.T, H), *(apart(block, expected) for block in nested)]
    n = 0
    for name in sorted(params):  # the order of ravel_pytree
        before, n = n, n + params[name].size
        block = H[before:n, -x.size :]
        found.append(apart(np.reshape(params_x[name], block.shape), block))
        found.append(apart(np.reshape(x_params[name], block.T.shape), block.T))
    return max(found)


def differences(s: Subject) -> float:
    _, z = s.flat(s.loss)
    found = [(s.own_gradient(z + d) - s.own_gradient(z - d)) / (2 * STEP) for d in STEP * np.eye(z.size)]
    return apart(np.array(found), s.hessian)


def by_jax(s: Subject) -> str:
    for modes in (["fwd"], ["rev"], ["fwd", "rev"]):
        check_grads(s.f, s.at, 2, modes=modes)
    return "ok"


CHECKS: dict[str, tuple[Callable[[Subject], float | str], float]] = {  # and the tolerance
    "first": (first, 0.0),
    "jit": (jit, TOLERANCE),
    "vmap x": (vmap_x, TOLERANCE),
    "vmap params": (vmap_params, TOLERANCE),
    "fwd - rev": (fwd_rev, TOLERANCE),
    "hessian": (hessian, TOLERANCE),
    "differences": (differences, OF_DIFFERENCES),
    "check_grads": (by_jax, 0.0),
}


# ---- the page --------------------------------------------------------------------------------------------------------
def cell(column: str, subject: Subject) -> str:
    """What is found, in a word or a number; "fails: " before what should not be."""
    check, tolerance = CHECKS[column]
    try:
        found = check(subject)
    except Exception as error:  # the page says what it was
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if isinstance(found, str):
        return found
    text = f"{found:.0e}" if found else "0"
    return text if found <= tolerance else f"fails: {text}; expected at most {tolerance:.0e}"


def row(name: str) -> dict[str, str]:
    subject = Subject(name, subjects()[name])
    return {column: cell(column, subject) for column in CHECKS}


def page(table: dict[str, dict[str, str]]) -> str:
    bad = [f"- {name}, {column}: {c}" for name, cells in table.items() for column, c in cells.items() if "fails" in c]
    total = len(table) * len(CHECKS)
    assert __doc__ is not None
    lines = [
        "# The JAX bridge, by JAX's own checks",
        "",
        f"Written by `python validation/jax_bridge.py --write` with JAX {jax.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}: {total - len(bad)} of {total} checks pass"
        f"{'; those that do not are below the table.' if bad else '.'}",
        "",
        __doc__.partition("what follows.\n\n")[2],
        "| | " + " | ".join(CHECKS) + " |",
        "|---|" + "---|" * len(CHECKS),
    ]
    for name, cells in table.items():
        lines.append(f"| {name} | " + " | ".join("fails" if "fails" in c else c for c in cells.values()) + " |")
    return "\n".join([*lines, *(["", *bad] if bad else [])]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold the JAX bridge against evref and by JAX's own checks.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    write = parser.parse_args().write
    jax.config.update("jax_enable_x64", True)
    table = {}
    for name in subjects():
        table[name] = row(name)
        print(name, *(f"{column}: {c}" for column, c in table[name].items()), sep="; ", flush=True)
        jax.clear_caches()  # no two modules share a program
    text = page(table)
    if write:
        PAGE.write_text(text, encoding="utf-8")
    return 1 if "fails" in text else 0


if __name__ == "__main__":
    sys.exit(main())
