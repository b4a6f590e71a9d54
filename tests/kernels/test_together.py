"""Threads inside one compiled call: every share is done once, phases wait for each other, nobody is left behind."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from children import run_child
from numba.extending import register_jitable

import evref as ev
from evref.kernels import compiled as kernels_compiled
from evref.kernels import threads, together
from evref.kernels.jit import compiled
from evref.kernels.together import await_finished, claim, finished

SHARES = 12


@register_jitable
def count(done, who, phases, board, slot):
    """Each phase adds one to every share, after all shares of the phase before; `who` remembers the slots."""
    for phase in range(1, phases + 1):
        for turn in range(SHARES):
            share = claim(board, turn, SHARES, slot, phase)
            if share >= 0:
                await_finished(board, (phase - 1) * SHARES)
                for other in range(SHARES):  # all of the last phase is there, whoever did it
                    if done[other] < phase - 1:
                        done[SHARES] += 1
                done[share] += 1
                who[share] = slot
                finished(board)


def counting(done, who, phases, board, n):
    together.together(count, (done, who, phases, board), board, n)


counting_compiled = compiled(counting)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_share_of_every_phase_is_done_once(n):
    for phases in (1, 2, 50):
        done, who = np.zeros(SHARES + 1, np.int64), np.full(SHARES, -1)
        for repeat in range(1, 20):
            threads.call(counting_compiled, n, done, who, phases)
            assert done[:SHARES].tolist() == [repeat * phases] * SHARES
            assert done[SHARES] == 0 or repeat > 1  # counted against the phases of the first call only
        assert set(who) <= set(range(n))


def test_there_are_never_more_threads_than_shares():
    """Adam has a share for each thread, and the board a word for each share."""
    with ev.use_threads(1000):
        assert kernels_compiled._useful_threads(10**9) == together.SHARES
        assert kernels_compiled._useful_threads(1) == 1


def test_plain_python_does_the_same():
    done, who = np.zeros(SHARES + 1, np.int64), np.full(SHARES, -1)
    counting(done, who, 3, together.new_board(), 1)
    assert done.tolist() == [3] * SHARES + [0]
    assert set(who) == {0}


@pytest.mark.parametrize(("shares", "n"), [(12, 3), (5, 2), (1, 2), (2, 5)])
def test_own_shares_come_first_and_all_are_tried(shares, n):
    parts = []
    for slot in range(n):
        board = together.new_board()
        board[together.THREADS] = n
        order = [claim(board, turn, shares, slot, 1) for turn in range(shares)]
        assert sorted(order) == list(range(shares))
        own = order[: -(-(slot + 1) * shares // n) - -(-slot * shares // n)]
        assert own == sorted(own, reverse=slot % 2 == 1)  # neighbours meet
        parts += own
    assert sorted(parts) == list(range(shares))  # everything belongs to somebody, a single share to the caller


def test_a_share_is_claimed_once_in_a_phase_and_never_in_an_earlier_one():
    board = together.new_board()
    board[together.THREADS] = 1

    def fifth(phase):
        return claim(board, 5, SHARES, 0, phase)

    assert [fifth(1), fifth(1), fifth(3), fifth(2)] == [5, -1, 5, -1]
    assert claim(board, 4, SHARES, 0, 1) == 4


def test_a_share_of_somebody_at_work_is_left_to_him_but_not_for_ever(monkeypatch):
    """One who is not inside is not waited for."""
    board = together.new_board()
    board[together.THREADS] = 2
    looks = []
    monkeypatch.setattr(together, "rest", lambda: looks.append(1))
    assert claim(board, 6, SHARES, 0, 1, 9) == 6 and not looks  # the first of the other's shares
    board[together.INSIDE] = 1
    assert claim(board, 0, SHARES, 0, 1, 9) == 0 and not looks
    assert claim(board, 7, SHARES, 0, 1, 9) == 7 and len(looks) == 9
    assert claim(board, 7, SHARES, 0, 1, 9) == -1 and len(looks) == 9  # taken: no wait
    assert claim(board, 8, SHARES, 0, 1) == 8 and len(looks) == 9


def test_helpers_sleep_and_wake():
    done, who = np.zeros(SHARES + 1, np.int64), np.full(SHARES, -1)
    threads.call(counting_compiled, 3, done, who, 2)
    helpers = threads._team.helpers[:2]
    deadline = time.monotonic() + 30
    while not all(helper.asleep for helper in helpers) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(helper.asleep for helper in helpers)
    while 1 not in who and time.monotonic() < deadline:  # long enough a job, and the helper is there for some of it
        threads.call(counting_compiled, 2, done, who, 2000)
    assert 1 in who


def test_who_finds_the_team_busy_works_alone():
    done, who = np.zeros(SHARES + 1, np.int64), np.full(SHARES, -1)
    threads.call(counting_compiled, 2, done, who, 1)
    with threads._team.busy:
        threads.call(counting_compiled, 2, done, who, 1)
        assert set(who) == {0}
    assert done[:SHARES].tolist() == [2] * SHARES


def test_a_team_is_released_after_an_error():
    def fails(board, n):
        raise ZeroDivisionError("in a kernel")

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in a kernel"):
            threads.call(fails, 2)
    assert not threads._team.busy.locked()


@register_jitable
def breaks(values, board, slot):
    """Whoever takes share 3 falls; the second phase would wait for it for ever."""
    for phase in range(1, 3):
        for turn in range(SHARES):
            share = claim(board, turn, SHARES, slot, phase)
            if share >= 0:
                await_finished(board, (phase - 1) * SHARES)
                if share == 3:
                    raise ValueError("in a part")
                values[share] += 1
                finished(board)


@compiled
def breaking(values, board, n):
    together.together(breaks, (values, board), board, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_error_in_a_part_reaches_the_caller_and_nobody_waits(n):
    for _ in range(20):
        with pytest.raises(RuntimeError, match="a compiled kernel failed"):
            threads.call(breaking, n, np.zeros(SHARES))
    done, who = np.zeros(SHARES + 1, np.int64), np.full(SHARES, -1)
    threads.call(counting_compiled, n, done, who, 2)
    assert done[:SHARES].tolist() == [2] * SHARES


@pytest.mark.parametrize("pause", [0, 0.2])
def test_the_process_ends_with_helpers_awake_or_asleep(pause):
    code = f"""
        import time, numpy as np, evref as ev
        from evref.kernels import compiled, threads
        compiled.SERIAL_BELOW = 0
        filt = ev.EdgeVariant(ev.generators.cycle(30), 3, 2, 2)
        with ev.use_threads(3):
            filt.forward(filt.init(0), np.ones((60, 2, 30)))
        time.sleep({pause})
        print(len(threads._team.helpers))
    """
    assert run_child(code, EVREF_BACKEND="numba") in ("1", "2")  # no more than there are filters


def test_threads_of_python_start_one_team():
    before = threads._team
    threads._after_fork()
    try:
        teams = []
        barrier = threading.Barrier(8)

        def start():
            barrier.wait()
            teams.append(threads._new_team())

        workers = [threading.Thread(target=start) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(set(map(id, teams))) == 1
    finally:
        threads._team.dismiss()
        threads._team = before
