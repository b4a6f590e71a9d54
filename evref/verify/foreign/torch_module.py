"""Copies of a torch.nn.Module that have other parameters; the user's own stays as it is."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np

from .problem import LayerProblem, running

Arrays = dict[str, np.ndarray]
NO_COPY = "a function of (params, x) that calls torch.func.functional_call(module, params, (x,)) needs no copy"


def copied(module: Any, dtype: Any = None) -> Any:
    """A copy of the module, in `dtype` if one is said."""
    import torch

    try:
        with running("copying the module (copy.deepcopy)"), torch.inference_mode(False):
            made = copy.deepcopy(module, _kept_results(module))
            for parameter in made.parameters():
                if not parameter.is_leaf:  # of a ScriptModule: gradients would go through the old dtype
                    parameter.detach_()
    except LayerProblem as problem:
        raise LayerProblem(problem.kind, f"{problem.text}; {NO_COPY}") from problem
    with running("casting the module"), torch.inference_mode(False):
        if dtype is not None:
            made = _cast(made, dtype)
        for parameter in made.parameters():
            parameter.requires_grad_(True)
    return made


def _kept_results(module: Any) -> dict[int, Any]:
    """For copy.deepcopy: results of earlier calls that a module keeps cannot be copied, their numbers can."""
    import torch

    memo: dict[int, Any] = {}

    def look(value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            if not value.is_leaf:
                memo[id(value)] = value.detach().clone()
        elif depth and isinstance(value, (list, tuple)):
            for item in value:
                look(item, depth - 1)
        elif depth and isinstance(value, dict):
            for item in value.values():
                look(item, depth - 1)

    for part in module.modules():
        look({name: value for name, value in vars(part).items() if name not in ("_modules", "_parameters")}, 4)
    return memo


def _cast(module: Any, dtype: Any) -> Any:
    """`module.to(dtype)`, but complex buffers, eigenvectors for instance, stay complex."""
    import torch

    kept = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
        if buffer.is_complex()
    ]
    module = module.to(dtype)
    for part, name, buffer in kept:
        setattr(part, name, buffer.to(torch.complex128 if dtype == torch.float64 else torch.complex64))
    return module


def remarks_on(layer: Any) -> list[str]:
    """What a comparison does not show of a torch module, for the report."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(layer, torch.nn.Module):
        return []
    frozen = [name for name, parameter in layer.named_parameters() if not parameter.requires_grad]
    return [f"compared as if trained, but requires_grad is False: {', '.join(frozen)}"] if frozen else []


def set_parameters(module: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Puts the values into the module's parameters; returns these, by name."""
    import torch

    own = dict(module.named_parameters())
    with running("setting the module's parameters"), torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)
    return {name: own[name] for name in values}


def untouched_parameters(module: Any, before: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the module has now, which must be the ones that it had."""
    own = dict(module.named_parameters())
    for name, parameter in before.items():
        now = own.get(name)
        if now is None:
            raise LayerProblem("mutates", f"the module loses its parameter {name} when called; expected it untouched")
        if now.device.type != "cpu":
            raise LayerProblem(
                "mutates", f"the module moves its parameter {name} to {now.device} when called; expected it on CPU"
            )
        if now is not parameter:
            raise LayerProblem(
                "mutates", f"the module replaces its parameter {name} when called; expected it untouched"
            )
    return {name: own[name] for name in before}


def require_parameters(module: Any, theirs: Arrays) -> None:
    """ValueError where names or shapes of the module's parameters are not those that `parameters` says.

    A LayerProblem where they are not on the CPU, have no shape yet, or are no real numbers.
    """
    import torch

    own = dict(module.named_parameters())
    for name, parameter in own.items():
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise LayerProblem(
                "shape", f"parameter {name} of the module has no shape before its first call; call the module once"
            )
        if parameter.device.type != "cpu":
            raise LayerProblem(
                "device", f"the module is on device {parameter.device} ({name}); expected CPU (module.cpu())"
            )
        if not parameter.is_floating_point():
            raise LayerProblem("dtype", f"parameter {name} of the module is {parameter.dtype}; expected real numbers")
    for name, buffer in module.named_buffers():
        if buffer.device.type != "cpu":
            raise LayerProblem(
                "device", f"the module's buffer {name} is on device {buffer.device}; expected CPU (module.cpu())"
            )
    if own.keys() != theirs.keys():
        have = ", ".join(f"{name} {tuple(p.shape)}" for name, p in own.items()) or "none"
        want = ", ".join(f"{name} {a.shape}" for name, a in theirs.items()) or "none"
        raise ValueError(
            f"the module's parameters are {have}; expected {want}: say which of yours is which of the reference's, "
            f'such as parameters={{"lins.0.weight": ("theta", 0), "bias": "bias"}}{_tied(module, own, theirs)}'
        )
    for name, array in theirs.items():
        if tuple(own[name].shape) != array.shape:
            hint = ""
            if tuple(own[name].shape) == (*array.shape[:-2], *array.shape[:-3:-1]):
                hint = '; is it transposed? A last step "T" exchanges the axes'
            elif own[name].numel() == array.size:
                hint = "; a last step may be a function that moves entries, such as lambda w: w.reshape(4, 3)"
            raise ValueError(
                f"parameter {name} of the module has shape {tuple(own[name].shape)}; `parameters` puts an array of "
                f"shape {array.shape} there{hint}"
            )


def _tied(module: Any, own: dict[str, Any], theirs: Arrays) -> str:
    """A hint where a name belongs to a tensor that has another one already."""
    every = dict(module.named_parameters(remove_duplicate=False))
    for name in theirs:
        if name in every and name not in own:
            same = next(other for other in own if own[other] is every[name])
            return f". {name} is the same tensor as {same}: one parameter"
    return ""
