"""`evref check` as a user meets it: NumPy layers from files, exit codes, JSON, one line for what is in the way."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from evref import cli

LAYERS = """
import numpy as np
import evref as ev

print("a file may print when it is imported")
graph = ev.Graph.from_edges(5, source=[0, 1, 2, 3, 0, 4], target=[1, 2, 3, 4, 2, 1])
other = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])


def build(graph, order):
    return polynomial(graph.S.toarray().T)


def build_transposed(graph, order):
    return polynomial(graph.S.toarray())


def polynomial(S_T):
    def layer(params, x):
        w, y = x, 0
        for phi in params["phi"]:
            y, w = y + np.einsum("fg,bgn->bfn", phi, w), w @ S_T
        return y

    return layer


class Built:
    def __init__(self, graph, order):
        self.S_T = graph.S.toarray().T

    def __call__(self, params, x):
        return polynomial(self.S_T)(params, x)


right, transposed, on_other = build(graph, 2), build_transposed(graph, 2), build(other, 2)
reference = ev.Polynomial(graph, 2, in_features=2, out_features=3)
names, renamed = {"p": "phi"}, lambda params, x: right({"phi": params["p"]}, x)


def call(layer, params, x):
    return layer(params, x)


def raises(params, x):
    raise KeyError("no luck")


def unusable(graph, order):
    raise ZeroDivisionError("no layer today")


number = 3
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = f"layers_{abs(hash(str(tmp_path)))}"  # a module of its own: Python keeps what it imported
    (tmp_path / f"{file}.py").write_text(LAYERS, encoding="utf-8")

    def run(words: str) -> tuple[int, str, str]:
        code = cli.main(["check", *words.replace("LAYERS", file).split()])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.mark.parametrize(
    "words",
    [
        "LAYERS.py::build --as polynomial",
        "LAYERS:build --as polynomial --set order=2 --set bias=False",
        "LAYERS.py::Built --as polynomial --set order=1",
        "LAYERS.py::right --as polynomial --set order=2 --set in_features=2",
        "LAYERS.py::on_other --as polynomial --set order=2 --graph other",
        "LAYERS.py::on_other --as polynomial --set order=2 --graph LAYERS.py::other",
        "LAYERS.py::right --as LAYERS.py::reference --framework numpy --seed 3",
        "LAYERS.py::renamed --as LAYERS:reference --parameters names",
        "LAYERS.py::right --as LAYERS.py::reference --call call",
    ],
)
def test_what_is_right_is_exit_code_0(check, words):
    code, out, _ = check(words)
    assert code == 0 and "ok" in out.splitlines()[0]


@pytest.mark.parametrize(
    "words",
    ["LAYERS.py::build_transposed --as polynomial --set order=2", "LAYERS.py::transposed --as LAYERS.py::reference"],
)
def test_what_is_wrong_is_exit_code_1_and_has_a_name(check, words):
    code, out, _ = check(words)
    assert code == 1 and "S is transposed" in out and "[shift-transposed]" in out


def test_a_layer_that_cannot_be_compared_is_exit_code_2(check):
    code, out, _ = check("LAYERS.py::raises --as LAYERS.py::reference")
    assert code == 2 and "the layer raised KeyError: 'no luck'" in out


