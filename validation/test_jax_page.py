"""docs/jax.md runs, prints what it says, and quotes errors as they are."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable

import pytest

jax = pytest.importorskip("jax")

import jax_speed  # noqa: E402 - needs jax
import numpy as np  # noqa: E402
from check_my_layer import ROOT, alike, outputs  # noqa: E402
from jax_examples import FILTER, X, float64, in_float64  # noqa: E402, F401

import evref.bridges.jax  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

PAGE = (ROOT / "docs" / "jax.md").read_text(encoding="utf-8")
f, PARAMS = as_jax(FILTER), FILTER.init(0)


def test_the_page_runs_and_prints_what_it_says() -> None:
    """As one program, which asks for float64 itself."""
    with float64(False):
        found = list(outputs(PAGE))
    assert len(found) == PAGE.count("<!-- output -->") == 6
    for output in found:
        line = PAGE.count("\n", 0, output.start) + 1
        assert alike(output.stated, output.printed), f"docs/jax.md, line {line}, prints {output.printed}"


# ---- what is not supported -------------------------------------------------------------------------------------------
def third_derivative() -> object:
    def total(x: object) -> object:
        return (f(PARAMS, x) ** 2).sum()

    return jax.grad(lambda x: jax.grad(lambda x: jax.grad(total)(x).sum())(x).sum())(X)


def export() -> object:
    return pytest.importorskip("jax.export").export(jax.jit(f))(PARAMS, X).serialize()


def shard_map() -> object:
    if not hasattr(jax, "shard_map"):
        pytest.skip("an older JAX")
    mesh, P = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("devices",)), jax.sharding.PartitionSpec
    return jax.shard_map(f, mesh=mesh, in_specs=(P(), P("devices")), out_specs=P("devices"))(PARAMS, X)


REFUSED: dict[str, Callable[[], object]] = {
    "third derivatives": third_derivative,
    "float16, bfloat16, complex numbers": lambda: f(PARAMS, X.astype(np.float16)),
    "`jax.export`": export,
    "`jax.shard_map` with its account of axes": shard_map,
}
QUOTED = re.findall(r"^\| ([^|]+) \| `(\w+Error): ([^`]+)`", PAGE, re.M)


@pytest.mark.parametrize(("what", "kind", "words"), QUOTED, ids=[row[0] for row in QUOTED])
def test_errors_are_quoted_to_the_letter(what: str, kind: str, words: str) -> None:
    with pytest.raises(Exception) as found:  # noqa: PT011 - of the kind that the page says
        REFUSED[what]()
    assert (type(found.value).__name__, str(found.value)) == (kind, words)


def test_every_error_is_quoted() -> None:
    assert [row[0] for row in QUOTED] == list(REFUSED)


def test_the_example_of_the_docstring() -> None:
    result = doctest.testmod(evref.bridges.jax)
    assert result.attempted > 5 and not result.failed


# ---- what it costs ---------------------------------------------------------------------------------------------------
def test_the_speed_is_measured_of_right_answers() -> None:
    row = jax_speed.measured((6, 2, 1), 0.01, 1)
    assert list(row) == list(jax_speed.COLUMNS) and all(multiple > 0 for multiple in row.values())


def test_what_the_page_says_of_the_speed() -> None:
    """Each row of the measurement bears it out, and the page quotes no figure."""
    lines = (ROOT / "validation" / "jax_speed.md").read_text(encoding="utf-8").splitlines()
    rows = [list(map(float, line.split("|")[2:-1])) for line in lines if re.match(r"\| \d", line)]
    assert len(rows) == len(jax_speed.SIZES)
    for output, inside, outside, second in rows:
        assert output > 1 and outside > inside > 1 and second > inside
    assert all(outside > 10 * inside for _, inside, outside, _ in rows[:2])  # short passes
    section = PAGE.split("\n## What it costs\n")[1]
    assert not re.search(r"\d", re.sub(r"`[^`]*`", "", section))
