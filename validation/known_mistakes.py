"""Every known mistake, made on purpose in a layer in PyTorch or JAX: does `evref.compare` name it?

    python validation/known_mistakes.py                        print the page
    python validation/known_mistakes.py --write                and write it to validation/known_mistakes.md
    python validation/known_mistakes.py --only taps --rounds 1 one mistake, on one graph

The broken layers are in broken_*.py. They do not use the mathematics of evref: they are the independent layers of
right_layers.py with one ingredient replaced. A round draws the graph, the parameters and the signals anew.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import jax
import parity
import torch
from broken_base import Broken

import evref as ev
from evref.verify.comparison import Comparison
from evref.verify.mistakes import KNOWN_MISTAKES

FILES = (
    "attention",
    "batches",
    "biases",
    "entries",
    "features",
    "generated",
    "gradients",
    "in_networks",
    "jax",
    "means",
    "networks",
    "normalised",
    "recursions",
    "shifts",
)
NAMES = tuple(mistake.name for mistake in KNOWN_MISTAKES)
FILTERS = (*ev.catalogue, "network")
ROUNDS = 3
SAMPLE_EVERY = 9
OTHERS = ("none", "ok", "not compared")  # verdicts that name no mistake


@dataclass(frozen=True)
class Outcome:
    """A broken layer in one round, and what `compare` said of it."""

    broken: Broken
    round: int
    report: Comparison
    seconds: float

    @property
    def named(self) -> tuple[str, ...]:
        """Names in the verdict, each once."""
        return tuple(dict.fromkeys(cause.name for cause in self.report.causes))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Names in the verdict, or the one of `OTHERS` that it is."""
        if self.report.ok:
            return ("ok",)
        return self.named or (("not compared",) if self.report.problem else ("none",))

    @property
    def alone(self) -> bool:
        return self.verdicts == (self.broken.mistake,)

    @property
    def right(self) -> bool:
        return self.broken.mistake in self.verdicts


@cache
def broken_layers() -> tuple[Broken, ...]:
    found: list[Broken] = []
    for name in FILES:
        found += importlib.import_module(f"broken_{name}").BROKEN
    return tuple(sorted(found, key=lambda broken: (NAMES.index(broken.mistake), broken.framework != "torch")))


def sample() -> list[Broken]:
    """The first example of every mistake in each framework, the last of every filter, and every ninth of the others."""
    first = {(broken.mistake, broken.framework): broken for broken in reversed(broken_layers())}
    last = {broken.filter: broken for broken in broken_layers() if broken.framework == "torch"}
    chosen = [*first.values(), *last.values(), *broken_layers()[::SAMPLE_EVERY]]
    return sorted({id(broken): broken for broken in chosen}.values(), key=broken_layers().index)


def run(broken: Broken, number: int) -> Outcome:
    torch.set_num_threads(1)
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")  # of repeated eigenvalues
        reference = broken.reference(number)
        layer = broken.build(reference)
        start = time.perf_counter()
        report = ev.compare(layer, reference, parameters=broken.parameters, seed=number)
    return Outcome(broken, number, report, time.perf_counter() - start)


# ---- the page --------------------------------------------------------------------------------------------------------
def headline(rounds: int) -> str:
    """What the page must say for the code that is there."""
    layers = broken_layers()
    of_jax = [broken for broken in layers if broken.framework == "jax"]
    return (
        f"{len(layers)} broken layers ({len(layers) - len(of_jax)} in PyTorch, {len(of_jax)} in JAX, of "
        f"{len({broken.mistake for broken in of_jax})} mistakes), each in {rounds} rounds"
    )


def matrix(outcomes: Sequence[Outcome]) -> str:
    """Rows: the mistake that was made; columns: the verdicts that came, each outcome shared by all that it names."""
    counts = Counter((o.broken.mistake, verdict) for o in outcomes for verdict in o.verdicts)
    columns = (*NAMES, *OTHERS)
    header = ["made", "runs", *(str(i + 1) for i in range(len(NAMES))), *OTHERS]
    rows = []
    for i, name in enumerate(NAMES):
        runs = sum(o.broken.mistake == name for o in outcomes)
        rows.append([f"{i + 1} {name}", str(runs), *(str(counts[name, c] or "·") for c in columns)])
    return parity._table(header, rows)


def by_filter(outcomes: Sequence[Outcome]) -> str:
    """Broken layers for each mistake and filter; in brackets those that were not named in every round."""
    rows = []
    for name in NAMES:
        cells = []
        for filt in FILTERS:
            here = [o for o in outcomes if (o.broken.mistake, o.broken.filter) == (name, filt)]
            wrong = {o.broken.label for o in here if not o.right}
            count = len({o.broken.label for o in here})
            cells.append((f"{count}" + (f" ({len(wrong)})" if wrong else "")) if count else "")
        rows.append([name, *cells])
    return parity._table(["", *(filt.replace("_", " ") for filt in FILTERS)], rows)


