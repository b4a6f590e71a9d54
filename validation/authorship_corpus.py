"""Rebuild the corpus that comes with evref from a folder of texts, and check the word adjacency networks.

    python validation/authorship_corpus.py DIR [--out FILE] [--published FILE]

DIR holds the 58 books (numbered as Project Gutenberg numbers them, .txt or .txt.gz) and books.json. Without --out the
result is compared with the shipped file and nothing is written. FILE of --published is somebody else's network of
"Pride and Prejudice" (e-book 1342): 211 rows of 211 numbers, first 100,000 words, weights floor(100 · 0.8^(d-1)).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from evref.experiments.authorship import adjacency, corpus, prepare, texts, words

PRIDE = 1342
FIRST = 100_000  # words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--published", type=Path)
    arguments = parser.parse_args()

    built = prepare.prepare_corpus(arguments.dir)
    print(built.summary())
    if arguments.out:
        corpus.save_corpus(arguments.out, built)
        print(f"written: {arguments.out} ({arguments.out.stat().st_size / 1e6:.2f} MB)")
    else:
        print(f"the shipped corpus holds the same figures: {same(built, corpus.load_corpus())}")

    print('\n"Pride and Prejudice", first 100,000 words')
    book = next(book for book in prepare.find_books(arguments.dir) if book.path.name.startswith(f"{PRIDE}."))
    codes = words.encode(texts.strip(texts.read(book.path)), words.function_words())
    pairs = adjacency.pairs(words.Codes(codes.word[:FIRST], codes.sentence[:FIRST]), 211, window=10)
    W = rounded(pairs, 0.8)
    print(f"{np.count_nonzero(W)} entries, sum {W.sum():.0f}, diagonal {np.trace(W):.0f}")
    print(f"relative L1 distance of decay 0.75: {distance(rounded(pairs, 0.75), W):.4f}")
    if arguments.published:
        published = np.loadtxt(arguments.published)
        for decay in (0.8, 0.75):
            print(f"from the published network, decay {decay}: {distance(rounded(pairs, decay), published):.4f}")


def rounded(pairs: adjacency.Pairs, decay: float) -> np.ndarray:
    """The network with weights in whole hundredths, rounded down."""
    weights = pairs.times * np.floor(100 * decay**pairs.distance + 1e-9)
    return np.bincount(pairs.pair, weights, minlength=211**2).reshape(211, 211)


def distance(W: np.ndarray, of: np.ndarray) -> float:
    return float(np.abs(W - of).sum() / np.abs(of).sum())


def same(a: corpus.Corpus, b: corpus.Corpus) -> bool:
    """Every figure and every label."""
    arrays = [
        (a.first, b.first),
        (a.last, b.last),
        (a.counts, b.counts),
        (a.starts, b.starts),
        *zip(a.pairs, b.pairs, strict=True),
    ]
    return (
        all(np.array_equal(x, y) for x, y in arrays)
        and (a.target, a.words, a.works) == (b.target, b.words, b.works)
        and (a.length, a.window, a.decay) == (b.length, b.window, b.decay)
    )


if __name__ == "__main__":
    main()
