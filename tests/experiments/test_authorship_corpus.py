"""Corpora: the one that comes with evref, how others are made, and how they are kept."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from made_up_texts import write_texts

from evref.cli import main
from evref.experiments.authorship import corpus as corpora
from evref.experiments.authorship import load_corpus, prepare_corpus, save_corpus
from evref.learn.storage import read_archive, write_archive


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts").mkdir()
    return write_texts(tmp_path / "texts")


# ---- the shipped corpus ----------------------------------------------------------------------------------------------
def test_shipped_corpus_is_found_and_small():
    data = resources.files("evref.experiments.authorship") / "data"
    assert len((data / "corpus.npz").read_bytes()) < 1.2e6
    assert len((data / "function_words.txt").read_text(encoding="utf-8").split()) == 211


def test_shipped_corpus_is_what_the_protocol_needs():
    corpus = load_corpus()
    assert corpus.target == "poe" and len(corpus.words) == 211
    assert (corpus.length, corpus.window, corpus.decay) == (485, 10, 0.8)
    assert corpus.excerpts(target=True).size == 850 and corpus.excerpts(target=False).size == 11776
    assert sum(work.author == "poe" for work in corpus.works) == 72
    assert len({work.author for work in corpus.works}) == 21
    assert corpus.counts.sum(axis=1).max() <= 485 and corpus.counts.sum(axis=1).min() > 100


def test_shipped_networks_fit_the_counts():
    """A word that precedes another occurs: no row of a network without its count, in any excerpt."""
    corpus = load_corpus()
    for k, excerpt in enumerate(corpus.excerpts(target=True)[:50]):
        pair = corpus.pairs.pair[corpus.starts[k] : corpus.starts[k + 1]]
        assert (corpus.counts[excerpt][np.unique([pair // 211, pair % 211])] > 0).all()


def test_shipped_file_holds_no_running_text():
    header, arrays = read_archive(Path(corpora.__file__).parent / "data/corpus.npz", ("corpus",), largest=2**24)
    assert set(header) == {
        "format", "schema", "kind", "evref", "target", "words", "works", "length", "window", "decay",
    }  # fmt: skip
    assert all(len(title) < 60 for _, title in header["works"])
    assert {array.dtype.kind for array in arrays.values()} == {"u"}


# ---- preparing -------------------------------------------------------------------------------------------------------
def test_prepare_counts_and_cuts(folder):
    corpus = prepare_corpus(folder, author="ann", length=40)
    assert [work[:] for work in corpus.works] == [
        ("ann", "ann_x"),
        ("ann", "ann_y"),
        ("bob", "bob_x"),
        ("bob", "bob_y"),
    ]
    assert np.bincount(corpus.first).tolist() == [7, 7, 7, 7]  # 300 = 7 · 40 + 20
    tokens = (folder / "ann_y.txt").read_text(encoding="utf-8").replace(".", "").split()[40:80]
    expected = [tokens.count(word) for word in corpus.words]
    assert corpus.counts[8].tolist() == expected
    assert corpus.starts.size == 15 and corpus.starts[-1] == corpus.pairs.pair.size


def test_pairs_do_not_cross_the_end_of_an_excerpt(tmp_path):
    (tmp_path / "ann_x.txt").write_text("the of the of", encoding="utf-8")
    (tmp_path / "bob_x.txt").write_text("x x", encoding="utf-8")
    corpus = prepare_corpus(tmp_path, author="ann", length=2)
    W = corpus.network(corpus.excerpts(target=True))
    the, of = corpus.words.index("the"), corpus.words.index("of")
    assert W[the, of] == 2 and W[of, the] == 0


def test_excerpts_that_run_over_the_end_of_a_tale_know_both(tmp_path, monkeypatch):
    from evref.experiments.authorship import texts

    monkeypatch.setitem(texts.VOLUMES, 7, (("ONE", "TWO"), None))
    (tmp_path / "ann_x.txt").write_text("[EBook #7]\nONE\nthe of the\nTWO\nof the of the of\n", encoding="utf-8")
    (tmp_path / "bob_x.txt").write_text("x x x", encoding="utf-8")
    corpus = prepare_corpus(tmp_path, author="ann", length=3)
    assert corpus.first.tolist() == [0, 0, 1, 2] and corpus.last.tolist() == [0, 1, 1, 2]
    W = corpus.network(np.array([1]))  # "the TWO of": not a pair, the tales are not one sentence
    assert W.sum() == 0


@pytest.mark.parametrize(
    "books",
    [{"one": "ann", "two": "bob"}, [{"id": "one", "author": "ann", "title": "One"}, {"id": "two", "author": "bob"}]],
)
def test_books_json_says_who_wrote_what(tmp_path, books):
    for name in ("one", "two", "readme"):
        (tmp_path / f"{name}.txt").write_text("the of the of", encoding="utf-8")
    (tmp_path / "books.json").write_text(json.dumps(books), encoding="utf-8")
    assert [work.author for work in prepare_corpus(tmp_path, author="ann", length=2).works] == ["ann", "bob"]
    assert prepare_corpus(tmp_path, author="bob", length=2, books=tmp_path / "books.json").target == "bob"


def test_folders_name_authors(tmp_path):
    for author in ("ann", "bob"):
        (tmp_path / author).mkdir()
        (tmp_path / author / "work.txt").write_text("the of the of", encoding="utf-8")
    (tmp_path / "ann" / "other.txt").write_text("the of", encoding="utf-8")
    with pytest.raises(ValueError, match="two files are called 'work'"):
        prepare_corpus(tmp_path, author="ann", length=2)
    (tmp_path / "bob" / "work.txt").rename(tmp_path / "bob" / "book.txt")
    assert {work.author for work in prepare_corpus(tmp_path, author="ann", length=2).works} == {"ann", "bob"}


def test_what_cannot_be_prepared_is_named(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, message in [
        ({"folder": tmp_path / "nowhere"}, "which is not a folder"),
        ({"folder": empty}, r"holds no texts; expected files that end in \.txt"),
        ({"folder": folder, "author": "poe", "length": 40}, "author is 'poe'; .*ann 14, bob 14"),
        ({"folder": folder, "author": "ann", "length": 500}, "ann 0, bob 0"),
        ({"folder": folder, "words": "nowhere.txt"}, "words is 'nowhere.txt', which is not a file"),
        ({"folder": folder, "books": "nowhere.json"}, "books is 'nowhere.json', which is not a file"),
        ({"folder": folder, "length": 0}, "length is 0"),
        ({"folder": folder, "decay": 1.5}, "decay is 1.5"),
    ]:
        with pytest.raises(ValueError, match=message):
            prepare_corpus(**arguments)
    for books, message in [
        ('{"nobody": "ann"}', "names 'nobody'"),
        ("[1]", "expected"),
        ("{", "expected"),
        ("[]", "names no books"),
        ('{"ann_x": ""}', "no author"),
    ]:
        (tmp_path / "b.json").write_text(books, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"b\.json: .*{message}"):
            prepare_corpus(folder, books=tmp_path / "b.json")
    (folder / "anonymous.txt").write_text("the", encoding="utf-8")
    with pytest.raises(ValueError, match=r"anonymous\.txt: who wrote it"):
        prepare_corpus(folder)


def test_prepare_command(folder, tmp_path, capsys):
    out = tmp_path / "c.npz"
    assert main(["authorship", "prepare", str(folder), "--author", "ann", "--length", "40", "--out", str(out)]) == 0
    assert "written" in capsys.readouterr().out
    assert load_corpus(out).target == "ann"
    assert main(["authorship", "prepare", str(folder), "--author", "ann", "--out", str(tmp_path / "no" / "c.npz")]) == 2
    assert main(["authorship", "prepare", str(tmp_path / "nowhere")]) == 2
    assert "which is not a folder" in capsys.readouterr().err


# ---- on disk ---------------------------------------------------------------------------------------------------------
def test_save_and_load(folder, tmp_path):
    corpus = prepare_corpus(folder, author="ann", length=40, window=3, decay=0.75)
    save_corpus(tmp_path / "c.npz", corpus)
    again = load_corpus(tmp_path / "c.npz")
    for name in ("first", "last", "counts", "starts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(corpus, name))
    for ours, theirs in zip(again.pairs, corpus.pairs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [getattr(again, k) for k in ("target", "words", "works", "length", "window", "decay")] == [
        getattr(corpus, k) for k in ("target", "words", "works", "length", "window", "decay")
    ]
    mine = corpus.excerpts(target=True)
    np.testing.assert_array_equal(again.network(mine), corpus.network(mine))
    save_corpus(tmp_path / "c.npz", replace(corpus, decay=0.5))
    assert load_corpus(tmp_path / "c.npz").decay == 0.5  # not the one remembered


@pytest.mark.parametrize(
    "change",
    [
        {"first": np.array([0, 1, 99], np.uint8)},
        {"starts": np.array([0, 1], np.uint8)},
        {"distance": np.array([200], np.uint8)},
        {"counts": np.zeros((3, 3), np.uint8)},
        {"pair_first": None},
        {"first": np.repeat(np.arange(4, dtype=np.uint8), 7)[:, np.newaxis]},
        {"first": np.full(28, -1, np.int8)},
        {"last": np.full(28, 2**64 - 1, np.uint64)},
        {"times": np.array([np.nan])},
        {"counts": np.ones((211, 28), bool)},
    ],
)
def test_a_file_whose_arrays_do_not_fit_is_refused(folder, tmp_path, change):
    path = tmp_path / "c.npz"
    save_corpus(path, prepare_corpus(folder, author="ann", length=40))
    header, arrays = read_archive(path, ("corpus",), largest=2**20)
    header = {k: header[k] for k in ("target", "words", "works", "length", "window", "decay")}
    changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
    write_archive(path, "corpus", header, changed, compressed=True)
    with pytest.raises(ValueError, match=r"c\.npz: not a whole corpus"):
        load_corpus(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target", 3), ("target", None), ("words", "text"), ("words", [1]), ("words", ["the"] * 211),
        ("works", [["ann"]]), ("works", [["ann", 3]]), ("works", 3), ("works", ["ab"]),
        ("length", 0), ("length", "1"), ("length", 10**400),
        ("window", 1.5), ("window", -1), ("decay", 0), ("decay", 1.5), ("decay", [0.8]), ("decay", 10**400),
        ("decay", float("nan")),
    ],
)  # fmt: skip
def test_a_file_with_a_wrong_field_is_refused(folder, tmp_path, field, value):
    path = tmp_path / "c.npz"
    save_corpus(path, prepare_corpus(folder, author="ann", length=40))
    header, arrays = read_archive(path, ("corpus",), largest=2**20)
    header = {k: header[k] for k in ("target", "words", "works", "length", "window", "decay")}
    write_archive(path, "corpus", header, arrays, compressed=True)
    assert load_corpus(path).target == "ann"  # as it was
    write_archive(path, "corpus", {**header, field: value}, arrays, compressed=True)
    with pytest.raises(ValueError, match=rf"c\.npz: not a whole corpus \(.*{field}"):
        load_corpus(path)


def test_damaged_and_foreign_files_are_refused(folder, tmp_path):
    path = tmp_path / "c.npz"
    with pytest.raises(ValueError, match="which is not a file"):
        load_corpus(path)
    save_corpus(path, prepare_corpus(folder, author="ann", length=40))
    raw = bytearray(path.read_bytes())
    place = zipfile.ZipFile(path).getinfo("counts.npy").header_offset + 80
    raw[place : place + 40] = bytes(40)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"c\.npz"):
        load_corpus(path)
    write_archive(path, "parameters", {}, {"x": np.zeros(3)})
    with pytest.raises(ValueError, match="holds 'parameters'"):
        load_corpus(path)


def test_a_small_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "LARGEST", 10_000)
    write_archive(tmp_path / "c.npz", "corpus", {}, {"counts": np.zeros(100_000, np.uint8)}, compressed=True)
    with pytest.raises(ValueError, match="announce 100324 bytes in all; expected at most 10000"):
        load_corpus(tmp_path / "c.npz")


# ---- on the books ----------------------------------------------------------------------------------------------------
@pytest.mark.skipif("EVREF_TEXTS" not in os.environ, reason="EVREF_TEXTS names no folder of the books")
def test_shipped_corpus_is_that_of_the_books():
    built, shipped = prepare_corpus(os.environ["EVREF_TEXTS"]), load_corpus()
    for name in ("first", "last", "counts", "starts"):
        np.testing.assert_array_equal(getattr(built, name), getattr(shipped, name))
    for ours, theirs in zip(built.pairs, shipped.pairs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (built.words, built.works) == (shipped.words, shipped.works)
