"""What is expected of any torch.nn.Module: kinds of x, copies, files, dtypes, hooks, threads, processes."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils import parametrize  # noqa: E402 - needs torch
from torch_examples import FILTER, GRAPH, X, gradient, layer, network, signals  # noqa: E402

import evref as ev  # noqa: E402
from evref.bridges.torch import FilterModule, as_torch  # noqa: E402
from evref.bridges.torch_ops import key_of  # noqa: E402


# ---- inputs ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(3, 1, 5), (0, 1, 5), (1, 5), (5,)])
def test_every_kind_of_x_comes_back_in_kind(shape):
    x = signals(*shape).requires_grad_()
    y = layer()(x)
    assert np.array_equal(y.numpy(force=True), FILTER(layer().numpy_parameters(), x.numpy(force=True)))
    y.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    "x",
    [X[:1].expand(3, 1, 5), X.transpose(0, 2).contiguous().transpose(0, 2), signals(3, 1, 10)[..., ::2], X.to_dense()],
    ids=["expanded", "transposed", "every second", "plain"],
)
def test_memory_in_any_order(x):
    module = layer()
    assert torch.equal(module(x), module(x.clone(memory_format=torch.contiguous_format)))
    assert torch.equal(gradient(module, x), gradient(module, x.contiguous()))


def test_memory_is_shared():
    """Forward reads the tensors' own memory: no copy of x or of a parameter is made."""
    seen = {}

    class Watching(ev.EdgeVariant):
        def forward(self, params, x, **options):
            seen.update(params, x=x)
            return super().forward(params, x, **options)

    module = FilterModule(Watching(GRAPH, 1), rng=0)
    x = signals(3, 1, 5)
    y = module(x)
    assert seen["x"].ctypes.data == x.data_ptr() and seen["phi"].ctypes.data == module.phi.data_ptr()
    assert y.is_contiguous()


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_gradients_only_where_they_are_wanted(wanted):
    module, x = layer(), X.clone().requires_grad_(wanted[0])
    module.requires_grad_(wanted[1])
    y = module(x)
    assert y.requires_grad is any(wanted)
    if any(wanted):
        y.sum().backward()
    assert (x.grad is not None, module.phi.grad is not None) == wanted


def test_numbers_that_are_not_finite_pass():
    x = X.clone()
    x[0, 0, 0] = torch.nan
    y = layer()(x)
    assert y[0].isnan().any() and y[1:].isfinite().all()


# ---- PyTorch's ways of changing a module -----------------------------------------------------------------------------
def test_functional_call():
    module, other = layer(), layer(1)
    assert torch.equal(torch.func.functional_call(module, dict(other.named_parameters()), (X,)), other(X))
    assert not torch.equal(module(X), other(X))


class Doubled(torch.nn.Module):
    def forward(self, p):
        return 2 * p

    def right_inverse(self, p):
        return p / 2


def test_parametrize():
    module, other = layer(), layer(1)
    plain = gradient(module)
    values = module.numpy_parameters()
    parametrize.register_parametrization(module, "phi", Doubled())
    assert torch.allclose(module.parametrizations.phi.original * 2, torch.tensor(values["phi"]))
    module.zero_grad()
    module(X).pow(2).sum().backward()
    assert torch.allclose(module.parametrizations.phi.original.grad, 2 * plain)
    module.load_numpy(other.numpy_parameters())
    assert torch.allclose(module(X), other(X))


def test_shared_parameters():
    """One array in two modules has the sum of the gradients."""
    first, second = layer(0), layer(1)
    second.phi = first.phi
    total = gradient(first)
    first.zero_grad()
    (first(X).pow(2).sum() + second(2 * X).pow(2).sum()).backward()
    alone = layer(1)
    alone.load_numpy({"phi": first.phi, "bias": second.bias})
    assert torch.allclose(first.phi.grad, total + gradient(alone, 2 * X))
    assert len(list(torch.nn.ModuleList([first, second]).parameters())) == 3


def test_hooks():
    seen = []
    module = layer()
    module.register_forward_hook(lambda m, inputs, y: seen.append(tuple(y.shape)))
    module.register_full_backward_hook(lambda m, grad_x, grad_y: seen.append(tuple(grad_y[0].shape)))
    module.phi.register_hook(lambda grad: 3 * grad)
    x = X.clone().requires_grad_()
    assert torch.allclose(gradient(module, x), 3 * gradient(layer(), x))
    assert seen == [(3, 2, 5)] * 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode):
    module = layer()
    with mode():
        y = module(X)
    assert not y.requires_grad and torch.equal(y, module(X))


