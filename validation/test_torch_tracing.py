"""Tensors without numbers, and programs recorded for later: shapes and errors come from the ops' fake kernels."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402 - needs torch
from torch_examples import X, layer, network, signals  # noqa: E402

from evref.bridges.torch import as_torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("shape", [(3, 1, 5), (0, 1, 5), (1, 5), (5,)])
@pytest.mark.parametrize("make", [layer, network])
def test_fake_tensors_have_the_shapes_of_true_ones(make, shape):
    module, x = make(), signals(*shape)
    mode = FakeTensorMode()
    with mode:
        params = {name: mode.from_tensor(p) for name, p in module.named_parameters()}
        fake = mode.from_tensor(x).requires_grad_()
        y = as_torch(module.module)(params, fake)
        y.sum().backward()
    assert y.shape == module(x).shape and y.stride() == module(x).stride() and y.dtype == x.dtype
    assert fake.grad.shape == x.shape


class Tagged(torch.Tensor):
    """Somebody's subclass, with numbers of its own."""


def test_subclasses_are_read_like_tensors():
    module, x = layer(), X.clone().as_subclass(Tagged).requires_grad_()
    module(x).pow(2).sum().backward()
    plain = X.clone().requires_grad_()
    module(plain).pow(2).sum().backward()
    assert torch.equal(torch.Tensor(x.grad), plain.grad)


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict):
    module = network()
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (X,), dynamic_shapes=({0: batch},), strict=strict).module()
    longer = signals(7, 1, 5)
    assert torch.equal(program(longer), module(longer))


@pytest.mark.filterwarnings("ignore")  # PyTorch advises against it
def test_jit_trace():
    module = network()
    assert torch.equal(torch.jit.trace(module, (X,))(X + 1), module(X + 1))


def test_batches_of_many_sizes_are_one_program():
    module, programs = layer(), []

    def backend(graph, inputs):
        programs.append(graph)
        return graph.forward

    compiled = torch.compile(module, fullgraph=True, backend=backend)
    for size in (2, 3, 7, 11, 4):
        x = signals(size, 1, 5)
        assert torch.equal(compiled(x), module(x))
    assert len(programs) == 2, "one for the first size, one for all others"


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X.float(), "x has dtype torch.float32, parameter 'phi' has torch.float64"),
        (X.mT, r"x has shape \(3, 5, 1\); EdgeVariant expects \(batch, 1, 5\)"),
        (X.to("meta"), "x is on device meta; expected CPU"),
    ],
)
def test_errors_while_compiling(x, words, caplog):
    """They come from the fake kernel, within errors of PyTorch's own."""
    with pytest.raises(Exception, match=words):
        torch.compile(layer(), fullgraph=True, backend="aot_eager")(x)
