"""A row of a tile as one value in registers: the only place that speaks LLVM.

The kernels of :mod:`evref.kernels.loops` work on tiles, arrays of shape (nodes, width) whose rows hold the same node
for `width` samples. Written with plain inner loops, LLVM keeps the running sum in memory or gives up on vectorising
(short rows are unrolled first); written with the seven functions below the sum stays in registers at every width.
A prototype of the forward loop alone at N=50, width 112, float32, best of 15 runs and padding counted as work, made 90
GF/s this way and 46 with the best plain loops; a whole call, with checks and packing, is nearer to 50.

Each function has two faces: plain Python on NumPy rows (what it means; what runs without numba's compiler), and an
LLVM version that numba puts in its place. A Vector is held as `parts` native registers of `lanes` numbers because
LLVM takes vectors whose length is not a power of two apart into scalars.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import infer_global, make_intrinsic_template
from numba.extending import intrinsic, overload, register_model

REGISTER_BYTES = 64  # AVX-512; narrower machines take each part in two or four

# numba's on-disk cache looks only at the file of the compiled function, not at what it calls. Kernels hand this number
# to `zeros`, so that it is part of their key and a change here makes the cache miss.
SOURCE = int.from_bytes(sha256(Path(__file__).read_bytes()).digest()[:6], "little")


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


def fold(x: Any, y: Any, total: Any) -> Any:
    """total + x y, the registers of the product added onto the one of `total`: a dot product but for its last step"""
    return total + (x * y).reshape(-1, total.size).sum(axis=0)


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
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.ArrayType(vector.part_type, vector.parts))


def _by_part(builder: Any, vector: Vector, part: Any) -> Any:
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


@intrinsic(prefer_literal=True)
def _zeros(typing: Any, like: Any, width: Any, source: Any) -> Any:
    if not isinstance(width, types.IntegerLiteral):
        return None  # asks numba for the literal
    vector = Vector(like.dtype, width.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _by_part(builder, vector, lambda k: ir.Constant(vector.part_type, [0.0] * vector.lanes))

    return vector(like, width, source), codegen


@intrinsic
def _load(typing: Any, tile: Any, row: Any, zero: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, tile, args[0], args[1], zero)

        def part(k: int) -> Any:
            value = builder.load(address(k))
            value.align = zero.alignment
            return value

        return _by_part(builder, zero, part)

    return zero(tile, types.intp, zero), codegen


@intrinsic
def _store(typing: Any, tile: Any, row: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, tile, args[0], args[1], value)
        for k in range(value.parts):
            builder.store(builder.extract_value(args[2], k), address(k)).align = value.alignment
        return context.get_dummy_value()

    return types.void(tile, types.intp, value), codegen


@intrinsic
def _add(typing: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _by_part(builder, x, lambda k: builder.fadd(*(builder.extract_value(a, k) for a in args)))

    return x(x, x), codegen


_FUSE = ("contract",)  # a multiply and an add may become one instruction; never nnan or ninf: NaN must propagate


@intrinsic
def _scale_add(typing: Any, a: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        unset = ir.Constant(y.part_type, ir.Undefined)
        first = builder.insert_element(unset, args[0], ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), y.lanes), [0] * y.lanes)
        scale = builder.shuffle_vector(first, unset, everywhere)

        def part(k: int) -> Any:
            product = builder.fmul(scale, builder.extract_value(args[1], k), flags=_FUSE)
            return builder.fadd(product, builder.extract_value(args[2], k), flags=_FUSE)

        return _by_part(builder, y, part)

    return y(y.dtype, x, y), codegen


@intrinsic
def _dot(typing: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = None
        for k in range(x.parts):
            product = builder.fmul(*(builder.extract_value(a, k) for a in args), flags=_FUSE)
            total = product if total is None else builder.fadd(total, product, flags=_FUSE)
        element = x.part_type.element
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(element, [element, x.part_type]),
            f"llvm.vector.reduce.fadd.v{x.lanes}f{x.dtype.bitwidth}",
        )
        return builder.call(reduce, [ir.Constant(element, -0.0), total], fastmath=("reassoc",))

    return x.dtype(x, y), codegen


@intrinsic
def _fold(typing: Any, x: Any, y: Any, total: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.extract_value(args[2], 0)
        for k in range(x.parts):
            product = builder.fmul(*(builder.extract_value(a, k) for a in args[:2]), flags=_FUSE)
            value = builder.fadd(value, product, flags=_FUSE)
        return _by_part(builder, total, lambda k: value)

    return total(x, x, total), codegen


def _picked(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """The numbers at these places of a and b laid end to end."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


