"""Runs docs/check_my_layer.md: its Python, its commands, and what they print.

    python validation/check_my_layer.py            # says where the page differs from what is printed now
    python validation/check_my_layer.py --write    # puts what is printed now into the page

A text block below `<!-- output -->` holds what the block before it prints. One of Python below `<!-- file: NAME -->` is
a file of that name as well, for the commands.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evref import cli

PAGE = Path(__file__).parents[1] / "docs" / "check_my_layer.md"
BLOCK = re.compile(r"(?:<!-- (?P<mark>output|file: \S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
ROUNDING = 1e-4  # smaller numbers are errors and tolerances: they differ from machine to machine


class Output(NamedTuple):
    """A text block of the page, and what the block before it prints."""

    start: int  # of the text, in the page
    stated: str
    printed: str


def outputs(page: str) -> Iterator[Output]:
    """Runs the blocks of a page in their order, in the current folder, as one program."""
    names: dict[str, Any] = {"__name__": "__page__"}
    printed = ""
    for block in BLOCK.finditer(page):
        mark, text = block["mark"] or "", block["text"]
        if mark == "output":
            yield Output(block.start("text"), text, printed)
            continue
        if mark:
            Path(mark.removeprefix("file: ")).write_text(text, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if block["language"] == "python":
                line = page.count("\n", 0, block.start("text"))
                exec(compile("\n" * line + text, str(PAGE), "exec"), names)
            elif block["language"] == "sh":
                run_commands(text)
        printed = out.getvalue().rstrip() + "\n"


def run_commands(text: str) -> None:
    """The lines that call evref, with their exit codes where they are not 0."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["evref"]:
            code = cli.main(words[1:])
            if code:
                print(f"(exit code {code})")


def alike(stated: str, printed: str) -> bool:
    """Equal words; numbers to four digits, and errors of rounding whatever they are."""
    if NUMBER.sub("#", " ".join(stated.split())) != NUMBER.sub("#", " ".join(printed.split())):
        return False
    pairs = zip(NUMBER.findall(stated), NUMBER.findall(printed), strict=True)
    return all(_same(float(a), float(b)) for a, b in pairs)


def _same(a: float, b: float) -> bool:
    return max(abs(a), abs(b)) < ROUNDING or abs(a - b) <= 1e-3 * max(abs(a), abs(b))


def rewritten(page: str, found: list[Output]) -> str:
    for output in reversed(found):
        page = page[: output.start] + output.printed + page[output.start + len(output.stated) :]
    return page


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run docs/check_my_layer.md.")
    parser.add_argument("--write", action="store_true", help="put what is printed now into the page")
    write = parser.parse_args().write
    page = PAGE.read_text(encoding="utf-8")
    with temporary_folder():
        found = list(outputs(page))
    changed = [output for output in found if not alike(output.stated, output.printed)]
    for output in changed:
        line = page.count("\n", 0, output.start) + 1
        print(f"{PAGE.name}, line {line}: the page has\n{output.stated}printed is\n{output.printed}")
    if write:
        PAGE.write_text(rewritten(page, changed), encoding="utf-8")
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
