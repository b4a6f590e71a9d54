"""From a folder of texts to a corpus, and the command `evref authorship prepare`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import checks
from ...arguments import as_new_file
from . import adjacency, texts
from .adjacency import Pairs
from .corpus import Corpus, Work, save_corpus
from .words import Codes, encode, function_words

SUFFIXES = (".txt", ".txt.gz")


class Book(NamedTuple):
    path: Path
    author: str
    title: str


def prepare_corpus(
    folder: Any,
    words: Any = None,
    books: Any = None,
    author: str = "poe",
    length: int = 485,
    window: int = 10,
    decay: float = 0.8,
) -> Corpus:
    """Take the figures of every text in `folder` and below.

    A file is one work, but for Poe's volumes of the Raven Edition, which are cut into tales. It is cut into excerpts of
    `length` words, one after the other; what is left at its end is not used. Pairs of words do not cross the end of an
    excerpt, nor of a work.

    Parameters
    ----------
    folder : path
        With .txt or .txt.gz files in UTF-8.
    words : path, optional
        The list of function words; by default the 211 that come with evref.
    books : path, optional
        JSON that says who wrote what, by default books.json in `folder`: either {file name without suffix: author}
        or a list of {"id": file name without suffix, "author": ..., "title": ...}. Files it does not name are left
        out. Where there is none, AUTHOR/title.txt and AUTHOR_title.txt say it themselves.
    author : str
        The author to recognise.
    length, window, decay : int, int, float
        Words per excerpt; D and α of the word adjacency networks.

    Raises
    ------
    ValueError
        There are no texts, one cannot be read or has no author, or the author or the others have no excerpt.
    """
    length = checks.as_count("length", length, minimum=1)
    window = checks.as_count("window", window, minimum=1)
    decay = checks.as_number("decay", decay, 0, 1, open_low=True)
    vocabulary = function_words(None if words is None else _file("words", words))
    works: list[Work] = []
    first: list[np.ndarray] = []
    last: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    networks: list[Pairs] = []
    for book in find_books(folder, books):
        parts = texts.parts(str(book.path), texts.read(book.path), book.title)
        codes, work = _joined([encode(part.text, vocabulary) for part in parts])
        ends = np.arange(length, codes.word.size + 1, length)
        first.append(len(works) + work[ends - length])
        last.append(len(works) + work[ends - 1])
        for end in ends:
            excerpt = Codes(codes.word[end - length : end], codes.sentence[end - length : end])
            counts.append(np.bincount(excerpt.word[excerpt.word >= 0], minlength=len(vocabulary)))
            if book.author == author:
                networks.append(adjacency.pairs(excerpt, len(vocabulary), window))
        works += [Work(book.author, part.title) for part in parts]
    numbers = dict.fromkeys(sorted({work.author for work in works}), 0)
    for number in np.concatenate(first):
        numbers[works[number].author] += 1
    if not numbers.get(author) or sum(numbers.values()) == numbers[author]:
        found = ", ".join(f"{name} {count}" for name, count in numbers.items())
        raise ValueError(
            f"author is {author!r}; excerpts of {length} words found in {folder}: {found}; expected some by {author} "
            "and some by others"
        )
    return Corpus(
        target=author,
        words=vocabulary,
        works=tuple(works),
        first=np.concatenate(first),
        last=np.concatenate(last),
        counts=np.array(counts),
        starts=np.cumsum([0, *(network.pair.size for network in networks)]),
        pairs=Pairs(*map(np.concatenate, zip(*networks, strict=True))),
        length=length,
        window=window,
        decay=decay,
    )


def _joined(codes: Sequence[Codes]) -> tuple[Codes, np.ndarray]:
    """Parts one after the other, no sentence across a seam, and to which part each word belongs."""
    word = np.concatenate([part.word for part in codes])
    work = np.repeat(np.arange(len(codes)), [part.word.size for part in codes])
    n_sentences = np.array([part.sentence.max(initial=-1) + 1 for part in codes])
    return Codes(
        word, np.concatenate([part.sentence for part in codes]) + (np.cumsum(n_sentences) - n_sentences)[work]
    ), work


# ---- who wrote what --------------------------------------------------------------------------------------------------
def find_books(folder: Any, books: Any = None) -> list[Book]:
    """The texts of a folder with their authors, in the order of books.json or of their names."""
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"DIR is {str(folder)!r}, which is not a folder")
    files: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if path.name.endswith(SUFFIXES) and path.is_file():
            if _stem(path) in files:
                raise ValueError(f"{root}: two files are called {_stem(path)!r}: {files[_stem(path)]} and {path}")
            files[_stem(path)] = path
    if not files:
        raise ValueError(f"{root}: holds no texts; expected files that end in {' or '.join(SUFFIXES)}")
    listing = _file("books", books) if books is not None else root / "books.json"
    if not listing.is_file():
        return [Book(path, _author(path, root), stem) for stem, path in files.items()]
    named = _listed(listing)
    missing = [stem for stem, _, _ in named if stem not in files]
    if missing:
        raise ValueError(f"{listing}: names {missing[0]!r} ({len(missing)} in all), of which {root} holds no text")
    return [Book(files[stem], author, title) for stem, author, title in named]


def _listed(path: Path) -> list[tuple[str, str, str]]:
    """File name without suffix, author and title of every book."""
    try:
        listing = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(listing, dict):
            listing = [{"id": stem, "author": author} for stem, author in listing.items()]
        rows = [(str(row["id"]), row["author"], str(row.get("title", row["id"]))) for row in listing]
        if not rows or not all(isinstance(author, str) and author for _, author, _ in rows):
            raise ValueError("a book has no author" if rows else "names no books")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f'{path}: {error}; expected {{"file name": "author"}} or a list of {{"id": ..., "author": ...}}'
        ) from None
    return rows


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".txt")


def _author(path: Path, root: Path) -> str:
    """AUTHOR/title.txt or AUTHOR_title.txt."""
    if path.parent != root:
        return path.parent.name
    author, separator, _ = _stem(path).partition("_")
    if not separator:
        raise ValueError(f"{path}: who wrote it? expected AUTHOR/title.txt, AUTHOR_title.txt, or a books.json")
    return author


def _file(name: str, path: Any) -> Path:
    if not Path(path).is_file():
        raise ValueError(f"{name} is {str(path)!r}, which is not a file")
    return Path(path)


# ---- the command -----------------------------------------------------------------------------------------------------
def add_command(commands: Any, formatter: type[argparse.HelpFormatter]) -> None:
    """Hang `authorship prepare` onto the parser of `evref`."""
    actions = commands.add_parser(
        "authorship", help="prepare a corpus for `evref reproduce authorship` from your own texts"
    ).add_subparsers(dest="action", metavar="ACTION", required=True)
    command = actions.add_parser(
        "prepare",
        help="take the figures of a folder of texts",
        description="""\
            Cut texts into excerpts, count their function words, build the author's word adjacency networks, and write
            these figures (no text) into one file for `evref reproduce authorship --corpus FILE`.

            Who wrote what: books.json in DIR, {"file name without suffix": "author"}; or the files are called
            AUTHOR/title.txt or AUTHOR_title.txt.""",
        epilog="""\
            examples:
              evref authorship prepare my_texts --author austen --out austen.npz
              evref reproduce authorship --corpus austen.npz""",
        formatter_class=formatter,
    )
    command.add_argument("dir", metavar="DIR", help="folder of .txt or .txt.gz files in UTF-8, and folders below it")
    command.add_argument("--out", metavar="FILE", default="corpus.npz", help="what to write (default corpus.npz)")
    command.add_argument("--words", metavar="FILE", help="function words (default: the 211 that come with evref)")
    command.add_argument("--books", metavar="FILE", help="who wrote what (default: books.json in DIR, if there is one)")
    command.add_argument("--author", default="poe", metavar="NAME", help="whom to recognise (default poe)")
    command.add_argument("--length", type=int, default=485, help="words per excerpt (default 485)")
    command.add_argument("--window", type=int, default=10, help="D: how far apart two words may be (default 10)")
    command.add_argument("--decay", type=float, default=0.8, help="α: a pair weighs α^(distance - 1) (default 0.8)")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    out = as_new_file("--out", arguments.out)
    corpus = prepare_corpus(
        arguments.dir,
        words=arguments.words,
        books=arguments.books,
        author=arguments.author,
        length=arguments.length,
        window=arguments.window,
        decay=arguments.decay,
    )
    save_corpus(out, corpus)
    print(corpus.summary())
    print(f"written: {out} ({out.stat().st_size / 1e6:.2f} MB)")
    return 0
