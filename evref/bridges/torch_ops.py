"""How PyTorch runs an evref module: an autograd.Function in eager mode, three custom ops everywhere else.

In eager mode the forward pass leaves its tape to the backward pass (:class:`_Eager`). A tape is not a tensor and cannot
be an output of an op, so the op ``evref::backward`` computes the forward pass again. The ops serve where PyTorch has to
see through what is called: under ``torch.compile`` and ``torch.jit.trace``, which an autograd.Function that leaves for
NumPy would escape; for tensors without numbers of their own, such as fake tensors; and where a backward pass is
differentiated in its turn.

    ============================  ====================  =================================
    op                            in eager mode         its derivative
    ============================  ====================  =================================
    evref::forward                _Eager.forward        evref::backward
    evref::backward               _Eager.backward       evref::backward_of_backward
    evref::backward_of_backward   the op                none: a third derivative raises
    ============================  ====================  =================================

Both ways call the same kernels and give the same bits. What the tape buys is in ``validation/bridge_speed.md``.

The arguments of an op are tensors, numbers and strings, so an op is told the evref module by a key (:func:`key_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import make_dual

from .. import checks
from ..contract import Module, Parameters, Tape
from ..kernels import use_backend

DTYPES = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
STEP = 1e-30  # of the complex step: nothing is subtracted, so it may be as small as one likes
NO_FORWARD_MODE = (
    "evref modules do not support PyTorch's forward mode (torch.func.jvp, torch.autograd.forward_ad); expected "
    "loss.backward() or torch.autograd.grad, or evref's own module.jvp"
)

# Neither keeps a module alive.
_modules: WeakValueDictionary[str, Module] = WeakValueDictionary()
_keys: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
_numbers = count()


def key_of(module: Module) -> str:
    """The key under which the ops find `module` in this process.

    Code that torch.compile stores on disk for the next process holds the key. The signature is part of it, so that such
    code is never used for a module of other shapes. (An integer would also become symbolic under torch.compile.)
    """
    key = _keys.get(module)
    if key is None:
        digest = sha256(module.signature.encode()).hexdigest()[:16]
        key = _keys[module] = f"{type(module).__name__}-{digest}-{next(_numbers)}"
        _modules[key] = module
    return key


def _module_of(key: str) -> Module:
    module = _modules.get(key)
    if module is None:
        raise RuntimeError(
            f"key is {key!r}, of an evref module that no longer exists or belongs to another process; expected the "
            "torch.nn.Module around it to live as long as what was computed with it"
        )
    return module


def run(module: Module, key: str, names: Sequence[str], params: list[Tensor], x: Tensor) -> Tensor:
    """The output of `module`, whose key is `key`; `params` in the order of `names`."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _by_op(key, params, x)
    if not isinstance(x, Tensor):
        raise TypeError(f"x is {type(x).__name__}; expected a torch.Tensor")
    _require_alike(names, params, x)
    try:
        return cast(Tensor, _Eager.apply(module, key, names, x, *params))
    except _NoMemory:
        return _by_op(key, params, x)
    except RuntimeError as error:
        if "setup_context" in str(error):  # what PyTorch says of an autograd.Function under torch.func
            raise NotImplementedError(
                "evref modules do not support torch.func (grad, vmap, jvp, ...); expected loss.backward() or "
                "torch.autograd.grad, also with create_graph=True"
            ) from error
        raise


def _by_op(key: str, params: list[Tensor], x: Tensor) -> Tensor:
    if _in_forward_mode():  # an op would drop the tangents: derivatives of zero, without an error
        raise NotImplementedError(NO_FORWARD_MODE)
    return cast(Tensor, torch.ops.evref.forward(key, params, x))


def _in_forward_mode() -> bool:
    """Whether torch.func.jvp, jacfwd or a level of torch.autograd.forward_ad is around the call."""
    probe = torch.zeros(())
    try:
        make_dual(probe, probe)
    except RuntimeError:  # there is no level of forward mode
        return False
    return True


# ---- between torch and NumPy, sharing memory -------------------------------------------------------------------------
class _NoMemory(Exception):
    """A tensor has no numbers of its own: it is fake, or wraps others."""


def _array(tensor: Tensor) -> np.ndarray:
    """The memory of a CPU tensor; in C order, which usually costs nothing."""
    return np.asarray(tensor.numpy(force=True), order="C")


def _tensor(array: np.ndarray) -> Tensor:
    """In C order, as the fake kernels promise; NumPy gives empty arrays other strides."""
    tensor = torch.from_numpy(np.asarray(array, order="C"))
    return tensor if array.size else tensor.new_empty(array.shape)


def _named(names: Sequence[str], params: Sequence[Tensor]) -> Parameters:
    return dict(zip(names, map(_array, params), strict=True))


