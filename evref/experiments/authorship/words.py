"""From a text to codes: which function word, if any, stands at each place, and in which sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

# A word is a run of letters and digits, with apostrophes inside; anything else parts words: hyphens (good-bye is two),
# dashes, underscores (italics). These end a sentence, also after an abbreviation or in a number.
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[.!?;:]")
DELIMITERS = frozenset(".!?;:")
OTHER = -1  # the code of a word that is not on the list
_STRAIGHT = str.maketrans({"’": "'", "‘": "'"})


class Codes(NamedTuple):
    """A text, word by word."""

    word: np.ndarray  # (words,) int16, place in the list of function words or OTHER
    sentence: np.ndarray  # (words,) int32, rising from 0


def function_words(path: Path | None = None) -> tuple[str, ...]:
    """The list of a file, words between white space; by default the 211 of Segarra, Eisen and Ribeiro (2015).

    >>> len(function_words()), function_words()[:3]
    (211, ('a', 'bit', 'couple'))
    """
    source = resources.files(__package__) / "data" / "function_words.txt" if path is None else path
    words = tuple(source.read_text(encoding="utf-8").lower().translate(_STRAIGHT).split())
    twice = sorted({word for word in words if words.count(word) > 1})
    if not words or twice or len(words) > np.iinfo(np.int16).max:
        raise ValueError(
            f"{path}: has {len(words)} words" + (f", {', '.join(twice)} more than once" if twice else "")
            + f"; expected different ones, from 1 to {np.iinfo(np.int16).max}"
        )  # fmt: skip
    return words


def encode(text: str, words: Sequence[str]) -> Codes:
    """Codes of a text, capitals and curly apostrophes aside.

    >>> encode("To be, or not to be: that is the well-known QUESTION.", ["to", "or", "that", "the"])._asdict()
    {'word': array([ 0, -1,  1, -1,  0, -1,  2, -1,  3, -1, -1, -1], dtype=int16), \
'sentence': array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1], dtype=int32)}
    """
    number = {word: i for i, word in enumerate(words)}
    codes: list[int] = []
    sentences: list[int] = []
    sentence = 0
    for token in _TOKEN.findall(text.lower().translate(_STRAIGHT)):
        if token in DELIMITERS:
            sentence += 1
        else:
            codes.append(number.get(token, OTHER))
            sentences.append(sentence)
    return Codes(np.array(codes, np.int16), np.array(sentences, np.int32))
