"""Functions and modules of PyTorch, run on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, not_of, require_same_entries, running
from .torch_module import copied, set_parameters, untouched_parameters

Arrays = dict[str, np.ndarray]


class TorchLayer:
    """`call(params, x)` on tensors, or a module whose parameters are set before each call.

    One copy of a module serves all calls in one dtype, as it would in a program: what it keeps from one call to the
    next shows. `fresh` has a new copy.
    """

    framework = "torch"
    has_gradients = True
    autodiff = True
    certain = False  # whether nothing but this framework is meant

    def __init__(self, call: Callable[..., Any], module: Any = None) -> None:
        self.call, self.module = call, module
        self._copies: dict[np.dtype, Any] = {}

    @property
    def training(self) -> bool:
        return self.module is not None and bool(self.module.training)

    def fresh(self) -> TorchLayer:
        """The same layer before its first call, as far as that can be had: a function stays as it is."""
        return TorchLayer(self.call, self.module)

    def in_eval_mode(self) -> TorchLayer:
        """The same module as model.eval() leaves it."""
        return TorchLayer(self.call, copied(self.module).eval())

    def dtypes(self) -> list[np.dtype]:
        """What to try: float64 first, then what the module's own parameters are."""
        import torch

        own = [] if self.module is None else [p.dtype for p in self.module.parameters()]
        double, single = np.dtype(np.float64), np.dtype(np.float32)
        return [double, single] if not own or torch.float32 in own else [double]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        """One call without gradients; a LayerProblem if it changes what it is given."""
        import torch

        with _ordinary_mode(), torch.no_grad():
            call = _Call(self, params, x, recorded=False)
            y = call.run()
            return _checked(y, call.dtype)

    def gradients(self, params: Arrays, x: np.ndarray, grad_y: Callable[[np.ndarray], np.ndarray]) -> Any:
        """y, gradients by name and that of x; grad_y(y) is the cotangent."""
        import torch

        with _ordinary_mode(), torch.enable_grad():
            call = _Call(self, params, x, recorded=True)
            y = call.run()
            value = _checked(y, call.dtype)
            wanted = [call.signal, *call.leaves.values()]
            found: Any = (None,) * len(wanted)
            if y.requires_grad:
                cotangent = torch.tensor(grad_y(value), dtype=call.dtype, device="cpu")
                with running("autograd, going back through the layer,"):
                    found = torch.autograd.grad(y, wanted, cotangent, allow_unused=True)
                call.require_untouched("in its backward pass")
        with running("reading the gradients"):
            arrays = [np.zeros(t.shape) if g is None else _as_array(g) for g, t in zip(found, wanted, strict=True)]
        return value, dict(zip(call.leaves, arrays[1:], strict=True)), arrays[0]

    def copy_in(self, dtype: Any, name: np.dtype) -> Any:
        """The module's copy in that dtype."""
        if name not in self._copies:
            self._copies[name] = copied(self.module, dtype)
        return self._copies[name]

    def forget_copies(self) -> None:
        """After a failure: a copy may have stopped halfway."""
        self._copies.clear()


class _Call:
    """One call: the tensors that go in, and whether they come out as they were."""

    def __init__(self, layer: TorchLayer, params: Arrays, x: np.ndarray, recorded: bool) -> None:
        import torch

        self.layer, self.recorded = layer, recorded
        self.params, self.x = {name: array.astype(x.dtype) for name, array in params.items()}, x
        self.dtype = torch.from_numpy(np.zeros(0, x.dtype)).dtype
        self.signal = self._tensor(x)
        self.leaves = {name: self._tensor(array) for name, array in self.params.items()}
        self.module: Any = None
        if layer.module is not None:
            self.module = layer.copy_in(self.dtype, x.dtype)
            self.leaves = set_parameters(self.module, self.leaves)

    def _tensor(self, array: np.ndarray) -> Any:
        import torch

        return torch.tensor(array, dtype=self.dtype, device="cpu", requires_grad=self.recorded)

    def run(self) -> Any:
        given = dict(self.leaves)
        try:
            with running("the layer"):
                y = self.layer.call(given if self.module is None else self.module, self.signal)
            require_same_entries(given, self.leaves)
            self.require_untouched("in place")
        except LayerProblem:
            self.layer.forget_copies()
            raise
        return y

    def require_untouched(self, how: str) -> None:
        """A LayerProblem if x or a parameter is no longer what it was."""
        if not _still(self.signal, self.x):
            raise LayerProblem("mutates", f"the layer changes its input x {how}; expected it untouched (x.clone())")
        now = self.leaves if self.module is None else untouched_parameters(self.module, self.leaves)
        for name, array in self.params.items():
            if not _still(now[name], array):
                raise LayerProblem("mutates", f"the layer changes its parameter {name} {how}; expected it untouched")
        for name, tensor in [("x", self.signal), *now.items()]:
            if self.recorded and not tensor.requires_grad:
                raise LayerProblem(
                    "mutates",
                    f"the layer detaches the tensor {name} that it is given (detach_ or requires_grad_(False)); "
                    "expected it untouched: detach() makes another one",
                )


@contextmanager
def _ordinary_mode() -> Iterator[None]:
    """Tensors that can have gradients, although the caller may be in inference mode."""
    import torch

    with torch.inference_mode(False):
        yield


def _still(tensor: Any, array: np.ndarray) -> bool:
    """Whether a tensor holds these numbers, in their dtype; NaN is equal to NaN."""
    if tuple(tensor.shape) != array.shape or tensor.device.type != "cpu":
        return False
    now = tensor.detach().numpy()
    return bool(now.dtype == array.dtype and np.array_equal(now, array, equal_nan=True))


def _as_array(tensor: Any) -> np.ndarray:
    import torch

    tensor = tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()
    return tensor.resolve_conj().resolve_neg().numpy().astype(np.float64)


def _checked(y: Any, dtype: Any) -> np.ndarray:
    import torch

    if not isinstance(y, torch.Tensor):
        raise not_of("torch", y, "one torch.Tensor, the output")
    if y.device.type != "cpu":
        raise LayerProblem("device", f"the output is on device {y.device}; expected CPU, where the reference computes")
    if y.layout != torch.strided:
        raise LayerProblem("type", f"the output has layout {y.layout}; expected torch.strided (y.to_dense())")
    if y.is_nested:
        raise LayerProblem("type", "the output is a nested tensor; expected one of torch.strided (torch.stack)")
    if y.dtype != dtype:
        hint = " (y.real is its real part)" if y.dtype.is_complex else ""
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype) + hint)
    with running("reading the output"):
        return _as_array(y)
