"""Which symbols a page of the documentation uses: the letters of its formulae, and of those in the docstrings.

A symbol is a letter with its font (`\\mathcal{B}`, `\\mathbf{b}`) and with a hat or a tilde, which make another thing
of it (`\\hat S`). Bars and dots are left out: a bar is a cotangent and a dot a tangent of what is under it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Docstrings with formulae, by the page that derives what they say.
DOCSTRINGS = {
    "edge_variant": ("filters/edge_variant.py", "filters/parallel.py"),
    "polynomial": (
        "filters/polynomial.py", "filters/chebyshev.py", "filters/diffusion.py", "filters/selection.py",
        "filters/newton.py",
    ),
    "node_variant": ("filters/node_variant.py", "graph/selection.py"),
    "hybrid": ("filters/hybrid.py", "filters/critical_edge.py"),
    "spectral": ("filters/spectral.py", "filters/shift_invariant.py", "filters/interpolation.py"),
    "generated": ("filters/generated.py", "filters/ecc.py", "filters/monet.py", "filters/attention.py"),
    "experiments": ("experiments/source_localization.py",),
    "rational": ("filters/arma.py", "filters/cayley.py", "filters/cayley_embedding.py"),
}  # fmt: skip

GREEK = (
    "alpha|beta|gamma|delta|varepsilon|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|varphi"
    "|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
SYMBOL = re.compile(
    r"(?:\\(?P<accent>hat|tilde)\s*\{?\s*)?"
    r"(?P<base>\\math(?:cal|bf|bb)\s*\{?\s*\w\}?|\\(?:ell|" + GREEK + r")(?![a-zA-Z])|[A-Za-z])"
)


def formulas(page: str) -> list[str]:
    """The formulae of docs/<page>.md and of the docstrings that belong to it."""
    found = of_markdown((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    for file in DOCSTRINGS.get(page, ()):
        for text in docstrings(ROOT / "evref" / file):
            found += of_docstring(text)
    return found


def docstrings(path: Path) -> list[str]:
    places = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [text for node in nodes if isinstance(node, places) and (text := ast.get_docstring(node))]


def of_markdown(text: str) -> list[str]:
    prose = re.sub(r"^\s{0,3}(`{3,}|~{3,}).*?^\s{0,3}\1\s*$", "", text, flags=re.S | re.M)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    return [display or inline for display, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$]+?)\$", prose, re.S)]


def of_docstring(text: str) -> list[str]:
    blocks = re.findall(r"^( *)\.\. math::(.*(?:\n(?:\1 +.*| *))*)", text, re.M)
    return [block for _, block in blocks] + re.findall(r":math:`([^`]*)`", text)


def symbols(formula: str) -> list[str]:
    """The symbols of a formula in their order, each as often as it stands there."""
    bare = re.sub(r"\\(?:text|operatorname|mathrm)\s*\*?\{(?:[^{}]|\{[^{}]*\})*\}", " ", formula)
    bare = re.sub(r"\^\{?([^{}^_ ]*)(?<![a-zA-Z\\])H\}?", r"^{\1}", bare)  # ^H, the conjugate transpose
    bare = re.sub(r"\\(?:begin|end)\{\w+\}", " ", bare)
    bare = re.sub(r"\\(?:bar|dot|left|right|[bB]igg?[lr]?)(?![a-zA-Z])", " ", bare)
    for word in set(re.findall(r"\\[a-zA-Z]+", bare)):
        if not re.fullmatch(r"\\(?:hat|tilde|ell|math(?:cal|bf|bb)|" + GREEK + ")", word):
            bare = re.sub(re.escape(word) + r"(?![a-zA-Z])", " ", bare)
    return [spelled(match) for match in SYMBOL.finditer(bare)]


def spelled(match: re.Match[str]) -> str:
    base = re.sub(r"\\(math\w+?)\s*\{?\s*(\w)\}?$", r"\\\1{\2}", match["base"])
    return f"\\{match['accent']} {base}" if match["accent"] else base
