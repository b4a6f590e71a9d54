"""Every filter of the catalogue against implementations that are not ours: one row per architecture, none missing.

    python validation/family.py            print the table
    python validation/family.py --write    and write it to validation/family.md

Independent implementations live in `peers.py` and `peers_<family>.py`: torch and JAX from the equations, PyG with
copied weights. Errors are the largest difference relative to the largest entry, over output, gradient of x and of every
parameter, on an undirected and a directed graph, both sets of kernels. Parameters are drawn from [0.2, 1]:
no sum cancels, and no condition fails by a zero. Signs of both kinds are in the tests.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import parity
import peers

import evref as ev
from evref import gradcheck
from evref.verify.inclusions import lattice

HERE = Path(__file__).parent
Array = np.ndarray


def graphs() -> dict[str, ev.Graph]:
    """Weighted, with a self-loop; positive weights, as most architectures want them."""
    rng = np.random.default_rng(12)
    result = {}
    for kind in ("undirected", "directed"):
        S = rng.uniform(0.5, 1.5, (8, 8)) * (rng.random((8, 8)) < 0.4)
        np.fill_diagonal(S, 0)
        ring = np.roll(np.eye(8), 1, axis=0)  # keeps it connected
        S = S + ring
        result[kind] = ev.Graph((S + S.T) / 2 if kind == "undirected" else S)
    return result


def collected(kind: str) -> dict[str, Callable[..., Any]]:
    """All independent implementations of one kind, "TORCH", "JAX" or "PYG", by catalogue name."""
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(HERE.glob("peers_*.py")):
        found.update(getattr(importlib.import_module(path.stem), kind, {}))
    return found


def case(name: str, graph: ev.Graph) -> tuple[ev.Filter, dict[str, Array], Array, Array]:
    """The first example of a filter with parameters, signal and cotangent of size one."""
    rng = np.random.default_rng(3)
    filt = next(ev.catalogue[name].examples(graph, rng))
    params = {key: rng.uniform(0.2, 1.0, shape) for key, shape in filt.parameter_shapes().items()}
    return filt, params, rng.standard_normal((3, *filt.in_shape)), rng.standard_normal((3, *filt.out_shape))


def peer_error(kind: str, name: str) -> float | None:
    """Worst error against one kind of peer over both graphs and both backends; None where there is none."""
    peer = collected(kind).get(name)
    if peer is None:
        return None
    worst = 0.0
    for graph in graphs().values():
        filt, params, x, grad_y = case(name, graph)
        if kind == "PYG":
            results = peer(filt, params, x, grad_y)
        else:
            gradients = peers.torch_gradients if kind == "TORCH" else peers.jax_gradients
            results = gradients(lambda p, signal, filt=filt: peer(filt, p, signal), params, x, grad_y)
        for backend in ev.kernels.BACKENDS:
            with ev.use_backend(backend):
                worst = max(
                    worst, *parity.relative_errors(parity.evref_gradients(filt, params, x, grad_y), results).values()
                )
    return worst


def check_error(check: Callable[..., Any], name: str) -> float:
    errors = []
    for graph in graphs().values():
        filt, params, x, _ = case(name, graph)
        errors.append(check(filt, params, x[:2]).worst.error)
    return max(errors)


def embedding_error(name: str) -> tuple[float | None, str]:
    """Error of the map into the edge-variant recursion, and what it is or which condition failed."""
    worst, kinds = 0.0, []
    for graph in graphs().values():
        filt, params, x, _ = case(name, graph)
        fixed = () if filt.linear else (x[0],)  # weights made of the signal: a filter at each signal
        try:
            embedded, embedded_params = filt.to_edge_variant(params, *fixed)
        except ev.NotRepresentable as error:
            kinds.append(f"not representable: {error}")
            continue
        H = filt.matrix(params, *fixed)
        worst = max(worst, parity.relative_error(embedded.matrix(embedded_params), H))
        terms = getattr(embedded, "terms", 1)
        many = "one recursion" if terms == 1 else f"sum of {terms} recursions"
        kinds.append(f"{many} of order {embedded.order}{' at a fixed signal' if fixed else ''}")
    represented = [kind for kind in kinds if not kind.startswith("not")]
    return (worst if represented else None), "; ".join(dict.fromkeys(kinds))


CONDITIONS = {i.small: i.condition for i in lattice if i.large in ("edge_variant", "parallel_edge_variant")} | {
    "attention": "the signal is fixed"
}


def condition(name: str) -> str:
    """Under which the filter is edge-variant: its own arrow of the lattice, or those it shares with polynomials."""
    via = next((i for i in lattice if i.small == name and i.large == "polynomial"), None)
    return CONDITIONS.get(name) or (f"as a polynomial: {via.condition}" if via else "it is one")


def rows() -> Iterator[dict[str, Any]]:
    for name in ev.catalogue:
        filt, *_ = case(name, graphs()["undirected"])
        error, what = embedding_error(name)
        yield {
            "filter": name,
            "parameters": filt.n_parameters,
            "dot test": check_error(gradcheck.dot_test, name),
            "complex step": check_error(gradcheck.complex_step, name),
            "torch": peer_error("TORCH", name),
            "JAX": peer_error("JAX", name),
            "PyG": peer_error("PYG", name),
            "embedding": error,
            "as an edge-variant filter": what,
            "condition": condition(name),
        }


def table() -> str:
    lines: list[str] = []
    for row in rows():
        if not lines:
            lines = ["| " + " | ".join(row) + " |", "|" + " --- |" * len(row)]
        cells = ["" if v is None else f"{v:.0e}" if isinstance(v, float) else str(v) for v in row.values()]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write validation/family.md")
    arguments = parser.parse_args()
    peers.enable_jax_float64()
    text = table()
    if arguments.write:
        made_with = parity.versions("torch_geometric")
        header = f"# The family\n\nWritten by `python validation/family.py --write` with {made_with}.\n"
        (HERE / "family.md").write_text(f"{header}\n{__doc__.split(chr(10) * 2, 2)[2]}\n{text}\n", encoding="utf-8")
