from __future__ import annotations

import os

import numpy as np
import pytest

from evref.filters import EdgeVariant
from evref.graph import Graph
from evref.learn import SGD, Adam, CrossEntropy, Dense, Network, ReLU, Tanh, fit, save_parameters, schedules
from evref.learn.checkpoint import fingerprint
from evref.learn.storage import read_archive, write_archive

RNG = np.random.default_rng(0)
RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
X = RNG.standard_normal((50, 1, 6))
Y = (X[:, 0, 0] > X[:, 0, 3]).astype(int) + (X[:, 0, 1] > 0.5)
DATA, VALIDATION = (X[:40], Y[:40]), (X[40:], Y[40:])


def network(weights=RING, activation=None) -> Network:
    first = EdgeVariant(Graph(weights), order=2, in_features=1, out_features=2, bias=True)
    return Network([first, activation or ReLU(), Dense((2, 6), outputs=3)])


def train(net=None, data=DATA, **options):
    """15 steps unless told otherwise: 5 epochs of 3 batches, the third short."""
    net = net or network()
    defaults = {"loss": CrossEntropy(), "optimizer": Adam(0.02), "epochs": 5, "batch_size": 16, "rng": 1}
    return fit(net, net.init(rng=0), data, **{**defaults, **options})


class InterruptedAt(CrossEntropy):
    """Ctrl-C in the n-th evaluation of the loss."""

    def __init__(self, call):
        self.left = call

    def __repr__(self):
        return "CrossEntropy()"

    def _value_and_gradient(self, *args):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return super()._value_and_gradient(*args)


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def timeless(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def assert_same_training(a, b):
    assert same(a.last, b.last) and same(a.best, b.best)
    assert timeless(a.history) == timeless(b.history)
    assert (a.stopped, a.best_step, a.best_metric, a.epochs, a.steps) == (
        b.stopped,
        b.best_step,
        b.best_metric,
        b.epochs,
        b.steps,
    )


OPTIONS = {"validation": VALIDATION, "validate_every": 2, "schedule": schedules.exponential_decay(0.9)}


@pytest.mark.parametrize("optimizer", [Adam(0.02), SGD(0.1, momentum=0.9)], ids=["adam", "sgd"])
@pytest.mark.parametrize("call", [1, 2, 7, 9, 14])
def test_an_interrupted_training_ends_with_the_same_bits(tmp_path, optimizer, call):
    path = tmp_path / "check"
    whole = train(optimizer=optimizer, **OPTIONS)
    broken = train(optimizer=optimizer, loss=InterruptedAt(call), checkpoint=path, **OPTIONS)
    assert broken.stopped == "interrupted"
    assert_same_training(train(optimizer=optimizer, checkpoint=path, **OPTIONS), whole)
    assert os.listdir(tmp_path) == ["check"]


def test_a_checkpoint_changes_nothing_and_more_epochs_go_on(tmp_path):
    path = tmp_path / "check"
    assert_same_training(train(checkpoint=path, epochs=2, **OPTIONS), train(epochs=2, **OPTIONS))
    assert_same_training(train(checkpoint=str(path), **OPTIONS), train(**OPTIONS))
    finished = train(checkpoint=path, **OPTIONS)  # nothing left to do
    assert_same_training(finished, train(**OPTIONS))
    with pytest.raises(ValueError, match="has finished 5 epochs; epochs is 3"):
        train(checkpoint=path, epochs=3, **OPTIONS)


def test_without_validation(tmp_path):
    train(checkpoint=tmp_path / "check", epochs=2)
    assert_same_training(train(checkpoint=tmp_path / "check"), train())


def test_early_stop_after_a_resumption(tmp_path):
    def metric(prediction, target):
        return 0.0

    options = {"validation": VALIDATION, "metric": metric, "patience": 3, "epochs": 30}
    whole = train(**options)
    train(loss=InterruptedAt(8), checkpoint=tmp_path / "check", **options)
    resumed = train(checkpoint=tmp_path / "check", **options)
    assert whole.stopped == "early" and whole.steps == 12
    assert_same_training(resumed, whole)
    assert_same_training(train(checkpoint=tmp_path / "check", **options), whole)


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_bit_generator_is_taken_up_where_it_was(tmp_path, name):
    def generator(seed=3):
        return np.random.Generator(getattr(np.random, name)(seed))

    path = tmp_path / "check"
    rng = generator()
    whole = train(rng=rng)
    train(rng=generator(), checkpoint=path, epochs=2)
    resumed = generator(99)  # the seed of the file counts
    assert_same_training(train(rng=resumed, checkpoint=path), whole)
    assert resumed.random() == rng.random()


def test_another_bit_generator_is_refused(tmp_path):
    train(checkpoint=tmp_path / "check", epochs=1)
    with pytest.raises(ValueError, match="cannot be resumed"):
        train(checkpoint=tmp_path / "check", rng=np.random.Generator(np.random.MT19937(0)))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"net": network(activation=Tanh())}, "network was"),
        ({"optimizer": Adam(0.03)}, "optimizer was"),
        ({"optimizer": SGD(0.02)}, "optimizer was"),
        ({"data": (DATA[0], DATA[1][::-1])}, "data was"),
        ({"data": (DATA[0] * 2, DATA[1])}, "data was"),
        ({"validation": None, "validate_every": None}, "validation was"),
        ({"validate_every": 3}, "validate_every was 2, is now 3"),
        ({"batch_size": 15}, "batch_size was 16, is now 15"),
        ({"metric": "loss"}, "metric was 'accuracy', is now 'loss'"),
        ({"schedule": None}, "learning rate in epoch 2"),
    ],
)
def test_the_checkpoint_of_another_training_is_refused(tmp_path, options, what):
    path = tmp_path / "check"
    train(checkpoint=path, epochs=2, **OPTIONS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=what) as caught:
        train(checkpoint=path, **{**OPTIONS, **options})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_the_weights_of_the_graph_count(tmp_path):
    train(network(), checkpoint=tmp_path / "check", epochs=1)
    with pytest.raises(ValueError, match="network was"):
        train(network(RING * 2), checkpoint=tmp_path / "check")


