"""The command `evref`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__, kernels, reproduce, terminal
from .arguments import Parser, add_json, as_folder
from .experiments.authorship.prepare import add_command as add_authorship
from .graph import generators
from .verify import claims
from .verify import command as gradcheck


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 if a claim or a gradient fails, 2 for a call that makes no sense.

    What the system refuses (a file that cannot be written, a full disk, too little memory) is a 2 as well.
    """
    argv = sys.argv[1:] if argv is None else argv
    terminal.adapt(sys.stdout, sys.stderr)
    arguments = _parser(argv).parse_args(argv)
    try:
        code = arguments.run(arguments)
        print(end="", flush=True)  # a full disk shows here, not when the interpreter ends
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, head for instance, has seen enough
        terminal.discard()
        return 0
    except (ValueError, TypeError, ImportError, AttributeError, OSError, MemoryError) as error:
        if os.environ.get("EVREF_DEBUG"):
            raise
        with suppress(OSError):
            print(f"evref {arguments.command}: {_one_line(error)}", file=sys.stderr)
        try:
            print(end="", flush=True)
        except OSError:  # the error itself: standard output is a file on a full disk
            terminal.discard()
        return 2


def _one_line(error: Exception) -> str:
    """The message; of an error of the system the file and what is wrong with it, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="evref",
        description="Edge-variant graph filters and the graph neural networks they generalise: is it right?",
        epilog="""\
            first steps:
              evref verify                     every claim, one line each; exit code 1 if one fails
              evref verify --only R1,R3        two readings of the paper
              evref gradcheck edge_variant     the gradients of one filter, parameter by parameter
              evref gradcheck my_module:layer  the gradients of your own object
              evref check my.py::build --as chebyshev    is your layer that filter, and if not, why?
              evref reproduce source-localization --quick    the paper's table I, in small
              evref bench --quick              how fast, and against what, in under a minute

            Set EVREF_BACKEND=numpy to run the reference kernels instead of the compiled ones.""",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"evref {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_verify(commands)
    _add_gradcheck(commands)
    _add_check(commands)
    reproduce.add_command(commands, _Help, argv)
    add_authorship(commands, _Help)
    _add_bench(commands)
    return parser


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, drops the indentation of the source."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        first, *rest = text.splitlines()
        return "\n".join([first.strip(), *textwrap.dedent("\n".join(rest)).splitlines()])


# ---- verify ---------------------------------------------------------------------------------------------------------
def _add_verify(commands: Any) -> None:
    command = commands.add_parser(
        "verify",
        help="run the paper's claims and evref's own, print a table",
        description="""\
            Run every claim and print: which claim, where the paper makes it, the verdict, the figure behind it.

            R1, R2, ... are places where the paper needs a reading (docs/readings.md). "confirmed: fails as printed"
            says that the machine found the counterexample to a printed statement. The other rows are evref's own
            promises: gradients (dot test, complex step, differences), equality of both sets of kernels, of 1 and n
            threads.""",
        epilog="""\
            examples:
              evref verify
              evref verify --only R1,R12
              evref verify --json > claims.json
              evref verify --plot pictures""",
        formatter_class=_Help,
    )
    command.add_argument("--only", metavar="NAMES", help="comma-separated claims, e.g. R1,R3,dot-test")
    add_json(command, "machine-readable results on standard output")
    command.add_argument(
        "--plot", metavar="DIR", help="also draw the lattice of inclusions, null-space dimensions and responses there"
    )
    command.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    names = None if arguments.only is None else [name.strip() for name in arguments.only.split(",") if name.strip()]
    if names == []:
        raise ValueError(f"--only is {arguments.only!r}; expected names of claims, such as R1,R3")
    folder = as_folder("--plot", arguments.plot) if arguments.plot is not None else None
    results = []
    if not arguments.json:
        print(f"evref {__version__}, {kernels.backend()} kernels\n")
        print(_row("claim", "where", "verdict"))
    for result in claims.run(names):
        results.append(result)
        if not arguments.json:
            _print_result(result)
    failed = [result.claim.name for result in results if not result.passed]
    if folder is not None:
        for path in _draw(folder):
            print(f"drawn: {path}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"evref": __version__, "ok": not failed, "claims": [r.to_dict() for r in results]}, indent=2))
    else:
        seconds = sum(result.seconds for result in results)
        print(f"\n{len(results) - len(failed)} of {len(results)} confirmed in {seconds:.1f} s", end="")
        print(f"; NOT CONFIRMED: {', '.join(failed)}" if failed else "")
    return 1 if failed else 0


def _draw(folder: Path) -> Iterator[Path]:
    """The pictures that belong to the claims."""
    from . import plot
    from .filters import Chebyshev, Polynomial, SpectralGCNN
    from .graph.fourier import fourier_basis
    from .plot.style import save
    from .verify.paper.spectral import nullspace_dimensions

    graph = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)[0].with_shift("scaled_laplacian")
    eigenvalues = fourier_basis(graph).eigenvalues
    grid = np.linspace(eigenvalues.min(), eigenvalues.max(), 400)
    ax: Any = None
    for filt in (Polynomial(graph, 4), Chebyshev(graph, 4), SpectralGCNN(graph, 5)):
        params = filt.init(rng=1)
        curve = (grid, filt.response(params, grid)[0, 0])
        ax = plot.transfer(eigenvalues, filt.response(params)[0, 0], ax, label=filt.name, curve=curve, stems=False)
    pictures = {
        "lattice.png": plot.lattice(),
        "nullspace.png": plot.nullspace_dimensions(nullspace_dimensions()),
        "responses.png": ax,
    }
    for name, axes in pictures.items():
        save(axes.figure, folder / name)
        yield folder / name


def _row(name: str, where: str, verdict: str) -> str:
    return f"{name:18} {where:40} {verdict}"


def _print_result(result: claims.Result) -> None:
    claim, outcome = result.claim, result.outcome
    width = max(60, min(shutil.get_terminal_size((120, 24)).columns, 140))
    print(_row(claim.name, claim.where, result.summary))
    margin = " " * 19
    for line in (claim.statement, outcome.figure):
        print(textwrap.fill(line, width, initial_indent=margin, subsequent_indent=margin))
    if not result.passed and outcome.counterexample:
        print(textwrap.indent(outcome.counterexample, margin))
    print(end="", flush=True)


# ---- gradcheck ------------------------------------------------------------------------------------------------------
def _add_gradcheck(commands: Any) -> None:
    gradcheck.add_arguments(
        commands.add_parser(
            "gradcheck",
            help="check the gradients of filters, layers, or of your own object",
            description=gradcheck.DESCRIPTION,
            epilog=gradcheck.EPILOG,
            formatter_class=_Help,
        )
    )


# ---- check ----------------------------------------------------------------------------------------------------------
def _add_check(commands: Any) -> None:
    from . import check_command as check

    check.add_arguments(
        commands.add_parser(
            "check",
            help="compare a layer of yours (torch, JAX, NumPy) with the filter that it should be",
            description=check.DESCRIPTION,
            epilog=check.EPILOG,
            formatter_class=_Help,
        )
    )


# ---- bench ----------------------------------------------------------------------------------------------------------
def _add_bench(commands: Any) -> None:
    from .bench import command as bench

    bench.add_arguments(
        commands.add_parser(
            "bench",
            help="time filters and training against other libraries, hold the figures against targets",
            description=bench.DESCRIPTION,
            epilog=bench.EPILOG,
            formatter_class=_Help,
        )
    )
