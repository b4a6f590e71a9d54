"""The command line as a user meets it: what it prints, and its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from made_up_texts import write_texts

import evref as ev
from evref import cli
from evref.verify import claims


def test_verify_prints_a_row_per_claim(capsys):
    assert cli.main(["verify", "--only", "R1,R3"]) == 0
    text = capsys.readouterr().out
    assert "eq. (EVout, 7)" in text and "confirmed: fails as printed" in text and "confirmed: holds" in text
    assert "NOT CONFIRMED" not in text and "ok " not in text
    assert "2 of 2 confirmed" in text


def test_verify_json(capsys):
    assert cli.main(["verify", "--json", "--only", "R2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True
    (row,) = result["claims"]
    assert row["name"] == "R2" and row["passed"] and row["values"]["phi_k_minus_1"] > 0.01


def test_a_claim_that_fails_is_exit_code_1(capsys, monkeypatch):
    broken = claims.Claim("R1", "eq. (EVout, 7)", "two", "holds", lambda: claims.Outcome(False, "1 != 2", {}, "x = 1"))
    claims.all_claims()  # registers the healthy one first
    monkeypatch.setitem(claims.registry, "R1", broken)
    assert cli.main(["verify", "--only", "R1"]) == 1
    text = capsys.readouterr().out
    assert "NOT CONFIRMED: holds" in text and "1 != 2" in text and "x = 1" in text and "NOT CONFIRMED: R1" in text
    assert cli.main(["verify", "--only", "R1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_unknown_claim_is_named(capsys):
    assert cli.main(["verify", "--only", "R99"]) == 2
    assert "no claim is called R99; expected some of R1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["gradcheck", "--help"], ["check", "--help"]])
def test_help_teaches_by_example(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert any(f"evref {command}" in text for command in ("verify", "gradcheck", "check"))


def test_gradcheck_of_the_catalogue(capsys):
    assert cli.main(["gradcheck", "edge_variant", "relu", "--directed", "--check", "dot,central"]) == 0
    out = capsys.readouterr().out
    assert "12 of 12 checks passed: 6 configurations of 2 targets, on directed graphs of 6 nodes, seed 0\n" in out
    assert re.search(r"^(numba|numpy) kernels, \d+\.\d s$", out, re.MULTILINE)
    assert "zeroth=none" in out and "self_loops=False" in out  # the line names its configuration


def test_gradcheck_looks_at_both_kinds_of_graph_unless_told(capsys):
    assert cli.main(["gradcheck", "polynomial", "--check", "complex"]) == 0
    both = capsys.readouterr().out
    assert "undirected" in both and ", directed" in both
    assert cli.main(["gradcheck", "polynomial", "--check", "complex", "--undirected"]) == 0
    assert ", directed" not in capsys.readouterr().out


def test_json_takes_no_file(capsys):
    assert cli.main(["gradcheck", "--json", "reports.json"]) == 2
    assert "--json takes no file: evref gradcheck --json > reports.json" in capsys.readouterr().err


USER_MODULE = """
import numpy as np

class Scale:
    in_shape = (1, 3)
    factor = FACTOR
    def init(self, rng=None):
        return {"a": np.ones(3)}
    def forward(self, params, x):
        return params["a"] * x, x.copy()
    def backward(self, params, tape, grad_y):
        return {"a": self.factor * (grad_y * tape).sum((0, 1))}, params["a"] * grad_y
    def jvp(self, params, x, dparams, dx):
        return dparams["a"] * x + params["a"] * dx

layer = Scale()
def build(graph):
    return Scale()