def test_the_fingerprint_sees_shape_dtype_and_values():
    a = np.arange(6.0)
    prints = [fingerprint(b) for b in (a, a.reshape(2, 3), a.view(np.int64), a + 1, a.astype(np.float32))]
    assert len(set(prints)) == 5
    assert fingerprint(np.asfortranarray(a.reshape(2, 3))) == prints[1]


def test_damaged_checkpoints(tmp_path):
    path = tmp_path / "check"
    train(checkpoint=path, epochs=1)
    header, arrays = read_archive(path, ("checkpoint",))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="check: not a whole npz archive"):
        train(checkpoint=path)
    save_parameters(path, {"w": np.ones(1)})
    with pytest.raises(ValueError, match="holds 'parameters'; expected 'checkpoint'"):
        train(checkpoint=path)
    rest = {key: header[key] for key in ("identity", "rng", "run")}
    for forged, kept in [
        ({**rest, "identity": 3}, arrays),
        ({**rest, "run": {"surprise": 1}}, arrays),
        ({**rest, "rng": {}}, arrays),
        (rest, {**arrays, "params.0.phi": np.ones(3)}),
        (rest, {**arrays, "params.0.phi": arrays["params.0.phi"].astype(np.float32)}),
        (rest, {k: v for k, v in arrays.items() if k != "state.step"}),
    ]:
        write_archive(path, "checkpoint", forged, kept)
        with pytest.raises(ValueError, match=r"check: the (training cannot be resumed|checkpoint does not say)"):
            train(checkpoint=path)


def changed(mapping, *keys, value):
    """A copy with another value at mapping[keys[0]][keys[1]]..."""
    if not keys:
        return value
    inner = mapping[keys[0]]
    copy = list(mapping) if isinstance(mapping, list) else dict(mapping)
    copy[keys[0]] = changed(inner, *keys[1:], value=value)
    return copy