def test_dtypes():
    module = layer().to(torch.float32)
    y = module(X.float())
    y.sum().backward()
    assert y.dtype == module.phi.grad.dtype == torch.float32
    assert module.double()(X).dtype == torch.float64


def test_seeds():
    def drawn() -> list[np.ndarray]:
        torch.manual_seed(3)
        return [FilterModule(FILTER).numpy_parameters()["phi"] for _ in range(2)]

    (a, b), (c, d) = drawn(), drawn()
    assert np.array_equal(a, c) and np.array_equal(b, d) and not np.array_equal(a, b)
    assert np.array_equal(layer(5).numpy_parameters()["phi"], FILTER.init(5)["phi"])
    with torch.device("meta"):
        assert layer().phi.device.type == "cpu"


# ---- copies and files ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [layer, network])
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_work_on_their_own(make, copied):
    module = make()
    expected = module(X).detach()  # with its graph, it would keep the first module
    twin = copied(module)
    del module
    gc.collect()
    assert torch.equal(twin(X), expected)
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(twin(x).sum(), x, create_graph=True)  # by the ops, which look modules up
    grad.sum().backward()


def test_a_module_that_is_gone_is_named():
    key = key_of(ev.Tanh())
    gc.collect()
    with pytest.raises(RuntimeError, match=r"key is 'Tanh-.*', of an evref module that no longer exists"):
        torch.ops.evref.forward(key, [], X)


@pytest.mark.parametrize("by_op", [False, True])
def test_the_graph_of_a_computation_keeps_the_module(by_op):
    x = X.clone().requires_grad_()
    module = network()
    if by_op:
        y = torch.ops.evref.forward(key_of(module.module), list(module.parameters()), x).sum()
    else:
        y = module(x).sum()
    del module
    gc.collect()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    del y
    gc.collect()
    grad.pow(2).sum().backward()
    assert x.grad.abs().sum() > 0


def test_state_dict_that_does_not_fit():
    state = layer(1).state_dict()
    module = layer()
    with pytest.raises(RuntimeError, match='Unexpected key.*"extra"'):
        module.load_state_dict({**state, "extra": X})
    found = module.load_state_dict({"phi": state["phi"]}, strict=False)
    assert found.missing_keys == ["bias"] and torch.equal(module.phi, state["phi"])


def test_whole_modules_in_files():
    file = io.BytesIO()
    torch.save(network(), file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(X), network()(X))


def test_numpy_parameters():
    module = layer()
    params = module.numpy_parameters()
    module.load_numpy({name: 2 * value for name, value in params.items()})
    assert np.array_equal(params["phi"] * 2, module.phi.numpy(force=True))
    twin = FilterModule(FILTER, dict(module.named_parameters()))  # tensors are taken as well
    assert torch.equal(twin.phi, module.phi) and twin.phi.data_ptr() != module.phi.data_ptr()
    with pytest.raises(ValueError, match=r"params\['phi'\] has shape"):
        module.load_numpy({"bias": np.zeros(2), "phi": params["phi"][:1]})
    assert module.bias.abs().sum() > 0, "nothing is changed where something is wrong"


# ---- threads and processes -------------------------------------------------------------------------------------------
def test_threads():
    """One module, many threads: each has the gradient that it has alone."""
    f, module = as_torch(network().module), network()
    params = dict(module.named_parameters())

    def task(seed: int) -> list[torch.Tensor]:
        x = signals(4, 1, 5, seed=seed).requires_grad_()
        y = f(params, x).pow(2).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        return [first.detach(), *torch.autograd.grad(first.pow(2).sum(), [x, *params.values()])]

    alone = [task(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(task, range(16)))
    for a, b in zip(alone, together, strict=True):
        assert all(map(torch.equal, a, b))


class Filtered(torch.utils.data.Dataset):
    def __init__(self, module):
        self.module = module

    def __len__(self):
        return 4

    def __getitem__(self, i):
        with torch.no_grad():
            return self.module(signals(1, 5, seed=i))


@pytest.mark.skipif("fork" not in torch.multiprocessing.get_all_start_methods(), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")  # of Python, and of JAX where other tests loaded it
def test_workers_of_a_data_loader():
    data = Filtered(layer())
    expected = torch.stack([data[i] for i in range(4)])
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="fork")
    assert torch.equal(next(iter(loader)), expected)
