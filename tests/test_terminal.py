"""Terminals that do not speak UTF-8 get readable text; files are UTF-8 wherever they are written."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import evref
from evref import cli, terminal

ROOT = Path(evref.__file__).parent
SOURCES = [
    path for folder in (ROOT, *map(ROOT.parent.joinpath, ("tests", "validation"))) for path in folder.rglob("*.py")
]
RUN = ["reproduce", "source-localization", "--quick", "--no-pictures", "--models", "polynomial,ev", "--jobs", "1"]
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    plain = {key: value for key, value in os.environ.items() if key not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    command = [sys.executable, "-m", "evref", *arguments]
    return subprocess.run(command, capture_output=True, env={**plain, **environment}, timeout=120)


@pytest.mark.parametrize(
    ("environment", "encoding", "signs"),
    [
        ({"PYTHONIOENCODING": "cp1252"}, "cp1252", "±–-"),
        ({"PYTHONIOENCODING": "cp437"}, "cp437", "±--"),
        ({"PYTHONIOENCODING": "ascii"}, "ascii", ("+-", "-", "-")),
        (C_LOCALE, "ascii", ("+-", "-", "-")),
        ({"PYTHONIOENCODING": "utf-8"}, "utf-8", "±–−"),
        ({"PYTHONIOENCODING": "ascii:replace"}, "ascii", "???"),  # said by the user
    ],
    ids=["cp1252", "cp437", "ascii", "C", "utf-8", "replace"],
)
def test_a_run_ends_with_a_readable_table(tmp_path, environment, encoding, signs):
    done = run(*RUN, "--out", str(tmp_path), **environment)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode(encoding)
    plus_minus, dash, minus = signs
    head, polynomial, ev, *_ = text.splitlines()
    assert f"85.47 {plus_minus} 10.77" in ev and f"best {minus} polynomial" in head and f" {dash} " in polynomial
    for column in ("paper", "best", "last", "runs"):  # side by side, however many letters a sign has
        start = head.index(f" {column} ") + 1
        assert all(row[start - 1] == " " and row[start] != " " for row in (polynomial, ev)), column
    kept = {name: (tmp_path / name).read_text(encoding="utf-8") for name in ("table.txt", "table.md")}
    assert all("85.47 ± 10.77" in table and "best − polynomial" in table for table in kept.values())


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize(
    "command", ["", "verify", "gradcheck", "check", "reproduce authorship", "authorship prepare", "bench"]
)
def test_help(command, encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(SystemExit) as stop:
        cli.main([*command.split(), "--help"])
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)
    assert stop.value.code == 0 and "usage: evref" in text and "\\u" not in text and "\\x" not in text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_text_files_have_an_encoding(path):
    """`open`, `read_text` and `write_text` without one take that of the terminal."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        function, keywords = node.func, {keyword.arg for keyword in node.keywords}
        if isinstance(function, ast.Attribute) and function.attr in ("read_text", "write_text"):
            ours = isinstance(function.value, ast.Name) and function.value.id == "files"  # evref.files: always UTF-8
            assert ours or "encoding" in keywords, f"line {node.lineno}: {function.attr}"
        elif isinstance(function, ast.Name) and function.id == "open":
            mode = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
            assert "b" in mode or "encoding" in keywords, f"line {node.lineno}: open"


def test_every_sign_of_the_package_has_a_spelling():
    signs = set("".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")))
    assert {"±", "−", "λ", "≤"} <= signs
    spelt = {sign: terminal.in_ascii(sign) for sign in signs - {"\\"}}
    assert all(text.isascii() for text in spelt.values())
    assert [sign for sign, text in spelt.items() if not text or "\\" in text] == []


def test_what_cannot_be_encoded_at_all_is_numbered():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal.adapt(stream, None, io.StringIO())
    stream.write("a 語 \udcff λ² 10⁻¹²")
    stream.flush()
    assert stream.buffer.getvalue() == rb"a \u8a9e \udcff lambda^2 10^-12"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", terminal.HANDLER)
