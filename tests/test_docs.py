"""What the documentation says must run, quote and point to what is there."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from compare_pictures import same_picture

ROOT = Path(__file__).parents[1]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))] if page.exists()]
QUOTE = re.compile(r"<!--\s*quote:\s*(\S+)\s*-->")
FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)")


class Block(NamedTuple):
    """A fenced piece of a page."""

    language: str
    text: str
    line: int  # of its first line in the page, from 1
    quoted: str | None  # file it is quoted from


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    fence, language, start, body, quoted = "", "", 0, [], None
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2]:
                found.append(Block(language, "\n".join(body) + "\n", start, quoted))
                fence, quoted = "", None
            else:
                body.append(line)
        elif match:
            fence, language, start, body = match[1], match[2], number + 1, []
        elif line.strip():
            comment = QUOTE.fullmatch(line.strip())
            quoted = comment[1] if comment else None
    if fence:
        raise ValueError(f"the fence above line {start} is never closed")
    return found


def stripped(text: str) -> list[str]:
    """Lines without the space around and inside them that carries no meaning."""
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def contains(lines: list[str], run: list[str]) -> bool:
    return bool(run) and any(lines[i : i + len(run)] == run for i in range(len(lines) - len(run) + 1))


def targets(text: str) -> list[str]:
    """Destinations of links and images outside code."""
    prose = re.sub(r"^\s{0,3}(`{3,}|~{3,}).*?^\s{0,3}\1\s*$", "", text, flags=re.S | re.M)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", prose)
    return inline + re.findall(r"(?:src|href)=\"([^\"]+)\"", prose) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, re.M)


def anchors(text: str) -> set[str]:
    """Fragments that GitHub gives the headings of a page."""
    prose = re.sub(r"^\s{0,3}(`{3,}|~{3,}).*?^\s{0,3}\1\s*$", "", text, flags=re.S | re.M)
    titles = re.findall(r"^#+\s+(.*?)\s*#*$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing(code: str) -> str:
    """A package that the code imports and that is not installed; with torch and JAX pages run in validation/ too."""
    needed = (n for n in ("pandas", "torch", "jax") if re.search(rf"^(>>> )?import {n}\b", code, re.M))
    return next((n for n in needed if importlib.util.find_spec(n) is None), "")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    whole = missing(page.read_text(encoding="utf-8"))
    if whole and page.name != "README.md":  # whose blocks do not build on one another
        pytest.skip(f"the page needs {whole}")
    monkeypatch.chdir(tmp_path)  # files that a page writes stay out of the tree
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language != "python" or block.quoted or missing(block.text):
            continue
        where = f"{name(page)}, line {block.line}"
        if ">>>" in block.text:
            test = doctest.DocTestParser().get_doctest(block.text, namespace, where, str(page), block.line - 1)
            report: list[str] = []
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
            namespace.update(test.globs)
            assert not report, "".join(report)
        else:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_quotes_are_in_the_file_they_name(page):
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.quoted:
            source = ROOT / block.quoted
            assert source.is_file(), f"{name(page)}, line {block.line}: {block.quoted} does not exist"
            assert contains(stripped(source.read_text(encoding="utf-8")), stripped(block.text)), (
                f"{name(page)}, line {block.line}: these lines are no longer in {block.quoted}:\n{block.text}"
            )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in targets(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue  # another site, or mail
        file, _, fragment = target.partition("#")
        destination = (page.parent / file).resolve() if file else page
        assert destination.exists(), f"{name(page)}: {target} does not exist"
        if fragment and destination.suffix == ".md":
            assert fragment in anchors(destination.read_text(encoding="utf-8")), f"{name(page)}: no heading {target}"


def test_the_derivation_quotes_the_kernels():
    """The page is of use only beside the code: forward, adjoint and tangent must all be quoted."""
    quotes = [b for b in blocks((ROOT / "docs" / "edge_variant.md").read_text(encoding="utf-8")) if b.quoted]
    reference = "".join(b.text for b in quotes if b.quoted == "evref/kernels/reference.py")
    for line in ("states.append(", "y[:, f] += w.T", "lam = v + back", "grad_phi[k - 1, f, g] =", "dw = graph.to_csr"):
        assert line in reference


def test_pictures_are_what_their_script_draws(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.main()
    kept = sorted(path.name for path in (ROOT / "docs" / "img").glob("*.png"))
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    for drawn in kept:
        path = ROOT / "docs" / "img" / drawn
        with image.open(path) as stored, image.open(tmp_path / drawn) as now:
            assert same_picture(stored, now), f"{drawn} is not what python docs/figures.py draws"
        assert path.stat().st_size < 200_000


def test_the_catalogue_page_is_what_its_script_writes():
    spec = importlib.util.spec_from_file_location("catalogue", ROOT / "docs" / "catalogue.py")
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.text(), "run python docs/catalogue.py"


# ---- the checks themselves -------------------------------------------------------------------------------------------
PAGE = """# A title: with `code`

Text [link](other.md#part "hint") and ![picture](img/a.png), `[not](a-link)`.

<!-- quote: some/file.py -->
```python
a  =  1
```

```python
>>> 1 + 1
2
```

Text between.

~~~text
```python
[no](link)
~~~
<img src="img/b.png">
[ref]: third.md
"""


def test_blocks_know_language_line_and_source():
    first, second, third = blocks(PAGE)
    assert first == Block("python", "a  =  1\n", 7, "some/file.py")
    assert second == Block("python", ">>> 1 + 1\n2\n", 11, None)
    assert third.language == "text" and third.quoted is None
    with pytest.raises(ValueError, match="never closed"):
        blocks("```python\n1\n")


def test_quotes_are_compared_line_by_line():
    source = stripped("def f():\n    a = 1\n\n    return a\n")
    assert contains(source, stripped("a   = 1\n\nreturn a\n"))
    assert not contains(source, stripped("a = 1\nreturn a\n"))
    assert not contains(source, stripped("a = 2"))
    assert not contains(source, [])


def test_targets_and_anchors():
    assert sorted(targets(PAGE)) == ["img/a.png", "img/b.png", "other.md#part", "third.md"]
    assert anchors(PAGE) == {"a-title-with-code"}
