"""Functions and modules of PyTorch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, running

Arrays = dict[str, np.ndarray]


class TorchLayer:
    """`call(params, x)` on tensors, or a module whose parameters are set before each call."""

    framework = "torch"
    has_gradients = True
    autodiff = True

    def __init__(self, call: Callable[..., Any], module: Any = None) -> None:
        self.call, self.module = call, module

    @property
    def training(self) -> bool:
        return self.module is not None and bool(self.module.training)

    def in_eval_mode(self) -> TorchLayer:
        """The same module as model.eval() leaves it."""
        return TorchLayer(self.call, copy.deepcopy(self.module).eval())

    def dtypes(self) -> list[np.dtype]:
        """What to try: float64 first, then what the module's own parameters are."""
        import torch

        own = [] if self.module is None else [p.dtype for p in self.module.parameters()]
        double, single = np.dtype(np.float64), np.dtype(np.float32)
        return [double, single] if not own or torch.float32 in own else [double]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        """One call without gradients; a LayerProblem if it changes what it is given."""
        import torch

        dtype = torch.from_numpy(np.zeros(0, x.dtype)).dtype
        tensors = {name: torch.tensor(array, dtype=dtype) for name, array in params.items()}
        signal = torch.tensor(x, dtype=dtype)
        before = signal.clone()
        with torch.no_grad():
            y = self._run(tensors, signal)
        if not torch.equal(signal, before):
            raise LayerProblem("mutates", "the layer changes its input x in place; expected it untouched (x.clone())")
        for name, array in params.items():
            if not np.array_equal(tensors[name].numpy(), array.astype(x.dtype), equal_nan=True):
                raise LayerProblem("mutates", f"the layer changes its parameter {name} in place; expected it untouched")
        return _checked(y, dtype)

    def gradients(self, params: Arrays, x: np.ndarray, grad_y: Callable[[np.ndarray], np.ndarray]) -> Any:
        """y, gradients by name and that of x; grad_y(y) is the cotangent."""
        import torch

        dtype = torch.from_numpy(np.zeros(0, x.dtype)).dtype
        tensors = {name: torch.tensor(array, dtype=dtype, requires_grad=True) for name, array in params.items()}
        signal = torch.tensor(x, dtype=dtype, requires_grad=True)
        with torch.enable_grad():
            y, leaves = self._run_with_leaves(tensors, signal)
        value = _checked(y, dtype)
        wanted = [signal, *leaves.values()]
        found: Any
        if y.requires_grad:
            cotangent = torch.tensor(grad_y(value), dtype=dtype)
            with running("autograd, going back through the layer,"):
                found = torch.autograd.grad(y, wanted, cotangent, allow_unused=True)
        else:
            found = (None,) * len(wanted)
        arrays = [np.zeros(t.shape) if g is None else _as_array(g) for g, t in zip(found, wanted, strict=True)]
        return value, dict(zip(leaves, arrays[1:], strict=True)), arrays[0]

    # ---- calls -----------------------------------------------------------------------------------------------------
    def _run(self, tensors: dict[str, Any], signal: Any) -> Any:
        return self._run_with_leaves(tensors, signal)[0]

    def _run_with_leaves(self, tensors: dict[str, Any], signal: Any) -> tuple[Any, dict[str, Any]]:
        if self.module is None:
            with running("the layer"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.call(tensors, signal), tensors
        module = _with_values(self.module, tensors, signal.dtype)
        with running("the layer"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = self.call(module, signal)
        own = dict(module.named_parameters())
        for name, value in tensors.items():
            if not torch_equal(own[name], value):
                raise LayerProblem(
                    "mutates", f"the layer changes its parameter {name} when called; expected it untouched"
                )
        return y, {name: own[name] for name in tensors}


def torch_equal(a: Any, b: Any) -> bool:
    """The same numbers, NaN equal to NaN."""
    return bool(np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True))


def _with_values(module: Any, tensors: dict[str, Any], dtype: Any) -> Any:
    """A copy of the module in `dtype` that has these parameters; the user's own stays as it is."""
    import torch

    with running("copying the module (copy.deepcopy)"):
        module = copy.deepcopy(module).to(dtype)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in tensors:
                parameter.copy_(tensors[name])
    for parameter in module.parameters():
        parameter.requires_grad_(True)
    return module


def require_parameters(module: Any, theirs: Arrays) -> None:
    """ValueError where names or shapes of the module's parameters are not those that `parameters` says."""
    own = dict(module.named_parameters())
    for parameter in own.values():
        if parameter.device.type != "cpu":
            raise LayerProblem("device", f"the module is on device {parameter.device}; expected CPU (module.cpu())")
    if own.keys() != theirs.keys():
        have = ", ".join(f"{name} {tuple(p.shape)}" for name, p in own.items()) or "none"
        want = ", ".join(f"{name} {a.shape}" for name, a in theirs.items()) or "none"
        raise ValueError(
            f"the module's parameters are {have}; the reference's are {want}: say which is which, such as "
            'parameters={"lins.0.weight": ("theta", 0), "bias": "bias"}'
        )
    for name, array in theirs.items():
        if tuple(own[name].shape) != array.shape:
            hint = ""
            if tuple(own[name].shape) == (*array.shape[:-2], *array.shape[:-3:-1]):
                hint = '; is it transposed? A last step "T" exchanges the axes'
            raise ValueError(
                f"parameter {name} of the module has shape {tuple(own[name].shape)}; `parameters` puts an array of "
                f"shape {array.shape} there{hint}"
            )


def _as_array(tensor: Any) -> np.ndarray:
    tensor = tensor.to_dense() if tensor.is_sparse else tensor
    return tensor.detach().numpy().astype(np.float64)


def _checked(y: Any, dtype: Any) -> np.ndarray:
    import torch

    if not isinstance(y, torch.Tensor):
        inside = f" of {len(y)}" if isinstance(y, (tuple, list)) else ""
        raise LayerProblem(
            "type", f"the layer returned {type(y).__name__}{inside}; expected one torch.Tensor, the output"
        )
    if y.device.type != "cpu":
        raise LayerProblem("device", f"the output is on device {y.device}; expected CPU, where the reference computes")
    if y.layout != torch.strided:
        raise LayerProblem("type", f"the output has layout {y.layout}; expected torch.strided (y.to_dense())")
    if y.dtype != dtype:
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype))
    return _as_array(y)
