"""Derivatives through the bridge: second ones against torch's own, third ones and those of torch.func refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402 - needs torch

import evref as ev  # noqa: E402
from evref.bridges.torch import NetworkModule, as_torch  # noqa: E402
from evref.verify.examples import probe_graph  # noqa: E402

GRAPH = probe_graph(5, "directed")
NET = ev.Network([ev.EdgeVariant(GRAPH, 2, 2, 3, bias=True), ev.Tanh(), ev.Dense((3, 5), outputs=2)])
PARAMS = {name: torch.tensor(a) for name, a in NET.init(0).items()}
X = torch.tensor(np.random.default_rng(0).standard_normal((4, 2, 5)))


def by_torch(params: dict, x: torch.Tensor) -> torch.Tensor:
    """The same network on dense matrices."""
    phi = params["0.phi"]
    Phi = torch.zeros(*phi.shape[:3], 5, 5, dtype=phi.dtype)
    Phi[..., torch.tensor(GRAPH.rows), torch.tensor(GRAPH.indices)] = phi
    w, y = x[:, None].expand(-1, 3, -1, -1), 0
    for Phi_k in Phi:
        w = torch.einsum("fgij,bfgj->bfgi", Phi_k, w)
        y = y + w.sum(2)
    hidden = torch.tanh(y + params["0.bias"][:, None]).flatten(1)
    return hidden @ params["2.weight"].T + params["2.bias"]


def penalised(f, scale: float = 1.0) -> list[torch.Tensor]:
    """Gradients of the loss and scale |d loss/dx|^2: what a gradient penalty needs."""
    inputs = {name: p.clone().requires_grad_() for name, p in PARAMS.items()}
    x = X.clone().requires_grad_()
    loss = f(inputs, x).pow(2).sum()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    (scale * slope.pow(2).sum()).backward()
    return [x.grad, *(p.grad for p in inputs.values())]


@pytest.mark.parametrize("scale", [1.0, 1e80, 1e-80])
def test_second_derivatives(scale: float) -> None:
    """Exact to rounding; of whatever size what comes from behind: the complex step is taken along a unit direction."""
    for expected, found in zip(penalised(by_torch, scale), penalised(as_torch(NET), scale), strict=True):
        assert (found - expected).abs().max() <= 1e-13 * expected.abs().max()


def test_second_derivatives_along_nothing() -> None:
    assert all((grad == 0).all() for grad in penalised(as_torch(NET), 0.0))


def test_second_derivatives_in_float32() -> None:
    f = as_torch(NET)

    def single(params, x):
        return f({name: p.float() for name, p in params.items()}, x.float())

    for expected, found in zip(penalised(by_torch), penalised(single), strict=True):
        assert (found - expected).abs().max() <= 2e-6 * expected.abs().max()


def test_a_module_that_is_not_analytic() -> None:
    class Real(ev.Tanh):
        def _forward(self, params, x):
            y, saved = super()._forward(params, x)
            return y.real.copy(), saved

    x = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(as_torch(Real())({}, x).sum(), x, create_graph=True)
    with pytest.raises(TypeError, match=r"Real.forward gave float64 for complex128 input; .* no second derivatives"):
        slope.sum().backward()


def test_third_derivatives() -> None:
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(NetworkModule(NET, rng=0)(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no third derivatives"):
        second.sum().backward()


# ---- torch.func and forward mode -------------------------------------------------------------------------------------
def f(x: torch.Tensor) -> torch.Tensor:
    return as_torch_of_net(PARAMS, x)


as_torch_of_net = as_torch(NET)

TRANSFORMS = {
    "grad": lambda x: torch.func.grad(lambda x: f(x).sum())(x),
    "vmap": lambda x: torch.func.vmap(f)(x),
    "jvp": lambda x: torch.func.jvp(f, (x,), (x,))[1],
    "jvp inside jvp": lambda x: torch.func.jvp(
        lambda a: torch.func.jvp(lambda b: f(a).sum() * b, (x.sum(),), (x.sum(),))[1], (x,), (x,)
    )[1],
    "jacrev": lambda x: torch.func.jacrev(f)(x),
    "jacfwd": lambda x: torch.func.jacfwd(f)(x),
    "hessian": lambda x: torch.func.hessian(lambda x: f(x).sum())(x),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
class TestTorchFunc:
    """Never a wrong number: left alone, PyTorch gives derivatives of zero for an op under jvp."""

    def test_eager(self, transform) -> None:
        with pytest.raises(NotImplementedError, match="evref modules do not support torch.func"):
            transform(X)

    def test_compiled(self, transform) -> None:
        """PyTorch wraps what is raised while it traces into errors of its own, of many types."""
        torch.compiler.reset()
        with pytest.raises(Exception, match="evref|setup_context"):
            torch.compile(transform, fullgraph=True, backend="aot_eager")(X)


def test_forward_mode() -> None:
    with (
        forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match=r"do not support PyTorch's forward mode .* evref's own module.jvp"),
    ):
        f(forward_ad.make_dual(X, X))
