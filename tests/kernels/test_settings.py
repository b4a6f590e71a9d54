"""Choosing kernels and threads; forks, Python threads and worker processes; numba that is not there."""

from __future__ import annotations

import concurrent.futures
import os
import threading

import numpy as np
import pytest
from children import run_child
from strategies import normal, random_graph, random_params

import evref as ev
from evref import kernels
from evref.kernels import compiled

FILTER = ev.EdgeVariant(random_graph(3, 20), 3, 2, 2)


def output() -> np.ndarray:
    return FILTER.forward(random_params(FILTER), normal(0, 60, *FILTER.in_shape))[0]


def test_context_manager_restores_what_was_before():
    before = kernels.backend()
    with ev.use_backend("numpy"):
        assert kernels.backend() == "numpy"
        with ev.use_backend("numba"):
            assert kernels.backend() == "numba"
        assert kernels.backend() == "numpy"
        with pytest.raises(RuntimeError, match="inner"), ev.use_backend("numba"):
            raise RuntimeError("inner")
        assert kernels.backend() == "numpy"
    assert kernels.backend() == before


def test_with_statement_is_for_this_thread_alone():
    seen = []
    with ev.use_backend("numpy"):
        thread = threading.Thread(target=lambda: seen.append(kernels.backend()))
        thread.start()
        thread.join()
    assert seen == [kernels.backend()]


def test_set_is_for_the_process():
    code = """
        import threading, evref as ev
        ev.set_backend("numpy"); ev.set_threads(3)
        seen = []
        thread = threading.Thread(target=lambda: seen.append((ev.kernels.backend(), ev.kernels.n_threads())))
        thread.start(); thread.join()
        with ev.use_backend("numba"):
            pass
        print(seen, ev.kernels.backend())
    """
    assert run_child(code) == "[('numpy', 3)] numpy"


def test_environment_variables():
    code = "import evref as ev; print(ev.kernels.backend(), ev.kernels.n_threads())"
    assert run_child(code, EVREF_BACKEND="numpy", EVREF_NUM_THREADS="7") == "numpy 7"
    with pytest.raises(AssertionError, match="EVREF_BACKEND is 'cuda'; expected one of 'numba', 'numpy'"):
        run_child(code, EVREF_BACKEND="cuda")
    with pytest.raises(AssertionError, match="EVREF_NUM_THREADS is 'two'"):
        run_child(code, EVREF_NUM_THREADS="two")


@pytest.mark.parametrize("value", ["torch", None, 3])
@pytest.mark.parametrize("choose", [ev.use_backend, ev.set_backend])
def test_unknown_backend(choose, value):
    with pytest.raises(ValueError, match="backend is .*; expected one of 'numba', 'numpy'"):
        choose(value)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
@pytest.mark.parametrize("choose", [ev.use_threads, ev.set_threads])
def test_bad_number_of_threads(choose, value, error):
    with pytest.raises(error, match="threads is"):
        choose(value)


def test_use_without_with_changes_nothing():
    before = kernels.backend(), kernels.n_threads()
    ev.use_backend("numpy" if before[0] == "numba" else "numba")
    ev.use_threads(before[1] + 1)
    assert (kernels.backend(), kernels.n_threads()) == before


def test_without_numba_the_reference_kernels_serve():
    code = """
        import sys, logging
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        sys.modules["numba"] = None
        import numpy as np, evref as ev
        graph = ev.generators.path(4)
        filt = ev.EdgeVariant(graph, 2)
        for _ in range(2):
            y, _ = filt.forward({"phi": np.ones((2, 1, 1, graph.nnz))}, np.ones(4))
        print(y.tolist(), ev.kernels.backend())
    """
    lines = run_child(code, EVREF_BACKEND="numba").splitlines()
    assert len(lines) == 2  # one line of log, not one per call
    assert "evref falls back to its NumPy kernels" in lines[0]
    assert lines[1] == "[7.0, 11.0, 11.0, 7.0] numpy"


