"""The same figures from one process, several, or any executor; and what is left when things break."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest
from toy_experiment import Toy

from evref.experiments import records, runner
from evref.experiments.records import Results, Task
from evref.experiments.source_localization import SourceLocalization

TROUBLE = Task.of("ev", {"group": 0, "draw": 0})


def run(path, experiment, **options):
    """Figures of all tasks, without the clock's and the environment's."""
    with Results(path, experiment) as results:
        wanted, todo = runner.tasks(experiment, results)
        seen = []
        runner.run(experiment, todo, results, each=lambda task, record: seen.append(task), **options)
        assert sorted(seen) == sorted(todo), "told of every task once"
    kept = records.read(path)[1]
    assert kept.keys() <= set(wanted)
    drop = ("seconds_per_epoch", "pid", "threads")
    return {task: {key: value for key, value in record.items() if key not in drop} for task, record in kept.items()}


def small(**settings):
    return SourceLocalization(
        graphs=2, data=1, epochs=2, train_samples=400, valid_samples=100, validate_every=2, models=("polynomial", "ev"),
        **settings,
    )  # fmt: skip


def test_same_figures_for_any_number_of_processes(tmp_path):
    serial = run(tmp_path / "1", small())
    assert len(serial) == 4 and not any("error" in record for record in serial.values())
    assert run(tmp_path / "2", small(), jobs=2) == serial
    with ThreadPoolExecutor(2) as threads:
        assert run(tmp_path / "3", small(), executor=threads) == serial
    assert run(tmp_path / "4", small(seed=1)) != serial


def test_workers_have_one_thread_and_leave_the_environment_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    run(tmp_path / "r", Toy(), jobs=2)
    assert all(record["threads"] == "1" for record in records.read(tmp_path / "r")[1].values())
    assert os.environ["OMP_NUM_THREADS"] == "3" and "OPENBLAS_NUM_THREADS" not in os.environ
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_fails_is_recorded_and_tried_again(tmp_path, jobs):
    broken = Toy(trouble="ev", how="raise")
    kept = run(tmp_path / "r", broken, jobs=jobs)
    assert kept.pop(TROUBLE) == {"error": "ValueError: no good"}
    assert len(kept) == 11 and not any("error" in record for record in kept.values())
    with Results(tmp_path / "r", broken) as results:
        assert runner.tasks(broken, results)[1] == [TROUBLE]


def test_a_worker_that_dies_takes_no_result_with_it(tmp_path):
    experiment = Toy(trouble="ev", how="die once", marker=str(tmp_path / "died"))
    kept = run(tmp_path / "r", experiment, jobs=2)
    assert (tmp_path / "died").exists()
    assert kept == run(tmp_path / "s", Toy())


def test_a_cell_that_always_kills_its_worker_is_given_up_alone(tmp_path):
    kept = run(tmp_path / "r", Toy(trouble="ev", how="die"), jobs=2)
    assert kept.pop(TROUBLE) == {"error": "its process died 3 times"}
    assert len(kept) == 11 and not any("error" in record for record in kept.values())


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_the_workers_and_keeps_what_is_there(tmp_path, jobs):
    seen = []

    def interrupt(task, record):
        seen.append(task)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with Results(tmp_path / "r", Toy()) as results:
        with pytest.raises(KeyboardInterrupt):
            runner.run(Toy(), runner.tasks(Toy(), results)[1], results, jobs=jobs, each=interrupt)
        assert not multiprocessing.active_children()
    assert list(records.read(tmp_path / "r")[1]) == seen
    kept = run(tmp_path / "r", Toy(), jobs=jobs)
    assert kept == run(tmp_path / "s", Toy())
    assert len((tmp_path / "r").read_text(encoding="utf-8").splitlines()) == 1 + len(kept), "nothing ran twice"


def test_an_interrupt_does_not_wait_for_what_is_running(tmp_path):
    experiment = Toy(trouble="polynomial", how="linger", marker=str(tmp_path / "finished"))

    def interrupt(task, record):
        raise KeyboardInterrupt

    with Results(tmp_path / "r", experiment) as results, pytest.raises(KeyboardInterrupt):
        runner.run(experiment, runner.tasks(experiment, results)[1], results, jobs=2, each=interrupt)
    assert not multiprocessing.active_children() and not (tmp_path / "finished").exists()


def test_workers_leave_interrupts_to_the_parent(tmp_path):
    with Results(tmp_path / "r", Toy()) as results:

        def interrupt(task, record):
            os.kill(record["pid"], signal.SIGINT)

        runner.run(Toy(), runner.tasks(Toy(), results)[1], results, jobs=2, each=interrupt)
        assert len({record["pid"] for record in results.records.values()}) <= 2, "no worker had to be replaced"


def test_an_executor_that_loses_a_cell_is_a_failure_of_that_cell(tmp_path):
    class Forgetful(ThreadPoolExecutor):
        def submit(self, function, experiment, model, cell):
            future = super().submit(function, experiment, model, cell)
            if Task.of(model, cell) == TROUBLE:
                future = super().submit(lambda: 1 / 0)
            return future

    with Forgetful(1) as executor:
        kept = run(tmp_path / "r", Toy(), executor=executor)
    assert kept.pop(TROUBLE) == {"error": "ZeroDivisionError: division by zero"}
    assert len(kept) == 11


def test_an_executor_that_gives_up_ends_the_run(tmp_path):
    class Gone(ThreadPoolExecutor):
        def submit(self, function, experiment, model, cell):
            future = super().submit(function, experiment, model, cell)
            if Task.of(model, cell) == TROUBLE:
                future = Future()
                future.cancel()
                future.set_running_or_notify_cancel()
            return future

    with Gone(1) as executor, Results(tmp_path / "r", Toy()) as results, pytest.raises(CancelledError):
        runner.run(Toy(), runner.tasks(Toy(), results)[1], results, executor=executor)
    assert not any("error" in record for record in records.read(tmp_path / "r")[1].values())


def test_the_first_runs(tmp_path):
    with Results(tmp_path / "r", Toy()) as results:
        wanted, todo = runner.tasks(Toy(), results, runs=2)
        assert wanted == todo == [Task.of(m, {"group": 0, "draw": d}) for d in range(2) for m in ("polynomial", "ev")]
        for runs in (0, 7):
            with pytest.raises(ValueError, match=rf"runs is {runs}; expected 1..6"):
                runner.tasks(Toy(), results, runs)
