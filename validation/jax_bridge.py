"""Every filter, layer and network as a JAX function, held against evref's own passes and by JAX's own checks.

    python validation/jax_bridge.py            print the table
    python validation/jax_bridge.py --write    and write it to validation/jax_bridge.md

One row for each configuration of `examples`, on a directed graph of 5 nodes, with standard normal parameters (their
width is bounded from below where a filter divides by it), signals, cotangents and tangents. float64 but for *first*.

- *first*: output, gradients (`jax.vjp`) and tangent (`jax.jvp`) against forward, backward and jvp of evref itself, with
  and without `jit`, in float32 and float64, on a batch: "same bits", or the largest relative difference.
- *check_grads*: `jax.test_util.check_grads` to order 2, in forward mode, in reverse mode and in both, with its own
  tolerances: "ok", or what it says.
- *jit*: `jax.jit(jax.grad(loss))` against `jax.grad(loss)`, with loss(params, x) = sum(u sin f(params, x)).
- *vmap x*, *vmap params*: `jax.vmap(jax.grad(loss))` over x and over params against a loop, under `jit`.
- *fwd − rev*: `jax.jacfwd(f)` against `jax.jacrev(f)`, by params and x.
- *hessian*: `jax.hessian` of <u, f> against itself transposed and against jacfwd(jacfwd), jacrev(jacfwd) and
  jacrev(jacrev), the largest difference.
- *differences*: that Hessian against central differences of evref's own backward pass, step 1e-6: what they can see.

Differences are relative to the largest entry of the array they are in; 0 means equal to the bit.
"""

from __future__ import annotations

import argparse
import platform
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import evref as ev
from evref.verify.examples import named_examples, probe_graph

PAGE = Path(__file__).with_suffix(".md")
NODES, BATCH, COPIES, STEP = 5, 2, 3, 1e-6
TOLERANCES = {"first": 0, "jit": 1e-12, "vmap x": 1e-12, "vmap params": 1e-12, "fwd - rev": 1e-12, "hessian": 1e-11}
TOLERANCES["differences"] = 1e-6
COLUMNS = (*TOLERANCES, "check_grads")
Array = np.ndarray
Point = tuple[dict[str, Any], Any]  # params, x


# ---- what is compared ------------------------------------------------------------------------------------------------
def configurations() -> dict[str, ev.Module]:
    """Every example of every filter and layer, networks among them, by name."""
    graph = probe_graph(NODES, "directed")
    return {
        f"{name}({label})" if label else name: module
        for catalogue in (ev.catalogue, ev.layer_catalogue)
        for name, cls in catalogue.items()
        for label, module in named_examples(cls, graph).items()
    }


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
    """The largest difference of two trees of arrays, relative to the largest entry of each array."""
    import jax

    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max((_apart(np.asarray(p), np.asarray(q)) for p, q in pairs), default=0.0)


