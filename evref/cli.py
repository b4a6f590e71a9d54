"""The command `evref`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__, kernels, reproduce
from .experiments.authorship.prepare import add_command as add_authorship
from .filters import catalogue
from .graph import generators
from .learn import layer_catalogue
from .verify import claims, gradcheck
from .verify.report import Report

CHECKS: dict[str, Callable[..., Report]] = {
    "dot": gradcheck.dot_test,
    "complex": gradcheck.complex_step,
    "central": gradcheck.central_difference,
    "second": gradcheck.second_order,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 if a claim or a gradient fails, 2 for a call that makes no sense."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser(argv).parse_args(argv)
    try:
        return arguments.run(arguments)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        if os.environ.get("EVREF_DEBUG"):
            raise
        print(f"evref {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, head for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evref",
        description="Edge-variant graph filters and the graph neural networks they generalise: is it right?",
        epilog="""\
            first steps:
              evref verify                     every claim, one line each; exit code 1 if one fails
              evref verify --only R1,R3        two readings of the paper
              evref gradcheck edge_variant     the gradients of one filter, parameter by parameter
              evref gradcheck my_module:layer  the gradients of your own object
              evref reproduce source-localization --quick    the paper's table I, in small
              evref bench --quick              how fast, and against what, in under a minute

            Set EVREF_BACKEND=numpy to run the reference kernels instead of the compiled ones.""",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"evref {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_verify(commands)
    _add_gradcheck(commands)
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

            R1, R2, ... are places where the paper needs a reading (docs/readings.md). A claim that "does not hold as
            printed" is confirmed when the machine finds the counterexample. The other rows are evref's own promises:
            gradients (dot test, complex step, differences), equality of both sets of kernels, of 1 and n threads.""",
        epilog="""\
            examples:
              evref verify
              evref verify --only R1,R12
              evref verify --json > claims.json
              evref verify --plot pictures""",
        formatter_class=_Help,
    )
    command.add_argument("--only", metavar="NAMES", help="comma-separated claims, e.g. R1,R3,dot-test")
    command.add_argument("--json", action="store_true", help="machine-readable results on standard output")
    command.add_argument(
        "--plot", metavar="DIR", help="also draw the lattice of inclusions, null-space dimensions and responses there"
    )
    command.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    names = [name.strip() for name in arguments.only.split(",") if name.strip()] if arguments.only else None
    results = []
    if not arguments.json:
        print(f"evref {__version__}, {kernels.backend()} kernels\n")
        print(_row("", "claim", "where", "verdict"))
    for result in claims.run(names):
        results.append(result)
        if not arguments.json:
            _print_result(result)
    failed = [result.claim.name for result in results if not result.passed]
    if arguments.plot:
        for path in _draw(Path(arguments.plot)):
            print(f"drawn: {path}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"evref": __version__, "ok": not failed, "claims": [r.to_dict() for r in results]}, indent=2))
    else:
        seconds = sum(result.seconds for result in results)
        print(f"\n{len(results) - len(failed)} of {len(results)} confirmed in {seconds:.1f} s", end="")
        print(f"; FAILED: {', '.join(failed)}" if failed else "")
    return 1 if failed else 0


def _draw(folder: Path) -> Iterator[Path]:
    """The pictures that belong to the claims."""
    from . import plot
    from .filters import Chebyshev, Polynomial, SpectralGCNN
    from .graph.fourier import fourier_basis
    from .verify.paper.spectral import nullspace_dimensions

    graph = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)[0].with_shift("scaled_laplacian")
    eigenvalues = fourier_basis(graph).eigenvalues
    ax: Any = None
    for filt in (Polynomial(graph, 4), Chebyshev(graph, 4), SpectralGCNN(graph, 5)):
        ax = plot.transfer(eigenvalues, filt.response(filt.init(rng=1))[0, 0], ax, label=filt.name)
    pictures = {
        "lattice.png": plot.lattice(),
        "nullspace.png": plot.nullspace_dimensions(nullspace_dimensions()),
        "responses.png": ax,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, axes in pictures.items():
        axes.figure.savefig(folder / name, dpi=120)
        yield folder / name


def _row(mark: str, name: str, where: str, verdict: str) -> str:
    return f"{mark:4} {name:18} {where:40} {verdict}"


def _print_result(result: claims.Result) -> None:
    claim, outcome = result.claim, result.outcome
    width = max(60, min(shutil.get_terminal_size((120, 24)).columns, 140))
    print(_row("ok" if result.passed else "FAIL", claim.name, claim.where, claim.verdict))
    for line in (claim.statement, outcome.figure):
        print(textwrap.fill(line, width, initial_indent=" " * 24, subsequent_indent=" " * 24))
    if not result.passed and outcome.counterexample:
        print(textwrap.indent(outcome.counterexample, " " * 24))
    sys.stdout.flush()


# ---- gradcheck ------------------------------------------------------------------------------------------------------
def _add_gradcheck(commands: Any) -> None:
    command = commands.add_parser(
        "gradcheck",
        help="check the gradients of filters, layers, or of your own object",
        description="""\
            Check gradients, parameter by parameter; a wrong one is named with its index and both values.

            TARGET is a name from the catalogue (none: all of them) or MODULE:OBJECT, importable from here, where OBJECT
            has forward(params, x), backward(params, tape, grad_y) and, for the dot test, jvp(params, x, dparams, dx);
            it may also be a class with example(graph, rng), or a function of a graph that returns such an object.""",
        epilog="""\
            examples:
              evref gradcheck
              evref gradcheck edge_variant relu --nodes 8 --directed
              evref gradcheck my_filters:MyFilter --check dot,complex""",
        formatter_class=_Help,
    )
    command.add_argument("target", nargs="*", metavar="TARGET", help="name or MODULE:OBJECT (default: the catalogue)")
    command.add_argument("--nodes", type=int, default=6, help="size of the random graph (default 6)")
    command.add_argument("--directed", action="store_true", help="a directed graph (default: undirected)")
    command.add_argument("--seed", type=int, default=0, help="of graph, parameters and signal (default 0)")
    command.add_argument(
        "--check", metavar="NAMES", default=",".join(CHECKS), help=f"some of {','.join(CHECKS)} (default all)"
    )
    command.add_argument("--json", action="store_true", help="machine-readable reports on standard output")
    command.set_defaults(run=_gradcheck)


def _gradcheck(arguments: argparse.Namespace) -> int:
    names = [name.strip() for name in arguments.check.split(",")]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ValueError(f"--check has {', '.join(unknown)}; expected some of {', '.join(CHECKS)}")
    graph = generators.erdos_renyi(arguments.nodes, 0.5, rng=arguments.seed, directed=arguments.directed)
    reports = []
    for target in arguments.target or [*catalogue, *layer_catalogue]:
        module = _module(target, graph, arguments.seed)
        rng = np.random.default_rng(arguments.seed)
        params = module.init(rng)
        shape = getattr(module, "in_shape", None) or (2, arguments.nodes)
        x = rng.standard_normal((2, *shape))
        for name in names:
            report = CHECKS[name](module, params, x)
            reports.append(report)
            if not arguments.json:
                _print_report(target, report)
    if arguments.json:
        print(json.dumps([report.to_dict() for report in reports], indent=2))
    failed = sum(not report.ok for report in reports)
    if not arguments.json:
        print(f"{len(reports) - failed} of {len(reports)} checks passed")
    return 1 if failed else 0


def _module(target: str, graph: Any, seed: int) -> Any:
    """What TARGET names, built on `graph` where it needs one."""
    known = {**catalogue, **layer_catalogue}
    if target in known:
        return known[target].example(graph, np.random.default_rng(seed))  # type: ignore[attr-defined]
    name, separator, attribute = target.partition(":")
    if not separator:
        raise ValueError(f"TARGET is {target!r}; expected MODULE:OBJECT or one of {', '.join(known)}")
    sys.path.insert(0, os.getcwd())
    found = importlib.import_module(name)
    for part in attribute.split("."):
        found = getattr(found, part)
    if hasattr(found, "example"):
        return found.example(graph, np.random.default_rng(seed))
    return found if hasattr(found, "forward") and not isinstance(found, type) else found(graph)  # type: ignore[operator]


def _print_report(target: str, report: Report) -> None:
    if report.ok:
        worst = report.worst
        print(
            f"ok   {target:16} {report.check:20} worst {worst.error:.1e} in {worst.block}"
            f" (tolerance {worst.tolerance:.0e})"
        )
    else:
        print(f"FAIL {target:16} {report}")


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
