"""A project of somebody else's tests its layers with `evref.testing`: it passes, and fails when a layer is spoilt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evref

pytest.importorskip("torch")
PROJECT = Path(__file__).parent / "outside_project"
LAYERS = Path("src", "traffic_layers")


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", ".*"))


def run(folder: Path) -> tuple[int, str]:
    """Its own pytest, with its own configuration, in a process of its own."""
    where = {"PYTHONPATH": str(Path(evref.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=folder, env=kept | where, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def spoil(folder: Path, file: str, right: str, wrong: str) -> None:
    path = folder / LAYERS / file
    text = path.read_text(encoding="utf-8")
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong), encoding="utf-8")


def test_it_passes(copy):
    code, out = run(copy)
    assert code == 0, out
    assert re.search(r"\b5 passed", out) and "rootdir: " + str(copy) in out and "configfile: pyproject.toml" in out


def test_it_fails_when_the_layers_are_spoilt_and_says_why(copy):
    spoil(copy, "chebnet.py", "2 * step - states[-2]", "step - states[-2]")
    spoil(copy, "dense_edge_variant.py", '"fgij,bfgj->bfgi"', '"fgji,bfgj->bfgi"')
    code, out = run(copy)
    failed = re.findall(r"^FAILED tests/test_layers.py::(\w+)", out, re.M)
    assert code == 1 and re.search(r"\b3 failed, 2 passed", out), out
    assert failed == ["test_chebnet_on_many_graphs", "test_edge_variant_on_many_graphs", "test_chebnet_on_our_roads"]
    reports = re.split(r"_+ (test_\w+) _+\n", out)
    said = dict(zip(reports[1::2], reports[2::2], strict=True))
    assert "[chebyshev-recurrence]" in said["test_chebnet_on_many_graphs"]
    assert "[chebyshev-recurrence]" in said["test_chebnet_on_our_roads"]
    assert "[shift-transposed]" in said["test_edge_variant_on_many_graphs"]


def test_a_mask_in_the_wrong_place_is_named(copy):
    """Entries outside the support are trained: the dense matrix is used as it is."""
    spoil(copy, "dense_edge_variant.py", "self.kernel * self.mask", "self.kernel")
    shutil.rmtree(copy / "tests" / "__pycache__", ignore_errors=True)
    (copy / "tests" / "test_properties.py").unlink()
    code, out = run(copy)
    assert code == 1 and "[outside-support]" in out and re.search(r"\b1 failed, 3 passed", out), out


def test_it_is_a_project_of_its_own():
    """Nothing of evref's tests or configuration, and only what evref says is public."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] != "evref" and "evref" in project["project"]["optional-dependencies"]["test"]
    for path in PROJECT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        imported = re.findall(r"^\s*(?:from|import) (evref[\w.]*)", text, re.M)
        assert set(imported) <= {"evref", "evref.testing"}, path.name
        assert imported or "tests" not in path.parts
