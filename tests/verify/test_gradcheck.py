"""The checks are only as good as the faults they catch: right modules pass, planted faults are found and named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evref import kernels
from evref.contract import Module
from evref.verify import gradcheck, jacobian
from evref.verify.gradcheck import (
    GradientError,
    Report,
    Row,
    central_difference,
    check_all,
    complex_step,
    dot_test,
    second_order,
    training_test,
)

CHECKS = [dot_test, complex_step, central_difference]  # those that name an entry
ALL_CHECKS = [*CHECKS, second_order]


class Linear(Module):
    """y = W x + b."""

    name = "linear"

    def __init__(self, n_in: int = 3, n_out: int = 3):
        self.n_in, self.n_out = n_in, n_out

    @property
    def in_shape(self):
        return (self.n_in,)

    @property
    def out_shape(self):
        return (self.n_out,)

    def parameter_shapes(self):
        return {"W": (self.n_out, self.n_in), "b": (self.n_out,)}

    def _init_scale(self, name):
        return 1.0

    def _forward(self, params, x):
        return x @ params["W"].T + params["b"], x

    def _backward(self, params, x, grad_y):
        return {"W": grad_y.T @ x, "b": grad_y.sum(axis=0)}, grad_y @ params["W"]

    def _jvp(self, params, x, dparams, dx):
        return dx @ params["W"].T + x @ dparams["W"].T + dparams["b"]


class Tanh(Module):
    name = "tanh"

    def _forward(self, params, x):
        y = np.tanh(x)
        return y, y

    def _backward(self, params, y, grad_y):
        return {}, (1 - y**2) * grad_y

    def _jvp(self, params, x, dparams, dx):
        return (1 - np.tanh(x) ** 2) * dx


class Quadratic(Module):
    """y = (q² + q) x: the derivative with respect to q depends on q."""

    name = "quadratic"

    def __init__(self, size: int = 4):
        self.size = size

    @property
    def in_shape(self):
        return (self.size,)

    def parameter_shapes(self):
        return {"q": (self.size,)}

    def _init_scale(self, name):
        return 2.0

    def _forward(self, params, x):
        return (params["q"] ** 2 + params["q"]) * x, x

    def _backward(self, params, x, grad_y):
        q = params["q"]
        return {"q": ((2 * q + 1) * x * grad_y).sum(axis=0)}, (q**2 + q) * grad_y

    def _jvp(self, params, x, dparams, dx):
        q = params["q"]
        return (2 * q + 1) * dparams["q"] * x + (q**2 + q) * dx


class Neuron:
    """A user's own: y = tanh(W x) * c, with no base class, no shapes and no init."""

    def forward(self, params, x):
        t = np.tanh(params["W"] @ x)
        return params["c"] * t, (x.copy(), t)

    def backward(self, params, tape, grad_y):
        x, t = tape
        grad_a = grad_y * params["c"] * (1 - t**2)
        return {"W": np.outer(grad_a, x), "c": np.sum(grad_y * t)}, params["W"].T @ grad_a

    def jvp(self, params, x, dparams, dx):
        t = np.tanh(params["W"] @ x)
        return dparams["c"] * t + params["c"] * (1 - t**2) * (dparams["W"] @ x + params["W"] @ dx)


class Relu:
    def forward(self, params, x):
        return np.where(x.real > 0, x, 0), x

    def backward(self, params, x, grad_y):
        return {}, (x > 0) * grad_y

    def jvp(self, params, x, dparams, dx):
        return (x > 0) * dx


class Altered:
    """A module with one of its results passed through `fault`."""

    def __init__(self, module, backward=None, jvp=None):
        self.module, self.fault, self.jvp_fault = module, backward, jvp

    def forward(self, params, x):
        return self.module.forward(params, x)

    def backward(self, params, tape, grad_y):
        grads, grad_x = self.module.backward(params, tape, grad_y)
        return self.fault({**grads, "x": grad_x}, params, grad_y) if self.fault else (grads, grad_x)

    def jvp(self, params, x, dparams, dx):
        dy = self.module.jvp(params, x, dparams, dx)
        return self.jvp_fault(dy, params, x, dparams, dx) if self.jvp_fault else dy