def test_python_threads_may_call_at_once(monkeypatch):
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 0)
    with ev.use_backend("numba"):
        expected = output()

    def work(_: int) -> np.ndarray:
        with ev.use_backend("numba"), ev.use_threads(2):
            return output()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for result in pool.map(work, range(16)):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_works_after_its_parent_used_threads():
    code = """
        import os, numpy as np, evref as ev
        from evref.kernels import compiled
        compiled.SERIAL_BELOW = 0
        graph = ev.generators.cycle(30)
        filt = ev.EdgeVariant(graph, 3, 2, 2)
        params, x = filt.init(0), np.ones((60, 2, 30))
        with ev.use_threads(2):
            y = filt.forward(params, x)[0]
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(filt.forward(params, x)[0], y) else 3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_child(code, EVREF_BACKEND="numba") == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_worker_processes_are_serial_by_default(monkeypatch):
    monkeypatch.delenv("EVREF_NUM_THREADS", raising=False)
    code = """
        import multiprocessing
        from evref.kernels import threads
        def work(_):
            return threads.n_threads()
        threads.n_threads()  # what the parent found is not the child's answer
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(2)))
    """
    assert run_child(code) == "[1, 1]"


def test_no_writable_cache():
    """A read-only installation: numba finds no folder for its cache and evref compiles without one."""
    code = """
        import numba.core.caching as caching
        caching.CacheImpl._locator_classes = []
        import numpy as np, evref as ev
        graph = ev.generators.path(4)
        print(ev.EdgeVariant(graph, 2).forward({"phi": np.ones((2, 1, 1, graph.nnz))}, np.ones(4))[0].tolist())
    """
    assert run_child(code, EVREF_BACKEND="numba") == "[7.0, 11.0, 11.0, 7.0]"


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize("state", ["full", "garbage", "code cut off"])
def test_a_cache_that_is_full_or_damaged(tmp_path, state):
    """Compiled as without it; what can be repaired is there again for the next process."""
    code = """
        import os, resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if "FULL" in os.environ:
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        import numpy as np, evref as ev
        from evref.kernels import jit
        load, found = jit.ForgivingCache.load_overload, []
        def counted(*arguments):
            found.append(load(*arguments))
            return found[-1]
        jit.ForgivingCache.load_overload = counted
        graph = ev.generators.path(4)
        print(ev.EdgeVariant(graph, 2).forward({"phi": np.ones((2, 1, 1, graph.nnz))}, np.ones(4))[0].tolist())
        print(sum(each is not None for each in found))
    """

    def call(**environment):
        y, hits = run_child(code, EVREF_BACKEND="numba", NUMBA_CACHE_DIR=str(tmp_path), **environment).splitlines()
        assert y == "[7.0, 11.0, 11.0, 7.0]"
        return int(hits)

    assert call(**({"FULL": "1"} if state == "full" else {})) == 0
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbc",) + (".nbi",) * ("code" not in state)]
    if state == "full":
        assert all(path.stat().st_size <= 5000 for path in files)
    else:
        assert files and call() > 0  # the cache serves
        for path in files:
            whole = path.read_bytes()
            damaged = {"garbage": bytes(reversed(whole)), "cut off": whole[:-100]}
            path.write_bytes(damaged[state.removeprefix("code ")])
        assert call() == 0
    call()
    assert call() > 0


def test_first_calls_from_many_threads_at_once():
    """While one thread imports the kernels, another must wait for all of them, not work with half a module."""
    code = """
import threading, numpy as np, evref as ev
filters = [ev.Polynomial(ev.generators.cycle(5), 2), ev.EdgeVariant(ev.generators.cycle(5), 2), ev.ReLU()]
start, errors = threading.Barrier(6), []
def work(filt):
    start.wait()
    try:
        filt.forward(filt.init(0), np.ones((2, 1, 5)))
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work, args=(filt,)) for filt in filters * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("; ".join(errors), end="")
"""
    assert run_child(code) == ""


def test_where_no_thread_can_be_started_the_caller_works_alone():
    """RuntimeError is what `Thread.start` raises at the system's limit. Afterwards threads are tried again."""
    code = """
        import threading
        import numpy as np
        import evref as ev
        from evref.kernels import threads

        graph, _ = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)
        filt = ev.EdgeVariant(graph, 3, 4, 5)
        params, x = filt.init(rng=0), np.random.default_rng(0).standard_normal((100, 4, 50))

        def both(n):
            with ev.use_threads(n):
                y, tape = filt.forward(params, x)
                grads, grad_x = filt.backward(params, tape, y)
            return y, grad_x, grads["phi"]

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        alone = both(1)
        start, threading.Thread.start = threading.Thread.start, refuse
        refused = both(3)
        assert not threads._team.helpers
        threading.Thread.start = start
        started = both(3)
        assert len(threads._team.helpers) == 2
        for results in (refused, started):
            assert all(np.array_equal(found, expected) for found, expected in zip(results, alone, strict=True))
    """
    run_child(code, EVREF_BACKEND="numba")
