"""From a file to the author's own text: reading, and leaving out what an e-book adds."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .raven import VOLUMES

# What Project Gutenberg wraps its books in, over the years. The first match of START and, after it, of END count.
_START = re.compile(
    r"^[ \t]*\*{3} ?START OF TH(?:E|IS) PROJECT GUTENBERG(?:[^*]|\*(?!\*\*))*\*{3}[ \t]*$"
    r"|^\*END\*THE SMALL PRINT!.*$",
    re.MULTILINE,
)
_END = re.compile(r"^[ \t]*(?:\*{3} ?END OF TH|End of (?:the |this )?Project Gutenberg)", re.MULTILINE | re.IGNORECASE)
_CREDITS = re.compile(r"\s*(?:Produced|E-text prepared|Transcribed|Special thanks)\b.*?\n\s*\n", re.DOTALL)
_NUMBER = re.compile(r"\[E(?:Book|text) #(\d+)\]", re.IGNORECASE)


class Part(NamedTuple):
    """A stretch of an author's text that may be held out as a whole: a tale, a book."""

    title: str
    text: str


def read(path: Path) -> str:
    """The text of a .txt or .txt.gz file in UTF-8, with "\\n" at the end of each line."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; expected a text in UTF-8 "
            "(iconv -f WINDOWS-1252 -t UTF-8 converts an old one)"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def strip(text: str) -> str:
    """The book without the e-book's header, footer and first paragraph of credits; any other text as it is.

    >>> strip("Title: A\\n*** START OF THIS PROJECT GUTENBERG EBOOK A ***\\nIt was.\\n*** END OF THIS PROJECT ...")
    '\\nIt was.\\n'
    """
    start = _START.search(text)
    if start:
        text = text[start.end() :]
        credits = _CREDITS.match(text)
        text = text[credits.end() :] if credits else text
    end = _END.search(text)
    return text[: end.start()] if end else text


def parts(name: str, text: str, title: str) -> list[Part]:
    """A text as its author's works: the tales of the volumes in :mod:`.raven`, and any other book as one."""
    number = _NUMBER.search(text[:5000])
    volume = VOLUMES.get(int(number[1])) if number else None
    text = strip(text)
    if volume is None:
        return [Part(title, text)]
    try:
        return split(text, *volume)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def split(text: str, headings: Sequence[str], end: str | None = None) -> list[Part]:
    """Cut at lines that are `headings`, in this order; what precedes the first and follows the line `end` is left out.

    >>> split("Note\\nA\\nOne.\\nB\\nTwo.\\nNOTES\\nThree.", ["A", "B"], end="NOTES")
    [Part(title='A', text='A\\nOne.\\n'), Part(title='B', text='B\\nTwo.\\n')]
    """
    places: list[int] = []
    for heading in [*headings, end] if end else headings:
        match = re.compile(rf"^{re.escape(heading)}$", re.MULTILINE).search(text, places[-1] + 1 if places else 0)
        if match is None:
            raise ValueError(f"the heading {heading!r} is missing, or not where it was expected")
        places.append(match.start())
    stops = [*places[1:], len(text)]
    return [Part(h, text[a:b]) for h, a, b in zip(headings, places, stops, strict=False)]
