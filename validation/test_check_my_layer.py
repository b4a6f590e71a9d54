"""docs/check_my_layer.md prints what it says it prints; `evref check` on files with torch and JAX."""

from __future__ import annotations

import contextlib
import json

import pytest
from check_my_layer import BLOCK, PAGE, README, alike, lines_to_write, outputs
from hypothesis import HealthCheck, settings

from evref import cli
from evref.testing import MismatchError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which the page ran as one program, what it printed, and its names afterwards."""
    folder, names = tmp_path_factory.mktemp("page"), {}
    before = settings.get_current_profile_name()
    slow = [HealthCheck.too_slow]  # it reads the constants of all modules at its first draw
    settings.register_profile("page", deadline=None, derandomize=True, database=None, suppress_health_check=slow)
    settings.load_profile("page")
    with contextlib.chdir(folder), jax.enable_x64(False):  # as in a program of its own
        found = list(outputs(PAGE.read_text(encoding="utf-8"), names=names))
    yield folder, found, names
    settings.load_profile(before)


def require_alike(page, found):
    assert len(found) == page.count("<!-- output -->")
    for output in found:
        line = page.count("\n", 0, output.start) + 1
        assert alike(output.stated, output.printed), f"line {line}: python validation/check_my_layer.py --write"


def test_the_page_prints_what_it_says(ran):
    require_alike(PAGE.read_text(encoding="utf-8"), ran[1])


def test_the_readme_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = README.read_text(encoding="utf-8")
    require_alike(page, list(outputs(page, one_program=False)))


def test_the_tests_on_the_page_do_what_it_says(ran):
    names = ran[2]
    names["test_my_gcn_is_a_gcn"]()
    names["test_my_cheb_has_its_own_gradients"]()
    names["test_a_walk_keeps_a_constant"]()
    with pytest.raises(MismatchError, match="shift-transposed"):
        names["test_my_polynomial_is_one"]()


ROWS = list(lines_to_write(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("have", "count", "code"), ROWS, ids=[row[0][:30] for row in ROWS])
def test_so_much_there_is_to_write(have, count, code, ran, monkeypatch, capsys):
    """The lines of the table run as they stand, and are as many as it says."""
    folder, _, names = ran
    monkeypatch.chdir(folder)
    assert len(code) == count and not any(";" in line for line in code)
    names = dict(names)
    for line in code:
        if line.startswith("evref "):
            assert cli.main(line.split()[1:]) == 0 and "ok" in capsys.readouterr().out
        else:
            exec(line, names)


def test_the_table_has_every_use():
    assert [row[1] for row in ROWS] == [1, 2, 1, 1, 1, 1]


def test_the_layer_at_the_top_is_right_when_mended():
    page = PAGE.read_text(encoding="utf-8")
    block = next(b["text"] for b in BLOCK.finditer(page) if "def my_ev" in b["text"])
    wrong, mended = "graph.indices, graph.rows", "graph.rows, graph.indices"
    assert wrong in block and f"`Phi[..., {mended}]`" in page
    names: dict[str, object] = {}
    exec(block.replace(wrong, mended).replace("print(", "report = ("), names)
    assert names["report"].ok


def test_numbers_are_compared_and_errors_of_rounding_are_not():
    assert alike("output ok 2e-16  1.01642", "output ok  9e-13 1.01643")
    assert not alike("output ok 2e-16", "output OFF 2e-16")
    assert not alike("is 1.01642", "is 1.11642")
    assert not alike("agree to 2e-16", "agree to 0.5")
    assert not alike("one\n", "one two\n")


def test_the_slope_that_torch_takes_when_not_told():
    """What the paragraph on attention-slope says of torch."""
    assert torch.nn.LeakyReLU().negative_slope == 0.01


TORCH = """
import torch
import evref as ev

def build(graph, order):
    S = torch.tensor(graph.S.toarray())

    def layer(params, x):
        w, before, y = x, None, 0
        for k, theta in enumerate(params["theta"]):
            if k:
                w, before = (w @ S.T if before is None else FACTOR * (w @ S.T) - before), w
            y = y + torch.einsum("fg,bgn->bfn", theta, w)
        return y

    return layer

class Gcn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(2, 2, bias=False)

    def forward(self, A, x):
        return A.to(x.dtype) @ self.lin(x)

graph = ev.generators.star(5).with_shift("gcn")
A = torch.tensor(graph.S.toarray())
module, wrong = Gcn().double(), {"lin.weight": ("theta", "T")}
names, call = {"lin.weight": "theta"}, lambda module, x: module(A, x)
reference = ev.GCN(graph, in_features=2, out_features=2)
"""

JAX = """
import jax.numpy as jnp
import evref as ev

graph = ev.generators.star(5).with_shift("gcn")
A = jnp.array(graph.S.toarray())

def layer(params, x):
    return jnp.einsum("fg,bgj,ij->bfi", params["theta"], x, A) FACTOR
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    def run(code: str, words: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "layers.py").write_text(code, encoding="utf-8")
        exit_code = cli.main(["check", *words.split()])
        return exit_code, capsys.readouterr().out

    return run


def test_a_torch_layer_on_many_graphs(check):
    assert check(TORCH.replace("FACTOR", "2"), "layers.py::build --as chebyshev --set order=3")[0] == 0


def test_a_torch_layer_that_is_wrong(check):
    code, out = check(TORCH.replace("FACTOR", "1"), "layers.py::build --as chebyshev --json")
    assert code == 1
    assert {cause["name"] for cause in json.loads(out)["causes"]} == {"chebyshev-recurrence"}


def test_a_torch_module_with_names_of_its_own(check):
    words = "layers.py::module --as layers.py::reference --call call --parameters"
    assert check(TORCH, f"{words} names")[0] == 0
    code, out = check(TORCH, f"{words} wrong")
    assert code == 1 and "[weights-transposed]" in out


@pytest.mark.parametrize(("factor", "code"), [("", 0), ("* 2", 1)])
def test_a_jax_function(check, factor, code):
    words = "layers.py::layer --as gcn --set in_features=2 --framework jax"
    assert check(JAX.replace("FACTOR", factor), words)[0] == code
