"""torch.nn.Modules that misbehave or are unusual: verdicts, and the user's own module stays as it is."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest
import torch
from polynomial_in_torch import FILT, GRAPH, Right, S, right
from test_bad_layers import said

import evref as ev


# ---- what a module does when it is called ----------------------------------------------------------------------------
class Moves(Right):
    def after(self, y):
        self.to("meta")
        return y


class Halves(Right):
    def after(self, y):
        self.half()
        return y


class Replaces(Right):
    def after(self, y):
        self.phi = torch.nn.Parameter(2 * self.phi.data)
        return y


class Deletes(Right):
    def after(self, y):
        del self.phi
        return y


class Trains(Right):
    def after(self, y):
        self.phi.data.mul_(0.9)
        return y


class Freezes(Right):
    def after(self, y):
        self.bias.requires_grad_(False)
        return y


class Raises(Right):
    def after(self, y):
        raise ValueError("no luck")


class Locked(Right):
    def prepare(self):
        self.lock = threading.Lock()


class Unique(Right):
    def __deepcopy__(self, memo):
        raise RuntimeError("I am the only one")


class Counts(Right):
    calls = 0

    def after(self, y):
        self.calls += 1
        return y * self.calls


class Caches(Right):
    """Right at its first call, as PyG's SGConv(cached=True) is."""

    kept = None

    def after(self, y):
        self.kept = y if self.kept is None else self.kept
        return self.kept


@pytest.mark.parametrize(
    ("module", "kind", "sentence"),
    [
        (Moves, "mutates", "the module moves its parameter phi to meta when called; expected it on CPU"),
        (Halves, "mutates", "the layer changes its parameter phi in place; expected it untouched"),
        (Replaces, "mutates", "the module replaces its parameter phi when called; expected it untouched"),
        (Deletes, "mutates", "the module loses its parameter phi when called"),
        (Trains, "mutates", "the layer changes its parameter phi in place"),
        (Freezes, "mutates", "the layer detaches the tensor bias that it is given (detach_ or requires_grad_(False))"),
        (Raises, "raises", "the layer raised ValueError: no luck (test_bad_modules.py, line "),
        (
            Locked,
            "raises",
            "copying the module (copy.deepcopy) raised TypeError: cannot pickle '_thread.lock' object; ",
        ),
        (Unique, "raises", "copying the module (copy.deepcopy) raised RuntimeError: I am the only one (test_bad_modul"),
        (Counts, "random", "the layer gives different numbers for the same input; expected a function: what it gives"),
        (Caches, "random", "the module keeps something from earlier calls, a new copy of it gives other numbers"),
    ],
)
def test_what_a_module_does_when_it_is_called(module, kind, sentence):
    made = module()
    before = {name: (id(p), p.dtype, p.device, p.detach().clone()) for name, p in made.named_parameters()}
    report = ev.compare(made, FILT)
    assert sentence in said(report) and report.problem_kind == kind and report.causes == ()
    for name, p in made.named_parameters():
        assert before[name][:3] == (id(p), p.dtype, p.device) and torch.equal(before[name][3], p)


def test_what_cannot_be_copied_can_be_called_as_a_function():
    """What the message says."""
    module = Locked()
    text = said(ev.compare(module, FILT))
    assert "a function of (params, x) that calls torch.func.functional_call(module, params, (x,)) needs no copy" in text
    assert ev.compare(lambda params, x: torch.func.functional_call(module, params, (x,)), FILT).ok


# ---- parameters that cannot be compared ------------------------------------------------------------------------------
def lazy():
    return torch.nn.Sequential(torch.nn.LazyLinear(3))


def on_meta():
    return Right().to("meta")


def buffer_on_meta():
    module = Right()
    module.register_buffer("table", torch.zeros(2, device="meta"))
    return module


def integers():
    module = Right()
    module.k = torch.nn.Parameter(torch.tensor(3), requires_grad=False)
    return module


def complex_numbers():
    module = Right()
    module.phi = torch.nn.Parameter(module.phi.data + 0j)
    return module


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lazy, "shape", "parameter 0.weight of the module has no shape before its first call; call the module once"),
        (on_meta, "device", "the module is on device meta (phi); expected CPU (module.cpu())"),
        (buffer_on_meta, "device", "the module's buffer table is on device meta; expected CPU"),
        (integers, "dtype", "parameter k of the module is torch.int64; expected real numbers"),
        (complex_numbers, "dtype", "parameter phi of the module is torch.complex64; expected real numbers"),
    ],
)
def test_parameters_that_cannot_be_compared(make, kind, sentence):
    report = ev.compare(make(), FILT)
    assert sentence in said(report) and report.problem_kind == kind


