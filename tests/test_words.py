"""The texts speak of the package, never of how or where the work on it was organised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENDINGS = {".md", ".py", ".toml", ".cff", ".txt", ".csv", ".yml", ".yaml"}
FILES = [
    path
    for top in ("evref", "tests", "validation", "docs", ".ci")
    for path in sorted((ROOT / top).rglob("*"))
    if path.is_file() and (path.suffix in ENDINGS or path.name == "run")
] + [path for path in sorted(ROOT.iterdir()) if path.suffix in ENDINGS]
PHRASES = (
    "handed to us",
    "given to us",
    "we were told",
    "we were asked",
    "we were given",
    "the target was set",
    "targets were set",
    r"the (brief|assignment|ticket)\b",
    r"(this|last|next|earlier|previous) (sitting|session)\b",
    r"as (instructed|requested|assigned)\b",
    r"\bissue #?\d",
    r"\bsub-?agents?\b",
    r"\bworktree\b",
    r"(?<![\w.~])/(work|home|tmp/wt)/\w",  # paths of one machine
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_about_how_the_work_was_organised(path):
    if path == Path(__file__):
        return
    text = " ".join(path.read_text(encoding="utf-8").split())  # phrases run over the ends of lines
    for phrase in PHRASES:
        found = re.search(phrase, text, re.IGNORECASE)
        assert found is None, f"...{text[max(0, found.start() - 60) : found.end() + 60]}..."


def test_the_files_are_found():
    names = {path.name for path in FILES}
    assert {"README.md", "pyproject.toml", "performance.md", "experiments.md", "cli.py"} <= names
