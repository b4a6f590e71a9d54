"""What the pages say about the records in validation/results: tables, sentences, and where other numbers come from.

    python validation/pages.py            say what is on a page and does not follow from the records
    python validation/pages.py --write    write the tables and the numbers in the sentences again

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; page_tables.py computes it. Sentences are
in page_statements.py, their figures computed, with what must hold for their words to be true: where that fails, the
words have to be changed by hand. Numbers that no record holds are there too, each with its source. What is then left
over is a number that nobody checks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end of table -->", re.DOTALL)
NUMBER = r"(?<![\w.,])[−+-]?\d+(?:,\d{3})*(?:\.\d+)?"
CODE = re.compile(
    r"^(`{3,}).*?^\1`*$|`[^`\n]*`|<!--.*?-->|\]\([^)\s]*\)|^#+ .*?$|https?://\S+", re.DOTALL | re.MULTILINE
)
# K = 4, p = .8; powers of ten; formulas; equations by their label
SETTING = re.compile(
    r"(?<!\w)[^\W\d_|*]{0,2}[\w|*]\s?[=≤<]\s?\S*\d\S*|(?:\d·)?10[⁻⁰¹²³⁴-⁹]+|\$[^$\n]*\$|\beq\. \([^)]*\)"
)


class Statement(NamedTuple):
    """A sentence that must stand on a page, figures and all; `holds` says whether its words are true."""

    page: str
    text: str
    holds: bool = True


class Elsewhere(NamedTuple):
    """A phrase whose numbers no record holds, and where they come from."""

    page: str
    text: str
    source: str


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def pattern(text: str) -> re.Pattern[str]:
    """`text` with any numbers in the place of its own, and any white space in the place of its spaces.

    >>> pattern("the lead is +12.6 points").search("... the lead\\n is +13.1 points").group(1)
    '+13.1'
    """
    pieces = re.split(f"({NUMBER})", text)
    parts = [f"({NUMBER})" if i % 2 else r"\s+".join(map(re.escape, re.split(r"\s+", p))) for i, p in enumerate(pieces)]
    return re.compile("".join(parts))


def place(text: str, phrase: str) -> re.Match[str] | None:
    """Where the phrase stands, its numbers right or wrong."""
    return pattern(phrase).search(text)


def numbers(text: str) -> list[str]:
    return re.findall(NUMBER, text)


def wrong(page: str, statement: Statement | Elsewhere) -> str | None:
    """What is wrong with a sentence of a page."""
    found = place(page, statement.text)
    if found is None:
        return f"not there: {statement.text}"
    if list(found.groups()) != numbers(statement.text):
        return f"there: {' '.join(found.group().split())}\n  records: {statement.text}"
    if not getattr(statement, "holds", True):
        return f"the words are no longer true: {statement.text}"
    return None


def unchecked(page: str, phrases: list[str], without: tuple[str, ...] = ()) -> list[str]:
    """Lines of a page with a number that is in no phrase, no table from records, no code and no section `without`.

    >>> unchecked("EV has 93% of 5 runs, K = 4.", ["of 3 runs"])
    ['EV has 93% of 5 runs, K = 4.']
    >>> unchecked("EV has 93% of 5 runs, K = 4.", ["of 3 runs", "EV has 1%"])
    []
    """
    free = list(page)

    def blank(start: int, end: int) -> None:
        free[start:end] = [c if c == "\n" else " " for c in free[start:end]]

    for part in (TABLE, CODE, SETTING):
        for found in part.finditer(page):
            blank(*found.span())
    for phrase in phrases:
        if found := place(page, phrase):
            blank(*found.span())
    for title in without:
        start, end = section(page, title)
        blank(start, end)
    lines = "".join(free).splitlines()
    return [original for original, line in zip(page.splitlines(), lines, strict=True) if re.search(NUMBER, line)]


def section(page: str, title: str) -> tuple[int, int]:
    """Beginning and end of a section, with those below it."""
    head = re.search(rf"^(#+) {re.escape(title)}$", page, re.MULTILINE)
    if head is None:
        raise ValueError(f"no section {title!r}")
    rest = re.compile(rf"^#{{1,{len(head[1])}}} ", re.MULTILINE).search(page, head.end())
    return head.start(), rest.start() if rest else len(page)


def tables(page: str) -> Iterator[tuple[str, str]]:
    """Name and contents of every table on a page that is written from records."""
    yield from TABLE.findall(page)


def with_tables(page: str, contents: dict[str, str]) -> str:
    return TABLE.sub(lambda m: f"<!-- table: {m[1]} -->\n{contents[m[1]]}\n<!-- end of table -->", page)


def with_numbers(page: str, statement: Statement) -> str:
    """The page with the numbers of one sentence as they are in the records; unchanged where the sentence is not."""
    found = place(page, statement.text)
    if found is None:
        return page
    for group, number in reversed(list(enumerate(numbers(statement.text), start=1))):
        start, end = found.span(group)
        page = page[:start] + number + page[end:]
    return page


if __name__ == "__main__":
    from page_statements import STATEMENTS
    from page_tables import CONTENTS

    names = sorted({statement.page for statement in STATEMENTS})
    if "--write" in sys.argv[1:]:
        for name in names:
            page = with_tables(read(name), {table: CONTENTS[table]() for table, _ in tables(read(name))})
            for statement in STATEMENTS:
                page = with_numbers(page, statement) if statement.page == name else page
            (ROOT / name).write_text(page, encoding="utf-8")
    faults = [f"{s.page}: {fault}" for s in STATEMENTS if (fault := wrong(read(s.page), s))]
    print("\n".join(faults) or "pages and records agree")
    sys.exit(bool(faults))