@intrinsic(prefer_literal=True)
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


# numba wants the stand-in's signature to match to the letter, hence no annotations
# mypy: disable-error-code="call-arg"
@overload(zeros, prefer_literal=True)
def _zeros_overload(like, width, source):
    return lambda like, width, source: _zeros(like, width, source)


@overload(load, inline="always")
def _load_overload(tile, row, zero):
    return lambda tile, row, zero: _load(tile, row, zero)


@overload(store, inline="always")
def _store_overload(tile, row, value):
    return lambda tile, row, value: _store(tile, row, value)


@overload(add, inline="always")
def _add_overload(x, y):
    return lambda x, y: _add(x, y)


@overload(scale_add, inline="always")
def _scale_add_overload(a, x, y):
    return lambda a, x, y: _scale_add(a, x, y)


@overload(dot, inline="always")
def _dot_overload(x, y):
    return lambda x, y: _dot(x, y)


@overload(fold, inline="always")
def _fold_overload(x, y, total):
    return lambda x, y, total: _fold(x, y, total)


@overload(turn, prefer_literal=True)
def _turn_overload(source, first, stride, target, start, step, size):
    return lambda source, first, stride, target, start, step, size: _turn(
        source, first, stride, target, start, step, size
    )


# ---- blocks: several registers at once, for small matrix products ---------------------------------------------------
# Here a C-contiguous array of any shape is seen as (registers, lanes), places in it are counted in registers. Each
# register that is loaded serves a whole row or column of a block, whose sums stay in registers; row by row, every
# multiply-add needs a load.
def line(like: Any, columns: int, lanes: int, source: int) -> Any:
    """A block of one row, zeros. Passed on, it also tells the functions below the shape of a block."""
    return np.zeros((1, columns, lanes), like.dtype)


def column(rows: int, like: Any) -> Any:
    """A block of one column, zeros, of registers like those of another block."""
    return np.zeros((rows, 1, like.shape[2]), like.dtype)


def outer_zero(x: Any, y: Any) -> Any:
    """Zeros in the shape of the outer product of the registers of x and of y."""
    return np.zeros((x.shape[0] * x.shape[1], y.shape[0] * y.shape[1], x.shape[2]), x.dtype)


def load_block(tile: Any, first: int, stride: int, zero: Any) -> Any:
    """Register (r, c) is tile[first + r * stride + c]."""
    rows, columns, lanes = zero.shape
    tile = tile.reshape(-1, lanes)
    return np.stack([tile[first + r * stride : first + r * stride + columns] for r in range(rows)])


def store_block(tile: Any, first: int, stride: int, value: Any) -> None:
    """The way back."""
    tile = tile.reshape(-1, value.shape[2])
    for r, row in enumerate(value):
        tile[first + r * stride : first + r * stride + len(row)] = row


def spread(numbers: Any, first: int, stride: int, zero: Any) -> Any:
    """Register r holds numbers[first + r * stride] in every lane."""
    picked = numbers.reshape(-1)[first + stride * np.arange(zero.shape[0])]
    return np.broadcast_to(picked[:, np.newaxis, np.newaxis], zero.shape)


def outer_add(x: Any, y: Any, total: Any) -> Any:
    """total + x y: register (r, c) gains the product of register r of x and register c of y, lane by lane"""
    lanes = total.shape[2]
    return total + x.reshape(-1, 1, lanes) * y.reshape(1, -1, lanes)


def sum_lanes(value: Any, out: Any, place: int) -> None:
    """out[place], counted in numbers, += the sum of the lanes of a block of one register"""
    out.reshape(-1)[place] += value.sum(dtype=value.dtype)


class Block(Vector):
    """numba type of rows x columns registers, row by row."""

    def __init__(self, dtype: Any, rows: int, columns: int, lanes: int) -> None:
        super().__init__(dtype, lanes)
        self.rows, self.columns, self.parts = rows, columns, rows * columns
        self.name = f"Block({dtype}, {rows}, {columns}, {lanes})"

    @property
    def key(self) -> str:
        return self.name


register_model(Block)(_VectorModel)


def replaces(function: Any, prefer_literal: bool = False) -> Any:
    """numba takes the definition below, written as that of an intrinsic, wherever it meets `function`.

    Like `intrinsic` and `overload` together, but without a function in between that would have to be typed and inlined
    for every shape of a block: a pass that uses these compiles in less than half the time.
    """

    def register(definition: Any) -> Any:
        template = make_intrinsic_template(function, definition, function.__name__, prefer_literal=prefer_literal)
        infer_global(function, types.Function(template))
        return definition

    return register


