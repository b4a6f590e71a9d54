"""Digits on the grid of their pixels."""

from __future__ import annotations

import builtins
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evref import cli, experiments
from evref.experiments import digits as module
from evref.experiments.digits import Digits

CELL = {"split": 3}


@pytest.fixture
def _images():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")


# ---- without the data ----------------------------------------------------------------------------------------------
def test_it_is_registered_and_has_no_figures_of_the_paper():
    assert experiments.load("digits") is Digits and Digits().in_paper("ev") is None
    assert Digits().models == (*experiments.models.MODELS, "logistic")
    assert pickle.loads(pickle.dumps(Digits())) == Digits()
    json.dumps(Digits().settings())


def test_no_image_is_used_twice_and_all_are_used():
    for split in range(10):
        parts = Digits().division({"split": split})
        assert [part.size for part in parts] == [1200, 197, 400]
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1797))
    small = Digits(train_samples=10, valid_samples=5, test_samples=3).division(CELL)
    assert [part.size for part in small] == [10, 5, 3]


def test_a_division_depends_on_seed_and_cell_alone():
    first = Digits().division(CELL)
    again = replace(Digits(), models=("ev",), splits=50, features=2, epochs=1).division(CELL)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    for other, cell in ((Digits(seed=1), CELL), (Digits(), {"split": 4})):
        assert not np.array_equal(first[0], other.division(cell)[0])


def test_the_graph_joins_pixels_side_by_side():
    graph, place = Digits().graph(), Digits().positions(CELL)
    S = graph.S.toarray()
    apart = np.abs(place[:, None] - place).sum(axis=2)
    assert np.array_equal(S != 0, apart == 1) and np.isclose(np.linalg.eigvalsh(S)[-1], 1)
    assert place[0].tolist() == [0, 0] and place[7].tolist() == [7, 0] and place[8].tolist() == [0, -1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_samples": 1201}, r"1201 \+ 197 \+ 400 = 1798; expected at most 1797"),
        ({"splits": 0}, "splits is 0"),
        ({"features": 0}, "features is 0"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        Digits(**settings)


def test_absent_scikit_learn_is_named_at_once(monkeypatch, capsys, tmp_path):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name.split(".")[0] == "sklearn":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert (
        cli.main(["reproduce", "digits", "--quick", "--jobs", "1", "--no-pictures", "--out", str(tmp_path / "out")])
        == 2
    )
    assert 'pip install "evref[digits]"' in capsys.readouterr().err


# ---- with it -------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("_images")
def test_signals_are_the_images():
    images, digits = module.load()
    assert images.shape == (module.IMAGES, 64) and images.dtype == np.float32
    assert images.min() == 0 and images.max() == 1 and set(digits) == set(range(10))
    data, (train, _, test) = Digits().data(CELL), Digits().division(CELL)
    assert data.x_train.shape == (1200, 1, 64)
    assert np.array_equal(data.x_test[:, 0], images[test]) and np.array_equal(data.y_train, digits[train])
    zero = images[digits == 0].mean(axis=0).reshape(8, 8)
    assert zero[3:5, 3:5].max() < 0.3 < zero[3:5, [2, 5]].min(), "a zero is hollow, row by row"


@pytest.mark.usefixtures("_images")
@pytest.mark.parametrize("model", ["logistic", "spectral", "ev"])
def test_run_learns_and_repeats(model):
    experiment = Digits(epochs=3)
    record, again = experiment.run(model, CELL), experiment.run(model, CELL)
    del record["seconds_per_epoch"], again["seconds_per_epoch"]
    assert record == again and record["best"] > 75 and np.sum(record["confusion"]) == 400
    assert len(record["validation_accuracy"]) == len(record["train_loss"]) == 3


@pytest.mark.usefixtures("_images")
def test_logistic_regression_reaches_what_is_known_of_linear_models():
    assert 94 < Digits().run("logistic", CELL)["last"] < 99


@pytest.mark.usefixtures("_images")
def test_the_page_says_what_other_rates_give_the_linear_model():
    """The page is checked against records elsewhere; these three settings have none."""

    def mean(**settings):
        experiment = Digits(**settings)
        return np.mean([experiment.run("logistic", cell)["last"] for cell in experiment.cells()])

    figures = [mean(learning_rate=1e-3), mean(), mean(epochs=300)]
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    sentence = r"baseline alone: ([\d.]+)% at 10⁻³, ([\d.]+)% at\s5·10⁻³, ([\d.]+)% at 5·10⁻³ with 300 epochs\."
    quoted = [float(figure) for figure in re.search(sentence, page).groups()]
    assert quoted == pytest.approx(figures, abs=0.1), "within an image or two of 4000"
