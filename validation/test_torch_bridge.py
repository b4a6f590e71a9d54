"""The PyTorch bridge passes PyTorch's own checks: the table of validation/torch_bridge.md, on every configuration."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_bridge as bridge  # noqa: E402 - needs torch

import evref as ev  # noqa: E402

SUBJECTS = bridge.subjects()
each_subject = pytest.mark.parametrize("name", SUBJECTS)
each_class = pytest.mark.parametrize("name", bridge.first_of_each())

# What torch.compile itself uses and deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.compiler.reset()


@each_subject
@pytest.mark.parametrize("check", [c for c in bridge.CHECKS if c != "compile" and not c.startswith("opcheck")])
def test_check(check: str, name: str) -> None:
    assert bridge.CHECKS[check](SUBJECTS[name]) == ""


# One configuration of each class, to save time; the table has all.
@each_class
@pytest.mark.parametrize("op", bridge.OPS)
def test_opcheck(op: str, name: str) -> None:
    assert bridge.opcheck(SUBJECTS[name], op) == ""


@each_class
def test_compiled(name: str) -> None:
    """Without the compiler for C++, which the table is made with."""
    assert bridge.compiled(SUBJECTS[name], "aot_eager") == ""


@pytest.mark.skipif(bridge.INDUCTOR != "inductor", reason="no compiler for C++")
@pytest.mark.parametrize("name", [name for name in SUBJECTS if "network" in name])
def test_compiled_by_inductor(name: str) -> None:
    assert bridge.compiled(SUBJECTS[name], "inductor") == ""


@each_subject
def test_results_have_memory_of_their_own(name: str) -> None:
    """y, its gradient and all that was computed may be overwritten: the next backward pass gives the same bits."""
    module = SUBJECTS[name]
    inputs = [leaf.requires_grad_() for leaf in bridge.leaves(module)]
    before = [leaf.detach().clone() for leaf in inputs]
    grad_y = torch.tensor(bridge.numbers(module)[2])
    y = bridge.function_of_leaves(module)(*inputs)
    first = torch.autograd.grad(y, inputs, grad_y.clone(), retain_graph=True)
    expected = [grad.clone() for grad in first]
    for written in (y.detach(), *first):
        written.fill_(1e3)
    kept = grad_y.clone()
    second = torch.autograd.grad(y, inputs, grad_y)
    for grad in second:
        grad.add_(0)
    assert all(map(torch.equal, second, expected))
    for grad in second:
        grad.fill_(1e3)
    assert torch.equal(grad_y, kept) and all(torch.equal(leaf.detach(), old) for leaf, old in zip(inputs, before))  # noqa: B905


def test_the_subjects_are_the_catalogues() -> None:
    classes = {type(module) for module in SUBJECTS.values()}
    assert classes >= {*ev.catalogue.values(), *ev.layer_catalogue.values()}
    assert {type(SUBJECTS[name]) for name in bridge.first_of_each()} == classes


# ---- the checks see faults -------------------------------------------------------------------------------------------
class Faulty(ev.Tanh):
    """Its gradient is 1% too large, or its jvp."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def _backward(self, params, saved, grad_y):
        grads, grad_x = super()._backward(params, saved, grad_y)
        return grads, grad_x * (1.01 if self.fault == "backward" else 1)

    def _jvp(self, params, x, dparams, dx):
        return super()._jvp(params, x, dparams, dx) * (1.01 if self.fault == "jvp" else 1)


@pytest.mark.parametrize(("check", "fault"), [("gradcheck", "backward"), ("gradgradcheck", "jvp")])
def test_a_fault_is_seen(check: str, fault: str) -> None:
    assert bridge.CHECKS[check](Faulty("none")) == ""
    assert "GradcheckError" in bridge.checked(bridge.CHECKS[check], Faulty(fault))


class Misnamed(bridge.EvrefModule):
    def _add_parameter(self, name, parameter):
        super()._add_parameter(name.replace("phi", "Phi"), parameter)

    def forward(self, x):
        return bridge.as_torch(self.module)({"phi": self.Phi}, x)


def test_another_name_in_the_state_dict_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = next(
        m for m in SUBJECTS.values() if isinstance(m, ev.EdgeVariant) and list(m.parameter_shapes()) == ["phi"]
    )
    assert bridge.state_dict(module) == ""
    monkeypatch.setattr(bridge, "EvrefModule", Misnamed)
    assert bridge.state_dict(module).startswith("names are ['Phi']")


def test_other_bits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = next(m for m in SUBJECTS.values() if isinstance(m, ev.EdgeVariant))
    right = bridge.function_of_leaves

    def next_number(module):
        f = right(module)
        return lambda *leaves: f(*leaves) * (1 + np.finfo(float).eps)

    monkeypatch.setattr(bridge, "function_of_leaves", next_number)
    assert bridge.bits(module) == "y differs from evref's"