def block_fault(block, change):
    """Applies `change` to the gradient of one block."""

    def fault(gradients, params, grad_y):
        gradients = {**gradients, block: change(np.array(gradients[block]))}
        return {name: gradients[name] for name in params}, gradients["x"]

    return fault


def scaled(index, factor=1.001):
    def change(gradient):
        gradient[index] *= factor
        return gradient

    return change


RNG = np.random.default_rng(5)
CASES = {
    "linear": (Linear(3, 3), Linear(3, 3).init(1), RNG.standard_normal((2, 3))),
    "tanh": (Tanh(), {}, RNG.standard_normal((2, 3))),
    "quadratic": (Quadratic(), Quadratic().init(1), RNG.standard_normal((3, 4))),
    "neuron": (Neuron(), {"W": RNG.standard_normal((3, 3)), "c": np.array(0.7)}, RNG.standard_normal(3)),
}
SITES = [
    (case, block, index)
    for case, (_, params, x) in CASES.items()
    for block, array in {**params, "x": x}.items()
    for index in np.ndindex(array.shape)
]


# ---- right modules pass --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("check", ALL_CHECKS)
@pytest.mark.parametrize("case", CASES)
def test_right_modules_pass(case, check):
    report = check(*CASES[case])
    assert report.ok and bool(report), str(report)
    assert report.check == check.__name__
    assert report.raise_if_failed() is report
    assert report.skipped == 0


@pytest.mark.parametrize("check", ALL_CHECKS)
@pytest.mark.parametrize("seed", range(20))
def test_no_false_alarm(check, seed):
    assert check(Linear(4, 2), rng=seed), str(check(Linear(4, 2), rng=seed))
    assert check(Quadratic(5), rng=seed)


@pytest.mark.parametrize("check", ALL_CHECKS)
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_no_false_alarm_at_other_scales(check, size):
    module, params, x = CASES["linear"]
    assert check(module, params, size * x), str(check(module, params, size * x))
    module, params, x = CASES["quadratic"]
    assert check(module, {"q": size * params["q"]}, x), str(check(module, {"q": size * params["q"]}, x))


@pytest.mark.parametrize("check", ALL_CHECKS)
def test_a_derivative_that_vanishes_is_not_judged_by_its_rounding(check):
    class Centred:  # y = x + a - mean(x + a): the shift a has no effect beyond rounding
        def forward(self, params, x):
            z = x + params["a"] / 3
            return 0.1 * (z - z.sum() / z.size), None

        def backward(self, params, tape, grad_y):
            grad_z = 0.1 * grad_y - 0.1 * grad_y.sum() / grad_y.size
            return {"a": grad_z.sum() / 3}, grad_z

        def jvp(self, params, x, dparams, dx):
            dz = dx + dparams["a"] / 3
            return 0.1 * (dz - dz.sum() / dz.size)

    report = check(Centred(), {"a": 0.3}, np.random.default_rng(0).standard_normal(7))
    assert report, str(report)


def test_check_all():
    names = ["complex_step", "central_difference", "second_order", "dot_test", "training_test", "tape_test"]
    assert [report.check for report in check_all(Linear())] == names
    assert {check.__name__ for check in ALL_CHECKS} <= set(names)
    assert [report.check for report in check_all(Tanh(), {}, np.ones(2))] == [
        *names[:4],
        "tape_test",
    ]  # nothing to learn
    assert all(check_all(*CASES["neuron"]))
    same = check_all(Linear(), rng=3), check_all(Linear(), rng=np.random.default_rng(3))
    assert same[0] == same[1]


@pytest.mark.parametrize("check", ALL_CHECKS)
@pytest.mark.parametrize("shape", [(1, 4), (4,), (1, 1, 4), (2, 1, 4), (0, 1, 4)])
def test_x_is_used_as_given(check, shape):
    class Gain(Linear):  # (batch, 1, nodes)
        in_shape = (1, 4)
        out_shape = (1, 4)

        def parameter_shapes(self):
            return {"a": (4,)}

        def _forward(self, params, x):
            return params["a"] * x, x

        def _backward(self, params, x, grad_y):
            return {"a": (grad_y * x).sum(axis=(0, 1))}, params["a"] * grad_y

        def _jvp(self, params, x, dparams, dx):
            return params["a"] * dx + dparams["a"] * x

    assert check(Gain(), x=np.random.default_rng(0).standard_normal(shape))


