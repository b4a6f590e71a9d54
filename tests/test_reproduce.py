"""`evref reproduce` as a user meets it: tables, resuming, refusals."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from concurrent.futures import CancelledError

import pytest
from toy_experiment import Toy, figures

from evref import cli, experiments, reproduce
from evref.experiments import records, runner
from evref.experiments.source_localization import SourceLocalization

SMALL = ["reproduce", "source-localization", "--quick", "--no-pictures", "--models", "polynomial,ev"]


def test_quick_run_and_table(tmp_path, capsys):
    assert cli.main([*SMALL, "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert "Edge Variant (EV)" in out and "85.47 ± 10.77" in out and "4 of 4 (100%)" in err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"results.jsonl", "table.txt", "table.md", "table.csv"}
    assert (tmp_path / "out" / "table.txt").read_text(encoding="utf-8") == out
    assert len(figures(tmp_path / "out")) == 4
    # again: everything is there
    assert cli.main([*SMALL, "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    again, err = capsys.readouterr()
    assert again == out and "4 of 4 are there already" in err and len(figures(tmp_path / "out")) == 4
    # more of the same goes on from there, another setting is refused by name
    assert cli.main([*SMALL, "--jobs", "1", "--graphs", "3", "--out", str(tmp_path / "out")]) == 0
    assert "4 of 6 are there already" in capsys.readouterr().err
    assert cli.main([*SMALL, "--epochs", "3", "--out", str(tmp_path / "out")]) == 2
    assert "holds results with epochs = 2; this run has epochs = 3" in capsys.readouterr().err


def test_pictures(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    call = [argument for argument in SMALL if argument != "--no-pictures"]
    assert cli.main([*call, "--jobs", "1", "--runs", "1", "--out", str(tmp_path)]) == 0
    pictures = {"accuracy.png", "confusion.png", "curves.png", "weights.png", "responses.png"}
    assert {path.name for path in tmp_path.iterdir()} >= pictures
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert f"written: {tmp_path}" in capsys.readouterr().err


def test_a_shortened_run_says_that_it_is_one(tmp_path, capsys):
    chance = "A shortened run (--quick), near chance level (20%, one of 5 classes): its figures are not to be held"
    assert cli.main([*SMALL, "--jobs", "1", "--runs", "1", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count(chance) == 1 and out.index("85.47 ± 10.77") < out.index(chance)
    assert all(chance in (tmp_path / name).read_text(encoding="utf-8") for name in ("table.txt", "table.md"))
    assert "paired" in out and "Student's t over the graphs" in out


@pytest.mark.parametrize(("name", "chance"), [("authorship", "50%, one of 2"), ("digits", "10%, one of 10")])
def test_shortened_runs_of_other_experiments_name_their_chance_level(tmp_path, capsys, name, chance):
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    call = ["reproduce", name, "--quick", "--no-pictures", "--models", "logistic", "--runs", "1", "--jobs", "1"]
    assert cli.main([*call, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"A shortened run (--quick), chance level ({chance} classes)" in out, "they are well above it"


def test_a_full_run_says_nothing_of_a_shortened_one(tmp_path, capsys):
    call = ["reproduce", "source-localization", "--no-pictures", "--models", "polynomial", "--runs", "1", "--jobs", "1"]
    assert cli.main([*call, "--epochs", "1", "--out", str(tmp_path)]) == 0
    assert "shortened" not in capsys.readouterr().out


def test_runs_takes_the_first_cells(tmp_path, capsys):
    assert cli.main([*SMALL, "--jobs", "1", "--runs", "1", "--out", str(tmp_path)]) == 0
    assert len(figures(tmp_path)) == 2
    assert cli.main([*SMALL, "--runs", "3", "--out", str(tmp_path)]) == 2
    assert "runs is 3; expected 1..2" in capsys.readouterr().err


def test_options_are_settings(monkeypatch):
    seen = []
    monkeypatch.setattr(reproduce, "reproduce", lambda arguments: seen.append(reproduce._experiment(arguments)) or 0)
    call = ["reproduce", "source-localization"]
    cli.main(call)
    cli.main([*call, "--variant", "noise", "--noise", "0.5", "--network", "karate", "--features", "8", "--seed", "3"])
    cli.main([*call, "--quick", "--epochs", "7", "--models", "ev, hev-degree-authors-code"])
    assert seen[0] == SourceLocalization()
    assert seen[1] == SourceLocalization(variant="noise", noise=0.5, network="karate", features=8, seed=3)
    assert (seen[2].epochs, seen[2].models, seen[2].train_samples) == (7, ("ev", "hev-degree-authors-code"), 1000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "ev,gat"], "models is 'gat'; expected one of"),
        (["--jobs", "0"], "jobs is 0"),
        (["--features", "0"], "features is 0"),
        (["--seed", "-1"], "seed is -1; expected at least 0"),
        (["--order", "-1"], "order is -1"),
        (["--privileged", "-1"], "privileged is -1"),
        (["--spline", "0"], "spline is 0"),
        (["--learning-rate", "nan"], "learning_rate is nan"),
    ],
)
def test_calls_that_make_no_sense(tmp_path, capsys, arguments, message):
    assert cli.main([*SMALL, *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_failed_cell_is_exit_code_1(tmp_path, capsys, monkeypatch):
    healthy = SourceLocalization.run

    def run(self, model, cell):
        if model == "ev" and cell["graph"] == 1:
            raise RuntimeError("out of luck")
        return healthy(self, model, cell)

    monkeypatch.setattr(SourceLocalization, "run", run)
    assert cli.main([*SMALL, "--jobs", "1", "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "FAILED ev on graph 1, draw 0: RuntimeError: out of luck" in err and "1 of 4 failed" in err
    assert "1 (1 failed)" in out
    monkeypatch.setattr(SourceLocalization, "run", healthy)
    assert cli.main([*SMALL, "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "3 of 4 are there already" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_disk_that_fills_in_the_middle(tmp_path, capsys, monkeypatch, jobs):
    """One line that says what is kept; the same command goes on when there is room again."""
    write, lines = records.Results._write, []

    def partly_full(self, line):
        lines.append(line)
        if len(lines) > 3:  # the header and two records
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, line)

    monkeypatch.setattr(records.Results, "_write", partly_full)
    assert cli.main([*SMALL, "--jobs", jobs, "--out", str(tmp_path)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"evref reproduce: No space left on device; 2 of 4 are in {tmp_path / 'results.jsonl'}, "
        "and the same command goes on from there"
    )
    monkeypatch.undo()
    assert cli.main([*SMALL, "--jobs", jobs, "--out", str(tmp_path)]) == 0
    assert "2 of 4 are there already" in capsys.readouterr().err and len(figures(tmp_path)) == 4


def test_a_scheduler_that_is_gone_is_exit_code_1(tmp_path, capsys, monkeypatch):
    def gone(*arguments):
        raise CancelledError

    monkeypatch.setattr(runner, "run", gone)
    assert cli.main([*SMALL, "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "the scheduler is gone: 0 of 4 are in" in err and "the same command goes on from there" in err


def test_experiments_are_imported_on_request():
    code = "import sys, evref; print([m for m in sys.modules if 'experiments' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", list(experiments.REGISTRY))
def test_every_experiment_keeps_the_contract(name, capsys):
    cls = experiments.load(name)
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    experiment = cls()
    assert cls.name == name and cls.summary and issubclass(cls, experiments.Experiment)
    assert set(experiment.models) <= {*experiments.models.LABELS, *cls.labels}
    assert set(cls.paper) <= {*experiments.models.LABELS, *cls.labels}
    assert set(cls.extent) <= set(experiment.__dataclass_fields__)
    assert experiment.cells() and len(experiment.quick().cells()) <= len(experiment.cells())
    assert json.loads(json.dumps(experiment.settings()))["experiment"] == name
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", name, "--help"])
    assert stop.value.code == 0 and "--epochs" in capsys.readouterr().out


def test_unknown_experiment():
    with pytest.raises(ValueError, match="experiment is 'table-3'; expected one of source-localization"):
        experiments.load("table-3")
    assert Toy().name not in experiments.REGISTRY
