"""Every claim is confirmed, and a claim can fail."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evref as ev
from evref.kernels import reference
from evref.verify import claims

CLAIMS = claims.all_claims()


@pytest.mark.parametrize("name", CLAIMS)
def test_confirmed(name):
    (result,) = claims.run([name])
    assert result.passed, result.outcome
    assert result.claim.verdict in claims.VERDICTS
    assert result.outcome.figure
    if result.claim.verdict == "fails as printed":
        assert result.outcome.counterexample
    json.dumps(result.to_dict())


def test_paper_comes_in_the_order_of_its_readings():
    readings = [name for name in CLAIMS if name.startswith("R")]
    numbers = [int(name[1:].partition("-")[0]) for name in readings]
    assert numbers == sorted(numbers) and list(CLAIMS)[: len(numbers)] == readings
    assert set(range(1, 16)) == set(numbers)


@pytest.mark.parametrize("name", ["R1", "R3", "dot-test", "complex-step", "backends"])
def test_a_fault_in_the_kernels_makes_claims_fail(monkeypatch, name):
    healthy = reference.ev_forward

    def faulty(graph, phi, phi0, x):
        y, saved = healthy(graph, phi[::-1].copy(), phi0, x)  # the product in the wrong order
        return y, saved

    monkeypatch.setattr(reference, "ev_forward", faulty)
    with ev.use_backend("numpy"):
        (result,) = claims.run([name])
    # R1 compares two filters that are wrong in the same way, and the dot test never looks at the output
    assert result.passed == (name in ("R1", "dot-test"))


def test_names_and_verdicts_are_checked():
    with pytest.raises(ValueError, match="claim 'R1' is made twice, here and in evref"):
        claims.claim("R1", "", "", "holds")(lambda: claims.Outcome(True, ""))
    with pytest.raises(ValueError, match="verdict of claim 'R100' is 'perhaps'"):
        claims.claim("R100", "", "", "perhaps")
    with pytest.raises(ValueError, match="no claim is called R0; expected some of R1"):
        list(claims.run(["R0"]))


def test_block_model_of_the_paper_has_more_parameters_than_a_matrix():
    (result,) = claims.run(["R14"])
    values = result.outcome.values
    assert values["block_model"] > values["N_squared"] == 50**2 > values["path"] == 4 * (98 + 50)
    assert np.isfinite(list(values.values())).all()
