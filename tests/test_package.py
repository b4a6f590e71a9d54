"""The rules of the project that belong to no single module."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evref as ev

ROOT = Path(ev.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Imports flow one way: a module may import those before it.
ORDER = [
    "renamed",
    "checks",
    "terminal",
    "arguments",
    "files",
    "contract",
    "graph",
    "kernels",
    "filters",
    "learn",
    "bridges",
    "experiments",
    "verify",
    "testing",
    "plot",
    "bench",
    "reproduce",
    "check_command",
    "cli",
]


def _imports(path: Path) -> set[str]:
    """Parts of evref that a file imports, at the top or inside functions."""
    package = ("evref", *path.relative_to(ROOT).parts[:-1])
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            names = [(*module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        parts |= {name[1] for name in names if name[0] == "evref" and len(name) > 1}
    return parts


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_flow_one_way(path):
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    allowed = set(ORDER[: ORDER.index(part) + 1]) | {"__version__"}
    assert _imports(path) <= allowed, f"{path.name} imports what comes later: {_imports(path) - allowed}"


def test_import_is_light():
    """Nothing heavy comes with `import evref`; compiled kernels and pictures are fetched when they are used."""
    heavy = ("numba", "matplotlib", "networkx", "pandas", "torch", "jax", "tqdm")
    code = f"import sys, evref; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_public_names_exist_and_are_documented():
    for name in ev.__all__:
        value = getattr(ev, name)
        assert name in ("catalogue", "layer_catalogue") or value.__doc__, name


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_pickle_and_no_bare_assert(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: an assert guards nothing under python -O"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            assert not {"pickle", "joblib", "dill"} & set(names), f"line {node.lineno}"


def test_catalogues_are_keyed_by_the_names_of_their_classes():
    for catalogue in (ev.catalogue, ev.layer_catalogue):
        assert catalogue
        for name, cls in catalogue.items():
            assert cls.name == name and issubclass(cls, ev.Module)


def test_links_of_the_package_description():
    """The build turns the README's relative links into addresses: all of them, and only to files that exist."""
    root = ROOT.parent
    if not (root / "pyproject.toml").is_file():
        pytest.skip("evref is installed without its sources")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    source = project["project"]["urls"]["Source"]
    text = (root / "README.md").read_text(encoding="utf-8")
    links = len(re.findall(r"\]\((?!#)", text))
    for rule in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    addresses = [source + "/blob/main/", source.replace("github.com", "raw.githubusercontent.com") + "/main/"]
    found = re.findall(rf"\]\(({'|'.join(map(re.escape, addresses))})([^)#]+)", text)
    assert len(found) == links > 10
    for _, path in found:
        assert (root / path).exists(), path
    assert all(url.startswith(source) for url in project["project"]["urls"].values())
