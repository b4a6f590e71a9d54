"""One compiled call, several threads: the calling thread announces a job, the others join it, all take tasks from it.

Waking a sleeping thread takes 50 µs and more, as long as a whole pass over a small graph; asking Python to hand over
work takes its lock. So a helper waits for the next job inside compiled code, looking at a word of memory
(:func:`serve`), for about as long as a training loop pauses between two passes; a handover then takes a microsecond. A
helper that saw nothing for longer goes to sleep (:mod:`evref.kernels.threads`), and one that is late finds everything
taken: nobody waits for it.

A job is a function `part(*arguments, slot)` that every thread runs. Its work comes in phases, each building on those
before it; a phase is cut into shares, and a thread tries all of them, its own first:

    for turn in range(shares):
        share = claim(board, turn, shares, slot, phase)
        if share >= 0:
            await_finished(board, before)          # all shares of earlier phases
            ... the work of this share ...
            finished(board)

Whose shares are the same in every phase and every call finds in its own cache what it wrote there before, which counts
where caches are far from each other; who is ahead helps the others. A thread only waits for shares of earlier phases,
all of which somebody has taken: there is no deadlock. Which thread does what is left to chance; what is done is not, so
that results do not depend on the number of threads.

Each function has two faces, as in :mod:`evref.kernels.vectors`: plain Python for one thread, and LLVM.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callconv import excinfo_ptr_t
from numba.extending import register_jitable

from .jit import inner, replaces

# The board: words that threads write and read, each on a cache line of its own.
LINE = 8  # words
OPEN = 0 * LINE  # number of the job that may be joined; 0: none
INSIDE = 1 * LINE  # helpers in the job
DONE = 2 * LINE  # shares finished
JOBS = 3 * LINE  # jobs so far
FUNCTION, ARGUMENTS, THREADS, FAILED, CLOSED, STRANGE = (4 * LINE + i for i in range(6))  # of the job; helpers must end
TAKEN = 5 * LINE  # for every share the last phase in which somebody took it
SHARES = 64  # of a phase, at the most
BOARD_WORDS = TAKEN + SHARES

SPINS = 1024  # looks at a word before the core is offered to somebody else
LEFT = 1024  # looks, some 20 µs: enough for a thread that is a little behind


def new_board() -> np.ndarray:
    words = np.zeros(BOARD_WORDS + LINE, np.int64)
    start = -words.ctypes.data % (8 * LINE) // 8
    return words[start : start + BOARD_WORDS]


# ---- words, seen by all threads in one order -------------------------------------------------------------------------
def read(board: Any, place: int) -> Any:
    return board[place]


def write(board: Any, place: int, value: int) -> None:
    board[place] = value


def increase(board: Any, place: int, value: int) -> Any:
    """board[place] += value; what was there before"""
    before = int(board[place])
    board[place] = before + value
    return before


def rest() -> None:
    """A moment for the other thread of this core."""


def give_way() -> None:
    """Let somebody else have the core, if anybody waits for it."""


def exchange(board: Any, place: int, old: int, new: int) -> bool:
    """If board[place] is `old`, make it `new`; whether it was"""
    if board[place] != old:
        return False
    board[place] = new
    return True


# ---- what parts of a job say -----------------------------------------------------------------------------------------
@inner
def claim(board, turn, shares, slot, phase, left=0):
    """The share for this turn if it is now this thread's, else -1; phases are numbered from 1, rising.

    Even slots go up from where their part begins, odd ones down from the end of theirs, so that two neighbours meet in
    the same middle in every phase. A share of another thread that is at work is left to it for `left` looks: if much
    that belongs to it is in that thread's cache, to move this takes longer than the work where cores are far apart.
    """
    n = read(board, THREADS)
    first, last = (slot * shares + n - 1) // n, ((slot + 1) * shares + n - 1) // n
    share = ((first + turn) if slot % 2 == 0 else (last - 1 - turn)) % shares
    place = TAKEN + share
    if turn >= last - first:
        looks = 0
        while looks < left and read(board, place) < phase and read(board, INSIDE) > 0:
            looks += 1
            rest()
    before = read(board, place)
    return share if before < phase and exchange(board, place, before, phase) else -1


@register_jitable(inline="always")
def finished(board):
    increase(board, DONE, 1)


@inner
def await_finished(board, count):
    """Until `count` shares are done."""
    looks = 0
    while read(board, DONE) < count:
        looks += 1
        rest()
        if looks % SPINS == 0:
            give_way()


@inner
def nothing_strange(board):
    """Whether all results of the job that looked at were finite (:func:`evref.kernels.rows.look_at_rows`)."""
    return board[STRANGE] == 0


# ---- a job -----------------------------------------------------------------------------------------------------------
def announce(part: Any, arguments: Any, board: Any) -> None:
    """Put `part` and where its arguments lie on the board."""


def enter(part: Any, arguments: Any, board: Any, slot: int) -> int:
    """part(*arguments, slot), as the board has it; not 0 if that raised."""
    part(*arguments, slot)
    return 0


@inner
def fail(board):
    """A part raised, an index out of range say: nobody shall wait for what it has not finished."""
    write(board, FAILED, 1)
    write(board, DONE, 2**62)


@inner
def together(part, arguments, board, n):
    """part(*arguments, slot) on this thread (slot 0) and on up to n - 1 helpers; returns when all of them are out."""
    for share in range(SHARES):
        board[TAKEN + share] = 0
    board[DONE] = 0
    board[FAILED] = 0
    board[STRANGE] = 0
    board[THREADS] = n
    announce(part, arguments, board)
    if n > 1:
        write(board, OPEN, increase(board, JOBS, 1) + 1)
    if enter(part, arguments, board, 0) != 0:
        fail(board)
    if n > 1:
        write(board, OPEN, 0)  # from here on nobody joins
        looks = 0
        while read(board, INSIDE) > 0:
            looks += 1
            rest()
            if looks % SPINS == 0:
                give_way()
    if board[FAILED] != 0:
        raise RuntimeError("a compiled kernel failed; NUMBA_DISABLE_JIT=1 shows where")


def serve(board, slot, last, patience):
    """A helper's life between two sleeps: join every job but number `last`; the last one joined, once all is quiet."""
    looks = 0
    while looks < patience and read(board, CLOSED) == 0:
        job = read(board, OPEN)
        if job != 0 and job != last and slot < read(board, THREADS):
            increase(board, INSIDE, 1)
            if read(board, OPEN) == job:  # still open now that the caller can see this helper inside
                if enter_posted(board, slot) != 0:
                    fail(board)
                last = job
                looks = 0
            increase(board, INSIDE, -1)
        looks += 1
        rest()
        if looks % SPINS == 0:
            give_way()
    return last


