"""Faults put into the JAX bridge, and the columns of validation/jax_bridge.md that see them."""

from __future__ import annotations

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax_bridge as bridge  # noqa: E402 - needs jax
from jax.interpreters import ad  # noqa: E402
from jax_examples import in_float64  # noqa: E402, F401

from evref.bridges import jax_host, jax_primitives  # noqa: E402

SUBJECT = "gcn(bias=True)"  # the faults are in what all modules share


def times(factor: float, results: list) -> list:
    return [None if result is None else factor * result for result in results]


class Faults:
    """Each puts one fault into the bridge."""

    def sign_of_gradients(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_host.FlatModule.gradient
        patch.setattr(jax_host.FlatModule, "gradient", lambda *a: times(-1, right(*a)))

    def gradients_of_parameters_alone(self, patch: pytest.MonkeyPatch) -> None:
        cls = type(bridge.subjects()[SUBJECT])
        right = cls._parameter_gradients
        patch.setattr(cls, "_parameter_gradients", lambda *a: {name: 1.01 * g for name, g in right(*a).items()})

    def second_derivatives_too_large(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_host.complex_step
        patch.setattr(jax_host, "complex_step", lambda g, z, d: times(1.01, right(g, z, d)))
        patch.setattr(jax_host.FlatModule, "require_analytic", lambda self: None)

    def second_derivatives_by_x_alone(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_host.complex_step
        patch.setattr(
            jax_host, "complex_step", lambda g, z, d: right(g, z, {i: e for i, e in d.items() if i == len(z) - 1})
        )

    def directions_that_do_not_change(self, patch: pytest.MonkeyPatch) -> None:
        """Of the product rule the first term alone."""
        right = jax_primitives._moved_directions
        patch.setattr(jax_primitives, "_moved_directions", lambda *a: list(right(*a))[:1])

    def cotangent_that_does_not_change(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_primitives._gradient_jvp

        def wrong(operands, tangents, **params):
            still = ad.Zero(tangents[-1].aval)
            if all(isinstance(t, ad.Zero) for t in tangents[:-1]):
                return right(operands, tangents, **params)
            return right(operands, [*tangents[:-1], still], **params)

        patch.setitem(ad.primitive_jvps, jax_primitives.gradient_p, wrong)

    def transpose_by_the_cotangent(self, patch: pytest.MonkeyPatch) -> None:
        right = ad.primitive_transposes[jax_primitives.gradient_p]

        def wrong(c, *operands, **params):
            *others, by_u = right(c, *operands, **params)
            return [*others, *times(1.01, [by_u])]

        patch.setitem(ad.primitive_transposes, jax_primitives.gradient_p, wrong)

    def transpose_by_a_direction(self, patch: pytest.MonkeyPatch) -> None:
        right = ad.primitive_transposes[jax_primitives.gradient_p]

        def wrong(c, *operands, **params):
            *others, by_u = right(c, *operands, **params)
            return [*times(1.01, others), by_u]

        patch.setitem(ad.primitive_transposes, jax_primitives.gradient_p, wrong)

    def means_for_sums_over_mapped_axes(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_primitives._unmapped
        patch.setattr(
            jax_primitives,
            "_unmapped",
            lambda result, like: right(result, like) * (like.aval.size / max(result.size, 1)),
        )

    def first_parameters_for_all(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_primitives.over_leading_axes

        def wrong(function, operands, n_leading, signals, *others):
            if n_leading:
                operands = [a if signal else a[:1] for a, signal in zip(operands, signals, strict=True)]
            return [
                np.broadcast_to(result, (3, *result.shape[1:])) if n_leading and len(result) == 1 else result
                for result in right(function, operands, n_leading, signals, *others)
            ]

        patch.setattr(jax_primitives, "over_leading_axes", wrong)

    def gradients_of_parameters_folded(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_primitives.over_leading_axes
        patch.setattr(jax_primitives, "over_leading_axes", lambda *a: right(*a[:-1], True))

    def callbacks_in_single_precision(self, patch: pytest.MonkeyPatch) -> None:
        right = jax_primitives._on_host
        patch.setattr(
            jax_primitives,
            "_on_host",
            lambda *a, **params: [r.astype(np.float32).astype(r.dtype) for r in right(*a, **params)],
        )


SEEN_BY = {
    "sign_of_gradients": ("first", 2),
    "gradients_of_parameters_alone": ("hessian", 0.01),
    "second_derivatives_too_large": ("differences", 0.01),
    "second_derivatives_by_x_alone": ("hessian", "TypeError: GCN has no second derivatives here"),
    "directions_that_do_not_change": ("hessian", 1),
    "cotangent_that_does_not_change": ("hessian", 1),
    "transpose_by_the_cotangent": ("hessian", 0.01),
    "transpose_by_a_direction": ("hessian", 0.01),
    "means_for_sums_over_mapped_axes": ("hessian", 1),
    "first_parameters_for_all": ("vmap params", 1),
    "gradients_of_parameters_folded": ("vmap x", "nan"),
    "callbacks_in_single_precision": ("first", 1e-8),
}


@pytest.mark.parametrize("fault", SEEN_BY)
def test_a_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how far it takes the numbers, within a factor of ten.

    What is wrong in a complex step is refused before it is used: it is held against differences once for each module.
    Errors inside a callback are NaN.
    """
    column, expected = SEEN_BY[fault]
    s = bridge.Subject(SUBJECT, bridge.subjects()[SUBJECT])
    getattr(Faults(), fault)(monkeypatch)
    jax.clear_caches()
    try:
        found = bridge.cell(column, s)
    finally:
        jax.clear_caches()
    if isinstance(expected, str):
        assert found.startswith(f"fails: {expected}")
    else:
        size = re.match(r"fails: ([\de.+-]+);", found)
        assert size and expected / 10 <= float(size[1]) <= expected * 10, found
