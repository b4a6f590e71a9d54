"""docs/notation.md against the formulae of pages and docstrings; the paper's equation numbers beside its labels."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import NamedTuple

import pytest
from notation import DOCSTRINGS, ROOT, docstrings, formulas, of_docstring, of_markdown, symbols

NOTATION = ROOT / "docs" / "notation.md"
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path != NOTATION)

# The numbered equations of the paper in their order, None where there is no label.
PRINTED = (
    "filtVx", "vxFilt", "pol", "polyResp", "stateEV", None, "EVout", "gnnGen", "evConv", "polFilt", "specGCNN",
    "evResp", "suppVec", "lamLin", None, None, "nodeV", "HEV",
)  # fmt: skip
NUMBERS = {label: number for number, label in enumerate(PRINTED, start=1) if label}


class Row(NamedTuple):
    """A line of the tables of symbols."""

    symbols: tuple[str, ...]  # the first letter of each formula in the first cell
    code: tuple[str, ...]
    pages: tuple[str, ...]
    everywhere: bool


def section(title: str) -> list[list[str]]:
    """The table below a heading of the notation page, without its head."""
    text = NOTATION.read_text(encoding="utf-8")
    body = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    lines = [line for line in body.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


@cache
def rows() -> list[Row]:
    titles = ("Sizes and indices", "Graph, signals and filters", "Spectrum", "Of one family")
    found = []
    for cells in (cells for title in titles for cells in section(title)):
        first, _, _, code, where = cells
        pages = tuple(dict.fromkeys(re.findall(r"\((\w+)\.md", where)))
        letters = tuple(symbols(formula)[0] for formula in of_markdown(first))
        found.append(Row(letters, tuple(re.findall(r"`([^`]+)`", code)), pages, "all pages" in where))
    return found


@cache
def used() -> dict[str, set[str]]:
    """The symbols of each page."""
    return {page: {symbol for formula in formulas(page) for symbol in symbols(formula)} for page in PAGES}


def rows_of(page: str, symbol: str) -> list[Row]:
    return [row for row in rows() if symbol in row.symbols and (row.everywhere or page in row.pages)]


# ---- symbols -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", PAGES)
def test_every_symbol_of_a_page_is_in_the_tables(page):
    missing = sorted(symbol for symbol in used()[page] if not rows_of(page, symbol))
    assert not missing, f"docs/notation.md does not say what {missing} mean on the page {page} or in its docstrings"


def test_every_row_is_used_where_it_says():
    for row in rows():
        assert row.symbols and row.pages, row
        for page in row.pages:
            assert page in PAGES, row
            assert any(symbol in used()[page] for symbol in row.symbols), f"{row.symbols} not used on {page}"
        if row.everywhere:
            for symbol in row.symbols:
                assert sum(symbol in on_page for on_page in used().values()) >= 4, f"{symbol} is not used everywhere"


def test_a_letter_has_two_meanings_only_where_the_page_says_so():
    meanings = defaultdict(list)
    for row in rows():
        for symbol in row.symbols:
            meanings[symbol].append(row)
    double = {symbol for symbol, found in meanings.items() if len(found) > 1 and "hat" not in symbol}
    listed = {symbols(of_markdown(cells[0])[0])[0] for cells in section("Letters with two meanings")}
    assert double == listed
    twice = {symbol for page in PAGES for symbol in used()[page] if len(rows_of(page, symbol)) > 1}
    assert twice == {"k"}  # said above that table


def test_names_in_code_are_in_the_code():
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "evref").rglob("*.py")))
    for row in rows():
        for name in row.code:
            last = name.rpartition(".")[2]
            assert re.search(rf"\b{re.escape(last)}\b", source), f"{name} of {row.symbols} is nowhere in evref"


def test_docstrings_with_formulas_belong_to_a_page():
    assert set(DOCSTRINGS) <= set(PAGES)
    listed = {file for files in DOCSTRINGS.values() for file in files}
    found = {
        path.relative_to(ROOT / "evref").as_posix()
        for path in (ROOT / "evref").rglob("*.py")
        if any(of_docstring(text) for text in docstrings(path))
    }
    assert found == listed


# ---- equation numbers ----------------------------------------------------------------------------------------------
def wrong_citations(text: str) -> list[str]:
    """Labels of the paper that stand without their number, or with another one."""
    found = []
    for label, number in NUMBERS.items():
        # short ones are words of their own ("pol", the architecture HEV): only where an equation is cited
        cited = rf"(?:\(|\beqs?\. \(?|\band \(){label}\b" if label in ("pol", "HEV") else rf"\b{label}\b"
        for match in re.finditer(cited, text, re.IGNORECASE if label not in ("pol", "HEV") else 0):
            rest = text[match.end() : match.end() + 6]
            plain_name = label in ("pol", "HEV") and rest.startswith(")") and "eq" not in match[0]  # "Hybrid EV (HEV)"
            if not plain_name and not re.match(rf",\s{number}\)", rest):
                found.append(text[max(0, match.start() - 20) : match.end() + 8])
    return found


def test_the_table_of_equations_is_in_the_order_of_the_paper():
    assert [(cells[0] or None, cells[1]) for cells in section("Equations of the paper")] == [
        (label, str(number)) for number, label in enumerate(PRINTED, start=1)
    ]


CITING = [path for folder in ("docs", "evref", "validation") for path in sorted((ROOT / folder).rglob("*.*"))]
CITING = [path for path in [ROOT / "README.md", *CITING] if path.suffix in (".md", ".py") and path != NOTATION]


def test_labels_carry_their_numbers():
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in CITING
        if (found := wrong_citations(path.read_text(encoding="utf-8")))
    }
    assert not wrong
    text = "".join(path.read_text(encoding="utf-8") for path in CITING)
    assert text.count("(evConv, 9)") > 20  # they are found at all


# ---- the checks themselves -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"\bar w^{(k)} = \bar y", ["w", "k", "y"]),
        (r"\hat S x + \hat{S} + \bar{\hat y}_f", [r"\hat S", "x", r"\hat S", r"\hat y", "f"]),
        (r"U^H + q_k^{(t)H} + (U^{-H})", ["U", "q", "k", "t", "U"]),
        (r"\operatorname{diag}(\phi) + \text{batch} + \mathrm{nnz}", [r"\phi"]),
        (r"\mathcal{N}_i \cup \mathcal N_{j} + \mathbf{b}", [r"\mathcal{N}", "i", r"\mathcal{N}", "j", r"\mathbf{b}"]),
        (
            r"\begin{pmatrix} \eta S \\ \varphi \end{pmatrix} \frac12 \sum_p \psi",
            [r"\eta", "S", r"\varphi", "p", r"\psi"],
        ),
    ],
)
def test_symbols_of_a_formula(formula, expected):
    assert symbols(formula) == expected


def test_formulas_are_found():
    assert of_markdown("a $x$ `$no$` $$y\nz$$\n```\n$no$\n```\n") == ["x", "y\nz"]
    assert [f.split() for f in of_docstring("A :math:`x`.\n\n.. math::\n\n    y = z\n\nEnd.")] == [
        ["y", "=", "z"],
        ["x"],
    ]


def test_wrong_citations_are_found():
    assert not wrong_citations("eq. (evConv, 9), eqs. (gnnGen, 8) and (HEV, 18); Hybrid EV (HEV) Degree; pol, HEV")
    for text in (
        "eq. (evConv)",
        "eq. (evConv, 8)",
        "eq. HEV",
        "eq. (HEV, 17)",
        "eq. (pol, 4)",
        "see evconv",
        "(lamLin, 1)",
    ):
        assert wrong_citations(text), text
