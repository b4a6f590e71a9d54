"""Every figure on the pages that comes from the records is what the records give, and no other figure is there."""

from __future__ import annotations

import re

import interval_coverage
import page_tables
import pages
import pytest
from page_statements import ELSEWHERE, PAGES, README, STATEMENTS

SIMULATED = "interval-coverage"
NAMES = sorted({statement.page for statement in STATEMENTS})


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: f"{s.page}: {s.text[:50]}")
def test_sentences_quote_the_records(statement):
    fault = pages.wrong(pages.read(statement.page), statement)
    assert fault is None, f"{statement.page}: {fault}\n(python validation/pages.py --write puts the numbers right)"


@pytest.mark.parametrize(
    ("page", "name"),
    [(page, name) for page in NAMES for name, _ in pages.tables(pages.read(page)) if name != SIMULATED],
)
def test_tables_are_written_from_the_records(page, name):
    assert dict(pages.tables(pages.read(page)))[name].rstrip("\n") == page_tables.CONTENTS[name]()


def test_every_table_is_on_a_page():
    there = [name for page in NAMES for name, _ in pages.tables(pages.read(page))]
    assert sorted(there) == sorted(page_tables.CONTENTS)


def test_simulated_coverage():
    """Streams of random numbers may change with a version of NumPy: within a point, three standard errors."""
    page = dict(pages.tables(pages.read("validation/experiments.md")))[SIMULATED]
    percent = re.compile(r"(\d+\.\d)%")
    stored, now = (list(map(float, percent.findall(text))) for text in (page, interval_coverage.table()))
    assert len(now) == 8 and all(abs(a - b) < 1 for a, b in zip(stored, now, strict=True))
    student, bootstrap = now[::2], now[1::2]
    assert min(student) > 94 and max(student) < 96 and max(bootstrap[:2]) < 92
    numbers = re.compile(r"[\d,.]+ points within and [\d.]+ between graphs")
    assert numbers.findall(page) == numbers.findall(interval_coverage.table())


@pytest.mark.parametrize("page", PAGES)
def test_no_number_is_left_unchecked(page):
    phrases = [s.text for s in (*STATEMENTS, *ELSEWHERE) if s.page == page]
    text = pages.read(page)
    if page == README:
        text = text[pages.section(text, "The paper's tables")[0] :]
    assert pages.unchecked(text, phrases, PAGES[page]) == []


@pytest.mark.parametrize("elsewhere", ELSEWHERE, ids=lambda e: f"{e.page}: {e.text[:50]}")
def test_numbers_from_elsewhere_are_still_there(elsewhere):
    assert pages.wrong(pages.read(elsewhere.page), elsewhere) is None
    assert elsewhere.source


# ---- the checks themselves -------------------------------------------------------------------------------------------
PAGE = """# Title 7

EV is at 87.8
± 14.9% here.

<!-- table: t -->
| 1 |
<!-- end of table -->

## Settings

B = 5, and 6 of them.

## Rest

`7` and K = 4 and 10⁻³
"""


def test_a_wrong_number_a_missing_sentence_and_untrue_words_are_faults():
    right = pages.Statement("", "EV is at 87.8 ± 14.9% here.")
    assert pages.wrong(PAGE, right) is None
    assert "records: EV is at 87.9" in pages.wrong(PAGE, right._replace(text="EV is at 87.9 ± 14.9% here."))
    assert "not there" in pages.wrong(PAGE, right._replace(text="NV is at 87.8 ± 14.9% here."))
    assert "no longer true" in pages.wrong(PAGE, right._replace(holds=False))
    assert pages.wrong(pages.with_numbers(PAGE.replace("87.8", "1"), right), right) is None


def test_numbers_outside_phrases_tables_code_and_settings_are_found():
    assert pages.unchecked(PAGE, ["EV is at 1 ± 2% here."], ("Settings",)) == []
    assert pages.unchecked(PAGE, [], ("Settings",)) == ["EV is at 87.8", "± 14.9% here."]
    assert pages.unchecked(PAGE, ["EV is at 1 ± 2% here."]) == ["B = 5, and 6 of them."]
    with pytest.raises(ValueError, match="no section 'Other'"):
        pages.unchecked(PAGE, [], ("Other",))
    assert "| 2 |" in pages.with_tables(PAGE, {"t": "| 2 |"})