def _apart(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    difference = np.abs(a - b).max(initial=0.0)
    return float(difference / max(np.abs(b).max(initial=0.0), np.finfo(b.dtype).tiny)) if difference else 0.0


# ---- the checks ------------------------------------------------------------------------------------------------------
class Checks:
    """Of one module; each method is a column."""

    def __init__(self, name: str, module: ev.Module) -> None:
        import jax

        from evref.bridges.jax import as_jax

        self.module, self.f, self.draw = module, as_jax(module), Draw(name, module)
        self.at = self.draw.point()
        self.u = self.draw.like(module.forward(*self.at)[0])
        self.tree = jax.tree

    def loss(self, params: Any, x: Any) -> Any:
        import jax.numpy as jnp

        return (self.u * jnp.sin(self.f(params, x))).sum()

    def linear(self, params: Any, x: Any) -> Any:
        return (self.u * self.f(params, x)).sum()

    def first(self) -> float:
        import jax

        def passes(params: Any, x: Any, u: Any, dparams: Any, dx: Any) -> Any:
            y, pull = jax.vjp(self.f, params, x)
            return y, pull(u), jax.jvp(self.f, (params, x), (dparams, dx))[1]

        found = []
        dparams, dx = self.draw.point()
        for dtype, run in product((np.float64, np.float32), (passes, jax.jit(passes))):
            params, x, u, dp, d = self.tree.map(lambda a: a.astype(dtype), (*self.at, self.u, dparams, dx))  # noqa: B023
            y, tape = self.module.forward(params, x)
            own = y, self.module.backward(params, tape, u), self.module.jvp(params, x, dp, d)
            found.append(apart(run(params, x, u, dp, d), own))
        return max(found)

    def check_grads(self) -> str:
        from jax.test_util import check_grads

        try:
            for modes in (["fwd"], ["rev"], ["fwd", "rev"]):
                check_grads(self.f, self.at, 2, modes=modes, rtol=1e-5, atol=1e-5)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
        return "ok"

    def jit(self) -> float:
        import jax

        gradient = jax.grad(self.loss, (0, 1))
        return apart(jax.jit(gradient)(*self.at), gradient(*self.at))

    def vmap_x(self) -> float:
        return self._vmap((None, 0), [(self.at[0], self.draw.x()) for _ in range(COPIES)])

    def vmap_params(self) -> float:
        return self._vmap((0, None), [(self.draw.point()[0], self.at[1]) for _ in range(COPIES)])

    def _vmap(self, axes: tuple[int | None, int | None], points: list[Point]) -> float:
        import jax

        gradient = jax.grad(self.loss, (0, 1))
        stacked = [
            points[0][i] if axis is None else self.tree.map(lambda *a: np.stack(a), *(point[i] for point in points))
            for i, axis in enumerate(axes)
        ]
        looped = self.tree.map(lambda *a: np.stack(a), *(gradient(*point) for point in points))
        return apart(jax.jit(jax.vmap(gradient, axes))(*stacked), looped)

    def fwd_rev(self) -> float:
        import jax

        f, z = self._flat(self.f)
        return apart(jax.jacfwd(f)(z), jax.jacrev(f)(z))

    def hessian(self) -> float:
        import jax

        f, z = self._flat(self.linear)
        H = np.asarray(jax.jit(jax.hessian(f))(z))
        others = [jax.jacfwd(jax.jacfwd(f)), jax.jacrev(jax.jacfwd(f)), jax.jacrev(jax.jacrev(f))]
        return max(apart(H.T, H), *(apart(np.asarray(jax.jit(other)(z)), H) for other in others))

    def differences(self) -> float:
        import jax

        f, z = self._flat(self.linear)
        _, unflat = self._ravel(self.at)

        def gradient(z: Array) -> Array:
            params, x = self.tree.map(np.asarray, unflat(z))
            _, tape = self.module.forward(params, x)
            return np.asarray(self._ravel(self.module.backward(params, tape, self.u))[0])

        z = np.asarray(z)
        near = [(gradient(z + step) - gradient(z - step)) / (2 * STEP) for step in STEP * np.eye(z.size)]
        return apart(np.array(near), np.asarray(jax.hessian(f)(z)))

    def _ravel(self, tree: Any) -> Any:
        from jax.flatten_util import ravel_pytree

        return ravel_pytree(tree)

    def _flat(self, function: Callable[..., Any]) -> tuple[Callable[[Any], Any], Any]:
        """As a function of one vector, and that vector."""
        z, unflat = self._ravel(self.at)
        return lambda z: function(*unflat(z)), z


class Row(NamedTuple):
    name: str
    cells: dict[str, float | str]

    def faults(self) -> list[str]:
        """Columns that are not as they should be."""
        return [
            f"{self.name}: {column}: {value}"
            for column, value in self.cells.items()
            if (value != "ok" if column == "check_grads" else not value <= TOLERANCES[column])
        ]


def row(name: str, module: ev.Module) -> Row:
    checks = Checks(name, module)
    methods = {"vmap x": "vmap_x", "vmap params": "vmap_params", "fwd - rev": "fwd_rev"}
    return Row(name, {column: getattr(checks, methods.get(column, column))() for column in COLUMNS})


def rows() -> Iterator[Row]:
    for name, module in configurations().items():
        yield row(name, module)


if __name__ == "__main__":
    import time
    import jax
    jax.config.update("jax_enable_x64", True)
    for name, module in configurations().items():
        c=Checks(name,module)
        methods = {"vmap x": "vmap_x", "vmap params": "vmap_params", "fwd - rev": "fwd_rev"}
        out=[]
        for col in COLUMNS:
            t=time.time(); v=getattr(c,methods.get(col,col))(); out.append(f"{col}={v if isinstance(v,str) else format(v,'.0e')} ({time.time()-t:.1f}s)")
        print(name, sum(np.prod(s,dtype=int) for s in module.parameter_shapes().values()), *out, flush=True)
