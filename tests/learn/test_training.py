from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest

from evref.filters import EdgeVariant
from evref.graph import Graph
from evref.learn import (
    SGD,
    Adam,
    CrossEntropy,
    Dense,
    LeakyReLU,
    MeanSquaredError,
    Network,
    ReLU,
    Tanh,
    accuracy,
    fit,
    schedules,
)
from evref.learn.progress import Lines
from evref.learn.trainer import Learner

RNG = np.random.default_rng(0)
RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
X = RNG.standard_normal((50, 1, 6))
Y = (X[:, 0, 0] > X[:, 0, 3]).astype(int) + (X[:, 0, 1] > 0.5)
DATA, VALIDATION = (X[:40], Y[:40]), (X[40:], Y[40:])


def small_network() -> Network:
    graph = Graph(RING)
    return Network(
        [EdgeVariant(graph, order=2, in_features=1, out_features=2, bias=True), ReLU(), Dense((2, 6), outputs=3)]
    )


def train(net=None, data=DATA, **options):
    net = net or small_network()
    defaults = {"loss": CrossEntropy(), "optimizer": Adam(0.02), "epochs": 5, "batch_size": 16, "rng": 1}
    return fit(net, net.init(rng=0), data, **{**defaults, **options})


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def timeless(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


class At(CrossEntropy):
    """CrossEntropy, but its n-th value (from 1) goes through `action` first."""

    def __init__(self, call, action):
        self.left, self.action = call, action

    def _value_and_gradient(self, *args):
        self.left -= 1
        value, slope = super()._value_and_gradient(*args)
        return (value if self.left else self.action(value)), slope


def interrupt(value):
    raise KeyboardInterrupt


# ---- the plain run -------------------------------------------------------------------------------------------------
def test_it_learns():
    result = train(epochs=60, validation=VALIDATION)
    assert accuracy(small_network().predict(result.last, DATA[0]), DATA[1]) > 0.9
    assert result.history[-1]["loss"] < 0.5 * result.history[0]["loss"]
    assert result.stopped == "epochs" and result.epochs == 60 and result.steps == 180


def test_it_equals_the_loop_written_out():
    net, loss, adam = small_network(), CrossEntropy(), Adam(0.02)
    params, rng = net.init(rng=0), np.random.default_rng(1)
    state, losses = adam.init(params), []
    for _ in range(3):
        order, total = rng.permutation(40), 0.0
        for rows in (order[:16], order[16:32], order[32:]):  # the last batch is short
            prediction, tape = net.forward(params, X[rows])
            value, loss_tape = loss.forward(prediction, Y[rows])
            grads, _ = net.backward(params, tape, loss.backward(loss_tape))
            params, state = adam.step(params, grads, state)
            total += value * len(rows)
        losses.append(total / 40)
    result = train(epochs=3)
    assert same(result.params, params) and same(result.last, params) and same(result.best, params)
    assert [row["loss"] for row in result.history] == pytest.approx(losses, rel=1e-14)
    assert [(row["epoch"], row["step"]) for row in result.history] == [(1, 3), (2, 6), (3, 9)]
    assert result.best_step is None and result.history[0]["validation_loss"] is None


def test_same_seed_same_bits():
    one, two, other = train(validation=VALIDATION), train(validation=VALIDATION), train(validation=VALIDATION, rng=2)
    assert same(one.last, two.last) and same(one.best, two.best)
    assert timeless(one.history) == timeless(two.history)
    assert not same(one.last, other.last)
    assert same(train(rng=np.random.default_rng(1)).last, train(rng=1).last)


def test_nothing_of_the_callers_is_changed():
    net = small_network()
    params = net.init(rng=0)
    x, y = DATA[0].copy(), DATA[1].copy()
    for array in (x, y, *params.values()):
        array.setflags(write=False)
    state = np.random.get_state()[1].copy()
    result = fit(net, params, (x, y), loss=CrossEntropy(), optimizer=Adam(), epochs=2, rng=0)
    assert np.array_equal(np.random.get_state()[1], state)
    nothing = fit(net, params, (x, y), loss=CrossEntropy(), optimizer=Adam(), epochs=0)
    assert same(nothing.last, params) and nothing.history == [] and nothing.steps == 0
    assert not any(np.shares_memory(nothing.last[k], params[k]) for k in params)
    assert not same(result.last, params)


def test_full_batch_and_oversized_batch():
    assert train(batch_size=None).steps == train(batch_size=10**6).steps == 5
    assert same(train(batch_size=None).last, train(batch_size=40).last)


def test_regression_picks_the_lowest_validation_loss():
    net = Network([Dense((1, 6), outputs=2), Tanh()])
    target = RNG.standard_normal((50, 2)) / 3
    options = {"loss": MeanSquaredError(), "optimizer": Adam(0.1), "epochs": 40}
    result = train(net, (X[:40], target[:40]), validation=(X[40:], target[40:]), **options)
    lowest = min(result.history, key=lambda row: row["validation_loss"])
    assert result.best_step == lowest["step"] and result.best_metric == lowest["validation_loss"]
    value, _ = MeanSquaredError().forward(net.predict(result.best, X[40:]), target[40:])
    assert value == pytest.approx(lowest["validation_loss"], rel=1e-15)
    assert all(row["validation_metric"] == row["validation_loss"] for row in result.history)


def test_float32_parameters_stay_float32():
    net = small_network()
    x = DATA[0].astype(np.float32)
    result = fit(net, net.init(rng=0, dtype=np.float32), (x, DATA[1]), loss=CrossEntropy(), optimizer=Adam(), epochs=2)
    assert all(p.dtype == np.float32 for p in result.last.values())


class Layered(CrossEntropy):
    """The same, but none of ours: the network is not taken as a whole."""


@pytest.mark.parametrize("loss", [CrossEntropy(), Layered()])
@pytest.mark.parametrize("of_x", [np.float32, np.float64])
@pytest.mark.parametrize("of_filter", [np.float32, np.float64])
def test_a_step_without_doors_is_the_step_with_doors_in_any_mixture_of_dtypes(of_x, of_filter, loss):
    net, adam = small_network(), Adam(0.02)
    params = {name: p.astype(of_filter if name[0] == "0" else np.float32) for name, p in net.init(rng=0).items()}
    x, learner = X.astype(of_x), Learner(net, loss, adam, params)
    before = {name: p.copy() for name, p in params.items()}
    prediction, tape = net.forward(params, x)
    value, loss_tape = loss.forward(prediction, Y)
    grads, _ = net.backward(params, tape, loss.backward(loss_tape))
    expected, _ = adam.step(params, grads, adam.init(params), 0.1)
    run = learner.fresh()
    found = learner.step(run, x, Y, 0.1, "here")
    assert same(params, before)
    if type(loss) is Layered:
        assert found == value and same(run.params, expected)
    else:  # sums in another order
        tolerance = 100 * max(float(np.finfo(array.dtype).eps) for array in (*params.values(), x))
        assert found == pytest.approx(value, rel=tolerance)
        moments = adam.step(params, grads, adam.init(params), 0.1)[1]
        for name in params:
            size = np.abs(moments[f"m.{name}"]).max()
            np.testing.assert_allclose(run.state[f"m.{name}"], moments[f"m.{name}"], rtol=0, atol=tolerance * size)
            clear = np.abs(grads[name]) > 1e-3 * np.abs(grads[name]).max()  # Adam's first step is a sign
            np.testing.assert_allclose(run.params[name][clear], expected[name][clear], rtol=1e3 * tolerance)
    assert all(run.params[name].dtype == params[name].dtype for name in params)


def test_large_parameters_are_not_taken_for_infinite_ones():
    params = {"weight": np.full((1, 2), 1e30, np.float32)}  # the square overflows
    learner = Learner(Dense((2,), 1, bias=False), MeanSquaredError(), SGD(1.0), params)
    run = learner.fresh()
    with np.errstate(over="raise", invalid="raise"):
        value = learner.step(run, np.zeros((3, 2), np.float32), np.zeros((3, 1)), 1.0, "here")
    assert value == 0 and run.step == 1 and same(run.params, params)


# ---- validation ----------------------------------------------------------------------------------------------------
def test_best_on_validation_and_last_are_both_kept():
    figures = iter([0.1, 0.5, 0.3, 0.5, 0.2])
    seen = []

    def metric(prediction, target):
        seen.append(prediction)
        return next(figures)

    result = train(validation=VALIDATION, metric=metric)
    assert result.best_step == 6 and result.best_metric == 0.5  # the first of equals
    assert same(result.params, result.best) and not same(result.best, result.last)
    np.testing.assert_array_equal(small_network().predict(result.best, VALIDATION[0]), seen[1])
    np.testing.assert_array_equal(small_network().predict(result.last, VALIDATION[0]), seen[4])
    assert same(result.best, train(epochs=2).last)


def test_validation_every_few_steps():
    result = train(validation=VALIDATION, validate_every=4)
    validated = [row["step"] for row in result.history if row["validation_loss"] is not None]
    assert validated == [4, 8, 12]
    assert [row["step"] for row in result.history if row["ends_epoch"]] == [3, 6, 9, 12, 15]
    assert [row["step"] for row in result.history] == [3, 4, 6, 8, 9, 12, 15]
    assert [row["epoch"] for row in result.history] == [1, 2, 2, 3, 3, 4, 5]
    assert all(0 <= row["validation_metric"] <= 1 for row in result.history if row["validation_metric"] is not None)


def test_each_row_averages_over_the_samples_since_the_row_before():
    values = []

    class Recorded(CrossEntropy):
        def _value_and_gradient(self, prediction, target):
            value, slope = super()._value_and_gradient(prediction, target)
            if len(target) != len(VALIDATION[1]):
                values.append((value, len(target)))
            return value, slope

    result = train(loss=Recorded(), validation=VALIDATION, validate_every=2, epochs=2)
    assert [n for _, n in values] == [16, 16, 8, 16, 16, 8]
    assert [row["step"] for row in result.history] == [2, 3, 4, 6]
    for row, (start, stop) in zip(result.history, [(0, 2), (2, 3), (3, 4), (4, 6)], strict=True):
        expected = np.average([v for v, _ in values[start:stop]], weights=[n for _, n in values[start:stop]])
        assert row["loss"] == pytest.approx(expected, rel=1e-14)


def test_validation_does_not_disturb_training():
    assert same(train().last, train(validation=VALIDATION, validate_every=1).last)


def test_validation_in_pieces_is_validation_at_once(monkeypatch):
    whole = train(validation=VALIDATION, epochs=2)
    monkeypatch.setattr("evref.learn.trainer.EVALUATION_BATCH", 3)
    pieces = train(validation=VALIDATION, epochs=2)
    for a, b in zip(whole.history, pieces.history, strict=True):
        assert a["validation_loss"] == pytest.approx(b["validation_loss"], rel=1e-12)
        assert a["validation_metric"] == b["validation_metric"]


def test_a_new_best_resets_the_patience():
    figures = iter([0.1, 0.0, 0.2, 0.1, 0.3])
    result = train(validation=VALIDATION, metric=lambda prediction, target: next(figures), patience=2)
    assert result.stopped == "epochs" and result.best_step == 15


def test_early_stop():
    figures = iter([0.1, 0.3, 0.2, 0.3, 0.1, 0.9])
    result = train(epochs=50, validation=VALIDATION, metric=lambda prediction, target: next(figures), patience=3)
    assert result.stopped == "early" and "3 validations" in result.reason
    assert result.best_step == 6 and result.steps == 15
    assert same(result.params, train(epochs=2).last) and same(result.last, train(epochs=5).last)


def test_a_nan_on_validation_is_never_the_best():
    huge = VALIDATION[0].copy()
    huge[0] = 1e308
    with np.errstate(all="raise"):
        result = train(validation=(huge, VALIDATION[1]), epochs=3, optimizer=Adam(0.5))
    assert result.stopped == "epochs" and result.best_step is None and same(result.best, result.last)
    assert not np.isfinite(result.history[-1]["validation_metric"])


# ---- schedules -----------------------------------------------------------------------------------------------------
def test_schedule_sets_the_learning_rate_of_each_epoch():
    result = train(schedule=schedules.step_decay(2, factor=0.5))
    assert [row["learning_rate"] for row in result.history] == [0.02, 0.02, 0.01, 0.01, 0.005]
    assert same(train(schedule=lambda epoch: 0.5).last, train(optimizer=Adam(0.01)).last)
    assert same(train(schedule=lambda epoch: 0.0).last, small_network().init(rng=0))
    with pytest.raises(ValueError, match=r"schedule\(2\) is -1"):
        train(schedule=lambda epoch: 1 if epoch < 2 else -1)


# ---- what goes wrong -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_stops_the_training(bad):
    with pytest.warns(RuntimeWarning, match=f"the loss became {bad} at epoch 2, batch 3"):
        result = train(loss=At(6, lambda value: bad))
    assert result.stopped == "diverged" and "epoch 2, batch 3" in result.reason
    # Five steps were taken; the loss of the fifth's parameters was bad, that of the fourth's good.
    assert result.steps == 5
    reference = train(loss=At(5, interrupt))
    assert reference.steps == 4 and same(result.last, reference.last)


def test_a_loss_bad_from_the_start_returns_the_start():
    with pytest.warns(RuntimeWarning, match="epoch 1, batch 1"):
        result = train(loss=At(1, lambda value: np.nan))
    assert same(result.last, small_network().init(rng=0)) and result.history == []


def test_a_real_divergence():
    net = Network([Dense((1, 6), outputs=4), LeakyReLU(0.9), Dense((4,), outputs=1)])
    with pytest.warns(RuntimeWarning, match="training stopped: .* epoch [0-9]+, batch [0-9]+"):
        result = train(net, (X, RNG.standard_normal((50, 1))), loss=MeanSquaredError(), optimizer=SGD(1e3), epochs=100)
    assert result.stopped == "diverged"
    with np.errstate(over="ignore"):
        assert all(np.isfinite(p).all() for p in result.last.values())


def test_parameters_that_are_not_finite_are_never_returned():
    with pytest.warns(RuntimeWarning, match="parameters were no longer finite after epoch 1, batch 1"):
        result = train(data=(1e3 * X, Y), optimizer=SGD(1e308), epochs=1, batch_size=None)
    assert result.stopped == "diverged" and result.steps == 0
    assert same(result.last, small_network().init(rng=0))


def test_the_best_survives_a_divergence():
    with pytest.warns(RuntimeWarning):
        result = train(loss=At(9, lambda value: np.nan), validation=VALIDATION, metric="loss")
    assert result.best_step == 3 or result.best_step == 6
    assert same(result.params, result.best)


@pytest.mark.parametrize("call", [1, 2, 3, 5, 9])
def test_ctrl_c_returns_the_last_whole_step(call):
    result = train(loss=At(call, interrupt))
    assert result.stopped == "interrupted" and result.steps == call - 1
    steps = []

    class Counting(Adam):
        def _step(self, *args):
            steps.append(super()._step(*args))
            return steps[-1]

    train(optimizer=Counting(0.02))
    net = small_network()
    expected = steps[call - 2][0] if call > 1 else net.init(rng=0)
    assert same(result.params, expected)


def test_ctrl_c_inside_the_optimiser_leaves_no_half_updated_parameters():
    class Interrupted(Adam):
        count = 0

        def _update(self, *args):
            self.count += 1
            if self.count == 5:
                raise KeyboardInterrupt
            return super()._update(*args)

    result = train(optimizer=Interrupted(0.02), loss=Layered())
    assert result.stopped == "interrupted" and result.steps == 4
    assert same(result.last, train(loss=At(5, interrupt)).last)


def test_a_layer_or_loss_with_gradients_of_another_shape_is_found_out():
    class Turned(Dense):
        def _parameter_gradients(self, *args):
            return {name: grad.T for name, grad in super()._parameter_gradients(*args).items()}

    with pytest.raises(ValueError, match=r"'0.weight'\] has shape \(6, 3\); expected \(3, 6\)"):
        train(Network([Turned((1, 6), outputs=3)]))

    class Short(CrossEntropy):
        def _value_and_gradient(self, *args):
            value, slope = super()._value_and_gradient(*args)
            return value, slope[1:]

    with pytest.raises(ValueError, match=r"gradient of shape \(15, 3\); expected \(16, 3\)"):
        train(loss=Short())


def test_other_errors_are_not_swallowed():
    def fail(value):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(loss=At(2, fail))


# ---- arguments -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"data": X}, TypeError, "data is ndarray; expected a pair"),
        ({"data": (X[:, :, :5], Y)}, ValueError, r"data\[0\] has shape \(50, 1, 5\); expected \(samples, 1, 6\)"),
        ({"data": (X[0], Y[:1])}, ValueError, r"data\[0\] has shape \(1, 6\)"),
        ({"data": (X[:0], Y[:0])}, ValueError, "at least one sample"),
        ({"data": (X, Y[:-1])}, ValueError, r"data\[1\] has shape \(49,\)"),
        ({"data": (X, Y + 1)}, ValueError, r"data\[1\] has the label 3"),
        ({"data": (X * np.nan, Y)}, ValueError, r"data\[0\] has 300 value"),
        ({"validation": (X, Y + 1)}, ValueError, r"validation\[1\] has the label 3"),
        ({"loss": "mse"}, TypeError, "loss is 'mse'"),
        ({"loss": CrossEntropy}, TypeError, "expected an instance of Loss"),
        ({"optimizer": "adam"}, TypeError, "optimizer is 'adam'"),
        ({"epochs": -1}, ValueError, "epochs is -1"),
        ({"epochs": 1.5}, TypeError, "epochs is 1.5"),
        ({"batch_size": 0}, ValueError, "batch_size is 0"),
        ({"patience": 3}, ValueError, "need validation data"),
        ({"validate_every": 3}, ValueError, "need validation data"),
        ({"validation": VALIDATION, "validate_every": 0}, ValueError, "validate_every is 0"),
        ({"validation": VALIDATION, "validate_every": 16}, ValueError, "has 15 steps and would never validate"),
        ({"validation": VALIDATION, "patience": 0}, ValueError, "patience is 0"),
        ({"metric": "f1"}, ValueError, "metric is 'f1'"),
        ({"schedule": 0.5}, TypeError, "schedule is 0.5"),
        ({"progress": "always"}, ValueError, "progress is 'always'"),
        ({"progress": 1}, TypeError, "progress is 1"),
        ({"rng": "seed"}, TypeError, "rng is 'seed'"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        train(**options)


def test_other_bad_arguments():
    net = small_network()
    common = {"loss": CrossEntropy(), "optimizer": Adam(), "epochs": 1}
    with pytest.raises(TypeError, match="network is function"):
        fit(lambda x: x, {}, DATA, **common)
    with pytest.raises(ValueError, match="params has the names"):
        fit(net, {}, DATA, **common)
    with pytest.raises(ValueError, match="metric is 'accuracy'"):
        train(Network([ReLU()]), (X, X), loss=MeanSquaredError(), metric="accuracy")


# ---- what is shown -------------------------------------------------------------------------------------------------
def test_auto_is_silent_off_a_terminal(capsys):
    train(epochs=1)
    train(epochs=1, progress=False)
    assert capsys.readouterr() == ("", "")


def test_auto_shows_a_bar_on_a_terminal(capsys, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    train(epochs=2, validation=VALIDATION)
    out, err = capsys.readouterr()
    assert out == "" and "6/6" in err and "validation" in err


@pytest.fixture
def without_tqdm(monkeypatch):
    import_ = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("tqdm"):
            raise ImportError(name)
        return import_(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_tqdm_a_line_per_epoch(capsys, monkeypatch, without_tqdm):
    train(epochs=3, progress=True, validation=VALIDATION, validate_every=2)
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 3
    assert err[0].startswith("epoch 1/3  loss ") and "s left)" in err[0]
    assert err[1].startswith("epoch 2/3") and "validation" in err[1]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    train(epochs=1)
    assert capsys.readouterr() == ("", "")


def test_time_left_after_a_resumption(capsys, monkeypatch):
    clock = iter([100.0, 130.0])
    monkeypatch.setattr("evref.learn.progress.time.perf_counter", lambda: next(clock))
    lines = Lines(total=20, done=8, epochs=5)
    for _ in range(4):
        lines.step()
    lines.row({"epoch": 3, "loss": 0.5, "validation_metric": None, "ends_epoch": True})
    # 4 steps in 30 s, 8 to go
    assert capsys.readouterr().err == "epoch 3/5  loss 0.5  (30 s, about 60 s left)\n"


def test_result_is_readable():
    result = train(validation=VALIDATION)
    assert repr(result).startswith("FitResult(epochs: 5 epochs, 15 steps, best 0.")
    text = result.summary()
    assert "all 5 epochs done" in text and "best on validation" in text and "training loss" in text
    seconds = [row["seconds"] for row in result.history]
    assert seconds == sorted(seconds) and 0 < seconds[-1] <= result.seconds


def test_ctrl_c_after_a_step_to_infinity_returns_the_parameters_before_it():
    """Nothing looks at the parameters between the steps of an epoch; what is returned is looked at."""

    class ToInfinity(Adam):
        def _step(self, params, grads, state, rate):
            params, state = super()._step(params, grads, state, rate)
            return {name: p * np.inf for name, p in params.items()}, state

    result = train(optimizer=ToInfinity(0.02), loss=At(2, interrupt))
    assert result.stopped == "interrupted"
    assert same(result.last, small_network().init(rng=0))
