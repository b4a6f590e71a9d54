"""Every filter of the catalogue against implementations that are not ours: one row per architecture, none missing.

    python validation/family.py            print the table
    python validation/family.py --write    and write it to validation/family.md

Independent implementations live in `peers.py` and `peers_<family>.py`: torch and JAX from the equations, PyG with
copied weights. Compared are the output and the gradients of x and of every parameter, in every configuration of
`examples`, on an undirected and a directed graph, with both sets of kernels, in float64. PyG has no full covariances
(MoNet): that configuration is compared with torch and JAX alone.

Draws: parameters, signals and cotangents are independent standard normal numbers, three samples at a time, and so are
the weights of the two graphs (8 nodes, one self-loop; tagcn and dcnn take their absolute values by definition). Nothing
is scaled, shifted or made positive: MoNet's widths count by their squares and Cayley's h may have either sign. No draw
is left out. ReLU (in ECC) and attention's leaky scores have kinks: were a number there so close to zero that rounding
decides its side, the gradients would differ by their own size, and it would be seen here as an error of that size.

Errors of torch, JAX and PyG are the largest |ours - theirs| / Σ|terms|, in units of eps = 2.2e-16, over all of this and
{seeds} seeds; `measure.py` says why at most 4 √n eps is asked for: with n = 24, samples × nodes, {tolerance:.1f} eps.
`terms.py` derives Σ|terms|, the sum of the absolute values of the terms that an entry is a sum of, from the steps of
the JAX program and its gradient:

- what is a polynomial in parameters, signal, cotangent and S, as edge_variant to arma are: at most the sum over the
  products that an entry is written out to, less where a product of two sums that cancel allows it;
- spectral and shift_invariant_edge_variant are such sums too, over eigenvalues; entries of the projectors of S count
  as given, so that errors made in finding the eigenvectors are part of the error shown;
- where other functions take part, a bound to first order in the rounding errors: |f(a)| + |f'(a)| Σ|terms of a| for
  exponentials and activations (ecc, monet, attention), |A⁻¹| Σ|terms of A| |A⁻¹| for the inverse in cayley.

*Sees*: a scale that is too large would hide faults. This is the share of the entries, of all arrays and draws, in which
an error of 1e-6 of the entry itself is more than the tolerance (entries that are zero, behind a ReLU say, not counted).

*Dot test* and *complex step* have the measures of `evref.gradcheck`, over the first {checked} seeds of the same draws.
*Embedding*: the matrix of the edge-variant recursion that a filter maps to against the filter's own, over the same
{checked} seeds, relative to the largest entry; *embedded* counts the draws in which the map exists. The last two
columns are for the first configuration.
"""

from __future__ import annotations

import argparse
import importlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import measure
import numpy as np
import parity
import peers

import evref as ev
from evref import gradcheck
from evref.verify.inclusions import lattice

HERE = Path(__file__).parent
KINDS = ("TORCH", "JAX", "PYG")
SEEDS, CHECKED_SEEDS = 50, 20  # of the page
SAMPLES = 3
FAULT = 1e-6
Array = np.ndarray


@cache
def graphs() -> dict[str, ev.Graph]:
    """Standard normal weights of both signs, and one self-loop; the ring keeps it connected."""
    rng = np.random.default_rng(12)
    result = {}
    for kind in ("undirected", "directed"):
        S = rng.standard_normal((8, 8)) * ((rng.random((8, 8)) < 0.3) | np.roll(np.eye(8, dtype=bool), 1, axis=0))
        np.fill_diagonal(S, 0)
        S[2, 2] = rng.standard_normal()
        result[kind] = ev.Graph(S + np.tril(S, -1).T + np.triu(S, 1).T if kind == "undirected" else S)
    return result


@cache
def collected(kind: str) -> dict[str, Callable[..., Any]]:
    """All independent implementations of one kind, "TORCH", "JAX" or "PYG", by catalogue name."""
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(HERE.glob("peers_*.py")):
        found.update(getattr(importlib.import_module(path.stem), kind, {}))
    return found


def configurations(name: str) -> Iterator[tuple[str, ev.Filter]]:
    """Every example on both graphs, each under a name of its own."""
    for kind, graph in graphs().items():
        for number, filt in enumerate(ev.catalogue[name].examples(graph, np.random.default_rng(0))):
            yield f"{name} {number}, {kind}", filt


def draw(label: str, filt: ev.Filter, seed: int) -> tuple[dict[str, Array], Array, Array]:
    """Parameters, signal and cotangent, all standard normal; every label and seed has numbers of its own."""
    rng = np.random.default_rng([zlib.crc32(label.encode()), seed])
    params = {key: rng.standard_normal(shape) for key, shape in filt.parameter_shapes().items()}
    return params, rng.standard_normal((SAMPLES, *filt.in_shape)), rng.standard_normal((SAMPLES, *filt.out_shape))


def tolerance(filt: ev.Filter) -> float:
    """In units of eps; the longest sum of any filter here is a gradient's, over samples and nodes."""
    return measure.tolerance(SAMPLES * filt.graph.n_nodes)