# ---- what comes in ---------------------------------------------------------------------------------------------------
def _require_alike(names: Sequence[str], params: Sequence[Tensor], x: Tensor) -> None:
    """Errors for tensors that evref cannot read; of shapes evref speaks itself."""
    _require_readable("x", x)
    for name, param in zip(names, params, strict=True):
        if not isinstance(param, Tensor):
            raise TypeError(f"parameter {name!r} is {type(param).__name__}; expected a torch.Tensor")
        if param.dtype is not x.dtype or param.device != x.device or param.layout != x.layout:
            _require_readable(f"parameter {name!r}", param)
            raise TypeError(
                f"x has dtype {x.dtype}, parameter {name!r} has {param.dtype}; expected the same "
                f"(x.to({param.dtype}) or module.to({x.dtype}))"
            )


def _require_readable(argument: str, tensor: Tensor) -> None:
    if tensor.device.type != "cpu":
        raise ValueError(f"{argument} is on device {tensor.device}; expected CPU, where evref computes")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{argument} has dtype {tensor.dtype}; supported are torch.float32 and torch.float64")
    if tensor.layout != torch.strided:
        raise TypeError(f"{argument} has layout {tensor.layout}; expected torch.strided ({argument}.to_dense())")


def _output_shape(module: Module, x_shape: torch.Size) -> tuple[int, ...]:
    """In kind with x, as :class:`evref.Module` has it."""
    core, out = module.in_shape, module.out_shape
    if core is None or out is None:
        return tuple(x_shape)
    if len(x_shape) == len(core) + 1 and tuple(x_shape[1:]) == core:
        return (x_shape[0], *out)
    if tuple(x_shape) == core:
        return out
    if len(core) == 2 and core[0] == 1 and tuple(x_shape) == core[1:]:
        return out[1:] if len(out) == 2 and out[0] == 1 else out
    raise ValueError(module._shape_complaint("x", tuple(x_shape), core))


