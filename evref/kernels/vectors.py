"""A row of a tile as one value in registers: the only place that speaks LLVM.

The kernels of :mod:`evref.kernels.loops` work on tiles, arrays of shape (nodes, width) whose rows hold the same node
for `width` samples. Written with plain inner loops, LLVM keeps the running sum in memory or gives up on vectorising
(short rows are unrolled first); written with the functions below the sum stays in registers at every width.
A prototype of the forward loop alone at N=50, width 112, float32, best of 15 runs and padding counted as work, made 90
GF/s this way and 46 with the best plain loops; a whole call, with checks and packing, is nearer to 50.

Each function has two faces: plain Python on NumPy rows (what it means; what runs without numba's compiler), and an
LLVM version that numba puts in its place. A Vector is held as `parts` native registers of `lanes` numbers because
LLVM takes vectors whose length is not a power of two apart into scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import register_model

from .jit import replaces

REGISTER_BYTES = 64  # AVX-512; narrower machines take each part in two or four


def zeros(like: Any, width: int, source: int) -> Any:
    """A row of `width` zeros. Passed on, it also tells `load` how wide a row is."""
    return np.zeros(width, like.dtype)


def load(tile: Any, row: int, zero: Any) -> Any:
    """tile[row, :]"""
    return tile[row].copy()


def store(tile: Any, row: int, value: Any) -> None:
    """tile[row, :] = value"""
    tile[row] = value


def add(x: Any, y: Any) -> Any:
    """x + y"""
    return x + y


def scale_add(a: Any, x: Any, y: Any) -> Any:
    """a * x + y for a scalar a, rounded once where the machine can"""
    return a * x + y


def dot(x: Any, y: Any) -> Any:
    """sum_s x[s] y[s]; the order of the sum depends on the width alone"""
    return (x * y).sum(dtype=x.dtype)


def filled(a: Any, zero: Any) -> Any:
    """A row that holds the number a everywhere"""
    return np.full_like(zero, a)


def positive(x: Any) -> Any:
    """x where it is above zero, else 0; a NaN stays a NaN"""
    return np.where(x <= 0, x.dtype.type(0), x)


def where_positive(x: Any, y: Any) -> Any:
    """y where x is above zero or a NaN, else 0"""
    return np.where(x <= 0, y.dtype.type(0), y)


def ask_for(array: Any, place: int, writing: bool) -> None:
    """The cache line of array.flat[place] will be needed soon: no need to wait for it now, only to ask."""


def rolled() -> None:
    """Said in a loop over the entries of a row: it shall stay as it is.

    LLVM would take eight entries at a time and the rest one by one. Rows are short, so that this is mostly rest, and
    what counts is how many neighbours are asked for at once: the processor looks a few hundred instructions ahead.
    """


def turn(source: Any, first: int, stride: int, target: Any, start: int, step: int, size: int) -> None:
    """A size x size block of one C-contiguous array, transposed, into another.

    `first` and `start` are the flat positions of the blocks' corners, `stride` and `step` the distances of their rows.
    """
    flat, out = source.reshape(-1), target.reshape(-1)
    for row in range(size):
        for column in range(size):
            out[start + column * step + row] = flat[first + row * stride + column]


class Vector(types.Type):
    """numba type of a row: `parts` registers of `lanes` numbers."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = dtype
        self.width = width
        self.lanes = min(width, REGISTER_BYTES * 8 // dtype.bitwidth)
        self.parts = width // self.lanes
        super().__init__(name=f"Vector({dtype}, {width})")

    @property
    def part_type(self) -> ir.VectorType:
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.lanes)

    @property
    def alignment(self) -> int:
        return self.lanes * self.dtype.bitwidth // 8


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.ArrayType(vector.part_type, vector.parts))


def by_part(builder: Any, vector: Vector, part: Any) -> Any:
    """The vector whose k-th register is part(k)."""
    value = ir.Constant(ir.ArrayType(vector.part_type, vector.parts), ir.Undefined)
    for k in range(vector.parts):
        value = builder.insert_value(value, part(k), k)
    return value


def _address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, vector: Vector) -> Any:
    """Pointer to the k-th register of a row of a C-contiguous tile, as a function of k."""
    data = context.make_array(array_type)(context, builder, array).data
    start = builder.gep(data, [builder.mul(row, ir.Constant(row.type, vector.width))])
    first = builder.bitcast(start, vector.part_type.as_pointer())
    return lambda k: builder.gep(first, [ir.Constant(ir.IntType(64), k)])


@replaces(zeros, prefer_literal=True)
def _zeros(typing: Any, like: Any, width: Any, source: Any) -> Any:
    if not isinstance(width, types.IntegerLiteral):
        return None  # asks numba for the literal
    vector = Vector(like.dtype, width.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return by_part(builder, vector, lambda k: ir.Constant(vector.part_type, [0.0] * vector.lanes))

    return vector(like, width, source), codegen


@replaces(load)
def _load(typing: Any, tile: Any, row: Any, zero: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, tile, args[0], args[1], zero)

        def part(k: int) -> Any:
            value = builder.load(address(k))
            value.align = zero.alignment
            return value

        return by_part(builder, zero, part)

    return zero(tile, types.intp, zero), codegen


@replaces(store)
def _store(typing: Any, tile: Any, row: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, tile, args[0], args[1], value)
        for k in range(value.parts):
            builder.store(builder.extract_value(args[2], k), address(k)).align = value.alignment
        return context.get_dummy_value()

    return types.void(tile, types.intp, value), codegen


@replaces(add)
def _add(typing: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return by_part(builder, x, lambda k: builder.fadd(*(builder.extract_value(a, k) for a in args)))

    return x(x, x), codegen


FUSE = ("contract",)  # a multiply and an add may become one instruction; never nnan or ninf: NaN must propagate


def _everywhere(builder: Any, vector: Vector, number: Any) -> Any:
    """A register with `number` in every lane."""
    unset = ir.Constant(vector.part_type, ir.Undefined)
    first = builder.insert_element(unset, number, ir.Constant(ir.IntType(32), 0))
    first_lane = ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), [0] * vector.lanes)
    return builder.shuffle_vector(first, unset, first_lane)


