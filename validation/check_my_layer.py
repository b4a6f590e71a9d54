"""Runs docs/check_my_layer.md: its Python, its commands, and what they print; and so much of the README.

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

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "check_my_layer.md", ROOT / "README.md"
BLOCK = re.compile(r"(?:<!-- (?P<mark>output|file: \S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
ROW = re.compile(r"^\| (?P<have>[^|]+) \| (?P<lines>\d) \| (?P<code>`.+`) \|$", re.M)
ROUNDING = 1e-4  # smaller numbers are errors and tolerances: they differ from machine to machine


class Output(NamedTuple):
    """A text block of the page, and what the block before it prints."""

    start: int  # of the text, in the page
    stated: str
    printed: str


def outputs(page: str, one_program: bool = True, names: dict[str, Any] | None = None) -> Iterator[Output]:
    """Runs the blocks of a page in their order, in the current folder, as one program on `names`.

    Otherwise every block is a program of its own, and only those run whose output the page has.
    """
    names = {} if names is None else names
    names["__name__"] = "__page__"
    blocks = list(BLOCK.finditer(page))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        shown = following if following is not None and following["mark"] == "output" else None
        if block["language"] == "python" and (one_program or shown):
            printed = run_python(block, page, names if one_program else {})
        elif block["language"] == "sh" and shown:
            printed = run_commands(block["text"])
        else:
            continue
        if shown:
            yield Output(shown.start("text"), shown["text"], printed.rstrip() + "\n")


def run_python(block: re.Match[str], page: str, names: dict[str, Any]) -> str:
    mark, text = block["mark"] or "", block["text"]
    if mark:
        Path(mark.removeprefix("file: ")).write_text(text, encoding="utf-8")
    lines_before = "\n" * page.count("\n", 0, block.start("text"))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(lines_before + text, "page", "exec"), names)
    return out.getvalue()


def run_commands(text: str) -> str:
    """The lines that call evref, with their exit codes where they are not 0."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            code = cli.main(words[1:]) if words[:1] == ["evref"] else 0
            if code:
                print(f"(exit code {code})")
    return out.getvalue()


def lines_to_write(page: str) -> Iterator[tuple[str, int, list[str]]]:
    """Of each row of the table: what the reader has, how many lines it takes, and these lines."""
    table = page.split("\n## How much there is to write\n")[1].split("\n## ")[0]
    for row in ROW.finditer(table):
        yield row["have"], int(row["lines"]), re.findall(r"`([^`]+)`", row["code"].replace("\\|", "|"))


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


def check(file: Path, write: bool) -> bool:
    """Whether the page has what is printed now; what differs is shown, and written if asked for."""
    page = file.read_text(encoding="utf-8")
    with temporary_folder():
        found = list(outputs(page, one_program=file != README))
    changed = [output for output in found if not alike(output.stated, output.printed)]
    for output in changed:
        line = page.count("\n", 0, output.start) + 1
        print(f"{file.name}, line {line}: the page has\n{output.stated}printed is\n{output.printed}")
    if write:
        file.write_text(rewritten(page, changed), encoding="utf-8")
    return not changed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run docs/check_my_layer.md and the README.")
    parser.add_argument("--write", action="store_true", help="put what is printed now into the pages")
    write = parser.parse_args().write
    right = [check(file, write) for file in (PAGE, README)]
    return 0 if write or all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
