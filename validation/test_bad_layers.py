"""Layers in PyTorch that misbehave: each is a verdict of its own, never a traceback from inside evref.

Modules: test_bad_modules.py. JAX: test_bad_jax_layers.py. NumPy: tests/verify/test_bad_layers.py.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from polynomial_in_torch import FILT, right

import evref as ev
from evref.verify.foreign.find import likely_frameworks


def said(report) -> str:
    """The sentence of a report that must be usable as text, as JSON and in a test."""
    assert not report.ok and report.problem == report.diagnosis and "NOT COMPARED" in str(report)
    json.dumps(report.to_dict(), allow_nan=False)
    assert "evref" not in report.diagnosis and report.rows == ()
    return report.diagnosis


# ---- what is returned ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spoil", "kind", "sentence"),
    [
        (lambda y: y.mT, "shape", "the output has shape (3, 5, 3); expected (3, 3, 5), (batch, features, nodes)"),
        (lambda y: y[0], "shape", "the output has shape (3, 5); expected (3, 3, 5)"),
        (lambda y: y[None], "shape", "the output has shape (1, 3, 3, 5); expected (3, 3, 5)"),
        (lambda y: y.sum(), "shape", "the output has shape (); expected (3, 3, 5)"),
        (lambda y: y.half(), "dtype", "the output is torch.float16 for parameters and x of torch.float64; expected"),
        (lambda y: y.bfloat16(), "dtype", "the output is torch.bfloat16 for"),
        (lambda y: y.long(), "dtype", "the output is torch.int64 for parameters and x of torch.float64; expected tor"),
        (lambda y: y > 0, "dtype", "the output is torch.bool for"),
        (lambda y: y + 0j, "dtype", "expected torch.float64: something is cast inside (y.real is its real part)"),
        (lambda y: None, "type", "the layer returned None; expected one torch.Tensor, the output"),
        (lambda y: (y, 3), "type", "the layer returned a tuple of 2; expected one torch.Tensor"),
        (lambda y: [y], "type", "the layer returned a list of 1"),
        (lambda y: {"y": y}, "type", "the layer returned a dict of 1"),
        (lambda y: "y", "type", "the layer returned a str"),
        (lambda y: y.sum().item(), "type", "the layer returned a float"),
        (
            lambda y: y.detach().numpy(),
            "type",
            "a ndarray; expected one torch.Tensor, the output (for a function of Nu",
        ),
        (lambda y: y.to_sparse(), "type", "the output has layout torch.sparse_coo; expected torch.strided (y.to_den"),
        (lambda y: torch.nested.nested_tensor(list(y)), "type", "the output is a nested tensor; expected one of"),
        (lambda y: y.to("meta"), "device", "the output is on device meta; expected CPU, where the reference computes"),
    ],
)
def test_what_is_returned(spoil, kind, sentence):
    report = ev.compare(lambda params, x: spoil(right(params, x)), FILT)
    assert sentence in said(report) and report.problem_kind == kind


needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="no JAX")


def of_jax(params, x):
    import jax.numpy as jnp

    return jnp.einsum("kfg,bgn->bn", params["phi"], x)


def of_numpy(params, x):
    y = np.zeros((len(x), 5))
    y += np.einsum("kfg,bgn->bn", params["phi"], x)
    return y


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(of_jax, marks=needs_jax),
        of_numpy,
        lambda params, x: 2 * x.sum(1),
        lambda params, x: right(params, x).sum(1),
    ],
)
def test_the_framework_in_which_a_layer_runs_has_the_word(layer):
    """What it returns elsewhere, another kind of array or another dtype, is no news."""
    text = said(ev.compare(layer, FILT))
    assert "the output has shape (3, 5); expected (3, 3, 5), (batch, features, nodes)" in text


def test_what_returns_arrays_of_another_framework_belongs_to_that_one():
    layer = eval("lambda params, x: kept['layer'](params, x)", {"kept": {"layer": of_jax}, "np": np})
    pytest.importorskip("jax")
    assert next(iter(likely_frameworks(layer))) == "numpy"
    assert "the output has shape (3, 5); expected (3, 3, 5)" in said(ev.compare(layer, FILT))


def test_float64_that_was_asked_for():
    def single(params, x):
        return right(params, x).float()

    assert ev.compare(single, FILT).setting == "torch, float32"
    report = ev.compare(single, FILT, dtype=torch.float64)
    assert "the output is torch.float32 for parameters and x of torch.float64; expected torch.float64" in said(report)
    with pytest.raises(TypeError, match="dtype is float16; supported are float32 and float64"):
        ev.compare(single, FILT, dtype=torch.float16)


def test_tensors_that_are_as_good_as_any():
    def negated(y):  # a view with the negative bit, as spectral filters return
        return torch.complex(torch.zeros_like(y), -y).conj().imag

    for spoil in (negated, lambda y: y.mT.contiguous().mT, lambda y: torch.nn.Parameter(y.detach()) * 0 + y):
        assert ev.compare(lambda params, x, spoil=spoil: spoil(right(params, x)), FILT).ok
    identity = ev.GCN(ev.Graph(np.eye(5)), in_features=2, out_features=2)
    report = ev.compare(lambda params, x: x, identity, params={"theta": np.eye(2)})  # x itself, right at this point
    assert {row.name: row.status for row in report.rows}["output"] == "ok" and not report.ok
    square = ev.Polynomial(FILT.graph, order=4, in_features=3, out_features=5)
    view = ev.compare(lambda params, x: params["phi"].mT[:, :, :1].expand(5, 3, 5)[: len(x)], square)
    assert "the output has shape (3, 3, 5); expected (3, 5, 5)" in said(view)  # a view of a parameter


# ---- what is raised --------------------------------------------------------------------------------------------------
def test_exceptions_have_the_line_of_the_users_file():
    def of_shapes(params, x):
        return torch.ones(2, 3) @ torch.ones(2, 3)

    def of_autograd(params, x):
        return torch.autograd.grad(torch.ones(1), torch.ones(1))

    def of_memory(params, x):
        return torch.empty(10**15)

    def deep(params, x):
        return deep(params, torch.relu(x))

    def ending(params, x):
        sys.exit(3)

    layers = {of_shapes: "RuntimeError: mat1", of_autograd: "RuntimeError: element 0", of_memory: "RuntimeError: "}
    layers |= {deep: "RecursionError: ", ending: "SystemExit: 3"}
    for layer, error in layers.items():
        text = said(ev.compare(layer, FILT))
        assert f"the layer raised {error}" in text
        assert f"(test_bad_layers.py, line {layer.__code__.co_firstlineno + 1})" in text


def test_an_interrupt_passes():
    def layer(params, x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ev.compare(layer, FILT)


def through(backward):
    """A layer whose output goes through a function with this backward pass."""

    class Through(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, x):
            ctx.x = x
            return y.clone()

        @staticmethod
        def backward(ctx, grad):
            return backward(ctx, grad), None

    return lambda params, x: Through.apply(right(params, x), x)


def no_luck(ctx, grad):
    raise RuntimeError("no luck")


def changing_x(ctx, grad):
    ctx.x.data.mul_(2)
    return grad


@pytest.mark.parametrize(
    ("backward", "kind", "sentence"),
    [
        (
            no_luck,
            "raises",
            "autograd, going back through the layer, raised RuntimeError: no luck (test_bad_layers.py, ",
        ),
        (lambda ctx, grad: grad[0], "raises", "raised RuntimeError: Function ThroughBackward returned an invalid grad"),
        (lambda ctx, grad: 3, "raises", "autograd, going back through the layer, raised RuntimeError: expected Var"),
        (lambda ctx, grad: grad * torch.rand(()), "random", "grad x is another one at the second call; expected the"),
        (changing_x, "mutates", "the layer changes its input x in its backward pass; expected it untouched"),
    ],
)
def test_backward_passes(backward, kind, sentence):
    report = ev.compare(through(backward), FILT)
    assert sentence in said(report) and report.problem_kind == kind


def test_a_wrong_backward_pass_is_off_beside_differences():
    report = ev.compare(through(lambda ctx, grad: 1.25 * grad), FILT)
    assert {row.name: row.status for row in report.rows} == {
        "output": "ok", "grad x": "off", "grad phi": "off", "grad bias": "off", "own differences": "off",
    }  # fmt: skip


# ---- gradients that are cut ------------------------------------------------------------------------------------------
def without_gradients(params, x):
    with torch.no_grad():
        return right(params, x)


def in_inference_mode(params, x):
    with torch.inference_mode():
        return right(params, x)


def with_gradients_switched_off(params, x):
    torch.set_grad_enabled(False)
    return right(params, x)


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (lambda params, x: right(params, x).detach(), "no gradient reaches anything: the output is detached"),
        (lambda params, x: right(params, x).data, "no gradient reaches anything: the output is detached"),
        (without_gradients, "no gradient reaches anything: the output is detached"),
        (in_inference_mode, "no gradient reaches anything: the output is detached"),
        (with_gradients_switched_off, "no gradient reaches anything: the output is detached"),
        (lambda params, x: right({**params, "phi": params["phi"].detach()}, x), "no gradient reaches phi"),
        (lambda params, x: right({**params, "bias": params["bias"].data}, x), "no gradient reaches bias"),
        (lambda params, x: right(params, x.detach()), "no gradient reaches x: it is detached"),
        (lambda params, x: right({n: p.detach() for n, p in params.items()}, x), None),
    ],
)
def test_detached(layer, says):
    report = ev.compare(layer, FILT)
    assert [cause.name for cause in report.causes] == ["detached"], str(report)
    assert says is None or report.diagnosis.startswith(says)
    assert {row.name: row.status for row in report.rows}["output"] == "ok" and torch.is_grad_enabled()


def test_a_gradient_that_is_cut_in_part_is_seen():
    def layer(params, x):
        first, second, third = params["phi"]
        return right({**params, "phi": torch.stack([first, second.detach(), third])}, x)

    report = ev.compare(layer, FILT)
    assert {row.name for row in report.rows if row.status == "off"} == {"grad phi", "own differences"}
    assert "grad phi: zero at [1] of the first axis" in report.patterns


# ---- no function; arguments that are changed -------------------------------------------------------------------------
def by_turns():
    calls = []

    def layer(params, x):
        calls.append(1)
        return right(params, x) + len(calls) % 2

    return layer


def other_with_gradients(params, x):
    return right(params, x) + (1 if x.requires_grad else 0)


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (lambda params, x: right(params, x) + torch.rand(1), "it draws random numbers"),
        (lambda params, x: torch.nn.functional.dropout(right(params, x)), "it draws random numbers"),
        (lambda params, x: right(params, x) + random.random(), "it draws random numbers"),
        (lambda params, x: right(params, x) + np.random.default_rng().random(), "that no global seed sets"),
        (by_turns(), "depends on earlier calls"),
        (other_with_gradients, "the output is another one when gradients are asked for; expected the same"),
    ],
)
def test_what_is_no_function(layer, sentence):
    report = ev.compare(layer, FILT)
    assert sentence in said(report) and report.problem_kind == "random"


def changing(statement):
    def layer(params, x):
        y = right(params, x)
        exec(statement, {"params": params, "x": x, "torch": torch})
        return y

    return layer


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("x.mul_(2)", "the layer changes its input x in place; expected it untouched (x.clone())"),
        ("x[0] = 0", "the layer changes its input x in place"),
        ("x.data.mul_(2)", "the layer changes its input x in place"),
        ("x.unsqueeze_(0)", "the layer changes its input x in place"),
        ("x.data = x.data.half()", "the layer changes its input x in place"),
        ("x.data.zero_() if x.requires_grad else None", "the layer changes its input x in place"),
        ("x.requires_grad_(False)", "the layer detaches the tensor x that it is given (detach_ or requires_grad_(Fal"),
        ("params['phi'].detach_()", "the layer detaches the tensor phi that it is given"),
        ("params['phi'].data.mul_(2)", "the layer changes its parameter phi in place; expected it untouched"),
        ("params.pop('bias')", "the layer removes bias from the dict params that it is given; expected it untouched"),
        ("params['phi'] = params['phi'] * 1", "the layer replaces phi in the dict params"),
        ("params['extra'] = 3", "the layer puts extra into the dict params"),
    ],
)
def test_arguments_that_are_changed(statement, sentence):
    report = ev.compare(changing(statement), FILT)
    assert sentence in said(report) and report.problem_kind == "mutates"


# ---- numbers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "layer",
    [
        lambda params, x: right(params, x) * float("nan"),
        lambda params, x: right(params, x).clone().index_fill(2, torch.tensor([1]), float("inf")),
        lambda params, x: right(params, x) * 1e308,
        lambda params, x: right(params, x) * 1e-310,
        lambda params, x: (right(params, x).float() * 1e30 * 1e30).to(x.dtype),
        lambda params, x: right(params, x) + torch.sqrt(x * 0).sum(),  # right, and its gradient is NaN
    ],
)
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_numbers_that_cannot_be(layer, dtype):
    report = ev.compare(layer, FILT, dtype=dtype)
    assert not report.ok and report.problem == "" and any(row.status == "off" for row in report.rows)
    json.dumps(report.to_dict(), allow_nan=False)
    assert "smallest failing case" in report.diagnosis


# ---- gradients without a reference -----------------------------------------------------------------------------------
def gradients(layer, params, x, **options):
    return ev.testing.assert_gradients(layer, params, x, **options)


@pytest.mark.parametrize("layer", [lambda p, x: np.tanh(p["a"] * x), lambda p, x: np.asarray(p["a"] * x)])
def test_gradients_of_a_numpy_function_want_a_backward_pass(layer):
    with pytest.raises(TypeError, match="the layer is a NumPy function without a gradient; expected backward="):
        gradients(layer, {"a": 2.0}, [0.5])


def test_gradients_that_fail_in_torch_are_told():
    def broken(params, x):
        return through(no_luck)({"phi": params["phi"], "bias": params["bias"]}, x)

    with pytest.raises(
        ev.testing.GradientError, match="autograd, going back through the layer, raised RuntimeError: no"
    ):
        gradients(broken, FILT.init(0), np.ones((1, 2, 5)))


def test_gradients_at_tensors_that_require_gradients():
    leaf = torch.tensor([2.0], requires_grad=True)
    for params, x, name in (({"a": leaf}, [0.5], r"params\['a'\]"), ({"a": 2.0}, leaf, "x")):
        with pytest.raises(TypeError, match=f"^{name} is (Tensor|a torch.Tensor)"):
            gradients(lambda p, x: torch.tanh(p["a"] * x), params, x)
    assert gradients(lambda p, x: torch.tanh(p["a"] * x), {"a": leaf.detach()}, leaf.detach())


@pytest.mark.parametrize("x", [[0.0], [0.0, 1.0], [1e-7, 1.0], [[0.0, -1.0], [0.3, 0.0]]])
def test_gradients_at_a_kink(x):
    second = gradients(lambda p, x: torch.relu(p["a"] * x), {"a": 2.0}, x)[1]
    assert second.skipped and "no Hessian: the function has a kink here, seen along x" in str(second)
    with pytest.raises(ev.testing.GradientError, match="central_difference of <lambda>: FAILED"):
        gradients(lambda p, x: torch.relu(p["a"] * x) + p["a"].detach(), {"a": 2.0}, x)


def test_gradients_of_a_class():
    with pytest.raises(TypeError, match="layer is the class Linear; .* it is a class: pass an instance"):
        gradients(torch.nn.Linear, None, [0.5])


# ---- what is outside of the layer ------------------------------------------------------------------------------------
@pytest.fixture
def as_it_was():
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda: torch.set_default_dtype(torch.float16), "torch's default dtype from torch.float32 to torch.float16"),
        (lambda: torch.set_default_device("meta"), "torch's default device from cpu to meta"),
        (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "torch's number of threads from "),
    ],
)
def test_settings_are_set_back_and_told(change, note):
    changed = []

    def layer(params, x):
        if not changed:
            changed.append(change())
        return right(params, x)

    before = torch.get_default_dtype(), torch.empty(0).device, torch.get_num_threads()
    report = ev.compare(layer, FILT)
    assert report.ok and len(report.notes) == 1
    assert report.notes[0].startswith(f"the layer changes {note}") and "it was set back" in str(report)
    assert before == (torch.get_default_dtype(), torch.empty(0).device, torch.get_num_threads())


@pytest.mark.usefixtures("as_it_was")
def test_settings_of_the_caller_do_not_matter():
    assert ev.compare(right, FILT).ok
    with torch.inference_mode():
        assert ev.compare(right, FILT).ok
    with torch.no_grad():
        assert ev.compare(right, FILT).ok and not torch.is_grad_enabled()
    with torch.device("meta"):
        assert ev.compare(right, FILT).ok
    torch.set_default_dtype(torch.float64)
    assert ev.compare(right, FILT).ok and torch.get_default_dtype() == torch.float64


def test_generators_go_on_where_they_were():
    def seeding(params, x):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        return right(params, x) * (1 + torch.rand(()) * 0)

    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    for layer in (right, seeding, lambda params, x: right(params, x) + torch.rand(()), lambda params, x: 1 / 0):
        ev.compare(layer, FILT)
    assert torch.equal(torch.rand(4), expected)


def test_warnings_of_a_layer_are_no_errors():
    def layer(params, x):
        warnings.warn("careful", stacklevel=1)
        return right(params, x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ev.compare(layer, FILT).ok


def test_a_framework_that_the_function_imports_itself():
    """Nothing has imported torch when `compare` looks at the function."""
    program = """
import sys
import evref as ev
filt = ev.GCN(ev.generators.star(4), in_features=1, out_features=1)
def layer(theta, x):
    import torch
    return theta @ x @ torch.tensor(filt.graph.S.toarray()).T
assert "torch" not in sys.modules
report = ev.compare(layer, filt)
assert report.ok and report.setting.startswith("torch"), str(report)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