@pytest.mark.parametrize(
    ("module", "arguments", "error", "message"),
    [
        (Right, {"call": lambda x: x}, TypeError, r"call takes \(x\); expected \(layer, x\)"),
        (Right, {"parameters": {"phi": "phi"}}, ValueError, "does not say where bias"),
        (
            Right,
            {"parameters": {"phi": "phi", "b": "bias"}},
            ValueError,
            "the module's parameters are phi .*: say which",
        ),
        (Right, {"parameters": {"phi": ("phi", "T"), "bias": "bias"}}, ValueError, "is it transposed"),
        (torch.nn.ReLU, {}, ValueError, "the module's parameters are none; expected phi"),
        (lambda: Right, {}, TypeError, "layer is the class Right"),
    ],
)
def test_what_the_caller_does_wrong(module, arguments, error, message):
    with pytest.raises(error, match=message):
        ev.compare(module(), FILT, **arguments)


def test_a_parameter_under_two_names():
    module = Right()
    module.other = module.phi
    assert ev.compare(module, FILT).ok
    names = {"phi": "phi", "bias": "bias", "other": "phi"}
    with pytest.raises(ValueError, match="other is the same tensor as phi: one parameter"):
        ev.compare(module, FILT, parameters=names)


class OfEdges(Right):
    def forward(self, x, edge_index):
        return super().forward(x)


class OfNamedEdges(Right):
    def forward(self, x, *, edge_index):
        return super().forward(x)


class Inside(Right):
    def after(self, y):
        return self.more(y)

    def more(self, y, edge_index):
        return y


def test_a_module_that_takes_more_than_x_is_told_how_to_say_it():
    hint = (
        "; forward takes (x, edge_index) and was called with x alone; for another call say "
        "call=lambda layer, x: layer(x, ...)"
    )
    for module in (OfEdges(), OfNamedEdges()):
        text = said(ev.compare(module, FILT))
        assert "the layer raised TypeError: " in text and "'edge_index'" in text and text.endswith(hint)
        assert ev.compare(module, FILT, call=lambda layer, x: layer(x, edge_index=None)).ok
        with pytest.raises(ev.testing.GradientError, match="call=lambda layer, x: layer"):
            ev.testing.assert_gradients(module, x=np.ones((1, 2, 5)))
    assert said(ev.compare(Inside(), FILT)).endswith(")") and "call=" not in said(ev.compare(Inside(), FILT))


# ---- modules that are right ------------------------------------------------------------------------------------------
class Keeps(Right):
    """Results of earlier calls, as attention layers keep their weights: copy.deepcopy refuses them."""

    def after(self, y):
        self.last, self.every = y, [*getattr(self, "every", [])[-2:], {"y": y}]
        return y


class Complex(Right):
    """Eigenvectors of a directed graph in a buffer."""

    def prepare(self):
        values, U = np.linalg.eig(GRAPH.S.toarray())
        self.register_buffer("U", torch.tensor(U))
        self.register_buffer("V", torch.tensor(np.linalg.inv(U)))
        self.register_buffer("values", torch.tensor(values))

    def forward(self, x):
        powers = self.values[:, None] ** torch.arange(3)
        h = torch.einsum("kfg,nk->fgn", self.phi.to(powers.dtype), powers)
        spectrum = torch.einsum("mn,bgn->bgm", self.V, x.to(powers.dtype))
        return torch.einsum("nm,fgm,bgm->bfn", self.U, h, spectrum).real + self.bias[:, None]


class Frozen(Right):
    def prepare(self):
        self.phi.requires_grad_(False)


class InHalf(Right):
    def prepare(self):
        self.half()


class Normed(Right):
    def prepare(self):
        self.norm = torch.nn.BatchNorm1d(3, affine=False, eps=0)
        self.eval()

    def after(self, y):
        return self.norm(y)


class InFloat32(Right):
    """A constant that is neither a parameter nor a buffer stays in float32."""

    def prepare(self):
        self.S = S.float()

    def forward(self, x):
        w, y = x, 0
        for phi in self.phi:
            y, w = y + phi @ w, w @ self.S.T
        return y + self.bias[:, None]


