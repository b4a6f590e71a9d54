"""Writes docs/catalogue.md: every filter and every inclusion, from the catalogue and the lattice themselves.

python docs/catalogue.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import evref as ev
from evref.verify.inclusions import lattice

PAGE = Path(__file__).with_name("catalogue.md")


def first_sentence(cls: type) -> str:
    text = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    return re.sub(r":math:`([^`]*)`", r"$\1$", text).rstrip(":.,")


def text() -> str:
    graph = ev.generators.erdos_renyi(8, 0.5, rng=1)
    lines = [
        "# Catalogue",
        "",
        "Written by `docs/catalogue.py` from `evref.catalogue` and `evref.verify.inclusions.lattice`; tested.",
        "",
        "![The lattice of filter classes](img/lattice.png)",
        "",
        "| name | class | what it is | linear in x | equivariant | reach of the example |",
        "|---|---|---|---|---|---|",
    ]
    for name, cls in ev.catalogue.items():
        reach = next(cls.examples(graph, 0)).reach
        lines.append(
            f"| `{name}` | `{cls.__name__}` | {first_sentence(cls)} | {'yes' if cls.linear else 'no'} "
            f"| {'yes' if cls.equivariant else 'no'} | {'all nodes' if reach is None else reach} |"
        )
    lines += [
        "",
        "## Inclusions",
        "",
        "Each row is executable: a map of parameters under which `matrix`, output and gradients agree. "
        "`evref verify --only inclusions` runs them all.",
        "",
        "| class | is contained in | condition | where |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{i.small}` | `{i.large}` | {i.condition} | {i.where} |" for i in lattice]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
