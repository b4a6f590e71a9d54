"""`evref gradcheck`: every configuration of a target on an undirected and on a directed graph, through all checks."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import checks, kernels
from ..contract import Module
from .examples import KINDS, probe_graph
from .gradcheck import CHECKS, why_not
from .jacobian import NotAnalytic
from .loading import TargetError, one_line
from .losses import LossAtTarget
from .problem import Problem, split_point
from .report import GradientError, Report
from .targets import Target, known_names, resolve

SHORT = {check.__name__: name for name, check in CHECKS.items()}  # as --check takes them
DESCRIPTION = """\
    Check gradients, parameter by parameter; a wrong one is named with its index and both values.

    TARGET is a name from the catalogue (none: all of them), MODULE:OBJECT, importable from here, or FILE.py::OBJECT,
    where OBJECT has init(rng), forward(params, x), backward(params, tape, grad_y) and, for the dot test,
    jvp(params, x, dparams, dx); it may also be a class with examples(graph, rng), which yields an instance of every
    configuration to check, or a function of a graph that returns such an object. in_shape, where it has one, is the
    shape of one sample.
    autodiff = True says that jvp and backward come from one automatic differentiation (torch, JAX): the dot test is
    then a tautology and is left out unless asked for by name; the differences are what counts.

    Every configuration is checked on an undirected and on a directed graph. A line that says ok gives the worst
    relative error of each check, one that says FAIL the report; the last lines name every failure again. Exit code 1:
    a gradient is wrong; 2: there is nothing to check. EVREF_DEBUG=1 shows tracebacks."""
EPILOG = """\
    checks:
      complex   against Im f(v + ih) / h      central   against differences
      second    a symmetric Hessian           dot       jvp and backward are adjoint
      training  what training reads is what backward returns
      tape      x, y and parameters may change between the passes, and are not changed by them

    examples:
      evref gradcheck
      evref gradcheck edge_variant relu --nodes 8 --directed
      evref gradcheck my_filters:MyFilter --check complex,tape
      evref gradcheck --json > reports.json"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("target", nargs="*", metavar="TARGET", help="name or MODULE:OBJECT (default: the catalogue)")
    command.add_argument("--nodes", type=int, default=6, help="size of the random graphs (default 6)")
    kind = command.add_mutually_exclusive_group()
    for name in KINDS:
        kind.add_argument(
            f"--{name}", dest="kinds", action="store_const", const=(name,), help=f"only the {name} graph (default both)"
        )
    command.add_argument("--seed", type=int, default=0, help="of graph, parameters and signal (default 0)")
    command.add_argument("--check", metavar="NAMES", help=f"some of {','.join(CHECKS)} (default all)")
    # not add_json, whose old way with a file would take the TARGET behind it; resolve() knows about .json
    command.add_argument("--json", action="store_true", help="machine-readable reports on standard output")
    command.set_defaults(run=main)


@dataclass
class Case:
    """One configuration on one graph, and what the checks said."""

    target: str
    configuration: str
    graph: str  # "" for an object that was not built on one
    reports: list[Report] = field(default_factory=list)
    wrong: str = ""  # a gradient that could not even be compared
    not_run: dict[str, str] = field(default_factory=dict)  # a check, or the graph, and why

    @property
    def ok(self) -> bool:
        return not self.wrong and all(self.reports)

    @property
    def title(self) -> str:
        where = ", ".join(part for part in (self.configuration, self.graph) if part)
        return f"{self.target} ({where})" if where else self.target

    @property
    def failed(self) -> list[str]:
        """The checks that failed, by their short names."""
        return [SHORT[report.check] for report in self.reports if not report] + ["shapes"] * bool(self.wrong)

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        head = {"target": self.target, "configuration": self.configuration, "graph": self.graph}
        yield from ({**head, **report.to_dict()} for report in self.reports)
        if self.wrong:
            yield {**head, "check": "shapes", "ok": False, "reason": self.wrong}
        yield from ({**head, "check": name, "ok": None, "reason": why} for name, why in self.not_run.items())

    def __str__(self) -> str:
        name = self.title
        lines = [f"FAIL {name}: {report}" for report in self.reports if not report]
        if self.wrong:
            lines.append(f"FAIL {name}: {self.wrong}")
        elif not lines and self.reports:
            worst = [f"{SHORT[report.check]} {report.worst.error:.0e}" for report in self.reports]
            lines.append(f"ok   {name}: {', '.join(worst)}")
        return "\n".join(lines + [f"--   {name}: {check} not run: {why}" for check, why in self.not_run.items()])


