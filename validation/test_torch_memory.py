"""Between forward and backward: what may be changed, what is kept, and for how long."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402 - needs torch
from torch_examples import X, gradient, layer  # noqa: E402

import evref as ev  # noqa: E402
from evref.bridges.torch import as_torch  # noqa: E402


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
