"""The command line as a user meets it: what it prints, and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import evref as ev
from evref import cli
from evref.verify import claims


def test_verify_prints_a_row_per_claim(capsys):
    assert cli.main(["verify", "--only", "R1,R3"]) == 0
    text = capsys.readouterr().out
    assert "eq. (EVout)" in text and "does not hold as printed" in text
    assert "2 of 2 confirmed" in text


def test_verify_json(capsys):
    assert cli.main(["verify", "--json", "--only", "R2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True
    (row,) = result["claims"]
    assert row["name"] == "R2" and row["passed"] and row["values"]["phi_k_minus_1"] > 0.01


def test_a_claim_that_fails_is_exit_code_1(capsys, monkeypatch):
    broken = claims.Claim("R1", "eq. (EVout)", "two", "holds", lambda: claims.Outcome(False, "1 != 2", {}, "x = 1"))
    claims.all_claims()  # registers the healthy one first
    monkeypatch.setitem(claims.registry, "R1", broken)
    assert cli.main(["verify", "--only", "R1"]) == 1
    text = capsys.readouterr().out
    assert "FAIL R1" in text and "1 != 2" in text and "x = 1" in text and "FAILED: R1" in text
    assert cli.main(["verify", "--only", "R1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_unknown_claim_is_named(capsys):
    assert cli.main(["verify", "--only", "R99"]) == 2
    assert "no claim is called R99; expected some of R1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["gradcheck", "--help"]])
def test_help_teaches_by_example(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    assert "evref verify" in (text := capsys.readouterr().out) or "evref gradcheck" in text


def test_gradcheck_of_the_catalogue(capsys):
    assert cli.main(["gradcheck", "edge_variant", "relu", "--directed", "--check", "dot,central"]) == 0
    assert "4 of 4 checks passed" in capsys.readouterr().out


USER_MODULE = """
import numpy as np

class Scale:
    in_shape = (1, 3)
    factor = FACTOR
    def init(self, rng=None):
        return {"a": np.ones(3)}
    def forward(self, params, x):
        return params["a"] * x, x
    def backward(self, params, tape, grad_y):
        return {"a": self.factor * (grad_y * tape).sum((0, 1))}, params["a"] * grad_y
    def jvp(self, params, x, dparams, dx):
        return dparams["a"] * x + params["a"] * dx

layer = Scale()
def build(graph):
    return Scale()
"""


@pytest.mark.parametrize("target", ["layer", "build"])
@pytest.mark.parametrize(("factor", "code"), [("1", 0), ("np.array([1, 1.001, 1])", 1)])
def test_gradcheck_of_a_users_own_object(tmp_path, target, factor, code):
    """A gradient that is off by one per mille in one entry is named: parameter, index, both values."""
    (tmp_path / "mine.py").write_text(USER_MODULE.replace("FACTOR", factor))
    result = subprocess.run(
        [sys.executable, "-m", "evref", "gradcheck", f"mine:{target}", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == code, result.stderr
    reports = {report["check"]: report for report in json.loads(result.stdout)}
    row = next(row for row in reports["complex_step"]["rows"] if row["block"] == "a")
    assert row["ok"] is (code == 0)
    if code:
        assert row["index"] == [1]
        assert np.isclose(row["ours"], 1.001 * row["expected"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gradcheck", "nonsense"], "TARGET is 'nonsense'; expected MODULE:OBJECT or one of edge_variant"),
        (["gradcheck", "no_such_module:thing"], "No module named 'no_such_module'"),
        (["gradcheck", "math:nothing"], "no attribute 'nothing'"),
        (["gradcheck", "relu", "--check", "dots"], "--check has dots; expected some of dot"),
        (["gradcheck", "relu", "--nodes", "0"], "n_nodes is 0"),
    ],
)
def test_calls_that_make_no_sense(capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert cli.main(["verify", "--only", "R1", "--plot", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"lattice.png", "nullspace.png", "responses.png"}
    assert capsys.readouterr().err.count("drawn:") == 3


def test_interrupt(monkeypatch):
    def interrupt(names):
        raise KeyboardInterrupt

    monkeypatch.setattr(claims, "run", interrupt)
    assert cli.main(["verify"]) == 130


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.strip() == f"evref {ev.__version__}"


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m evref gradcheck identity | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and not result.stderr