WRONG = [None, True, -1, 0.5, "1", [], {}, 10**400, float("nan")]
FIELDS = [("run", key) for key in ("stale", "epoch", "step", "best_step", "history")]
FIELDS += [("run", "history", 0, key) for key in ("epoch", "step", "loss", "learning_rate", "ends_epoch", "seconds")]
FIELDS += [("run", "best_metric"), ("run", "seconds"), ("run", "history", 0), ("run",), ("rng",), ("rng", "state")]
FIELDS += [("rng", "state", "state"), ("rng", "state", "inc"), ("rng", "has_uint32"), ("rng", "bit_generator")]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ".".join(map(str, field)))
def test_every_field_is_checked(tmp_path, field):
    path = tmp_path / "check"
    train(checkpoint=path, epochs=2, validation=VALIDATION)
    header, arrays = read_archive(path, ("checkpoint",))
    rest = {key: header[key] for key in ("identity", "rng", "run")}
    refused = 0
    for wrong in WRONG:
        write_archive(path, "checkpoint", changed(rest, *field, value=wrong), arrays)
        try:
            train(checkpoint=path, epochs=2, validation=VALIDATION)
        except ValueError as error:
            refused += 1
            named = "rng" if field[0] == "rng" else str(field[-1])
            assert str(path) in str(error) and named in str(error).replace("learning rate", "learning_rate")
    assert refused >= 5


@pytest.mark.parametrize("step", [-1, 0, 10**18])
def test_the_step_of_the_optimizer_is_that_of_the_run(tmp_path, step):
    path = tmp_path / "check"
    train(checkpoint=path, epochs=2)
    header, arrays = read_archive(path, ("checkpoint",))
    arrays["state.step"] = np.array(step)
    write_archive(path, "checkpoint", {key: header[key] for key in ("identity", "rng", "run")}, arrays)
    with pytest.raises(ValueError, match=rf"check: .*state\['step'\] is {step}; run\['step'\] is 6"):
        train(checkpoint=path)


@pytest.mark.parametrize("name", ["params.0.phi", "state.m.0.phi"])
def test_numbers_that_are_not_finite(tmp_path, name):
    path = tmp_path / "check"
    train(checkpoint=path, epochs=2)
    header, arrays = read_archive(path, ("checkpoint",))
    assert name in arrays, sorted(arrays)
    arrays[name].flat[0] = np.nan
    write_archive(path, "checkpoint", {key: header[key] for key in ("identity", "rng", "run")}, arrays)
    with pytest.raises(ValueError, match=r"check: .*not finite"):
        train(checkpoint=path)


@pytest.mark.parametrize(("name", "key"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
def test_a_position_past_the_buffer_of_the_generator(tmp_path, name, key):
    """NumPy takes it and reads whatever lies there."""
    path = tmp_path / "check"
    options = {"rng": np.random.Generator(getattr(np.random, name)(0)), "checkpoint": path}
    train(epochs=1, **options)
    header, arrays = read_archive(path, ("checkpoint",))
    rest = {k: header[k] for k in ("identity", "rng", "run")}
    where = ("rng", "state", key) if key == "pos" else ("rng", key)
    write_archive(path, "checkpoint", changed(rest, *where, value=10**6), arrays)
    with pytest.raises(ValueError, match=rf"rng\['{key}'\] is 1000000; expected at most"):
        train(**options)


def test_an_interrupt_while_writing_keeps_the_previous_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "check"
    replace, calls = os.replace, []

    def second_fails(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace(*args)

    monkeypatch.setattr(os, "replace", second_fails)
    broken = train(checkpoint=path)
    monkeypatch.undo()
    assert broken.stopped == "interrupted" and broken.epochs == 2
    assert same(broken.last, train(epochs=2).last)
    assert read_archive(path, ("checkpoint",))[0]["run"]["epoch"] == 1
    assert_same_training(train(checkpoint=path), train())
    assert os.listdir(tmp_path) == ["check"]