"""


def test_gradcheck_leaves_out_a_dot_test_that_says_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    source = USER_MODULE.replace("FACTOR", "1").replace("in_shape =", "autodiff = True\n    in_shape =")
    (tmp_path / "wraps_torch.py").write_text(source, encoding="utf-8")
    assert cli.main(["gradcheck", "wraps_torch:layer"]) == 0
    out = capsys.readouterr().out
    assert ", dot " not in out and "dot not run: a tautology: jvp and backward come from one automatic" in out
    assert out.startswith("ok   wraps_torch:layer: complex ")  # differences lead
    assert cli.main(["gradcheck", "wraps_torch:layer", "--check", "dot"]) == 0  # asked for by name
    assert "dot " in capsys.readouterr().out


def test_gradcheck_names_what_failed_once_more_at_the_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "off.py").write_text(USER_MODULE.replace("FACTOR", "2"), encoding="utf-8")
    assert cli.main(["gradcheck", "off:layer", "relu"]) == 1
    *_, summary, failed, _ = capsys.readouterr().out.splitlines()
    assert summary == "6 of 10 checks passed: 2 configurations of 2 targets"
    assert failed == "failed: off:layer: complex, central, second, dot"


@pytest.mark.parametrize("target", ["layer", "build"])
@pytest.mark.parametrize(("factor", "code"), [("1", 0), ("np.array([1, 1.001, 1])", 1)])
def test_gradcheck_of_a_users_own_object(tmp_path, target, factor, code):
    """A gradient that is off by one per mille in one entry is named: parameter, index, both values."""
    (tmp_path / "mine.py").write_text(USER_MODULE.replace("FACTOR", factor), encoding="utf-8")
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
        (["gradcheck", "edge_varient"], "did you mean 'edge_variant'?"),
        (["gradcheck", "no_such_module:thing"], "no_such_module:thing: there is no module 'no_such_module' here"),
        (["gradcheck", "math:nothing"], "math:nothing: the module math has no 'nothing'"),
        (["gradcheck", "math:pi"], "math:pi is a float; expected an object with init(rng)"),
        (["gradcheck", "math:"], "expected MODULE:OBJECT with a name on both sides"),
        (["gradcheck", "layer.py"], "TARGET is 'layer.py', a file; expected MODULE:OBJECT, such as layer:layer"),
        (["gradcheck", "relu", "--check", "dots"], "--check has dots; expected some of complex, central, second, dot"),
        (["gradcheck", "relu", "--nodes", "0"], "--nodes is 0; expected at least 1"),
        (["gradcheck", "relu", "--check", "complx"], "did you mean 'complex'?"),
        (["gradcheck", "relu", "--nodes", "100000"], "S is a dense array of 100000 x 100000 numbers, 80 GB"),
        (["verify", "--only", "R111"], "did you mean 'R11'?"),
        (["verify", "--only", "dot_test"], "did you mean 'dot-test'?"),
        (["verify", "--only", ","], "--only is ','; expected names of claims"),
        (["verify", "--only", ""], "--only is ''; expected names of claims"),
        (["reproduce", "source-localization", "--models", "polynomail"], "did you mean 'polynomial'?"),
        (["bench", "--cases", "smal"], "did you mean 'small'?"),
        (["bench", "--peers", "nmpy"], "did you mean 'numpy'?"),
        (["bench", "--dtypes", "flot32"], "did you mean 'float32'?"),
    ],
)
def test_calls_that_make_no_sense(capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verfy"], "did you mean 'verify'?"),
        (["verify", "--ony", "R1"], "unrecognized arguments: --ony R1; did you mean '--only'?"),
        (["gradcheck", "relu", "--undirekted"], "did you mean '--undirected'?"),
        (["reproduce", "digits", "--epohcs=3"], "did you mean '--epochs'?"),
        (["bench", "--qwerty"], "unrecognized arguments: --qwerty"),
        (["gradchek", "relu"], "did you mean 'gradcheck'?"),
        (["reproduce", "source-localisation"], "did you mean 'source-localization'?"),
        (["reproduce", "source-localization", "--variant", "nois"], "did you mean 'noise'?"),
        (["authorship", "prepar"], "did you mean 'prepare'?"),
        (["verify", "--json", "claims.json"], "it takes no file and prints on standard output"),
        (["verify", "--json=claims.json"], "it takes no file and prints on standard output"),
        (["bench", "--json", "figures.json"], "it takes no file and prints on standard output"),
    ],
)
def test_misspelt_commands_and_options(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2 and message in capsys.readouterr().err


# ---- where results go ------------------------------------------------------------------------------------------------
REPRODUCE = ["reproduce", "source-localization", "--quick", "--no-pictures", "--models", "polynomial", "--runs", "1"]
BENCH = ["bench", "--quick", "--cases", "tiny filter", "--peers", "numpy", "--seconds", "0.01"]
PREPARE = ["authorship", "prepare", "texts", "--author", "ann", "--length", "40"]
FOLDERS = {"reproduce": [*REPRODUCE, "--jobs", "1", "--out"], "verify": ["verify", "--only", "R1", "--plot"]}
NEW_FILES = {
    "markdown": [*BENCH, "--markdown"],
    "plot": [*BENCH, "--plot"],
    "growth": ["bench", "--growth", "--quick", "--markdown"],
    "guard": ["bench", "--guard", "--update", "--expected"],
    "prepare": [*PREPARE, "--out"],
}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with a file, a link to a disk that is full, and texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("precious", encoding="utf-8")
    if os.name == "posix":
        (tmp_path / "full.png").symlink_to("/dev/full")
    (tmp_path / "texts").mkdir()
    write_texts(tmp_path / "texts")
    return tmp_path


def refused(capsys, arguments) -> str:
    """The one line of a call that ends with exit code 2."""
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    line = err.splitlines()[-1]
    assert line.startswith(f"evref {arguments[0]}: ") and "Traceback" not in err
    return line


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
@pytest.mark.parametrize("path", ["file", "file/below", "/proc/nothing", "/dev/full", "x" * 300])
@pytest.mark.parametrize("arguments", FOLDERS.values(), ids=FOLDERS.keys())
def test_a_folder_that_cannot_be_made(workplace, capsys, arguments, path):
    line = refused(capsys, [*arguments, path])
    assert f"{arguments[-1]} is '{path}'; expected a folder, there or to be made (" in line
    assert (workplace / "file").read_text(encoding="utf-8") == "precious"


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
@pytest.mark.parametrize("path", ["texts", "file/x.png", "nowhere/x.png", "x" * 300 + ".png"])
@pytest.mark.parametrize("arguments", NEW_FILES.values(), ids=NEW_FILES.keys())
def test_a_file_that_cannot_be_written_is_named_before_the_work(workplace, capsys, monkeypatch, arguments, path):
    def work(*arguments, **options):
        raise RuntimeError("it began to work")

    for place in ("bench.run.run", "bench.growth.measure", "bench.guard.median_of_three"):
        monkeypatch.setattr(f"evref.{place}", work)
    monkeypatch.setattr("evref.experiments.authorship.prepare.prepare_corpus", work)
    line = refused(capsys, [*arguments, path])
    assert f"{arguments[-1]} is '{path}'" in line
    assert sorted(os.listdir(workplace)) == ["file", "full.png", "texts"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [NEW_FILES[name] for name in ("markdown", "plot", "prepare")])
def test_a_full_disk_is_one_line(workplace, capsys, arguments):
    if arguments is NEW_FILES["plot"]:
        pytest.importorskip("matplotlib")
    assert "full.png: No space left on device" in refused(capsys, [*arguments, "full.png"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["verify --only R1", "verify --only R1 --json", "gradcheck identity"])
def test_standard_output_on_a_full_disk(arguments):
    command = [sys.executable, "-m", "evref", *arguments.split()]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=120)
    assert result.returncode == 2
    assert result.stderr == f"evref {arguments.split()[0]}: No space left on device\n"


def test_a_picture_of_no_known_kind(workplace, capsys):
    pytest.importorskip("matplotlib")
    assert "--plot is 'x.nosuch'; expected a name that ends in .eps" in refused(capsys, [*BENCH, "--plot", "x.nosuch"])


@pytest.mark.parametrize("contents", ["[1]", "{", "[" * 100_000, "\udcff"])
def test_expected_ratios_that_are_not_json(workplace, capsys, contents):
    (workplace / "guard.json").write_bytes(contents.encode("utf-8", "surrogateescape"))
    assert "guard.json: " in refused(capsys, ["bench", "--guard", "--expected", "guard.json"])


def test_expected_ratios_are_not_read_from_a_device(workplace, capsys):
    line = refused(capsys, ["bench", "--guard", "--expected", "texts"])
    assert "--expected is 'texts', which is not a file" in line


def test_too_little_memory_is_one_line(capsys, monkeypatch):
    def measure(names):
        raise MemoryError
        yield

    monkeypatch.setattr(claims, "run", measure)
    assert refused(capsys, ["verify"]) == "evref verify: MemoryError"


BAD_OBJECTS = """
import numpy as np

