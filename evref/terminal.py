"""Text for a terminal or a pipe whose encoding lacks some of the signs: they are written in ASCII, readably."""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from contextlib import suppress
from typing import Any

HANDLER = "evref_ascii"
_ASCII = {
    "−": "-", "–": "-", "—": "-", "±": "+-", "×": "x", "·": "*", "•": "*", "∗": "*", "≤": "<=", "≥": ">=", "≈": "~",
    "≠": "!=", "→": "->", "←": "<-", "∞": "inf", "√": "sqrt", "∂": "d", "Σ": "sum", "∈": "in", "⊂": "<", "⟨": "<",
    "⟩": ">", "‖": "||", "∘": "o", "⊙": "o", "µ": "u", "’": "'", "′": "'", "″": "''", "‘": "'", "“": '"',
    "”": '"', "\u0302": "_hat", "\u0304": "_bar",
}  # fmt: skip


def in_ascii(text: str) -> str:
    """Usual spellings, names of Greek letters, ^ before exponents; of other signs a backslash and the number.

    >>> in_ascii("S² ± λ ≤ Φ⁽⁰⁾, 10⁻¹², é, ½")
    'S^2 +- lambda <= Phi^(0), 10^-12, e, 1/2'
    """
    pieces, raised = [], False
    for sign in text:
        was_raised, raised = raised, unicodedata.decomposition(sign).startswith("<super>")
        pieces.append(("^" if raised and not was_raised else "") + _sign_in_ascii(sign))
    return "".join(pieces)


def _sign_in_ascii(sign: str) -> str:
    if sign.isascii() or sign in _ASCII:
        return _ASCII.get(sign, sign)
    words = unicodedata.name(sign, "").split()
    if words[:1] == ["GREEK"] and "LETTER" in words:
        letter = words[words.index("LETTER") + 1].replace("LAMDA", "LAMBDA")
        return letter.capitalize() if "CAPITAL" in words else letter.lower()
    plain = unicodedata.normalize("NFKD", sign).replace("\N{FRACTION SLASH}", "/").replace("−", "-")
    return plain.encode("ascii", "ignore").decode("ascii") or sign.encode("ascii", "backslashreplace").decode("ascii")


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return in_ascii(error.object[error.start : error.end]), error.end


codecs.register_error(HANDLER, _replace)


def adapt(*streams: Any) -> None:
    """Each stream writes what its encoding lacks in ASCII, unless PYTHONIOENCODING says what else to do there."""
    for stream in streams:
        if getattr(stream, "errors", None) in ("strict", "surrogateescape", "backslashreplace"):
            with suppress(AttributeError, ValueError, OSError):  # something else in place of a text file, or closed
                stream.reconfigure(errors=HANDLER)


def as_written(stream: Any, text: str) -> str:
    """What `stream` will make of `text`: for columns, which must be set side by side in their final spelling."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    errors = getattr(stream, "errors", None) or "strict"
    return text.encode(encoding, HANDLER if errors == "strict" else errors).decode(encoding)


def discard() -> None:
    """Nobody takes what is still to come on standard output: let it go, so that the interpreter can end in peace."""
    with suppress(AttributeError, ValueError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