@replaces(scale_add)
def _scale_add(typing: Any, a: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scale = _everywhere(builder, y, args[0])

        def part(k: int) -> Any:
            product = builder.fmul(scale, builder.extract_value(args[1], k), flags=FUSE)
            return builder.fadd(product, builder.extract_value(args[2], k), flags=FUSE)

        return by_part(builder, y, part)

    return y(y.dtype, x, y), codegen


@replaces(dot)
def _dot(typing: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = None
        for k in range(x.parts):
            product = builder.fmul(*(builder.extract_value(a, k) for a in args), flags=FUSE)
            total = product if total is None else builder.fadd(total, product, flags=FUSE)
        element = x.part_type.element
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(element, [element, x.part_type]),
            f"llvm.vector.reduce.fadd.v{x.lanes}f{x.dtype.bitwidth}",
        )
        # from +0: a sum of nothing but -0 is 0, as NumPy has it
        return builder.call(reduce, [ir.Constant(element, 0.0), total], fastmath=("reassoc",))

    return x.dtype(x, y), codegen


@replaces(filled)
def _filled(typing: Any, a: Any, zero: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        register = _everywhere(builder, zero, args[0])
        return by_part(builder, zero, lambda k: register)

    return zero(zero.dtype, zero), codegen


def _kept_where_positive(builder: Any, vector: Vector, x: Any, y: Any) -> Any:
    """`ugt` is true for a NaN."""
    nothing = ir.Constant(vector.part_type, [0.0] * vector.lanes)

    def part(k: int) -> Any:
        keep = builder.fcmp_unordered(">", builder.extract_value(x, k), nothing)
        return builder.select(keep, builder.extract_value(y, k), nothing)

    return by_part(builder, vector, part)


@replaces(positive)
def _positive(typing: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _kept_where_positive(builder, x, args[0], args[0])

    return x(x), codegen


@replaces(where_positive)
def _where_positive(typing: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _kept_where_positive(builder, x, *args)

    return x(x, y), codegen


@replaces(ask_for, prefer_literal=True)
def _ask_for(typing: Any, array: Any, place: Any, writing: Any) -> Any:
    if not isinstance(writing, types.BooleanLiteral):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        data = context.make_array(array)(context, builder, args[0]).data
        prefetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, word, word, word]), "llvm.prefetch.p0"
        )
        to_write, near, of_data = (ir.Constant(word, n) for n in (int(writing.literal_value), 3, 1))
        builder.call(prefetch, [builder.bitcast(builder.gep(data, [args[1]]), pointer), to_write, near, of_data])
        return context.get_dummy_value()

    return types.void(array, types.intp, writing), codegen


@replaces(rolled)
def _rolled(typing: Any) -> Any:
    """No instruction; `convergent` forbids copies of the loop under conditions it does not have, a rest for example."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        call = builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], True)
        call.attributes.add("convergent")
        return context.get_dummy_value()

    return types.void(), codegen


def _picked(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """The numbers at these places of a and b laid end to end."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


@replaces(turn, prefer_literal=True)
def _turn(typing: Any, source: Any, first: Any, stride: Any, target: Any, start: Any, step: Any, size: Any) -> Any:
    """log2(size) rounds; in the round of `distance` rows r and r + distance swap their off-diagonal blocks."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    n = size.literal_value
    row_type = ir.VectorType(ir.FloatType() if source.dtype == types.float32 else ir.DoubleType(), n)
    itemsize = source.dtype.bitwidth // 8

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def address(array_type: Any, array: Any, corner: Any, distance: Any, row: int) -> Any:
            data = context.make_array(array_type)(context, builder, array).data
            offset = builder.add(corner, builder.mul(distance, ir.Constant(distance.type, row)))
            return builder.bitcast(builder.gep(data, [offset]), row_type.as_pointer())

        rows = []
        for r in range(n):
            rows.append(builder.load(address(source, args[0], args[1], args[2], r)))
            rows[-1].align = itemsize
        distance = 1
        while distance < n:
            low = [i + (n - distance if i & distance else 0) for i in range(n)]
            high = [i + distance for i in low]
            for r in range(n):
                if not r & distance:
                    u, v = rows[r], rows[r + distance]
                    rows[r], rows[r + distance] = _picked(builder, u, v, low), _picked(builder, u, v, high)
            distance *= 2
        for r in range(n):
            builder.store(rows[r], address(target, args[3], args[4], args[5], r)).align = itemsize
        return context.get_dummy_value()

    intp = types.intp
    return types.void(source, intp, intp, target, intp, intp, size), codegen
