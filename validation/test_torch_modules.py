"""What else is expected of a torch.nn.Module: copies, files, dtypes, hooks, threads, processes, errors, memory."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils import parametrize  # noqa: E402 - needs torch
from torch.utils.checkpoint import checkpoint  # noqa: E402

import evref as ev  # noqa: E402
from evref.bridges.torch import EvrefModule, FilterModule, NetworkModule, as_torch  # noqa: E402
from evref.bridges.torch_ops import key_of  # noqa: E402
from evref.verify.examples import probe_graph  # noqa: E402

GRAPH = probe_graph(5, "directed")
FILTER = ev.EdgeVariant(GRAPH, order=2, in_features=1, out_features=2, bias=True)


def layer(rng: int = 0, **options) -> FilterModule:
    return FilterModule(FILTER, rng=rng, **options)


def network() -> NetworkModule:
    return NetworkModule(ev.Network([ev.EdgeVariant(GRAPH, 1), ev.Tanh(), ev.Dense((1, 5), outputs=2)]), rng=0)


def signals(*shape: int, seed: int = 0, **options) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, **options)


X = signals(3, 1, 5)


def gradient(module: EvrefModule, x: torch.Tensor = X) -> torch.Tensor:
    module.zero_grad()
    module(x).pow(2).sum().backward()
    return module.phi.grad.clone()


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


# ---- errors ----------------------------------------------------------------------------------------------------------
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


# ---- what is changed between forward and backward --------------------------------------------------------------------
@pytest.mark.parametrize("changed", ["x", "phi"])
def test_changes_in_place_are_refused(changed):
    module, x = layer(), X.clone().requires_grad_() * 1
    y = module(x)
    with torch.no_grad():
        (x if changed == "x" else module.phi).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_output_may_be_changed_in_place():
    module = layer()
    plain, in_place = (torch.nn.Sequential(module, torch.nn.ReLU(inplace=b)) for b in (False, True))
    expected = [torch.autograd.grad(model(X).pow(2).sum(), module.parameters()) for model in (plain, in_place)]
    assert all(map(torch.equal, *expected))


def test_the_graph_is_freed_after_one_backward_pass():
    y = layer()(X).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


class Saved:
    """What a weak reference can be made to."""


class Doubling(ev.Module):
    """y = 2 x, and something on its tape that shows how long it lives."""

    name = "doubling"
    passes: int = 0
    saved: weakref.ref

    def config(self):
        return {}

    def _forward(self, params, x):
        saved = Saved()
        self.saved = weakref.ref(saved)
        self.passes += 1
        return 2 * x, saved

    def _backward(self, params, saved, grad_y):
        return {}, 2 * grad_y


@pytest.mark.parametrize("retain", [False, True])
def test_the_tape_is_freed_with_the_graph(retain):
    module, x = Doubling(), X.clone().requires_grad_()
    loss = as_torch(module)({}, x).sum()
    loss.backward(retain_graph=retain)
    gc.collect()
    assert (module.saved() is not None) == retain and module.passes == 1
    del loss
    gc.collect()
    assert module.saved() is None


def test_no_tape_without_gradients():
    module = Doubling()
    y = as_torch(module)({}, X)
    gc.collect()
    assert module.saved() is None and not y.requires_grad


def test_checkpointing_frees_the_tape_before_the_backward_pass():
    module, x = Doubling(), X.clone().requires_grad_()
    y = checkpoint(lambda x: as_torch(module)({}, x), x, use_reentrant=False)
    gc.collect()
    assert module.saved() is None
    y.sum().backward()
    assert module.passes == 2 and (x.grad == 2).all()


def test_hooks_that_copy_what_is_saved():
    """The copy has no tape: the forward pass is computed again."""
    module = layer()
    expected = gradient(module)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), torch.from_numpy):
        loss = module(X).pow(2).sum()
    module.zero_grad()
    loss.backward()
    assert torch.equal(module.phi.grad, expected)


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
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_of_a_data_loader():
    data = Filtered(layer())
    expected = torch.stack([data[i] for i in range(4)])
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="fork")
    assert torch.equal(next(iter(loader)), expected)
