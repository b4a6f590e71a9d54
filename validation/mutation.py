"""Mutation testing of the mathematics: change one thing in the source, and see that a test notices.

    python validation/mutation.py --limit 40 --seed 1          a sample of 40
    python validation/mutation.py --files evref/learn/optim.py every mutant of one file
    python validation/mutation.py --list                       the mutants, without running anything

One place of one file is changed at a time: + for -, * for /, a dropped term, an integer off by one, another comparison,
a transpose left out, two indices swapped, a branch negated, a sum overwritten. The tests then run on a copy of the tree
in a temporary folder. A mutant that makes a test fail (or run for ever) is *killed*, and the report names the test; one
that survives is a hole in the tests, or changes nothing that can be observed.

The loops of the compiled kernels are plain functions: for their mutants numba's compiler is switched off, which tests
the same mathematics without paying for a compilation. `--compile` leaves it on.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    "evref/kernels/reference.py",
    *(f"evref/kernels/{name}.py" for name in ("rows", "loops", "steps", "packing")),
    "evref/kernels/learning_reference.py",
    "evref/kernels/learning_compiled.py",
    "evref/filters/edge_variant.py",
    *(f"evref/learn/{name}.py" for name in ("dense", "losses", "activations", "optim")),
]
TESTS = ["tests/filters", "tests/kernels", "tests/test_invariants.py", "tests/learn"]
# test_injected_faults looks for lines of the source and would see any change; test_settings is about processes
IGNORED = ["tests/kernels/test_injected_faults.py", "tests/kernels/test_settings.py"]
NOT_MATHEMATICS = {"compiled", "kernels_for", "plain_kernels", "examples", "check_target", "_checked", "__repr__"}


class Mutant(NamedTuple):
    file: str
    line: int
    what: str
    start: int  # bytes of the source that are replaced
    stop: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


# ---- what can be changed ---------------------------------------------------------------------------------------------
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip


def changed(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of the node with some of its fields replaced."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Every small change of this node itself; its children have their turn."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield changed(node, op=OPERATORS[type(node.op)]())
        if isinstance(node.op, (ast.Add, ast.Sub)):
            yield node.left
            yield node.right
        if isinstance(node.op, (ast.MatMult, ast.Pow, ast.Mod)):
            yield changed(node, left=node.right, right=node.left)
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in OPERATORS:
            yield changed(node, op=OPERATORS[type(node.op)]())
            yield ast.Assign([node.target], node.value, lineno=node.lineno)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in COMPARISONS.get(type(node.ops[0]), ()):
            yield changed(node, ops=[operator()])
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield changed(node, value=node.value + 1)
        yield ast.parse(f"{node.value - 1}", mode="eval").body
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        yield changed(node, value=2 * node.value if node.value else 1.0)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield changed(node, value=not node.value)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        for i in range(len(node.slice.elts) - 1):
            indices = list(node.slice.elts)
            indices[i : i + 2] = indices[i + 1], indices[i]
            yield changed(node, slice=changed(node.slice, elts=indices))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield changed(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.BoolOp):
        yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
        yield changed(node, args=[*node.args[:-1], ast.BinOp(node.args[-1], ast.Sub(), ast.Constant(1))])


def mathematics(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below, without annotations, decorators, error messages, guards and helpers."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "ctx"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.JoinedStr)):
                continue
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child.name in NOT_MATHEMATICS:
                continue
            if isinstance(child, ast.If) and any(isinstance(s, ast.Raise) for s in child.body):
                continue  # a guard: what it refuses is the business of other tests
            yield child
            yield from mathematics(child)


def mutants_of(file: str) -> list[Mutant]:
    """All mutants of one file, in the order of its lines."""
    source = (ROOT / file).read_text(encoding="utf-8")
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = {}
    for node in mathematics(ast.parse(source)):
        branch = isinstance(node, ast.If)
        new_nodes = [ast.UnaryOp(ast.Not(), node.test)] if branch else replacements(node)
        node = node.test if branch else node
        for new in new_nodes:
            start, stop = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            before, text = ast.unparse(node), ast.unparse(new)
            if before != text:
                spliced = text if isinstance(node, ast.stmt) else f"({text})"
                found[start, stop, text] = Mutant(file, node.lineno, f"{before}  ->  {text}", start, stop, spliced)
    return sorted(found.values())


# ---- running the tests -----------------------------------------------------------------------------------------------
class Sandbox:
    """A copy of the tree with a cache of compiled kernels of its own; one mutant at a time."""

    def __init__(self, folder: Path, tests: list[str], compile_loops: bool) -> None:
        self.tree, self.tests, self.compile_loops = folder / "tree", tests, compile_loops
        ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
        for name in ("evref", "tests"):
            shutil.copytree(ROOT / name, self.tree / name, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", self.tree)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",  # a stale .pyc would hide a mutant written within the same second
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "EVREF_NUM_THREADS": "2",
        }

    def run(self, plain: bool, file: str = "", timeout: float | None = None) -> tuple[str | None, float]:
        """The first test that fails (None: all pass) and the seconds it took.

        plain: numba's compiler off. Tests in the folder named like that of `file` come first: they fail soonest.
        """
        tests = sorted(self.tests, key=lambda test: Path(file).parent.name not in Path(test).parts)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
        command += [f"--ignore={test}" for test in IGNORED]
        environment = self.environment | ({"NUMBA_DISABLE_JIT": "1"} if plain else {})
        start = time.perf_counter()
        try:
            done = subprocess.run(
                command, cwd=self.tree, env=environment, timeout=timeout,
                capture_output=True, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "out of time", time.perf_counter() - start
        seconds = time.perf_counter() - start
        if done.returncode == 0:
            return None, seconds
        name = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
        return name[1] if name else f"exit code {done.returncode}: {(done.stderr or done.stdout)[-300:]}", seconds

    def origin(self) -> Path:
        """Where this sandbox gets its evref from."""
        command = [sys.executable, "-c", "import evref; print(evref.__file__)"]
        done = subprocess.run(command, cwd=self.tree, env=self.environment, capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    def kill(self, mutant: Mutant, timeout: float) -> str | None:
        """The test that notices the mutant, or None. The file comes back as it was, time stamp included."""
        path = self.tree / mutant.file
        source, stamp = path.read_bytes(), path.stat()
        path.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.stop :])
        try:
            return self.run(self.plain(mutant), mutant.file, timeout)[0]
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def plain(self, mutant: Mutant) -> bool:
        return mutant.file.endswith("loops.py") and not self.compile_loops


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--tests", nargs="+", default=[t for t in TESTS if (ROOT / t).exists()])
    parser.add_argument("--limit", type=int, help="a random sample of so many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--compile", action="store_true", help="compile mutants of loops.py as well (slow)")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    options = parser.parse_args()

    mutants = [mutant for file in options.files for mutant in mutants_of(file)]
    if options.list:
        print(*mutants, f"{len(mutants)} mutants", sep="\n")
        return 0
    if options.limit is not None and options.limit < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.limit)

    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder, str(i)) for i in range(options.workers)]
        boxes = [Sandbox(path, options.tests, options.compile) for path in folders]
        if not boxes[0].origin().is_relative_to(boxes[0].tree):
            raise SystemExit(f"the tests would import evref from {boxes[0].origin()}, not from the copy")
        slowest = 0.0
        for box in boxes:  # also fills the caches
            for plain in sorted({box.plain(mutant) for mutant in mutants}):
                failed, seconds = box.run(plain)
                if failed:
                    raise SystemExit(f"without any mutation the tests fail already: {failed}")
                slowest = max(slowest, seconds)
        print(f"{len(mutants)} mutants; the tests take {slowest:.0f} s without any", flush=True)

        free: Queue[Sandbox] = Queue()
        for box in boxes:
            free.put(box)

        def judge(mutant: Mutant) -> str | None:
            box = free.get()
            try:
                killer = box.kill(mutant, timeout=60 + 5 * slowest)
            finally:
                free.put(box)
            print(f"survived  {mutant}" if killer is None else f"killed    {mutant}  [{killer}]", flush=True)
            return killer

        with ThreadPoolExecutor(options.workers) as pool:
            killers = list(pool.map(judge, mutants))

    print("\nSurvivors")
    print(*(f"  {mutant}" for mutant, killer in zip(mutants, killers, strict=True) if killer is None), sep="\n")
    for file in options.files:
        own = [killer is not None for mutant, killer in zip(mutants, killers, strict=True) if mutant.file == file]
        if own:
            print(f"{sum(own):4d} of {len(own):4d} killed in {file}")
    score = sum(killer is not None for killer in killers)
    print(f"{score} of {len(mutants)} killed: {100 * score / max(1, len(mutants)):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