@pytest.mark.parametrize("check", ALL_CHECKS)
def test_integers_and_float32_are_copied_to_float64(check):
    params = {"W": np.arange(9, dtype=np.int64).reshape(3, 3), "b": np.ones(3, np.float32)}
    x = np.array([[1, 2, 4]], dtype=np.float32)
    before = {name: array.copy() for name, array in params.items()}, x.copy()
    for array in (*params.values(), x):
        array.flags.writeable = False
    assert check(Linear(), params, x)
    assert all(np.array_equal(params[name], before[0][name]) for name in params) and np.array_equal(x, before[1])


# ---- planted faults are found and named ----------------------------------------------------------------------------
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("case", "block", "index"), SITES)
def test_a_thousandth_in_one_entry(case, block, index, check):
    module, params, x = CASES[case]
    report = check(Altered(module, block_fault(block, scaled(index))), params, x)
    assert not report
    assert report.worst.block == block
    assert report.worst.index == index
    assert report.worst.ours / report.worst.expected == pytest.approx(1.001, rel=1e-6)
    assert [row.block for row in report.rows if not row.ok and row.block != "all"] == [block]


@pytest.mark.parametrize("check", CHECKS)
def test_200_of_200(check):
    caught = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        module = [Linear(4, 3), Quadratic(5)][seed % 2]
        params, x = module.init(rng), rng.standard_normal((3, *module.in_shape))
        block = rng.choice([*params, "x"])
        index = tuple(int(rng.integers(n)) for n in {**params, "x": x}[block].shape)
        report = check(Altered(module, block_fault(block, scaled(index))), params, x, rng=seed)
        caught += not report and (report.worst.block, report.worst.index) == (block, index)
    assert caught == 200


@pytest.mark.parametrize("check", [complex_step, central_difference])
@pytest.mark.parametrize(("case", "block", "index"), SITES[::4])
def test_a_thousandth_by_random_cotangents(case, block, index, check):
    module, params, x = CASES[case]
    assert check(module, params, x, full=False)
    report = check(Altered(module, block_fault(block, scaled(index))), params, x, full=False)
    assert (report.ok, report.worst.block, report.worst.index) == (False, block, index)
    assert report.mode == "3 random cotangents" and report.worst.output is None


SHAPES_OF_FAULTS = {
    "sign": ("W", np.negative),
    "transposed weight gradient": ("W", np.transpose),
    "roll along inputs": ("W", lambda g: np.roll(g, 1, axis=1)),
    "dropped": ("b", np.zeros_like),
    "sign of grad_x": ("x", np.negative),
    "roll of grad_x": ("x", lambda g: np.roll(g, 1, axis=-1)),
    "nan": ("W", lambda g: np.where(np.arange(g.size).reshape(g.shape) == 4, np.nan, g)),
    "inf": ("x", lambda g: np.where(np.arange(g.size).reshape(g.shape) == 4, np.inf, g)),
    "huge": ("b", lambda g: g + 1e300),
}


@pytest.mark.parametrize("check", ALL_CHECKS)
@pytest.mark.parametrize("kind", SHAPES_OF_FAULTS)
def test_kinds_of_faults(kind, check):
    block, change = SHAPES_OF_FAULTS[kind]
    report = check(Altered(CASES["linear"][0], block_fault(block, change)), *CASES["linear"][1:])
    assert not report
    if check is second_order:
        assert kind in ("inf", "huge") or block in report.worst.block.split(" × ")
    else:
        assert report.worst.block == block and report.worst.index is not None
    if kind in ("nan", "inf") and check is not second_order:
        assert report.worst.index == np.unravel_index(4, (3, 3) if kind == "nan" else (2, 3))
        assert not np.isfinite(report.worst.ours)
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize("check", ALL_CHECKS)
def test_transposed_weight_in_grad_x(check):
    def fault(gradients, params, grad_y):
        return {name: gradients[name] for name in params}, grad_y @ params["W"].T

    report = check(Altered(CASES["linear"][0], fault), *CASES["linear"][1:])
    assert not report and "x" in report.worst.block


