"""docs/torch.md prints what it says it prints, raises what it says it raises, and is fair to bridge_speed.md."""

from __future__ import annotations

import builtins
import doctest
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from check_my_layer import alike, outputs

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402 - needs torch
from torch.autograd import forward_ad  # noqa: E402
from torch_examples import X, layer  # noqa: E402

import evref.bridges.torch_ops  # noqa: E402
from evref.bridges.torch import FilterModule  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "torch.md"
SPEED = Path(__file__).with_name("bridge_speed.md")


def write() -> None:
    """Puts what is printed now into the page."""
    from check_my_layer import rewritten, temporary_folder

    page = PAGE.read_text(encoding="utf-8")
    with temporary_folder():
        found = list(outputs(page))
    PAGE.write_text(rewritten(page, found), encoding="utf-8")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch.compile's own
def test_the_page_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    found = list(outputs(page))
    assert len(found) == page.count("<!-- output -->") >= 8
    for output in found:
        line = page.count("\n", 0, output.start) + 1
        assert alike(output.stated, output.printed), f"line {line}: python validation/test_torch_page.py writes it"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_torch_compile():
    """Of a model of both kinds of layers. The page quotes it: its own tests take torch's warnings for errors."""
    torch.compiler.reset()
    x = torch.randn(200, 1, 5)
    mixed = torch.nn.Sequential(layer(dtype=torch.float32), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(10, 2))
    compiled = torch.compile(mixed, fullgraph=True)
    y = compiled(x[:100].float())
    y.sum().backward()
    assert torch.allclose(y, mixed(x[:100]), atol=1e-5)


# ---- what is not supported -------------------------------------------------------------------------------------------
def on_cuda() -> torch.Tensor:
    """There need be none: fake tensors may say that they are there."""
    with FakeTensorMode():
        return torch.empty(3, 1, 5, dtype=torch.float64, device="cuda")


def forward_mode() -> None:
    with forward_ad.dual_level():
        layer()(forward_ad.make_dual(X, X))


def third_derivative() -> None:
    x, module = X.clone().requires_grad_(), layer()
    y = module(x)
    for _ in range(3):
        (y,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)


def elsewhere(folder: Path) -> None:
    """A program that torch.export made, in a process that has no such module."""
    torch.export.save(torch.export.export(layer(), (X,)), folder / "program.pt2")
    code = (
        "import torch, evref.bridges.torch; program = torch.export.load('program.pt2').module(); "
        "program(torch.zeros(3, 1, 5, dtype=torch.float64))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    kind, _, words = run.stderr.strip().splitlines()[-1].partition(": ")
    assert kind == "RuntimeError"
    raise RuntimeError(re.sub("(?<=key is 'EdgeVariant-)[^']*", "…", words))


ERRORS = {
    "CUDA": lambda _: layer()(on_cuda()),
    "float16": lambda _: layer()(X.half()),
    "x and parameters": lambda _: layer()(X.float()),
    "sparse": lambda _: layer()(X.to_sparse()),
    "arrays": lambda _: layer()(X.numpy()),
    "forward mode": lambda _: forward_mode(),
    "`torch.func.grad`": lambda _: torch.func.grad(lambda x: layer()(x).sum())(X),
    "third": lambda _: third_derivative(),
    "a recorded program": elsewhere,
}
ROWS = re.findall(r"^\| ([^|]+) \| `(\w+): ([^|]+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.mark.filterwarnings("ignore")  # of torch.export
@pytest.mark.parametrize(("what", "kind", "words"), ROWS, ids=[row[0][:30] for row in ROWS])
def test_the_errors_are_those_of_the_table(what, kind, words, tmp_path):
    (case,) = [case for beginning, case in ERRORS.items() if what.startswith(beginning)]
    with pytest.raises(getattr(builtins, kind), match=f"^{re.escape(words)}$") as found:
        case(tmp_path)
    assert type(found.value).__name__ == kind


def test_every_error_has_its_row():
    assert len(ROWS) == len(ERRORS)


@pytest.mark.parametrize("change", [lambda x: x.bfloat16(), lambda x: x.long(), lambda x: x.to(torch.complex128)])
def test_other_dtypes_are_refused_in_the_same_words(change):
    with pytest.raises(TypeError, match="supported are torch.float32 and torch.float64"):
        layer()(change(X))


def test_the_jvp_of_two_backward_passes():
    module = layer()
    _, dy = torch.autograd.functional.jvp(module, (X,), (2 * X,))
    expected = module.module.jvp(
        module.numpy_parameters(), X.numpy(), {n: 0 * p for n, p in module.numpy_parameters().items()}, 2 * X.numpy()
    )
    assert torch.allclose(dy, torch.tensor(expected))


def test_autocast_switched_off_for_the_layer():
    with torch.autocast("cpu"), torch.autocast("cpu", enabled=False):
        assert layer()(X).dtype == torch.float64


def test_the_examples_of_the_docstrings():
    for module in (evref.bridges.torch, evref.bridges.torch_ops):
        assert not doctest.testmod(module).failed
    assert doctest.testmod(evref.bridges.torch).attempted > 5


def test_seeds_are_those_of_init():
    module = layer(3)
    assert torch.equal(module.phi, torch.tensor(module.module.init(3)["phi"]))
    assert isinstance(module, FilterModule)


# ---- what it costs ---------------------------------------------------------------------------------------------------
def rows(first: str) -> list[dict[str, str]]:
    """The table of bridge_speed.md whose head has the column `first`."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in SPEED.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    start = next(i for i, line in enumerate(lines) if first in line)
    body = lines[start + 2 :]
    end = next((i for i, line in enumerate(body) if line[0] == "case"), len(body))
    return [dict(zip(lines[start], line, strict=True)) for line in body[:end]]


def number(cell: str) -> float:
    return float(cell.strip("*").replace(",", ""))


def test_no_figure_is_quoted():
    """The measurement has them; this page has what they say."""
    section = PAGE.read_text(encoding="utf-8").split("\n## What it costs\n")[1]
    assert not re.search(r"\d", section.replace("float32", "").replace("float64", ""))


def test_no_slower_than_torch():
    for row in rows("torch / bridge"):
        assert number(row["torch / bridge"]) >= 1, f"docs/torch.md says 'no slower than torch's own': {row}"


def test_compiled_is_slower_and_fit_faster_on_small_graphs():
    """As a rule: a single line may have met a noisy minute."""
    found = rows("compiled")
    assert len(found) == len(rows("torch / bridge")) == 8
    compiled = [number(row["compiled"]) / number(row["step"]) for row in found]
    assert median(compiled) > 1, "docs/torch.md says 'faster in eager mode'"
    fit = [number(row["fit"]) / number(row["step"]) for row in found if row["case"] != "medium"]
    assert median(fit) < 1, "docs/torch.md says 'a step of `ev.fit`, which needs no torch, is faster'"


if __name__ == "__main__":
    write()