def examples(outcomes: Sequence[Outcome]) -> str:
    """Every broken layer with the first sentence of its verdict in the first round."""
    parts = []
    for name in NAMES:
        rows = []
        for outcome in outcomes:
            if outcome.broken.mistake == name and outcome.round == 0:
                says = outcome.report.causes[0].says if outcome.report.causes else outcome.report.diagnosis
                kind = "" if outcome.broken.framework == "torch" else " (JAX)"
                more = f" (and {len(outcome.report.causes) - 1} more)" if len(outcome.report.causes) > 1 else ""
                rows.append([outcome.broken.filter, escaped(outcome.broken.variant) + kind, escaped(says) + more])
        table = parity._table(["filter", "what is wrong in the layer", "what `compare` says"], rows)
        parts.append(f"<details><summary>{name}: {len(rows)} layers</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """For a cell of a table."""
    return text.replace("|", "\\|")


def _listed(outcomes: Iterable[Outcome]) -> str:
    lines = [f"- {o.broken.label}, round {o.round}: {', '.join(o.verdicts)}; {o.report.diagnosis}" for o in outcomes]
    return "\n".join(lines) if lines else "None."


def _times(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s in the median and {max(seconds):.1f} s at most"


def page(outcomes: Sequence[Outcome], rounds: int) -> str:
    n = len(outcomes)
    right, alone = sum(o.right for o in outcomes), sum(o.alone for o in outcomes)
    ties = [o for o in outcomes if o.right and not o.alone]
    pairs = {(o.broken.mistake, o.broken.filter) for o in outcomes}
    of_torch, of_jax = (_times([o.seconds for o in outcomes if o.broken.framework == f]) for f in ("torch", "jax"))
    in_brackets = "; in brackets those that were not named in every round" if right < n else ""
    return f"""# Known mistakes: does `evref.compare` name them?

Written by `python validation/known_mistakes.py --write` with {parity.versions()}: {headline(rounds)}.

**{right:,} of {n:,} runs name the mistake that was made**; {alone:,} name it and no other, {len(ties)} name it beside
another that gives the same numbers (listed below), {n - right} do not name it. {len(pairs)} pairs of a mistake and a
filter (or a network) are there: a test holds that every pair for which `evref.verify.mistakes` has a model has a broken
layer. List and layers grew together, so this says that the list does what it says, not how many of the mistakes that
people make are on it.

The broken layers (`broken_*.py`) are layers of our own in PyTorch and JAX that do not use the mathematics of evref,
with one ingredient replaced. A round draws graph, parameters and signals anew; the graphs have weights that are neither
0 nor 1. A mistake is named only if it gives every number of the output and of all gradients. What they look like:
[the page on checking a layer](../docs/check_my_layer.md#known-mistakes). Whether right layers are left in peace:
[right_cases.md](right_cases.md).

## Confusion matrix

Rows: the mistake that was made. Columns: the verdict, with the numbers of the rows; *none*: different, but no known
mistake explains it; *ok*: not seen at all; *not compared*: the layer could not be compared and no mistake was named.
A run whose verdict names two mistakes counts in both columns.

{matrix(outcomes)}

## By filter

Broken layers for each mistake and filter{in_brackets}.

{by_filter(outcomes)}

## Not named

{_listed(o for o in outcomes if not o.right)}

## Named beside another

Two mistakes that give the same numbers are one verdict that names both.

{_listed(ties)}

## Time

From the call to the diagnosis, shrinking included: {of_torch} in PyTorch, {of_jax} in JAX, which compiles for
every shape. On a machine with other work to do.

## Every broken layer

With what `compare` says of it in the first round.

{examples(outcomes)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write validation/known_mistakes.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"graphs for each layer (default: {ROUNDS})")
    parser.add_argument("--only", choices=NAMES, help="one mistake")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write takes all mistakes; --only one")
    outcomes = []
    for broken in broken_layers():
        for number in range(arguments.rounds if arguments.only in (None, broken.mistake) else 0):
            outcomes.append(run(broken, number))
            if not outcomes[-1].alone:
                print(broken.label, f"round {number}", outcomes[-1].report, sep="\n", flush=True)
        if broken.framework == "jax":
            jax.clear_caches()  # no two layers share a program
    if arguments.only:
        print(matrix(outcomes))
        return
    text = page(outcomes, arguments.rounds)
    if arguments.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