class Scriptable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.phi, self.bias = torch.nn.Parameter(torch.zeros(3, 3, 2)), torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("S", S)

    def forward(self, x):
        w = x
        y = self.phi[0] @ w
        for k in range(1, 3):
            w = w @ self.S.t()
            y = y + self.phi[k] @ w
        return y + self.bias[:, None]


def used():
    module = Keeps()
    module(torch.ones(2, 2, 5))
    return module


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(Scriptable())


def traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(Scriptable().double(), torch.zeros(3, 2, 5).double())


def parametrized():
    module = Right()
    torch.nn.utils.parametrize.register_parametrization(module, "phi", torch.nn.Identity())
    return module


def made_in_inference_mode():
    with torch.inference_mode():
        return Right()


def under(prefix, name="phi"):
    return {f"{prefix}phi": "phi", f"{prefix}bias": "bias"}


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (Keeps, None),
        (used, None),
        (Complex, None),
        (Frozen, None),
        (InHalf, None),
        (Normed, None),
        (InFloat32, None),
        (made_in_inference_mode, None),
        (lambda: torch.nn.DataParallel(Right()), under("module.")),
        (lambda: torch.nn.Sequential(Right(), torch.nn.Dropout(0)), under("0.")),
        (lambda: torch.compile(Scriptable(), backend="eager"), under("_orig_mod.")),
        (parametrized, {"parametrizations.phi.original": "phi", "bias": "bias"}),
        (scripted, None),
        (traced, None),
    ],
)
def test_modules_that_are_right(make, parameters):
    report = ev.compare(make(), FILT, parameters=parameters)
    frozen = ("compared as if trained, but requires_grad is False: phi",) if make is Frozen else ()
    assert report.ok and report.notes == frozen, str(report)
    assert report.setting == ("torch, float32" if make is InFloat32 else "torch, float64")


def test_compiled_functions():
    assert ev.compare(torch.compile(right, backend="eager"), FILT).ok


# ---- the user's own module -------------------------------------------------------------------------------------------
def test_the_module_of_the_user_stays_as_it_is():
    module, heard = Keeps(), []
    module.norm = torch.nn.BatchNorm1d(3, affine=False)
    module.register_forward_hook(lambda module, inputs, y: heard.append(module))
    module.phi.data.normal_()
    module(torch.ones(2, 2, 5)).sum().backward()
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    grads = {name: p.grad.clone() for name, p in module.named_parameters()}
    kept, heard[:] = module.last, []
    for training in (True, False):
        module.train(training)
        assert ev.compare(module, FILT).ok
        assert module.training is module.norm.training is training and module.last is kept
    assert all(torch.equal(state[name], tensor) for name, tensor in module.state_dict().items())
    assert all(torch.equal(grads[name], p.grad) for name, p in module.named_parameters())
    assert heard and module not in heard  # hooks may be what makes the output: those of a copy run


def test_no_gradients_appear_where_there_were_none():
    module = Right()
    ev.compare(module, FILT)
    ev.compare(
        lambda params, x: right({"phi": module.phi.to(x.dtype) + params["phi"], "bias": params["bias"]}, x), FILT
    )
    assert module.phi.grad is None and module.bias.grad is None


def count_tensors() -> int:
    """By type: objects that are asked for their class may warn."""
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_modules_are_let_go():
    alive = []
    for make in (Right, Raises, Counts, Caches, Moves) * 8:
        module = make()
        alive.append(weakref.ref(module))
        ev.compare(module, FILT)
        del module
    gc.collect()
    assert [reference() for reference in alive] == [None] * 40
    tensors = count_tensors()
    for _ in range(50):
        ev.compare(right, FILT)
    gc.collect()
    assert count_tensors() <= tensors + 5


# ---- train mode ------------------------------------------------------------------------------------------------------
class Dropping(Right):
    def after(self, y):
        return torch.nn.functional.dropout(y, 0.5, self.training)


class AlwaysDropping(Right):
    def after(self, y):
        return torch.nn.functional.dropout(y, 0.5, training=True)


def test_train_mode_is_named_only_if_eval_mode_is_right():
    report = ev.compare(Dropping(), FILT)
    assert "it draws random numbers. the module is in train mode" in report.diagnosis
    assert [cause.name for cause in report.causes] == ["train-mode"]
    for module in (AlwaysDropping(), Counts(), Caches()):
        assert ev.compare(module, FILT).causes == ()
