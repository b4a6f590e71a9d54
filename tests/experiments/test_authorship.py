"""The experiment on authorship: its divisions, its graph, its runs."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from made_up_texts import write_texts

from evref import experiments
from evref.experiments.authorship import Authorship, load_corpus, prepare_corpus, save_corpus
from evref.experiments.authorship.adjacency import Pairs, signature

CELL = {"split": 3}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts").mkdir()
    return write_texts(tmp_path / "texts")


def test_it_is_registered_and_its_defaults_are_the_paper_s():
    assert experiments.load("authorship") is Authorship
    experiment = Authorship()
    assert (experiment.features, experiment.order, experiment.privileged, experiment.spline) == (2, 1, 2, 2)
    assert (experiment.epochs, experiment.batch, experiment.learning_rate) == (80, 100, 1e-3)
    assert experiment.cells() == [{"split": i} for i in range(10)]
    assert Authorship(splits=50).cells()[-1] == {"split": 49}
    assert set(experiment.paper) == set(experiment.models) - {"logistic"}
    assert pickle.loads(pickle.dumps(experiment)) == experiment
    json.dumps(experiment.settings())


@pytest.mark.parametrize("held_out", ["excerpts", "tales"])
def test_no_excerpt_of_the_author_is_among_the_others_and_none_is_used_twice(held_out):
    corpus = load_corpus()
    for split in range(10):
        ours, others = Authorship(held_out=held_out).divisions(corpus, {"split": split})
        assert all(corpus.works[w].author == "poe" for part in ours for w in corpus.first[part])
        assert not any(corpus.works[w].author == "poe" for part in others for w in corpus.first[part])
        for division in (ours, others):
            joined = np.concatenate(division)
            assert np.unique(joined).size == joined.size
        assert [part.size for part in ours] == [part.size for part in others]


def test_sizes_are_the_paper_s():
    ours, _ = Authorship().divisions(load_corpus(), CELL)
    assert [part.size for part in ours] == [608, 68, 170]


def test_whole_tales_and_books_are_held_out():
    corpus = load_corpus()
    sizes = []
    for split in range(20):
        for division in Authorship(held_out="tales").divisions(corpus, {"split": split}):
            works = [set(corpus.first[part]) | set(corpus.last[part]) for part in division]
            assert not (works[0] & works[1] or works[0] & works[2] or works[1] & works[2])
            sizes.append([part.size for part in division])
    sizes = np.array(sizes)
    assert (sizes <= [608, 68, 170]).all() and (sizes >= [550, 60, 165]).all(), sizes.min(axis=0)


def test_signals_are_the_counts_of_the_graph_s_words_and_labels_say_whose():
    experiment, corpus = Authorship(), load_corpus()
    graph, data = experiment.problem(CELL)
    ours, others = experiment.divisions(corpus, CELL)
    _, kept = signature(corpus.network(ours.train), corpus.words)
    assert graph.nodes == tuple(corpus.words[word] for word in kept)
    assert data.x_test.shape == (340, 1, graph.n_nodes) and data.x_test.dtype == np.float32
    np.testing.assert_array_equal(data.x_test[data.y_test == 1, 0], corpus.counts[ours.test][:, kept])
    np.testing.assert_array_equal(data.x_train[data.y_train == 0, 0], corpus.counts[others.train][:, kept])


def test_the_graph_is_made_of_training_excerpts_alone(monkeypatch):
    """Other test and validation excerpts: the same graph. One other training excerpt: another graph."""
    experiment, corpus = Authorship(), load_corpus()
    ours, _ = experiment.divisions(corpus, CELL)
    mine = corpus.excerpts(target=True)

    def with_other(excerpts):
        """A word that always follows itself, in some excerpts."""
        pair = corpus.pairs.pair.copy()
        for k in np.flatnonzero(np.isin(mine, excerpts)):
            pair[corpus.starts[k] : corpus.starts[k + 1]] = 0
        counts = corpus.counts.copy()
        counts[excerpts] = 0
        changed = replace(corpus, counts=counts, pairs=Pairs(pair, corpus.pairs.distance, corpus.pairs.times))
        monkeypatch.setattr("evref.experiments.authorship.task.load_corpus", lambda path: changed)
        return experiment.problem(CELL)

    graph, data = experiment.problem(CELL)
    same, other = with_other(np.concatenate([ours.valid, ours.test]))
    assert same == graph
    np.testing.assert_array_equal(other.x_train, data.x_train)
    assert not other.x_test[other.y_test == 1].any()
    assert with_other(ours.train[:1])[0] != graph


def test_graph_is_connected_symmetric_and_of_spectral_radius_one():
    graph, _ = Authorship().problem(CELL)
    assert graph.is_symmetric and 180 < graph.n_nodes <= 211
    assert np.abs(np.linalg.eigvalsh(graph.S.toarray())).max() == pytest.approx(1)


def test_a_cell_is_the_same_for_every_model_and_others_differ():
    experiment = Authorship()
    first, again = experiment.problem(CELL)[1], replace(experiment, models=("ev",), splits=50).problem(CELL)[1]
    np.testing.assert_array_equal(first.x_train, again.x_train)
    ours, _ = experiment.divisions(load_corpus(), CELL)
    assert not np.array_equal(ours.train, experiment.divisions(load_corpus(), {"split": 4})[0].train)


@pytest.mark.parametrize("model", ["logistic", "polynomial", "hev-degree"])
def test_run_learns_and_repeats(model):
    experiment = Authorship(epochs=3)
    record = experiment.run(model, CELL)
    again = experiment.run(model, CELL)
    del record["seconds_per_epoch"], again["seconds_per_epoch"]
    assert record == again
    assert record["train_loss"][-1] < record["train_loss"][0] and record["best"] > 55
    assert np.sum(record["confusion"]) == 340
    json.dumps(record)


def test_logistic_regression_reaches_what_is_known_of_linear_models():
    record = Authorship().run("logistic", CELL)
    assert 85 < record["last"] < 95


def test_own_corpus_in_the_experiment(folder, tmp_path):
    path = tmp_path / "c.npz"
    save_corpus(path, prepare_corpus(folder, author="ann", length=20))
    small = Authorship(
        corpus=str(path), train_samples=20, valid_samples=4, test_samples=6, epochs=30, learning_rate=0.1
    )
    assert small.run("logistic", CELL)["last"] == 100  # they share one word
    assert small.settings()["corpus"] != Authorship().settings()["corpus"]
    assert pickle.loads(pickle.dumps(small)).paper == {} and Authorship().paper  # the paper's figures are Poe's
    before = small.settings()
    moved = path.rename(tmp_path / "moved.npz")
    assert replace(small, corpus=str(moved)).settings() == before  # what it holds counts, not where it is
    with pytest.raises(ValueError, match=r"30 excerpts by ann; .* 608 \+ 68 \+ 170 = 846"):
        Authorship(corpus=str(moved)).cells()
    with pytest.raises(ValueError, match="ann has 2 works, too few"):
        replace(small, corpus=str(moved), held_out="tales").problem(CELL)


def test_bad_settings_are_named():
    for setting, message in [
        ({"held_out": "words"}, "held_out"),
        ({"splits": 0}, "splits"),
        ({"corpus": "x"}, "corpus"),
    ]:
        with pytest.raises(ValueError, match=message):
            Authorship(**setting).settings()
