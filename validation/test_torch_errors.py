"""What evref cannot take from PyTorch is refused by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch_examples import FILTER, X, layer  # noqa: E402 - needs torch

import evref as ev  # noqa: E402
from evref.bridges.torch import EvrefModule, FilterModule, NetworkModule, as_torch  # noqa: E402


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (X.numpy(), TypeError, "x is ndarray; expected a torch.Tensor"),
        (X.half(), TypeError, "x has dtype torch.float16; supported are torch.float32 and torch.float64"),
        (X.to(torch.complex128), TypeError, "x has dtype torch.complex128"),
        (X.long(), TypeError, "x has dtype torch.int64"),
        (X.float(), TypeError, r"x has dtype torch.float32, parameter 'phi' has torch.float64; .* module.to"),
        (X.to_sparse(), TypeError, r"x has layout torch.sparse_coo; .*x.to_dense"),
        (X.to("meta"), ValueError, "x is on device meta; expected CPU"),
        (X.mT, ValueError, r"x has shape \(3, 5, 1\); EdgeVariant expects \(batch, 1, 5\)"),
    ],
)
def test_x_that_evref_cannot_read(x, error, words):
    with pytest.raises(error, match=words):
        layer()(x)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda m: m.half(), TypeError, "parameter 'phi' has dtype torch.float16"),
        (lambda m: m.bfloat16(), TypeError, "parameter 'phi' has dtype torch.bfloat16"),
        (lambda m: m.to("meta"), ValueError, "parameter 'phi' is on device meta; expected CPU"),
    ],
)
def test_parameters_that_evref_cannot_read(change, error, words):
    with pytest.raises(error, match=words):
        change(layer())(X)


def test_cuda():
    """There need be none: fake tensors may say that they are there."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 1, 5, dtype=torch.float64, device="cuda")
    with pytest.raises(ValueError, match="x is on device cuda:0; expected CPU, where evref computes"):
        layer()(x)


def test_autocast():
    """Its bfloat16 is refused by name; switched off for the layer, all is well."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), layer(dtype=torch.float32))
    with torch.autocast("cpu"):
        assert model[1](X.float()).dtype == torch.float32
        with pytest.raises(TypeError, match="x has dtype torch.bfloat16"):
            model(X.float())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: EvrefModule(3), "module is int; expected a filter, a layer or a network"),
        (lambda: FilterModule(ev.Tanh()), "filt is Tanh; expected a filter"),
        (lambda: NetworkModule(FILTER), "net is EdgeVariant; expected a Network"),
        (lambda: as_torch("gcn"), "module is str; expected a filter, a layer or a network"),
        (lambda: layer(dtype=torch.float16), "dtype is torch.float16; supported are"),
        (lambda: as_torch(ev.Tanh())(None, X), "params is NoneType; expected a dict"),
        (lambda: as_torch(FILTER)({"phi": [1.0], "bias": [1.0]}, X), "parameter 'phi' is list; expected a torch.Tens"),
    ],
)
def test_wrong_types(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_wrong_values():
    with pytest.raises(ValueError, match="params and rng are both given"):
        FilterModule(FILTER, layer().numpy_parameters(), rng=0)
    with pytest.raises(ValueError, match=r"params has the names \[\]; EdgeVariant expects \['bias', 'phi'\]"):
        as_torch(FILTER)({}, X)
    with pytest.raises(ValueError, match=r"params\['phi'\] has shape \(1, 2, 1, .*; expected \(2, 2, 1, "):
        as_torch(FILTER)({"phi": layer().phi[:1], "bias": layer().bias}, X)


def test_without_torch():
    code = "import sys; sys.modules['torch'] = None; import evref.bridges; import evref.bridges.torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    assert "evref.bridges.torch needs PyTorch, which is not installed; the extra evref[torch] brings it" in run.stderr
