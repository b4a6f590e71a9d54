"""The figures that the README quotes from the pages of this folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
README = " ".join((HERE.parent / "README.md").read_text(encoding="utf-8").split())
PHRASES = {  # in the README, and where its numbers stand, in this order
    "known_mistakes.md": (
        r"([\d,]+) layers in PyTorch and JAX were \[broken on purpose\]\S+, and in ([\d,]+) of ([\d,]+) runs the",
        r": (\d+) broken layers .*?\*\*([\d,]+) of ([\d,]+) runs name the mistake that was made\*\*",
    ),
    "right_cases.md": (r"([\d,]+) \[right layers\]\S+ raised no alarm", r"\*\*False alarms: 0 of ([\d,]+)\.\*\*"),
    "bridge_speed.md": (
        r"Torch's own training step takes \[([\d.]+) to ([\d.]+) times as long\]",
        r"Torch's own step takes ([\d.]+) to ([\d.]+) times as long as the one through the bridge",
    ),
}


@pytest.mark.parametrize("page", PHRASES)
def test_the_readme_quotes_the_page(page: str) -> None:
    quoted, printed = PHRASES[page]
    text = " ".join((HERE / page).read_text(encoding="utf-8").split())
    here, there = re.search(quoted, README), re.search(printed, text)
    assert here is not None, f"README.md no longer has this sentence about {page}"
    assert there is not None, f"{page} no longer says what README.md says of it"
    assert here.groups() == there.groups()