def _registers(context: Any, builder: Any, tile: Any, array: Any, first: Any, stride: Any, shape: Block) -> Any:
    """Pointer to register (r, c) of a block in a tile, as a function of r and c."""
    data = context.make_array(tile)(context, builder, array).data
    start = builder.bitcast(data, shape.part_type.as_pointer())

    def address(r: int, c: int) -> Any:
        row = builder.add(first, builder.mul(stride, ir.Constant(stride.type, r)))
        return builder.gep(builder.gep(start, [row]), [ir.Constant(ir.IntType(64), c)])

    return address


def _cleared(shape: Block) -> Any:
    return lambda context, builder, signature, args: _by_part(
        builder, shape, lambda k: ir.Constant(shape.part_type, [0.0] * shape.lanes)
    )


@replaces(line, prefer_literal=True)
def _line(typing: Any, like: Any, columns: Any, lanes: Any, source: Any) -> Any:
    if not all(isinstance(n, types.IntegerLiteral) for n in (columns, lanes)):
        return None
    shape = Block(like.dtype, 1, columns.literal_value, lanes.literal_value)
    return shape(like, columns, lanes, source), _cleared(shape)


@replaces(column, prefer_literal=True)
def _column(typing: Any, rows: Any, like: Any) -> Any:
    if not isinstance(rows, types.IntegerLiteral):
        return None
    shape = Block(like.dtype, rows.literal_value, 1, like.lanes)
    return shape(rows, like), _cleared(shape)


@replaces(outer_zero)
def _outer_zero(typing: Any, x: Any, y: Any) -> Any:
    shape = Block(x.dtype, x.parts, y.parts, x.lanes)
    return shape(x, y), _cleared(shape)


@replaces(load_block)
def _load_block(typing: Any, tile: Any, first: Any, stride: Any, zero: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _registers(context, builder, tile, args[0], args[1], args[2], zero)

        def part(k: int) -> Any:
            value = builder.load(address(*divmod(k, zero.columns)))
            value.align = zero.alignment
            return value

        return _by_part(builder, zero, part)

    return zero(tile, types.intp, types.intp, zero), codegen


@replaces(store_block)
def _store_block(typing: Any, tile: Any, first: Any, stride: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _registers(context, builder, tile, args[0], args[1], args[2], value)
        for k in range(value.parts):
            builder.store(builder.extract_value(args[3], k), address(*divmod(k, value.columns))).align = value.alignment
        return context.get_dummy_value()

    return types.void(tile, types.intp, types.intp, value), codegen


@replaces(spread)
def _spread(typing: Any, numbers: Any, first: Any, stride: Any, zero: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(numbers)(context, builder, args[0]).data
        unset = ir.Constant(zero.part_type, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), zero.lanes), [0] * zero.lanes)

        def part(r: int) -> Any:
            place = builder.add(args[1], builder.mul(args[2], ir.Constant(args[2].type, r)))
            number = builder.load(builder.gep(data, [place]))
            first_lane = builder.insert_element(unset, number, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(first_lane, unset, everywhere)

        return _by_part(builder, zero, part)

    return zero(numbers, types.intp, types.intp, zero), codegen


@replaces(outer_add)
def _outer_add(typing: Any, x: Any, y: Any, total: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def part(k: int) -> Any:
            r, c = divmod(k, y.parts)
            a, b = builder.extract_value(args[0], r), builder.extract_value(args[1], c)
            return builder.fadd(builder.fmul(a, b, flags=_FUSE), builder.extract_value(args[2], k), flags=_FUSE)

        return _by_part(builder, total, part)

    return total(x, y, total), codegen


@replaces(sum_lanes)
def _sum_lanes(typing: Any, value: Any, out: Any, place: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = value.part_type.element
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(element, [element, value.part_type]),
            f"llvm.vector.reduce.fadd.v{value.lanes}f{value.dtype.bitwidth}",
        )
        register = builder.extract_value(args[0], 0)
        total = builder.call(reduce, [ir.Constant(element, -0.0), register], fastmath=("reassoc",))
        address = builder.gep(context.make_array(out)(context, builder, args[1]).data, [args[2]])
        builder.store(builder.fadd(builder.load(address), total), address)
        return context.get_dummy_value()

    return types.void(value, out, types.intp), codegen
