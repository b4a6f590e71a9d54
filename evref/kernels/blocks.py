"""Blocks: several registers at once, for small matrix products; like rows (:mod:`evref.kernels.vectors`), two-faced.

A C-contiguous array of any shape is seen as (registers, lanes), places in it are counted in registers. Each register
that is loaded serves a whole row or column of a block, whose sums stay in registers; row by row, every multiply-add
needs a load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import register_model

from .jit import replaces
from .vectors import FUSE, Vector, VectorModel, by_part


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


register_model(Block)(VectorModel)


def _registers(context: Any, builder: Any, tile: Any, array: Any, first: Any, stride: Any, shape: Block) -> Any:
    """Pointer to register (r, c) of a block in a tile, as a function of r and c."""
    data = context.make_array(tile)(context, builder, array).data
    start = builder.bitcast(data, shape.part_type.as_pointer())

    def address(r: int, c: int) -> Any:
        row = builder.add(first, builder.mul(stride, ir.Constant(stride.type, r)))
        return builder.gep(builder.gep(start, [row]), [ir.Constant(ir.IntType(64), c)])

    return address


def _cleared(shape: Block) -> Any:
    return lambda context, builder, signature, args: by_part(
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

        return by_part(builder, zero, part)

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

        return by_part(builder, zero, part)

    return zero(numbers, types.intp, types.intp, zero), codegen


@replaces(outer_add)
def _outer_add(typing: Any, x: Any, y: Any, total: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def part(k: int) -> Any:
            r, c = divmod(k, y.parts)
            a, b = builder.extract_value(args[0], r), builder.extract_value(args[1], c)
            return builder.fadd(builder.fmul(a, b, flags=FUSE), builder.extract_value(args[2], k), flags=FUSE)

        return by_part(builder, total, part)

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