class Comparison:
    """One filter against its independent implementations at many draws, all arrays with a leading axis for the seed."""

    def __init__(self, label: str, filt: ev.Filter, seeds: int, **peer_options: Any) -> None:
        self.filt, self.options = filt, peer_options
        self.draws = [draw(label, filt, seed) for seed in range(seeds)]
        params, x, grad_y = zip(*self.draws, strict=True)
        function = collected("JAX")[filt.name]
        self.jax, self.terms = peers.jax_terms(
            lambda p, signal: function(filt, p, signal), _stacked(params), np.stack(x), np.stack(grad_y)
        )
        self.ours = {}
        for backend in ev.kernels.BACKENDS:
            with ev.use_backend(backend):
                self.ours[backend] = _stacked([parity.evref_gradients(filt, *d) for d in self.draws])

    def theirs(self, kind: str) -> measure.Results | None:
        """By "TORCH", "JAX" or "PYG"; None where there is none."""
        peer = collected(kind).get(self.filt.name)
        if kind == "JAX" or peer is None:
            return None if peer is None else self.jax
        if kind == "PYG":
            try:
                return _stacked([peer(self.filt, *d, **self.options) for d in self.draws])
            except NotImplementedError:
                return None
        return _stacked([peers.torch_gradients(lambda p, x: peer(self.filt, p, x), *d) for d in self.draws])

    def error(self, kind: str) -> float | None:
        """Worst over seeds, arrays and both backends, in units of eps."""
        theirs = self.theirs(kind)
        if theirs is None:
            return None
        return max(max(measure.errors(ours, theirs, self.terms).values()) for ours in self.ours.values())

    def seen(self) -> tuple[int, int]:
        """How many entries that are not zero, and in how many of them `FAULT` of the entry exceeds the tolerance."""
        return measure.seen(self.jax, self.terms, tolerance(self.filt), FAULT)


def _stacked(results: Sequence[measure.Results]) -> measure.Results:
    return {name: np.stack([result[name] for result in results]) for name in results[0]}


def peer_row(name: str, seeds: int) -> dict[str, float | None]:
    """Worst error by kind of peer over configurations and seeds, None where there is none, and what is seen."""
    worst: dict[str, float | None] = dict.fromkeys(KINDS)
    entries = noticed = 0
    for label, filt in configurations(name):
        comparison = Comparison(label, filt, seeds)
        for kind in KINDS:
            error = comparison.error(kind)
            if error is not None:
                worst[kind] = max(worst[kind] or 0.0, error)
        some, of_them = comparison.seen()
        entries, noticed = entries + some, noticed + of_them
    return {**worst, "sees": noticed / entries}


def check_error(check: Callable[..., Any], name: str, seeds: int) -> float:
    errors = []
    for label, filt in configurations(name):
        for seed in range(seeds):
            params, x, _ = draw(label, filt, seed)
            errors.append(check(filt, params, x[:2]).worst.error)
    return max(errors)


def embedding_row(name: str, seeds: int) -> dict[str, Any]:
    """Error of the map into the edge-variant recursion, in how many draws it exists, what it is, or what failed."""
    errors = []
    kinds: Counter[str] = Counter()
    draws = 0
    for label, filt in configurations(name):
        for seed in range(seeds):
            draws += 1
            params, x, _ = draw(label, filt, seed)
            fixed = () if filt.linear else (x[0],)  # weights made of the signal: a filter at each signal
            try:
                embedded, embedded_params = filt.to_edge_variant(params, *fixed)
            except ev.NotRepresentable as error:
                what = f"not representable: {error}"
            else:
                H, theirs = filt.matrix(params, *fixed), embedded.matrix(embedded_params)
                errors.append(float(np.abs(theirs - H).max() / np.abs(H).max()))
                terms = getattr(embedded, "terms", 1)
                many = "one recursion" if terms == 1 else f"sum of {terms} recursions"
                what = f"{many} of order {embedded.order}{' at a fixed signal' if fixed else ''}"
            if label.startswith(f"{name} 0,"):
                kinds[what] += 1
    return {
        "embedding": f"{max(errors):.0e}" if errors else None,
        "embedded": f"{len(errors)} of {draws}",
        "as an edge-variant filter": "; ".join(kinds),
    }


CONDITIONS = {i.small: i.condition for i in lattice if i.large in ("edge_variant", "parallel_edge_variant")} | {
    "attention": "the signal is fixed"
}


def condition(name: str) -> str:
    """Under which the filter is edge-variant: its own arrow of the lattice, or those it shares with polynomials."""
    via = next((i for i in lattice if i.small == name and i.large == "polynomial"), None)
    return CONDITIONS.get(name) or (f"as a polynomial: {via.condition}" if via else "it is one")


def rows(seeds: int, checked: int) -> Iterator[dict[str, Any]]:
    for name in ev.catalogue:
        peer = peer_row(name, seeds)
        yield {
            "filter": name,
            "configurations": sum(1 for _ in configurations(name)) // len(graphs()),
            "torch, eps": peer["TORCH"],
            "JAX, eps": peer["JAX"],
            "PyG, eps": peer["PYG"],
            "sees 1e-6": f"{100 * peer['sees']:.2f}%",
            "dot test": f"{check_error(gradcheck.dot_test, name, checked):.0e}",
            "complex step": f"{check_error(gradcheck.complex_step, name, checked):.0e}",
            **embedding_row(name, checked),
            "condition": condition(name),
        }


def table(seeds: int, checked: int) -> str:
    lines: list[str] = []
    for row in rows(seeds, checked):
        if not lines:
            lines = ["| " + " | ".join(row) + " |", "|" + " --- |" * len(row)]
        cells = ["" if v is None else f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def page(rows_text: str) -> str:
    """The text of validation/family.md around its table."""
    text = __doc__.split(chr(10) * 2, 2)[2].format(
        seeds=SEEDS, checked=CHECKED_SEEDS, tolerance=measure.tolerance(SAMPLES * 8)
    )
    made_with = parity.versions("torch_geometric")
    header = f"# The family\n\nWritten by `python validation/family.py --write` with {made_with}.\n"
    return f"{header}\n{text}\n{rows_text}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write validation/family.md")
    arguments = parser.parse_args()
    peers.enable_jax_float64()
    text = table(SEEDS, CHECKED_SEEDS)
    if arguments.write:
        (HERE / "family.md").write_text(page(text), encoding="utf-8")