@pytest.mark.parametrize("check", ALL_CHECKS)
def test_dropped_term(check):
    def fault(gradients, params, grad_y):  # d(q² + q)/dq without the 1
        x = CASES["quadratic"][2]
        return {"q": (2 * params["q"] * x * grad_y).sum(axis=0)}, gradients["x"]

    report = check(Altered(CASES["quadratic"][0], fault), *CASES["quadratic"][1:])
    assert not report and "q" in report.worst.block


@pytest.mark.parametrize(("case", "block", "index"), [site for site in SITES if site[0] in ("linear", "quadratic")])
def test_second_order_sees_one_entry(case, block, index):
    module, params, x = CASES[case]
    report = second_order(Altered(module, block_fault(block, scaled(index, 1.1))), params, x)
    assert not report, str(report)


def test_second_order_sees_a_stale_tape():
    class Stale(Neuron):
        kept = None

        def backward(self, params, tape, grad_y):
            self.kept = self.kept or tape
            return super().backward(params, self.kept, grad_y)

    assert not second_order(Stale(), *CASES["neuron"][1:])


def test_wrong_jvp():
    def without_dx(dy, params, x, dparams, dx):
        return x @ dparams["W"].T + dparams["b"]

    module, params, x = CASES["linear"]
    report = dot_test(Altered(module, jvp=without_dx), params, x)
    assert [row.block for row in report.rows if not row.ok] == ["all", "x"]
    assert report.worst.block == "x" and report.worst.expected == 0.0


def test_jvp_that_is_not_linear():
    def bent(dy, params, x, dparams, dx):
        return dy * (1 + (np.count_nonzero(dx) > 1))

    report = dot_test(Altered(CASES["tanh"][0], jvp=bent), {}, CASES["tanh"][2])
    assert not report and report.worst.index is None


def test_large_blocks_are_halved_before_they_are_searched(monkeypatch):
    monkeypatch.setattr(gradcheck, "LOCALISE_LIMIT", 4)
    module = Linear(6, 5)
    params, x = module.init(0), np.random.default_rng(0).standard_normal((2, 6))
    for index in np.ndindex(5, 6):
        report = dot_test(Altered(module, block_fault("W", scaled(index))), params, x)
        assert (report.worst.block, report.worst.index) == ("W", index)


def test_a_tape_that_is_x_itself_is_seen_by_the_tape_test_alone():
    """Complex step and the other three change no array between the passes: they are blind to memory."""

    class Aliasing(Neuron):
        def forward(self, params, x):
            y, (_, t) = super().forward(params, x)
            return y, (x, t)

    *others, memory = check_all(Aliasing(), *CASES["neuron"][1:])
    assert len(others) == 4 and all(others)
    assert [row.block for row in memory.rows if not row.ok] == ["x overwritten"]


def test_backward_that_consumes_its_tape_or_reuses_its_buffers():
    class Frugal(Neuron):
        def forward(self, params, x):
            y, tape = super().forward(params, x)
            if not hasattr(self, "buffer") or self.buffer.dtype != y.dtype:
                self.buffer = np.empty_like(y)
            self.buffer[...] = y
            return self.buffer, [tape]

        def backward(self, params, tape, grad_y):
            return super().backward(params, tape.pop(), grad_y)

    *others, memory = check_all(Frugal(), *CASES["neuron"][1:])
    assert all(others)  # the gradient is right
    assert "y kept" in [row.block for row in memory.rows if not row.ok]  # and the output is overwritten later


