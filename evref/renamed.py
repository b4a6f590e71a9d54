"""Names that were public once and have another name now: errors say the new one, records are read by it."""

from __future__ import annotations

# argument -> its old choices and what they are called now
CHOICES = {
    "reading": {"open": "text", "letter": "equation", "script": "authors_code"},
    "models": {
        "spectral-script": "spectral-no-top-row",
        "ev-letter": "ev-equation",
        "hev-degree-letter": "hev-degree-equation",
        "hev-degree-script": "hev-degree-authors-code",
        "hev-proxies-letter": "hev-proxies-equation",
        "hev-proxies-script": "hev-proxies-authors-code",
    },
}


def current(argument: str, value: str) -> str:
    """What `value` of `argument` is called now.

    >>> current("reading", "open"), current("reading", "text")
    ('text', 'text')
    """
    return CHOICES.get(argument, {}).get(value, value)
