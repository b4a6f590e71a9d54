"""The scale that errors are judged by: Σ|terms| of small functions by hand, and of a filter from absolute values."""

from __future__ import annotations

import measure
import numpy as np
import parity
import peers
import pytest

pytest.importorskip("jax")
peers.enable_jax_float64()
import jax.numpy as jnp  # noqa: E402
import terms  # noqa: E402

A = np.array([[2.0, -1.0], [0.5, 3.0]])
X = np.abs(np.linalg.inv(A))
CASES = {
    "a sum": (lambda a: a[0] + a[1] - a[2], [5.0, -3.0, 2.0], 10.0),
    "a product of a sum that cancels": (lambda a: (a[0] + a[1]) * a[2], [5.0, -5.0, 2.0], 20.0),
    "of two sums that cancel": (lambda a: (a[0] + a[1]) * (a[0] + a[1]), [3.0, -2.0], 5.0 + 5.0),  # not 25
    "a quotient": (lambda a: a[0] / (a[1] + a[2]), [6.0, 5.0, -3.0], 6.0 * 8 / 2**2),
    "an exponential": (lambda a: jnp.exp(a[0] + a[1]), [3.0, -3.0], 1 + 6.0),
    "a square": (lambda a: (a[0] + a[1]) ** 2, [3.0, -2.0], 25.0),
    "the larger": (lambda a: jnp.maximum(a[0] + a[1], a[2]), [3.0, -2.0, 0.5], 5.0),
    "a product of matrices": (lambda a: a @ a, A, np.abs(A) @ np.abs(A)),
    "a power of a matrix": (lambda a: jnp.linalg.matrix_power(a, 3), np.abs(A), np.linalg.matrix_power(np.abs(A), 3)),
    "an inverse": (terms.inverse, A, X @ np.abs(A) @ X),
}


@pytest.mark.parametrize(("function", "given", "expected"), CASES.values(), ids=CASES.keys())
def test_by_hand(function, given, expected):
    value, scale = terms.with_terms(function)(np.array(given))
    np.testing.assert_allclose(value, function(np.array(given)), rtol=1e-15)
    np.testing.assert_allclose(scale, expected, rtol=1e-14)


def test_an_unknown_step_is_refused():
    with pytest.raises(NotImplementedError, match="sin"):
        terms.with_terms(jnp.sin)(1.0)


def test_the_filter_from_its_steps_and_from_absolute_values():
    """For positive numbers nothing cancels and both are equal; for others the steps give at most Σ|terms|."""
    pytest.importorskip("torch")
    case = parity.Case("directed", "diagonal", 3)
    for positive in (True, False):
        problem = parity.Problem(case)
        if positive:
            problem.params = {name: np.abs(p) for name, p in problem.params.items()}
            problem.x, problem.grad_y = np.abs(problem.x), np.abs(problem.grad_y)
        function = problem.bound(peers.jax_edge_variant)
        given = ({name: p[None] for name, p in problem.params.items()}, problem.x[None], problem.grad_y[None])
        values, scale = peers.jax_terms(function, *given)
        for name, exact in problem.terms().items():
            if name != "jvp":
                assert np.all(scale[name][0] <= exact * (1 + 1e-12))
                assert np.all(scale[name][0] >= np.abs(values[name][0]) * (1 - 1e-12))
                if positive:
                    np.testing.assert_allclose(scale[name][0], exact, rtol=1e-12)


def test_error():
    ours, theirs = np.array([1.0, 2.0]), np.array([1.0, 2.0 + 4 * 2.0**-52])
    assert measure.error(ours, theirs, [1.0, 1.0]) == 4
    assert measure.error(ours, theirs, [1.0, 8.0]) == 0.5
    assert measure.error(ours, [1.0, np.nan], [1.0, 1.0]) == np.inf
    assert measure.error(ours, [1.0, 3.0], [1.0, 0.0]) > 1e300
    with pytest.raises(AssertionError, match="dtype|float32|theirs"):
        measure.error(ours.astype(np.float32), theirs, [1.0, 1.0])
    with pytest.raises(AssertionError, match="not finite"):
        measure.error(ours, theirs, [1.0, np.inf])
