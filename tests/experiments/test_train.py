"""One training of one cell."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evref as ev
from evref.experiments import train as module
from evref.experiments.train import Splits, train

SEEDS = np.random.SeedSequence(5, spawn_key=(2, 1))
NET = ev.Network([ev.Polynomial(ev.generators.cycle(6), 1, 1, 2, bias=True), ev.ReLU(), ev.Dense((2, 6), outputs=3)])


def splits(seed=0, train=50):
    rng = np.random.default_rng(seed)
    parts = []
    for count in (train, 30, 40):
        parts += [rng.standard_normal((count, 1, 6)).astype(np.float32), rng.integers(3, size=count)]
    return Splits(*parts)


def run(net=NET, data=None, epochs=3, learning_rate=0.01, **options):
    record = train(net, data or splits(), epochs, 20, learning_rate, options.pop("validate_every", 2), SEEDS, **options)
    assert json.loads(json.dumps(record)) == record
    return record


def test_record():
    record = run()
    assert record.keys() == {
        "best", "last", "parameters", "operations", "seconds_per_epoch", "epochs", "train_loss", "validation_accuracy",
        "confusion",
    }  # fmt: skip
    assert record["parameters"] == NET.n_parameters and record["operations"] == NET.n_operations(1)
    assert len(record["train_loss"]) == 3 and len(record["validation_accuracy"]) == 4  # 9 steps
    assert np.sum(record["confusion"]) == 40


def test_same_seeds_same_bits():
    first, second = run(), run()
    del first["seconds_per_epoch"], second["seconds_per_epoch"]
    assert first == second


def test_best_and_last_weights_are_both_tested():
    """Accuracies against the network trained by hand with the same streams."""
    data = splits()
    streams = [np.random.default_rng(np.random.SeedSequence(5, spawn_key=(2, 1, i))) for i in range(2)]
    result = ev.fit(
        NET, NET.init(streams[0], dtype=np.float32), (data.x_train, data.y_train), loss=ev.CrossEntropy(),
        optimizer=ev.Adam(0.05), epochs=8, batch_size=20, validation=(data.x_valid, data.y_valid), validate_every=2,
        rng=streams[1], progress=False,
    )  # fmt: skip
    record = run(epochs=8, learning_rate=0.05)
    accuracies = [100 * ev.accuracy(NET.predict(p, data.x_test), data.y_test) for p in (result.best, result.last)]
    assert accuracies[0] != accuracies[1], "choose other data: this test sees nothing"
    assert np.allclose([record["best"], record["last"]], accuracies, atol=1e-3)


def test_loss_of_an_epoch_is_the_mean_over_its_batches():
    """With a learning rate of 0 every epoch has the loss of the start, short last batch or not."""
    data = splits(train=60)
    start = NET.init(np.random.default_rng(np.random.SeedSequence(5, spawn_key=(2, 1, 0))), dtype=np.float32)
    loss = ev.CrossEntropy().forward(NET.predict(start, data.x_train), data.y_train)[0]
    assert np.allclose(run(data=data, learning_rate=0.0)["train_loss"], loss, atol=2e-5)


def test_networks_of_any_size_see_the_samples_in_the_same_order(monkeypatch):
    orders = []

    def fit(*arguments, rng, **options):
        orders.append(np.random.Generator(rng.bit_generator).permutation(50))
        raise RuntimeError("enough")

    monkeypatch.setattr(module, "fit", fit)
    wide = ev.Network([ev.EdgeVariant(ev.generators.cycle(6), 2, 1, 9, bias=True), ev.Dense((9, 6), outputs=3)])
    for net in (NET, wide):
        with pytest.raises(RuntimeError, match="enough"):
            run(net)
    assert np.array_equal(*orders)


@pytest.mark.filterwarnings("ignore:training stopped")
def test_a_training_that_diverges_is_no_result():
    with pytest.raises(RuntimeError, match="no longer finite|loss became"):
        run(learning_rate=1e38)


def test_half_a_training_is_no_result(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(NET, "_parameter_gradients", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        run()
