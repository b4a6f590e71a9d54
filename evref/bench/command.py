"""`evref bench`: the arguments, and what becomes of them."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from .. import files
from ..arguments import add_json, as_new_file
from ..checks import did_you_mean
from . import cases, machine, report, run

DESCRIPTION = """\
    Time a forward and a backward pass, and a step of training, against NumPy, SciPy, torch, JAX and PyTorch
    Geometric (those that are installed), check every answer first, and hold the figures against the targets.

    --growth, --guard and --startup are other questions: how do time and memory grow with the size, has anything
    become slower against the NumPy kernels than it was, how long does the first call take."""
EPILOG = """\
    examples:
      evref bench --quick
      evref bench --cases small,large --dtypes float32 --peers numpy,torch
      evref bench --quick --json > figures.json
      evref bench --markdown speed.md --plot roofline.png
      evref bench --growth --plot growth.png
      evref bench --guard"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    groups = ", ".join(dict.fromkeys(case.group for case in cases.CASES))
    command.add_argument("--cases", metavar="NAMES", help=f"comma-separated groups ({groups}) or cases")
    command.add_argument("--dtypes", metavar="NAMES", help="float32,float64 (default both)")
    command.add_argument("--peers", metavar="NAMES", help=f"some of {','.join(run.PEERS)} (default: those installed)")
    command.add_argument(
        "--quick", action="store_true", help="a few cases in float32 on all threads, no compilers, in under a minute"
    )
    command.add_argument("--seconds", type=float, metavar="S", help="of timing for each line (default 12; quick 1.5)")
    add_json(command, "every figure, with versions and machine, on standard output; the table to standard error")
    command.add_argument("--markdown", metavar="FILE", type=Path, help="the table as Markdown")
    command.add_argument("--plot", metavar="FILE", type=Path, help="a roofline; with --growth the growth")
    other = command.add_mutually_exclusive_group()
    other.add_argument("--growth", action="store_true", help="time and peak memory against nnz, K, F·G and B")
    other.add_argument("--guard", action="store_true", help="exit code 1 if a kernel lost speed against NumPy's")
    other.add_argument("--startup", action="store_true", help="import, first call with a cold and a warm cache")
    command.add_argument("--update", action="store_true", help="with --guard: write the ratios it will expect")
    command.add_argument("--expected", metavar="FILE", type=Path, help="with --guard: where they are kept")
    command.set_defaults(run=main)


def main(arguments: argparse.Namespace) -> int:
    if (arguments.update or arguments.expected) and not arguments.guard:
        raise ValueError("--update and --expected belong to --guard")
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise ValueError(f"--seconds is {arguments.seconds}; expected a positive number")
    require_outputs(arguments)
    if arguments.guard:
        from . import guard

        if arguments.json:
            raise ValueError("--json does not go with --guard, whose ratios are in a file of their own (--expected)")
        return guard.main(arguments)
    with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        code, results = _measured(arguments)
    if arguments.json:
        print(json.dumps(results, indent=1))
    return code


def require_outputs(arguments: argparse.Namespace) -> None:
    """ValueError, before anything is measured, for a file that could not be written after it."""
    for option in ("markdown", "plot"):
        path = getattr(arguments, option)
        if path is not None:
            as_new_file(f"--{option}", path)
    if arguments.plot is not None:
        from ..plot.style import require_format

        require_format("--plot", arguments.plot)


def _measured(arguments: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Exit code and every figure."""
    if arguments.startup:
        from . import startup

        return startup.main(arguments)
    if arguments.growth:
        from . import growth

        return growth.main(arguments)
    return speed(arguments)


def listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def speed(arguments: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """The comparison; code 1 if a contender, ours among them, gave a wrong answer. A missed target is not an error."""
    quick = arguments.quick
    chosen = cases.select(listed(arguments.cases)) if arguments.cases else cases.CASES
    if quick and not arguments.cases:
        chosen = cases.select(list(cases.QUICK))
    dtypes = listed(arguments.dtypes or ("float32" if quick else "float32,float64"))
    if unknown := set(dtypes) - {"float32", "float64"}:
        hint = did_you_mean(min(unknown), ("float32", "float64"))
        raise ValueError(f"--dtypes has {', '.join(sorted(unknown))}; expected float32 or float64{hint}")
    default = [name for name in run.PEERS if not (quick and name in ("compile", "jax"))]  # they compile for a minute
    peers = run.installed(listed(arguments.peers) if arguments.peers else default)
    threads = sorted({machine.n_cores()} if quick else {1, machine.n_cores()})
    seconds = arguments.seconds or (1.5 if quick else 12.0)
    results: dict[str, Any] = {"about": machine.about(), "lines": []}
    print(report.about_text(results["about"]))
    code = 0
    try:
        for line in run.run(chosen, dtypes, peers, seconds, 2 if quick else 3, threads):
            results["lines"].append(line)
            print(report.block(line), flush=True)
            code = 1 if line["wrong"] else code
    except KeyboardInterrupt:
        print("interrupted; this is what there is so far", file=sys.stderr)
        code = 130
    print(f"\n{report.closing(results['lines'])}")
    write(arguments, results)
    return code, results


def write(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    if arguments.markdown:
        files.write_text(arguments.markdown, report.markdown(results))
    if arguments.plot and results["lines"]:
        from .. import plot
        from ..plot.style import save

        figure: Any = plot.roofline(results).get_figure()
        save(figure, arguments.plot)
