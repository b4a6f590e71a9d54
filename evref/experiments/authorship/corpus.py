"""A prepared corpus: figures taken from texts, and no text.

Of every excerpt: in which work it begins and ends, and how often each function word occurs. Of the target author's
excerpts also the word adjacency network, by pairs and distances. Shipped as data/corpus.npz; `evref authorship prepare`
makes such a file of anyone's texts.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import checks
from ...learn.storage import read_archive, write_archive
from . import adjacency
from .adjacency import Pairs

Array = np.ndarray

SHIPPED = "shipped"  # stands for the file that comes with evref
LARGEST = 2**28  # bytes of all arrays of a file together, unpacked: room for some 600,000 excerpts


class Work(NamedTuple):
    """What can be held out as a whole: a tale, a book."""

    author: str
    title: str


@dataclass(frozen=True, eq=False)
class Corpus:
    """Figures of the excerpts of several authors, work by work.

    Attributes
    ----------
    target : str
        The author to recognise.
    words : tuple of str
        The function words.
    works : tuple of Work
    first, last : ndarray of int, shape (excerpts,)
        The work in which an excerpt begins, and the one in which it ends: an excerpt may run over the end of a tale.
    counts : ndarray of int, shape (excerpts, words)
    starts : ndarray of int, shape (target's excerpts + 1,)
        The pairs of the k-th excerpt of the target are pairs[starts[k]:starts[k + 1]].
    pairs : Pairs
        Its word adjacency networks, one after the other.
    length, window, decay : int, int, float
        Words per excerpt, D and α.
    """

    target: str
    words: tuple[str, ...]
    works: tuple[Work, ...]
    first: Array
    last: Array
    counts: Array
    starts: Array
    pairs: Pairs
    length: int
    window: int
    decay: float

    @cached_property
    def is_target(self) -> Array:
        """Which excerpts are the target's."""
        return np.array([work.author == self.target for work in self.works])[self.first]

    def excerpts(self, target: bool) -> Array:
        """Numbers of the excerpts by the target, or by the others."""
        return np.flatnonzero(self.is_target == target)

    def network(self, excerpts: Array) -> Array:
        """Sum of the word adjacency networks of some of the target's excerpts, (words, words)."""
        excerpts = np.asarray(excerpts)
        if not self.is_target[excerpts].all():
            raise ValueError(f"excerpts has some that are not by {self.target}; networks are kept of that author alone")
        chosen = np.isin(self.excerpts(target=True), excerpts)
        kept = np.repeat(chosen, np.diff(self.starts))
        return adjacency.network(Pairs(*(part[kept] for part in self.pairs)), len(self.words), self.decay)

    def summary(self) -> str:
        """Excerpts and works per author, in lines for a person."""
        authors = sorted({work.author for work in self.works}, key=lambda name: (name != self.target, name))
        author = np.array([authors.index(work.author) for work in self.works])
        n_works, n_excerpts = np.bincount(author), np.bincount(author[self.first], minlength=len(authors))
        rows = [f"{name:20} {w:6} {e:9}" for name, w, e in zip(authors, n_works, n_excerpts, strict=True)]
        both = int((self.first[self.is_target] != self.last[self.is_target]).sum())
        return "\n".join(
            [
                f"{'author':20} {'works':>6} {'excerpts':>9}",
                *rows,
                f"{'all':20} {n_works.sum():6} {n_excerpts.sum():9}",
                f"excerpts of {self.length} words, {len(self.words)} function words; {both} of {self.target}'s run "
                "from one work into the next",
                f"networks of {self.target}: {self.pairs.pair.size} pairs by distance up to {self.window}",
            ]
        )


# ---- on disk ---------------------------------------------------------------------------------------------------------
def save_corpus(path: Any, corpus: Corpus) -> None:
    """Write an npz archive, compressed."""
    n_words = len(corpus.words)
    header = {
        "target": corpus.target,
        "words": corpus.words,
        "works": corpus.works,
        "length": corpus.length,
        "window": corpus.window,
        "decay": corpus.decay,
    }
    arrays = {
        "first": corpus.first,
        "last": corpus.last,
        "counts": np.ascontiguousarray(corpus.counts.T),  # word by word: a third smaller
        "starts": corpus.starts,
        "pair_first": corpus.pairs.pair // n_words,
        "pair_second": corpus.pairs.pair % n_words,
        "distance": corpus.pairs.distance,
        "times": corpus.pairs.times,
    }
    smallest = {name: a.astype(np.min_scalar_type(int(a.max(initial=0)))) for name, a in arrays.items()}
    write_archive(path, "corpus", header, smallest, compressed=True)


def load_corpus(path: Any = SHIPPED) -> Corpus:
    """A file of `save_corpus`; by default the corpus that comes with evref.

    >>> corpus = load_corpus()
    >>> corpus.target, len(corpus.words), corpus.counts.shape
    ('poe', 211, (12626, 211))

    Raises
    ------
    ValueError
        The file is missing, damaged or of another kind.
    """
    path = _file(path)
    status = path.stat()
    return _load(path, status.st_mtime_ns, status.st_size)


def _file(path: Any) -> Path:
    path = Path(__file__).parent / "data" / "corpus.npz" if path == SHIPPED else Path(path)
    if not path.is_file():
        raise ValueError(f"corpus is {os.fspath(path)!r}, which is not a file; `evref authorship prepare` makes one")
    return path


@lru_cache(maxsize=2)  # every cell of an experiment asks again
def _load(path: Path, modified: int, size: int) -> Corpus:
    header, arrays = read_archive(path, ("corpus",), largest=LARGEST)
    try:
        words = _texts("words", header["words"])
        floating = [name for name, array in arrays.items() if array.dtype.kind not in "iu"]
        if floating:
            raise ValueError(f"{floating[0]} has dtype {arrays[floating[0]].dtype}; expected integers")
        data = {name: array.astype(np.int64) for name, array in arrays.items()}
        corpus = Corpus(
            target=_texts("target", [header["target"]])[0],
            words=words,
            works=_works(header["works"]),
            first=data["first"],
            last=data["last"],
            counts=np.ascontiguousarray(arrays["counts"].T),
            starts=data["starts"],
            pairs=Pairs(data["pair_first"] * len(words) + data["pair_second"], data["distance"], data["times"]),
            length=checks.as_count("length", header["length"], minimum=1),
            window=checks.as_count("window", header["window"], minimum=1),
            decay=checks.as_number("decay", header["decay"], 0, 1, open_low=True),
        )
        _check(corpus)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"{path}: not a whole corpus ({error})") from None
    return corpus


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} has {values!r:.60}; expected texts")
    return tuple(values)