def test_the_gradients_that_training_reads():
    class Halved(Linear):
        def _parameter_gradients(self, params, saved, grad_y):
            grads = super()._parameter_gradients(params, saved, grad_y)
            return {**grads, "b": grads["b"] / 2}

    for x in (None, np.ones(3)):  # a batch, one sample
        assert training_test(Linear(), x=x)
        report = training_test(Halved(), x=x)
        assert [row.block for row in report.rows if not row.ok] == ["b"]
        assert report.worst.ours == report.worst.expected / 2
    *others, training, _ = check_all(Halved())
    assert all(others) and not training


@pytest.mark.parametrize("check", [complex_step, central_difference, dot_test])
def test_a_loss_that_leaves_out_the_cotangent(check):
    class SumOfSquares:
        def forward(self, params, x):
            return np.sum(x * x), x.copy()

        def backward(self, params, x, grad_y):
            return {}, 2 * x  # times grad_y, which is 1 for a loss

        def jvp(self, params, x, dparams, dx):
            return np.sum(2 * x * dx)

    report = check(SumOfSquares(), {}, [1.0, 2.0])
    assert not report and report.worst.block == "x"


def test_a_module_that_changes_its_arguments_does_not_move_the_point():
    """Clipping twice is clipping once: looked at behind the first pass, x would seem unchanged."""

    class Clipped:
        def forward(self, params, x):
            np.maximum(x.real, 0, out=x.real)
            return x * x, x.copy()

        def backward(self, params, x, grad_y):
            return {}, 2 * x * grad_y

    x = np.array([-1.0, 2.0])
    *others, memory = check_all(Clipped(), {}, x)
    assert x[0] == -1
    assert [row.block for row in memory.rows if not row.ok] == ["x unchanged"], memory
    assert all(others)


class Differentiated:
    """A wrong program, x^2 + x / 10 going forward, with tangent and adjoint of x^2: one automatic differentiation."""

    def forward(self, params, x):
        return x * x + 0.1 * x, x.copy()

    def backward(self, params, x, grad_y):
        return {}, 2 * x * grad_y

    def jvp(self, params, x, dparams, dx):
        return 2 * x * dx


def test_one_automatic_differentiation_makes_the_dot_test_a_tautology():
    module = Differentiated()
    reports = {report.check: report for report in check_all(module, {}, [1.0, 2.0])}
    assert not reports["complex_step"] and not reports["central_difference"]
    assert reports["dot_test"] and "tautology" not in str(reports["dot_test"])  # nobody said so
    module.autodiff = True
    assert "dot_test" not in [report.check for report in check_all(module, {}, [1.0, 2.0])]
    assert "a tautology: jvp and backward come from one automatic" in str(dot_test(module, {}, [1.0, 2.0]))
    module.autodiff = "yes"
    with pytest.raises(TypeError, match="Differentiated.autodiff is 'yes'"):
        dot_test(module, {}, [1.0, 2.0])


# ---- kinks ---------------------------------------------------------------------------------------------------------
def test_kinks_are_skipped_and_counted():
    x = np.array([[-1.0, 0.0], [2.0, 0.0]])
    for full in (True, False):
        report = central_difference(Relu(), {}, x, full=full)
        assert report, str(report)
        n = 4 if full else 3
        assert report.skipped == report.rows[0].skipped > 0
        assert report.rows[0].n_entries == 4 * n - report.skipped
        assert f"skipped at a kink: {report.skipped}" in str(report)
    assert central_difference(Relu(), {}, x).skipped == 2


@pytest.mark.parametrize("distance", [1e-12, 1e-9, 1e-8, 3e-8, 1e-7, 1e-6, 3e-6, 5e-6, 6e-6, 7e-6, 1e-5])
@pytest.mark.parametrize("side", [1, -1])
def test_near_a_kink(distance, side):
    """No false alarm at any distance; where the step can be made short enough, a fault is still seen."""
    x = np.array([side * distance, 1.0])
    assert central_difference(Relu(), {}, x)
    if side * distance > 1e-7:
        report = central_difference(Altered(Relu(), block_fault("x", scaled(0))), {}, x)
        assert report.skipped == 0 and report.worst.index == (0,) and not report