def main(arguments: argparse.Namespace) -> int:
    names = _check_names(arguments.check)
    nodes = checks.as_count("--nodes", arguments.nodes, 1)
    seed = checks.as_count("--seed", arguments.seed)
    targets = [resolve(name) for name in arguments.target or known_names()]
    kinds = arguments.kinds or KINDS
    start = time.perf_counter()
    cases = []
    for target in targets:
        for case in run(target, names, nodes, kinds, seed, chosen=arguments.check is not None):
            cases.append(case)
            if not arguments.json:
                print(case, flush=True)
    n_reports = sum(len(case.reports) + bool(case.wrong) for case in cases)
    failed = sum(bool(case.wrong) + sum(not report for report in case.reports) for case in cases)
    if arguments.json:
        print(json.dumps([row for case in cases for row in case.to_dicts()], indent=2))
    else:
        print(_summary(cases, n_reports, failed, f"{nodes} nodes, seed {seed}"))
        print(f"{kernels.backend()} kernels, {time.perf_counter() - start:.1f} s")
    if not n_reports:
        raise TargetError("nothing was checked")
    return 1 if failed else 0


def _summary(cases: list[Case], n_reports: int, failed: int, graphs: str) -> str:
    """What was checked, and on what; then every case that failed once more, for those above have scrolled away."""
    ran = [case for case in cases if case.reports or case.wrong]
    configurations = len({(case.target, case.configuration) for case in ran})
    kinds = [kind for kind in KINDS if any(kind == case.graph.split(",")[0] for case in ran)]
    on = f", on {' and '.join(kinds)} graphs of {graphs}" if kinds else ""
    lines = [
        f"{n_reports - failed} of {n_reports} checks passed: {_count(configurations, 'configuration')} of "
        f"{_count(len({case.target for case in ran}), 'target')}{on}"
    ]
    return "\n".join(lines + [f"failed: {case.title}: {', '.join(case.failed)}" for case in ran if not case.ok])


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _check_names(text: str | None) -> list[str]:
    names = list(CHECKS) if text is None else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CHECKS]
    if unknown or not names:
        raise ValueError(
            f"--check has {', '.join(unknown) or 'no name'}; expected some of {', '.join(CHECKS)}"
            f"{checks.did_you_mean(unknown[0], CHECKS) if unknown else ''}"
        )
    return names


def run(
    target: Target, names: list[str], nodes: int, kinds: tuple[str, ...], seed: int, chosen: bool = False
) -> Iterator[Case]:
    """Every configuration on every kind of graph; once where the graph plays no part. `chosen`: checks asked for by
    name must run, the others may be left out where they do not apply."""
    seen: set[str] = set()
    refused: BaseException | None = None
    for kind in kinds if target.on_graph else ("",):
        graph = probe_graph(nodes, kind, seed)
        try:
            modules = target.build(graph, seed)
        except TargetError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code does: to end with code 0 were to pass
            if refused is not None or len(kinds) == 1:  # no graph will do
                raise TargetError(f"{target.name}: building it on a graph raised {one_line(error)}") from error
            refused = error
            yield Case(target.name, "", kind, not_run={"every check": f"refused the graph: {one_line(error)}"})
            continue
        for configuration, module in modules.items():
            where = kind
            if isinstance(module, (Module, LossAtTarget)):
                if module.signature in seen:  # the graph plays no part in it
                    continue
                seen.add(module.signature)
                where = _graph_of(module, kind)
            yield _checked(Case(target.name, configuration, where), module, names, nodes, seed, chosen)


def _graph_of(module: Module | LossAtTarget, kind: str) -> str:
    """The kind of graph the module was checked on: an example may have changed the one it was given."""
    if module.graph is None:
        return ""
    return "directed, made symmetric" if kind == "directed" and module.graph.is_symmetric else kind


def _checked(case: Case, module: Any, names: list[str], nodes: int, seed: int, chosen: bool) -> Case:
    rng = np.random.default_rng(seed)
    hint = ""
    try:
        shape = getattr(module, "in_shape", None)
        if not shape:
            shape = (2, nodes)
            hint = f"; x had shape {(2, *shape)}: set in_shape"
        problem = Problem.of(module, module.init(rng), rng.standard_normal((2, *shape)), rng)
    except (Exception, SystemExit) as error:
        raise TargetError(f"{case.target}: the first forward pass raised {one_line(error)}{hint}") from error
    params, x = split_point(problem.point)
    for name in names:
        try:
            reason = None if chosen else why_not(CHECKS[name], module)
            if reason is not None:
                if reason:
                    case.not_run[name] = reason
                continue
            case.reports.append(CHECKS[name](module, params, x, rng=seed))
        except NotAnalytic as error:
            if chosen:
                raise TargetError(f"{case.target}: {error}") from error
            case.not_run[name] = str(error)
        except GradientError as error:  # a gradient that is missing, or has another shape
            case.wrong = str(error)
            break
        except (Exception, SystemExit) as error:
            raise TargetError(f"{case.target}: the {name} check raised {one_line(error)}") from error
    return case