def _works(rows: Any) -> tuple[Work, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise ValueError(f"works has {rows!r:.60}; expected pairs of author and title")
    return tuple(Work(*_texts("works", row)) for row in rows)


def _check(corpus: Corpus) -> None:
    """What the reader of an archive cannot know: that its arrays fit each other."""
    parts = (corpus.first, corpus.last, corpus.counts, corpus.starts, *corpus.pairs)
    if min(part.min(initial=0) for part in parts) < 0:
        raise ValueError("there are negative numbers among its arrays")
    n, w, entries = len(corpus.first), len(corpus.words), corpus.pairs.pair.size
    n_target = int(corpus.is_target.sum())
    sound = {
        "first, last and counts": corpus.first.shape == corpus.last.shape == (n,) and corpus.counts.shape == (n, w),
        "works": max(corpus.first.max(initial=0), corpus.last.max(initial=0)) < len(corpus.works),
        "words": len(set(corpus.words)) == w,
        "starts": corpus.starts.shape == (n_target + 1,) and corpus.starts[0] == 0 and corpus.starts[-1] == entries
        and bool((np.diff(corpus.starts) >= 0).all()),
        "pairs": all(part.shape == (entries,) for part in corpus.pairs) and corpus.pairs.pair.max(initial=0) < w * w,
        "distances": corpus.pairs.distance.max(initial=0) < corpus.window,
    }  # fmt: skip
    wrong = [name for name, ok in sound.items() if not ok]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} do not fit the rest")


def digest(path: Any = SHIPPED) -> str:
    """Sixteen hex digits that name the contents of a corpus file."""
    return hashlib.sha256(_file(path).read_bytes()).hexdigest()[:16]