def test_json_is_all_that_is_on_standard_output(check):
    code, out, err = check("LAYERS.py::transposed --as LAYERS.py::reference --json")
    report = json.loads(out)
    assert code == 1 and report["ok"] is False
    assert [cause["name"] for cause in report["causes"]] == ["shift-transposed"]
    assert "a file may print" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing.py::layer --as gcn", "there is no file 'nothing.py'"),
        ("nothing:layer --as gcn", "there is no module 'nothing' here"),
        ("LAYERS.py --as gcn", "expected MODULE:OBJECT with a name on both sides of the colon"),
        ("LAYERS.py::rihgt --as gcn", "did you mean 'right'?"),
        ("LAYERS.py::right --as polinomial", "did you mean 'polynomial'?"),
        ("LAYERS.py::right --as polynomial", "polynomial needs order; expected --set order=..."),
        ("LAYERS.py::right --as polynomial --set order", "--set is 'order'; expected NAME=VALUE"),
        ("LAYERS.py::right --as polynomial --set order=2 --set order=3", "--set order is given twice"),
        ("LAYERS.py::right --as polynomial --set ordr=2", "did you mean 'order'?"),
        ("LAYERS.py::right --as polynomial --set order=-2", "order is -2"),
        ("LAYERS.py::build --as polynomial --set ordr=2", "did you mean 'order'?"),
        ("LAYERS.py::build --as polynomial --graph other", "--graph is for a layer on one graph"),
        ("LAYERS.py::right --as polynomial --set order=2 --graph number", "--graph number is an int; expected"),
        ("LAYERS.py::right --as LAYERS.py::number", "is an int; expected a filter, layer or network of evref"),
        ("LAYERS.py::right --as LAYERS.py::reference --set order=3", "--set is for a filter by its name"),
        ("LAYERS.py::right --as LAYERS.py::reference --graph other", "--graph is for a filter by its name"),
        ("LAYERS.py::number --as LAYERS.py::reference", "layer is int; expected a function"),
        ("LAYERS.py::unusable --as polynomial", "ZeroDivisionError: no layer today"),
        ("LAYERS.py::right --as LAYERS.py::reference --seed -1", "--seed is -1"),
        ("LAYERS.py::right --as LAYERS.py::reference --parameters nmes", "did you mean 'names'?"),
    ],
)
def test_whatever_is_in_the_way_is_one_line(check, words, message):
    code, out, err = check(words)
    assert code == 2 and not out
    last = err.splitlines()[-1]
    assert last.startswith("evref check: ") and message in last


def test_a_layer_beside_no_graph_says_so(check, tmp_path):
    (tmp_path / "bare.py").write_text("def layer(params, x):\n    return x\n", encoding="utf-8")
    code, _, err = check("bare.py::layer --as gcn")
    assert code == 2 and "its file has no object called graph; expected --graph OBJECT" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_package_here", "needs no_such_package_here, which is not installed"),
        ("raise RuntimeError('no luck')", "raised RuntimeError: no luck (broken_file.py, line 1)"),
        ("def f(:", "raised SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_line(check, tmp_path, text, message):
    (tmp_path / "broken_file.py").write_text(text, encoding="utf-8")
    code, _, err = check("broken_file.py::layer --as gcn")
    assert code == 2 and message in err and err.count("\n") == 1


def test_files_of_a_package_and_files_with_the_name_of_another_module(check, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "package" / "parts.py").write_text("from .whole import layer, graph\n", encoding="utf-8")
    whole = """
import evref as ev
graph = ev.generators.star(4)
def layer(theta, x):
    return theta @ x @ graph.S.toarray()
"""
    (tmp_path / "package" / "whole.py").write_text(whole, encoding="utf-8")
    (tmp_path / "random.py").write_text(whole, encoding="utf-8")  # not the module of that name
    for target in ("package/parts.py::layer", "package.parts:layer", "random.py::layer"):
        assert check(f"{target} --as gcn")[0] == 0


def test_json_is_alone_on_standard_output(tmp_path):
    """Whatever way the layer writes there."""
    (tmp_path / "noisy.py").write_text(
        "import os, sys\nimport evref as ev\ngraph = ev.generators.cycle(4)\nfilt = ev.GCN(graph)\n"
        "def layer(params, x):\n    os.write(1, b'raw')\n    print('python')\n"
        "    print('past it', file=sys.__stdout__)\n    os.system('echo child')\n    return filt(params, x)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "evref", "check", "noisy.py::layer", "--as", "gcn", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["ok"] is True
    assert {"raw", "python", "past it", "child"} <= set(done.stderr.replace("raw", "raw\n").split("\n"))


def test_settings_that_only_the_builder_has(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import evref as ev\ndef build(graph, width):\n    return ev.GCN(graph, 1, width)\n", encoding="utf-8"
    )
    words = ["check", "own.py::build", "--as", "gcn", "--set", "out_features=3", "--set"]
    assert cli.main([*words, "width=3"]) == 0
    assert cli.main([*words, "widht=3"]) == 2
    assert "did you mean 'width'" in capsys.readouterr().err