def enter_posted(board: Any, slot: int) -> int:
    """Run what is on the board; not 0 if that raised."""
    return 0


# ---- the LLVM faces --------------------------------------------------------------------------------------------------
_word = ir.IntType(64)
_bytes = ir.IntType(8).as_pointer()
# numba's own convention (result, error, arguments), so that its code can be called as it is
_part_type = ir.FunctionType(ir.IntType(32), [_bytes, excinfo_ptr_t.as_pointer(), _bytes, _word])


def _place(context: Any, builder: Any, board_type: Any, board: Any, place: Any) -> Any:
    return builder.gep(context.make_array(board_type)(context, builder, board).data, [place])


@replaces(read)
def _read(typing: Any, board: Any, place: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, board, args[0], args[1]), "seq_cst", 8)

    return types.int64(board, types.intp), codegen


@replaces(write)
def _write(typing: Any, board: Any, place: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _place(context, builder, board, args[0], args[1]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(board, types.intp, types.int64), codegen


@replaces(increase)
def _increase(typing: Any, board: Any, place: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, board, args[0], args[1]), args[2], "seq_cst")

    return types.int64(board, types.intp, types.int64), codegen


@replaces(exchange)
def _exchange(typing: Any, board: Any, place: Any, old: Any, new: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _place(context, builder, board, args[0], args[1])
        return builder.extract_value(builder.cmpxchg(where, args[2], args[3], "seq_cst", "seq_cst"), 1)

    return types.boolean(board, types.intp, types.int64, types.int64), codegen


def _called(name: str, result: Any) -> Any:
    """An intrinsic that calls a function of the system or of LLVM without arguments, or does nothing without a name."""

    def definition(typing: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if name:
                builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, []), name), [])
            return context.get_dummy_value()

        return types.void(), codegen

    return definition


_on_x86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
replaces(rest)(_called("llvm.x86.sse2.pause" if _on_x86 else "", ir.VoidType()))
replaces(give_way)(_called("" if sys.platform == "win32" else "sched_yield", ir.IntType(32)))


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An array without its owner: every slice would count references, and threads counting in one place take turns."""
    if isinstance(kind, types.Tuple | types.UniTuple):
        parts = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_borrowed(context, builder, *part) for part in parts])
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()


@replaces(announce)
def _announce(typing: Any, part: Any, arguments: Any, board: Any) -> Any:
    """The arguments go into a record on the caller's stack, which stays until the job is over."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        called = part.get_call_type(context.typing_context, (*arguments.types, types.intp), {})
        call = context.get_function(part, called)
        values = cgutils.unpack_tuple(builder, args[1])
        record_type = ir.LiteralStructType([value.type for value in values])
        record = cgutils.alloca_once(builder, record_type)
        for i, value in enumerate(values):
            builder.store(value, cgutils.gep_inbounds(builder, record, 0, i))

        module = builder.module
        entry = ir.Function(module, _part_type, module.get_unique_name("evref_part"))
        entry.linkage = "internal"
        inside = ir.IRBuilder(entry.append_basic_block("entry"))
        found = inside.bitcast(entry.args[2], record_type.as_pointer())
        loaded = [
            _borrowed(context, inside, kind, inside.load(cgutils.gep_inbounds(inside, found, 0, i)))
            for i, kind in enumerate(arguments.types)
        ]
        call(inside, [*loaded, entry.args[3]])
        inside.ret(ir.Constant(ir.IntType(32), 0))

        for place, address in ((FUNCTION, entry), (ARGUMENTS, record)):
            where = _place(context, builder, board, args[2], ir.Constant(_word, place))
            builder.store(builder.ptrtoint(address, _word), where)
        return context.get_dummy_value()

    return types.void(part, arguments, board), codegen


def _call_posted(context: Any, builder: Any, board_type: Any, board: Any, slot: Any) -> Any:
    def posted(place: int) -> Any:
        return builder.load(_place(context, builder, board_type, board, ir.Constant(_word, place)))

    entry = builder.inttoptr(posted(FUNCTION), _part_type.as_pointer())
    record = builder.inttoptr(posted(ARGUMENTS), _bytes)
    error = cgutils.alloca_once_value(builder, ir.Constant(excinfo_ptr_t, None))
    return builder.call(entry, [ir.Constant(_bytes, None), error, record, slot])


@replaces(enter)
def _enter(typing: Any, part: Any, arguments: Any, board: Any, slot: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call_posted(context, builder, board, args[2], args[3])

    return types.int32(part, arguments, board, types.intp), codegen


@replaces(enter_posted)
def _enter_posted(typing: Any, board: Any, slot: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call_posted(context, builder, board, args[0], args[1])

    return types.int32(board, types.intp), codegen