class NeedsArguments:
    def __init__(self, width, depth):
        pass
    def init(self, rng): return {}
    def forward(self, params, x): return x, None
    def backward(self, params, tape, grad_y): return {}, grad_y

class Plain:
    pass

class NoBackward:
    in_shape = (1, 3)
    def init(self, rng): return {}
    def forward(self, params, x): return x, None

class Raises(NoBackward):
    def forward(self, params, x): raise KeyError("weights")
    def backward(self, params, tape, grad_y): return {}, grad_y

class Ends(NoBackward):
    def forward(self, params, x): raise SystemExit(0)
    def backward(self, params, tape, grad_y): return {}, grad_y

class EndsInExamples(Ends):
    @classmethod
    def examples(cls, graph, rng): raise SystemExit(0)

class Property(Ends):
    @property
    def in_shape(self): raise RuntimeError("not yet")

class Anything(Ends):
    in_shape = (1, 3)
    def forward(self, params, x): return x, None
    def __getattr__(self, name): raise ZeroDivisionError

def two(a, b): return a
def broken(graph): return 1 / 0
def ends(graph): raise SystemExit(0)
plain, no_backward, raises = Plain(), NoBackward(), Raises()
anything = Anything()
"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("NeedsArguments", "NeedsArguments"),
        ("Plain", "Plain"),
        ("plain", "expected an object with init(rng)"),
        ("no_backward", "backward"),
        ("raises", "the first forward pass raised KeyError"),
        ("Ends", "the first forward pass raised SystemExit: 0"),
        ("EndsInExamples", "raised SystemExit: 0"),
        ("ends", "raised SystemExit: 0"),
        ("Property", "raised RuntimeError: not yet"),
        ("Anything", "raised ZeroDivisionError"),
        ("anything.weights", "reading 'weights' raised ZeroDivisionError"),
        ("two", "of 2 arguments (a, b)"),
        ("broken", "raised ZeroDivisionError"),
        ("brokn", "did you mean 'broken'?"),
    ],
)
def test_objects_that_cannot_be_checked_get_one_line(tmp_path, monkeypatch, capsys, target, message):
    monkeypatch.chdir(tmp_path)
    name = f"bad_objects_{abs(hash(str(tmp_path)))}"  # a module of its own: Python keeps what it imported
    (tmp_path / f"{name}.py").write_text(BAD_OBJECTS, encoding="utf-8")
    assert cli.main(["gradcheck", f"{name}:{target}"]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and "Traceback" not in err


def test_a_module_that_raises_on_import_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raises_on_import.py").write_text("raise RuntimeError('no luck')", encoding="utf-8")
    assert cli.main(["gradcheck", "raises_on_import:layer"]) == 2
    assert (
        "importing raises_on_import raised RuntimeError: no luck (raises_on_import.py, line 1)"
        in capsys.readouterr().err
    )


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
