"""`evref gradcheck`, run as a user runs it, catches and names every fault of the list; without a fault it passes."""

from __future__ import annotations

import gradient_faults
import pytest
from gradient_faults import FAULTS, PAGE, outcome, planted

from evref import cli
from evref.verify.targets import known_names


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.target}: {fault.what}" for fault in FAULTS])
def test_fault_is_caught_and_named(fault):
    with planted(fault):
        found = outcome(fault.target)
    assert found.code == 1 and found.checks, "not caught"
    assert found.blocks == set(fault.blocks.split(", "))
    assert gradient_faults.row(fault, found) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("target", sorted(known_names()))
def test_without_a_fault_all_is_well(target):
    found = outcome(target)
    assert (found.code, found.checks) == (0, [])


def test_every_target_has_a_fault():
    assert {fault.target for fault in FAULTS} == known_names().keys()


def test_the_page_is_what_its_rows_say():
    """And has a row for each fault, whose content the first test looks at, and no more."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if " | `" in line]
    assert len(rows) == len(FAULTS) == len({(fault.target, fault.what) for fault in FAULTS})
    assert text == gradient_faults.page(rows)
    assert f"{len(FAULTS)} of\n{len(FAULTS)} faults are caught" in text


def test_a_fault_is_taken_out_again(capsys):
    fault = next(fault for fault in FAULTS if fault.target == "tanh")
    with planted(fault):
        assert cli.main(["gradcheck", "tanh"]) == 1
    assert "failed: tanh: complex, central" in capsys.readouterr().out
    assert cli.main(["gradcheck", "tanh"]) == 0


def test_an_edit_that_no_longer_applies_is_an_error():
    fault = FAULTS[0]._replace(edits=("not in the source", ""))
    with pytest.raises(AssertionError, match="no longer in"), planted(fault):
        pass