# ---- eager mode ------------------------------------------------------------------------------------------------------
class _Eager(torch.autograd.Function):
    """One pass forward and one backward, with the tape in between.

    Not in the newer style with `setup_context`: PyTorch spends three times as long on that (19 against 6 µs a pass).

    The tape is an attribute of an empty tensor that is saved with the others, so that PyTorch frees it when it frees
    them: after the backward pass, and under torch.utils.checkpoint before it. As an attribute of `ctx` it would live as
    long as the output, in a training loop until the next forward pass is over.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, module: Module, key: str, names: Sequence[str], x: Tensor, *params: Tensor
    ) -> Tensor:
        try:
            arrays, array = _named(names, params), _array(x)
        except RuntimeError as error:
            raise _NoMemory from error
        y, tape = module.forward(arrays, array, check_finite=False)
        ctx.module, ctx.key, ctx.names = module, key, names
        with_tape = torch.empty(0)
        with_tape.tape = tape  # type: ignore[attr-defined]
        ctx.save_for_backward(with_tape, x, *params)
        return _tensor(y)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        with_tape, x, *params = ctx.saved_tensors  # raises where one was changed in place since, or all are freed
        with_x = ctx.needs_input_grad[3]
        tape = getattr(with_tape, "tape", None)  # None: hooks on saved tensors gave a copy back
        if torch.is_grad_enabled() or tape is None:  # create_graph=True
            grads = torch.ops.evref.backward(ctx.key, params, x, grad_y, with_x)
        else:
            grads = _gradients(ctx.module, ctx.names, _named(ctx.names, params), tape, _array(grad_y), with_x)
        grad_x = grads.pop() if with_x else None
        return None, None, None, grad_x, *grads

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(NO_FORWARD_MODE)


def _gradients(
    module: Module, names: Sequence[str], params: Parameters, tape: Tape, grad_y: np.ndarray, with_x: bool
) -> list[Tensor]:
    """Those of the parameters and, at the end, that of x if it is wanted: data usually needs none."""
    if with_x:
        grads, grad_x = module.backward(params, tape, grad_y, check_finite=False)
        return [_tensor(grads[name]) for name in names] + [_tensor(grad_x)]
    grads = module._parameter_gradients(params, tape.saved, module._cotangent_batch(tape, grad_y))
    return [_tensor(grads[name]) for name in names]


# ---- the ops ---------------------------------------------------------------------------------------------------------
@torch.library.custom_op(
    "evref::forward", mutates_args=(), device_types="cpu", schema="(str key, Tensor[] params, Tensor x) -> Tensor"
)
def _forward(key: str, params: list[Tensor], x: Tensor) -> Tensor:
    module = _module_of(key)
    named = _named(list(module.parameter_shapes()), params)
    return _tensor(module.forward(named, _array(x), check_finite=False)[0])


@torch.library.custom_op(
    "evref::backward",
    mutates_args=(),
    device_types="cpu",
    schema="(str key, Tensor[] params, Tensor x, Tensor grad_y, bool with_x) -> Tensor[]",
)
def _backward(key: str, params: list[Tensor], x: Tensor, grad_y: Tensor, with_x: bool) -> list[Tensor]:
    """Gradients of <grad_y, y> with respect to the parameters and, at the end, to x if `with_x`."""
    module = _module_of(key)
    names = list(module.parameter_shapes())
    named = _named(names, params)
    _, tape = module.forward(named, _array(x), check_finite=False)
    return _gradients(module, names, named, tape, _array(grad_y), with_x)


@torch.library.custom_op(
    "evref::backward_of_backward",
    mutates_args=(),
    device_types="cpu",
    schema="(str key, Tensor[] params, Tensor x, Tensor grad_y, Tensor[] dparams, Tensor dx) -> Tensor[]",
)
def _backward_of_backward(
    key: str, params: list[Tensor], x: Tensor, grad_y: Tensor, dparams: list[Tensor], dx: Tensor
) -> list[Tensor]:
    r"""Gradients of s = <grad_y, J d> with respect to the parameters, to x and to grad_y.

    J is the Jacobian of y at z = (params, x), and d = (dparams, dx) the cotangent of what `_backward` gave, J^T grad_y.
    s is linear in grad_y, and its gradient there is J d, the jvp. Second derivatives commute, so the gradient with
    respect to z is the derivative of the backward pass along d, and that is Im backward(z + i h d) / h, exact to
    rounding, on the reference kernels.
    """
    module = _module_of(key)
    names = list(module.parameter_shapes())
    point, direction = _named(names, params), _named(names, dparams)
    x_, dx_ = _array(x), _array(dx)
    # Along d / max|d|: no d is so long that it disturbs z, none so short that the step vanishes.
    size = max(float(np.abs(d).max(initial=0.0)) for d in (dx_, *direction.values()))
    size = size if size > 0 else 1.0  # zero, or not a number
    moved = {name: point[name] + 1j * STEP * (direction[name].astype(np.float64) / size) for name in names}
    moved_x = x_ + 1j * STEP * (dx_.astype(np.float64) / size)
    with checks.complex_allowed(), use_backend("numpy"):
        y, tape = module.forward(moved, moved_x, check_finite=False)
        if y.dtype != np.complex128:
            raise TypeError(
                f"{type(module).__name__}.forward gave {y.dtype} for complex128 input; expected complex128: without "
                "it evref has no second derivatives of this module"
            )
        grads, grad_x = module.backward(moved, tape, _array(grad_y).astype(np.complex128), check_finite=False)
    second = [(grad.imag / STEP * size).astype(x_.dtype) for grad in (*(grads[name] for name in names), grad_x)]
    dy = module.jvp(point, x_, direction, dx_, check_finite=False)
    return [_tensor(array) for array in (*second, dy)]


# ---- shapes, for torch.compile ---------------------------------------------------------------------------------------
def _like(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


@_forward.register_fake
def _(key: str, params: list[Tensor], x: Tensor) -> Tensor:
    module = _module_of(key)
    _require_alike(list(module.parameter_shapes()), params, x)
    return x.new_empty(_output_shape(module, x.shape))


@_backward.register_fake
def _(key: str, params: list[Tensor], x: Tensor, grad_y: Tensor, with_x: bool) -> list[Tensor]:
    return _like([*params, x] if with_x else params)


@_backward_of_backward.register_fake
def _(key: str, params: list[Tensor], x: Tensor, grad_y: Tensor, dparams: list[Tensor], dx: Tensor) -> list[Tensor]:
    return _like([*params, x, grad_y])


# ---- derivatives of the ops ------------------------------------------------------------------------------------------
def _save_forward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.key, params, x = inputs
    ctx.module = _modules.get(ctx.key)  # lives as long as the graph
    ctx.save_for_backward(*params, x)


def _differentiate_forward(ctx: Any, grad_y: Tensor) -> tuple[Any, ...]:
    *params, x = ctx.saved_tensors
    with_x = ctx.needs_input_grad[2]
    grads = torch.ops.evref.backward(ctx.key, params, x, grad_y, with_x)
    return None, grads[: len(params)], grads[-1] if with_x else None


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.key, params, x, grad_y, ctx.with_x = inputs
    ctx.module = _modules.get(ctx.key)
    ctx.save_for_backward(*params, x, grad_y)


def _differentiate_backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    """`grads`: cotangents of what `_backward` gave, None where nothing depends on it."""
    *params, x, grad_y = ctx.saved_tensors
    along = [*grads] if ctx.with_x else [*grads, None]
    *dparams, dx = (torch.zeros_like(at) if d is None else d for at, d in zip([*params, x], along, strict=True))
    *second, grad_x, grad_grad_y = torch.ops.evref.backward_of_backward(ctx.key, params, x, grad_y, dparams, dx)
    return None, second, grad_x, grad_grad_y, None


def _refuse(ctx: Any, *grads: Any) -> Any:
    raise NotImplementedError("evref modules have no third derivatives in PyTorch; expected at most two in a row")


_forward.register_autograd(_differentiate_forward, setup_context=_save_forward)
_backward.register_autograd(_differentiate_backward, setup_context=_save_backward)
_backward_of_backward.register_autograd(_refuse)
