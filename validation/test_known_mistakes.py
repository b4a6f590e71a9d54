"""`evref.compare` names known mistakes that were made on purpose: a sample of known_mistakes.py, and its page."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("torch")

import known_mistakes
from known_mistakes import FILTERS, NAMES, OTHERS, ROUNDS, Outcome, broken_layers, escaped, run

import evref as ev
from evref.verify.mistakes import variants_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "verify"))
import test_mistakes

PAGE = Path(__file__).with_name("known_mistakes.md")
SAMPLE = known_mistakes.sample()


@pytest.mark.parametrize("name", NAMES)
def test_the_mistake_is_named(name: str) -> None:
    outcomes = [run(broken, 0) for broken in SAMPLE if broken.mistake == name]
    assert outcomes
    wrong = [f"{o.broken.label}\n{o.report}" for o in outcomes if not o.right]
    assert not wrong, "\n".join(wrong)
    assert any(o.alone for o in outcomes)


def test_the_sample_has_every_mistake_and_every_filter() -> None:
    assert {broken.mistake for broken in SAMPLE} == set(NAMES)
    assert {broken.filter for broken in SAMPLE} == set(FILTERS)
    assert len({broken.mistake for broken in SAMPLE if broken.framework == "jax"}) >= 5
    assert len(SAMPLE) >= 80


def test_every_mistake_has_a_broken_layer_in_every_filter_it_applies_to() -> None:
    """It applies where it has a model, in some configuration or on some shift of the filter."""
    modeled = {
        (mistake, name)
        for name in ev.catalogue
        for case in test_mistakes.cases(name)
        for mistake, _, _ in case.variants
    }
    modeled |= {(mistake, "network") for net in test_mistakes.networks() for mistake, _, _ in variants_of(net)}
    modeled |= {("train-mode", name) for name in ev.catalogue}  # has no model: it is found by running in eval mode
    made = {(broken.mistake, broken.filter) for broken in broken_layers()}
    assert modeled - made == set()
    assert len({broken.mistake for broken in broken_layers() if broken.framework == "jax"}) >= 5


def test_no_two_broken_layers_have_the_same_label() -> None:
    labels = Counter(broken.label for broken in broken_layers())
    assert [label for label, count in labels.items() if count > 1] == []


def test_a_mistake_that_is_not_named_counts_as_such() -> None:
    """Broken in a way that nobody knows, right, and broken in another way than it says."""
    taps, bias = (next(b for b in broken_layers() if b.mistake == name) for name in ("taps", "bias"))
    reference = taps.reference(0)
    right = known_mistakes.Broken("taps", taps.filter, "", lambda _: reference, lambda r: r)
    unknown = known_mistakes.Broken("taps", taps.filter, "", lambda _: reference, _times_1_1)
    other = known_mistakes.Broken("taps", bias.filter, "", bias.reference, bias.build)
    outcomes: list[Outcome] = [run(broken, 0) for broken in (right, unknown, other)]
    assert [o.verdicts for o in outcomes] == [("ok",), ("none",), ("bias",)]
    assert not any(o.right for o in outcomes)
    row = next(line for line in known_mistakes.matrix(outcomes).splitlines() if " taps |" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")][2:]
    counted = {column: cell for column, cell in zip((*NAMES, *OTHERS), cells, strict=True) if cell != "·"}
    assert counted == {"ok": "1", "none": "1", "bias": "1"}


def _times_1_1(reference):
    def layer(params, x):
        return 1.1 * reference.forward(params, x)[0] + 0.1 * x.sum()

    return layer


def test_the_page_is_of_the_code_that_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert known_mistakes.headline(ROUNDS) in page, "python validation/known_mistakes.py --write"
    runs = ROUNDS * len(broken_layers())
    assert f"**{runs:,} of {runs:,} runs name the mistake that was made**" in page
    table = page.split("## Confusion matrix")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    made = Counter(broken.mistake for broken in broken_layers())
    for i, (name, row) in enumerate(zip(NAMES, rows, strict=True)):
        assert row[:2] == [f"{i + 1} {name}", str(ROUNDS * made[name])]
        assert row[2 + i] == row[1] and row[-len(OTHERS) :] == ["·"] * len(OTHERS)
    for broken in broken_layers():
        assert f"| {broken.filter} | {escaped(broken.variant)}" in page
