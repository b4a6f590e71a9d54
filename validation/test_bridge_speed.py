"""bridge_speed.py on graphs too small to say anything about speed: everyone's answers, and what the page says."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import bridge_contenders  # noqa: E402 - needs torch
import bridge_speed  # noqa: E402
from bridge_contenders import AROUND, COMPILE, COMPILED, CSR, GATHER, MASKED, MODULE, SCATTERED  # noqa: E402
from bridge_speed import Line  # noqa: E402

from evref.bench import cases, child  # noqa: E402
from evref.bench.clock import summary  # noqa: E402

TINY = cases.select(["tiny filter", "tiny training"])
EAGER = ("evref", "bridge", "torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The given NumPy array is not writable")


@pytest.mark.parametrize("dtype", bridge_speed.DTYPES)
@pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)
def test_everyone_takes_the_step_of_the_reference(case, dtype):
    p = cases.make_problem(case, dtype)
    expected = bridge_contenders.reference(p)
    for library in EAGER:
        make, names = bridge_contenders.CONTENDERS[library]
        for name in names:
            if name == AROUND and case.kind != "training":
                continue
            found = make(name, p).result()
            assert set(found) >= {key for key in expected if key.startswith("grad")}
            assert child.difference({key: expected[key] for key in found}, found, dtype) is None, name


def test_filters_one_by_one_are_those_of_the_block_matrix(monkeypatch):
    """On larger graphs torch.sparse takes them one by one."""
    p = cases.make_problem(TINY[0], "float64")
    expected = bridge_contenders.reference(p)
    monkeypatch.setattr(cases.Case, "is_small", False)
    assert child.difference(expected, bridge_contenders.by_torch(CSR, p).result(), "float64") is None
    with pytest.raises(cases.Skipped, match="dense 15×15 matrices"):
        bridge_contenders.by_torch(MASKED, p)


def test_a_run():
    lines = list(bridge_speed.measure(TINY[1:], ("float32",), EAGER, [1], 0.01, 1))
    assert len(lines) == 1 and {"evref", MODULE, AROUND, MASKED, SCATTERED, GATHER, CSR} <= set(lines[0].seconds)
    assert all(times[1]["median"] > 0 for times in lines[0].seconds.values())


def test_an_answer_that_is_wrong_is_not_timed():
    class Wrong:
        library, threads = "torch", 1

        def ask(self, *order):
            return {"ready": [], "wrong": {GATHER: "loss is off"}}

    p = cases.make_problem(TINY[0], "float32")
    with pytest.raises(RuntimeError, match=r"tiny filter float32: another answer than the reference's.*loss is off"):
        bridge_speed.line([Wrong()], p, 0.01, 1)


def made_up(**changes: float) -> list[Line]:
    """Times in µs, of two threads twice as long."""
    names = (MODULE, AROUND, bridge_contenders.OPS, COMPILED, bridge_contenders.PASSES, bridge_contenders.BARE, "evref")
    micro = dict(zip(names, (300, 310, 400, 450, 200, 150, 100), strict=True))
    micro |= {MASKED: 700, SCATTERED: 600, GATHER: 3000, CSR: 2000, COMPILE: 650, **changes}
    seconds = {name: {n: summary([n * 1e-6 * value] * 8) for n in (1, 2)} for name, value in micro.items()}
    return [Line(case, dtype, seconds) for case in bridge_speed.CASES for dtype in bridge_speed.DTYPES]


def test_the_page_says_what_was_measured():
    text = bridge_speed.page(made_up(), "a machine")
    assert "Torch's own step takes 2.00 times as long as the one through the bridge: it is slower on no line." in text
    assert "| 300 µs (300–300), 1 thread | dense, scattered: 600 µs (600–600), 1 thread | **2.00** | 2.00 |" in text
    assert "torch.compile 2.17 · dense, masked 2.33 · torch.sparse CSR 6.67 · gather 10" in text
    assert "adds 50 µs to evref's passes, 17% of the step." in " ".join(text.split())
    assert "| network | float64 | 300 | 150 | 50 | 100 | 400 | 450 | 310 | 100 |" in text
    assert "medians over at least 8 rounds" in " ".join(text.split())
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith(("|", "Written")))


def test_the_page_says_where_the_bridge_is_slower():
    slow = made_up(**{SCATTERED: 270})
    assert bridge_speed.goal(slow[:1] + made_up()[1:]) == (
        "Torch's own step takes 0.90 to 2.00 times as long as the one through the bridge.\n"
        "The bridge is slower on small 1->5 float32 (0.90)."
    )
