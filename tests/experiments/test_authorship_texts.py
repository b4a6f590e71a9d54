"""Texts, words and word adjacency networks, on texts made up here; with EVREF_TEXTS=DIR also on the books."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest

from evref.experiments.authorship import adjacency, texts, words
from evref.experiments.authorship.raven import VOLUMES


# ---- reading ---------------------------------------------------------------------------------------------------------
def test_read_takes_plain_and_compressed_files_whatever_ends_their_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffOne\r\ntwo\rthree\n".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("Maelström\n".encode()))
    assert texts.read(tmp_path / "a.txt") == "One\ntwo\nthree\n"
    assert texts.read(tmp_path / "b.txt.gz") == "Maelström\n"


def test_read_names_the_file_and_the_byte_that_is_not_utf8(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes("Maelström".encode("cp1252"))
    with pytest.raises(ValueError, match=r"old\.txt: byte 7 \(0xf6\) is not UTF-8"):
        texts.read(path)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-10], lambda raw: b"no gzip", lambda raw: raw[:12] + b"??" + raw[14:]]
)
def test_read_names_a_damaged_file(tmp_path, damage):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damage(gzip.compress(b"some text " * 50)))
    with pytest.raises(ValueError, match=r"a\.txt\.gz: cannot be read"):
        texts.read(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "Head\n*** START OF THIS PROJECT GUTENBERG EBOOK A ***\n",
            "*** END OF THIS PROJECT GUTENBERG EBOOK A ***\nFoot",
        ),
        ("Head\n***START OF THE PROJECT GUTENBERG EBOOK A***\n", "***END OF THE PROJECT GUTENBERG EBOOK A***\nFoot"),
        (
            "Head\n*** START OF THIS PROJECT GUTENBERG EBOOK\nA *** \n\n\nProduced by B\nand C\n\n",
            "End of the Project Gutenberg EBook of A\n\n*** END OF THIS PROJECT GUTENBERG EBOOK A ***",
        ),
        (
            "Head\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n",
            "End of Project Gutenberg Etext A",
        ),
        ("", ""),
    ],
)
def test_strip_leaves_the_book(before, after):
    body = "It was the end of the project. *** Asterisks *** remain.\n"
    assert texts.strip(before + body + after).strip() == body.strip()


def test_parts_cut_a_volume_of_poe_into_tales_and_leave_the_rest_out():
    headings, end = VOLUMES[2148]
    tales = "".join(f"{heading}\n\nText of {i}.\n" for i, heading in enumerate(headings))
    text = f"[EBook #2148]\nBy others.\n{tales}{end}\nBy the editor.\n"
    found = texts.parts("2148.txt", text, "volume 2")
    assert [part.title for part in found] == list(headings)
    assert found[3].text == f"{headings[3]}\n\nText of 3.\n" and "editor" not in found[-1].text
    with pytest.raises(ValueError, match=r"2148\.txt: the heading 'THE BLACK CAT\.' is missing"):
        texts.parts("2148.txt", text.replace("THE BLACK CAT.", "The Cat"), "volume 2")


def test_parts_leave_any_other_text_whole_whatever_its_file_is_called():
    assert texts.parts("2148.txt", "Mine.\n", "title") == [texts.Part("title", "Mine.\n")]


def test_the_tales_of_poe_are_72_different_ones():
    titles = [title for headings, _ in VOLUMES.values() for title in headings]
    assert len(titles) == len(set(titles)) == 72


# ---- words -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "codes", "sentences"),
    [
        ("The THE tHe", [0, 0, 0], [0, 0, 0]),
        ("it's it’s its 'it' ‘it’", [-1, -1, -1, 1, 1], [0] * 5),  # an apostrophe inside belongs to the word
        ("to-day the--it the—it", [2, -1, 0, 1, 0, 1], [0] * 6),  # hyphens and dashes part words
        ('_the_ (it) "to" “the”, [it]', [0, 1, 2, 0, 1], [0] * 5),
        ("the. it! to? the; it: to, the", [0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5, 5]),
        ("In 1842 the Maelström", [-1, -1, 0, -1], [0] * 4),
        ("the... it", [0, 1], [0, 3]),
        ("", [], []),
    ],
)
def test_encode(text, codes, sentences):
    found = words.encode(text, ["the", "it", "to"])
    assert found.word.tolist() == codes
    assert found.sentence.tolist() == sentences


def test_function_words_are_the_211_and_all_can_occur():
    listed = words.function_words()
    assert len(listed) == 211 and listed[-1] == "yet"
    assert words.encode(" ".join(listed), listed).word.tolist() == list(range(211))


@pytest.mark.parametrize("content", ["", "the it the"])
def test_function_words_of_a_file_must_be_different_ones(tmp_path, content):
    (tmp_path / "w.txt").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"w\.txt: has \d words"):
        words.function_words(tmp_path / "w.txt")


# ---- networks --------------------------------------------------------------------------------------------------------
def naive_network(text: str, vocabulary: tuple[str, ...], window: int, weight, first: int | None = None) -> np.ndarray:
    """From the definition, sentence by sentence and pair by pair; shares nothing with evref."""
    text = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("\N{LEFT SINGLE QUOTATION MARK}", "'")
    W = np.zeros((len(vocabulary), len(vocabulary)))
    left = first
    for sentence in re.split("[.!?;:]", text):
        tokens = [t.strip("'") for t in re.split(r"[^\w']|_|'(?!\w)|(?<!\w)'", sentence)]
        tokens = [t for t in tokens if t]
        if left is not None:
            tokens = tokens[:left]
            left -= len(tokens)
        for a, one in enumerate(tokens):
            if one in vocabulary:
                for b in range(a + 1, min(a + window, len(tokens) - 1) + 1):
                    if tokens[b] in vocabulary:
                        W[vocabulary.index(one), vocabulary.index(tokens[b])] += weight(b - a)
    return W


def fast_network(text, vocabulary, window, decay):
    return adjacency.network(
        adjacency.pairs(words.encode(text, vocabulary), len(vocabulary), window), len(vocabulary), decay
    )


def made_up_text(seed: int, n: int = 400) -> str:
    rng = np.random.default_rng(seed)
    tokens = [
        "the",
        "The",
        "of",
        "and",
        "house",
        "raven's",
        "to-day",
        "and—",
        "_of_",
        "’tis",
        "end.",
        "why?",
        "so;",
        "x",
    ]
    return " ".join(rng.choice(tokens, n))


@pytest.mark.parametrize("seed", range(5))
def test_network_is_that_of_the_definition(seed):
    vocabulary, text = ("the", "of", "and", "to", "so"), made_up_text(seed)
    for window, decay in ((10, 0.8), (3, 0.75), (1, 0.5)):
        np.testing.assert_allclose(
            fast_network(text, vocabulary, window, decay),
            naive_network(text, vocabulary, window, lambda d, decay=decay: decay ** (d - 1)),
            rtol=1e-12,
        )


def test_network_by_hand():
    """Tenth word after: α⁹; eleventh: nothing; not across a delimiter; a word after itself counts; order matters."""
    vocabulary = ("the", "of")
    assert fast_network("the" + " x" * 9 + " of", vocabulary, 10, 0.5)[0, 1] == 0.5**9
    assert fast_network("the" + " x" * 10 + " of", vocabulary, 10, 0.5).sum() == 0
    for delimiter in ".!?;:":
        assert fast_network(f"the{delimiter} of", vocabulary, 10, 0.5).sum() == 0
    np.testing.assert_array_equal(fast_network("the of, the", vocabulary, 10, 0.5), [[0.5, 1], [1, 0]])


def test_network_of_a_text_shorter_than_the_window():
    assert fast_network("the of", ("the", "of"), 10, 0.8).sum() == 1
    assert fast_network("", ("the", "of"), 10, 0.8).sum() == 0


def test_signature_by_hand():
    """Rows to one, halves of W + Wᵀ, the largest component, largest eigenvalue 1."""
    W = np.zeros((6, 6))
    W[1, 2], W[1, 3], W[3, 1] = 1.0, 3.0, 5.0  # 1, 2, 3 hang together; 4 with itself only; 0 and 5 with nobody
    W[4, 4] = 7.0
    graph, kept = adjacency.signature(W, ("a", "but", "can", "do", "every", "for"))
    assert kept.tolist() == [1, 2, 3] and graph.nodes == ("but", "can", "do")
    expected = np.array([[0, 0.25, 0.75 + 1], [0.25, 0, 0], [0.75 + 1, 0, 0]]) / 2
    np.testing.assert_allclose(graph.S.toarray(), expected / np.linalg.eigvalsh(expected)[-1], rtol=1e-12)


def test_signature_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no two function words"):
        adjacency.signature(np.zeros((3, 3)), ("a", "but", "can"))


# ---- on the books ----------------------------------------------------------------------------------------------------
needs_texts = pytest.mark.skipif("EVREF_TEXTS" not in os.environ, reason="EVREF_TEXTS names no folder of the books")


@needs_texts
def test_network_of_pride_and_prejudice():
    """Weights floor(100 · 0.8^(d-1)), first 100,000 words: equal to the naive ones; 0.75 is another network."""
    path = next(Path(os.environ["EVREF_TEXTS"]).rglob("1342.txt*"))
    text, vocabulary = texts.strip(texts.read(path)), words.function_words()
    codes = words.encode(text, vocabulary)
    found = adjacency.pairs(words.Codes(codes.word[:100_000], codes.sentence[:100_000]), 211, 10)

    def network(decay):
        weights = found.times * np.floor(100 * decay**found.distance + 1e-9)
        return np.bincount(found.pair, weights, minlength=211**2).reshape(211, 211)

    naive = naive_network(text, vocabulary, 10, lambda d: int(100 * 0.8 ** (d - 1) + 1e-9), first=100_000)
    np.testing.assert_array_equal(network(0.8), naive)
    assert 0.13 < np.abs(network(0.75) - naive).sum() / naive.sum() < 0.15