def test_a_fault_is_no_kink():
    wrong_side = Altered(Relu(), block_fault("x", np.negative))
    report = central_difference(wrong_side, {}, np.array([0.0, 1.0, 2.0]))
    assert not report and report.worst.index in [(1,), (2,)]
    outside = Altered(Relu(), block_fault("x", lambda g: g + 1.5))  # at 0 every slope between 0 and 1 would do
    report = central_difference(outside, {}, np.array([0.0]))
    assert not report and report.skipped == 0


@pytest.mark.parametrize("frequency", [1.0, 1e2, 1e3])
def test_strong_curvature_is_no_kink(frequency):
    class Wave:
        def forward(self, params, x):
            return np.cos(frequency * x) / frequency, x

        def backward(self, params, x, grad_y):
            return {}, -np.sin(frequency * x) * grad_y

    x = np.array([0.0, 1e-3, 0.1, 0.5]) / frequency  # slope near zero, curvature `frequency`
    assert central_difference(Wave(), {}, x, rtol=1e-5)
    for index in (1, 2, 3):
        report = central_difference(Altered(Wave(), block_fault("x", scaled(index, 1.01))), {}, x, rtol=1e-5)
        assert not report and report.worst.index == (index,) and report.skipped == 0


def test_complex_step_where_the_module_compares_by_real_part():
    assert complex_step(Relu(), {}, np.array([-1.0, 2.0]))


# ---- what the checks run on ----------------------------------------------------------------------------------------
def test_complex_step_runs_forward_on_the_reference_and_backward_on_the_selected_kernels():
    seen = set()

    class Spy(Tanh):
        def _forward(self, params, x):
            if x.dtype.kind == "c":
                seen.add(("forward", kernels.backend()))
            return super()._forward(params, x)

        def _backward(self, params, y, grad_y):
            assert y.dtype == np.float64
            seen.add(("backward", kernels.backend()))
            return super()._backward(params, y, grad_y)

    before = kernels.backend()
    complex_step(Spy(), {}, np.ones(2))
    assert seen == {("forward", "numpy"), ("backward", before)}
    assert kernels.backend() == before
    with pytest.raises(TypeError, match="complex128"):  # complex numbers are refused again
        Tanh().forward({}, np.ones(2, complex))


def test_full_jacobian_only_while_it_is_small(monkeypatch):
    assert complex_step(*CASES["linear"]).mode == "full Jacobian"
    monkeypatch.setattr(jacobian, "FULL_JACOBIAN_LIMIT", 10)
    assert complex_step(*CASES["linear"]).mode == "3 random cotangents"
    assert complex_step(*CASES["linear"], full=True).mode == "full Jacobian"


def test_parameters_may_be_called_x_and_all():
    class Odd:
        def forward(self, params, x):
            return params["x"] * x + params["all"], x

        def backward(self, params, x, grad_y):
            return {"x": 2 * grad_y * x, "all": grad_y}, params["x"] * grad_y

    point = {"x": np.ones(2), "all": np.ones(2)}, np.array([1.0, 2.0])
    report = complex_step(Odd(), *point)
    assert [row.block for row in report.rows] == ["params['x']", "params['all']", "x"]
    assert [row.ok for row in report.rows] == [False, True, True]


# ---- errors --------------------------------------------------------------------------------------------------------
class Broken(Neuron):
    """Neuron with `result` instead of what backward should return."""

    def __init__(self, result):
        self.result = result

    def backward(self, params, tape, grad_y):
        return self.result


class NoJvp:
    forward, backward = Neuron.forward, Neuron.backward


class Dropping(Neuron):
    def forward(self, params, x):
        return super().forward({name: array.real for name, array in params.items()}, x.real)


