"""Texts by two authors who never lived."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_texts(folder: Path, n_words: int = 300) -> Path:
    """Two authors with their own habits, two works each."""
    rng = np.random.default_rng(0)
    habits = {"ann": ["the", "of", "and", "raven", "house."], "bob": ["but", "to", "in", "ship", "sea;"]}
    for author, tokens in habits.items():
        for work in "xy":
            (folder / f"{author}_{work}.txt").write_text(
                " ".join(rng.choice([*tokens, "it"], n_words)), encoding="utf-8"
            )
    return folder