POINT = CASES["neuron"][1:]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dot_test(NoJvp(), *POINT), TypeError, "NoJvp, which has no jvp"),
        (lambda: complex_step(object(), *POINT), TypeError, "object, which has no forward"),
        (lambda: training_test(Neuron(), *POINT), TypeError, "Neuron; the training test expects .* with parameters"),
        (lambda: training_test(Tanh(), {}, [1.0]), TypeError, "Tanh; the training test expects .* with parameters"),
        (lambda: dot_test(Neuron()), ValueError, r"params is None and Neuron has no init\(rng\)"),
        (lambda: dot_test(Neuron(), {}), ValueError, "x is None and Neuron has no in_shape"),
        (lambda: dot_test(Tanh()), ValueError, r"x is None and Tanh\(\) has no in_shape"),
        (lambda: dot_test(Neuron(), [1.0], [1.0]), TypeError, "params is list; expected a dict"),
        (lambda: dot_test(Linear(), {"W": "text", "b": 0}), TypeError, r"params\['W'\] has dtype <U4"),
        (lambda: dot_test(Tanh(), {}, [np.nan]), ValueError, "x holds NaN or inf"),
        (lambda: dot_test(Tanh(), {}, [1j]), TypeError, "x has dtype complex128"),
        (lambda: dot_test(Linear(), rtol=0), ValueError, "rtol is 0"),
        (lambda: dot_test(Linear(), trials=0), ValueError, "trials is 0; expected at least 1"),
        (lambda: complex_step(Linear(), full="yes"), TypeError, "full is 'yes'"),
        (lambda: central_difference(Linear(), step=-1.0), ValueError, "step is -1"),
        (lambda: second_order(Linear(), rng=-1), ValueError, "rng is -1"),
        (lambda: complex_step(Dropping(), *POINT), TypeError, "Dropping.forward gave float64 for complex128 input"),
        (lambda: complex_step(Broken(None), *POINT), TypeError, r"Broken.backward returned NoneType; expected \(grads"),
        (lambda: complex_step(Broken(({}, 0)), *POINT), GradientError, r"gradients \[\]; expected .*'W', 'c'"),
        (lambda: complex_step(Broken((0, 0)), *POINT), GradientError, "gradients int; expected"),
        (
            lambda: complex_step(Broken(({"W": np.ones((2, 3)), "c": 1.0}, 0)), *POINT),
            GradientError,
            r"grads\['W'\] has shape \(2, 3\); expected \(3, 3\)",
        ),
        (
            lambda: complex_step(Broken(({"W": np.ones((3, 3)), "c": 1.0}, np.ones(4))), *POINT),
            GradientError,
            r"grad_x has shape \(4,\); expected \(3,\)",
        ),
        (
            lambda: dot_test(Altered(Neuron(), jvp=lambda dy, *_: dy[:2]), *POINT),
            GradientError,
            r"dy has shape \(2,\); expected \(3,\)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- the report ----------------------------------------------------------------------------------------------------
def test_report_as_text_and_json():
    module, params, x = CASES["linear"]
    report = complex_step(Altered(module, block_fault("W", scaled((1, 2)))), params, x)
    text = str(report)
    assert text.startswith("complex_step of Altered: FAILED (full Jacobian)")
    (line,) = [line for line in text.splitlines() if "FAILED" in line][1:]
    assert line.split()[0] == "W" and "(1, 2)" in line
    assert f"{report.worst.ours:.12g}" in line and f"{report.worst.expected:.12g}" in line
    with pytest.raises(GradientError, match=r"W .*\(1, 2\).* FAILED") as caught:
        report.raise_if_failed()
    assert isinstance(caught.value, AssertionError)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (data["ok"], data["check"], data["skipped"]) == (False, "complex_step", 0)
    assert data["rows"][0]["index"] == [1, 2] and data["rows"][0]["ok"] is False
    assert report.worst.output is not None and report.worst.output[1] == 1  # y_1 is where row 1 of W acts
    assert "Linear(n_in=3, n_out=3)" in str(complex_step(module, params, x))


def test_worst_prefers_a_failed_row_that_knows_its_place():
    rows = (
        Row("all", 1.0, 1e-3, 0, 0, 1),
        Row("a", 0.1, 1e-3, 0, 0, 1, index=(0,)),
        Row("b", 0, 1e-3, 0, 0, 1, index=(0,)),
    )
    assert Report("c", "m", rows).worst.block == "a"
    assert Report("c", "m", rows[::2]).worst.block == "all"


def test_same_seed_same_report():
    for check in ALL_CHECKS:
        assert check(Linear(), rng=7) == check(Linear(), rng=7)
