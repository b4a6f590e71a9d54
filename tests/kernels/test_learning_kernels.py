"""What a training step does around its filters: both twins against the formulas, against each other, at extremes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import laid_out

from evref import kernels
from evref.kernels import learning_compiled, learning_reference

TWINS = {"reference": learning_reference, "compiled": learning_compiled}
NAMES = ["cross_entropy", "relu", "relu_backward", "adam_update"]
each_twin = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def logits(seed, batch=7, classes=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (3 * rng.standard_normal((batch, classes))).astype(dtype), rng.integers(0, classes, batch)


def tolerance(dtype):
    return 50 * float(np.finfo(dtype).eps)


@pytest.mark.parametrize("name", NAMES)
def test_the_twins_have_the_same_signatures(name):
    assert inspect.signature(getattr(learning_compiled, name)) == inspect.signature(getattr(learning_reference, name))


def test_complex_numbers_go_to_the_reference():
    with kernels.use_backend("numba"):
        assert kernels.for_learning(np.dtype(complex)) is learning_reference
        assert kernels.for_learning(np.dtype(np.float32)) is learning_compiled
    with kernels.use_backend("numpy"):
        assert kernels.for_learning(np.dtype(np.float32)) is learning_reference


# ---- cross-entropy -------------------------------------------------------------------------------------------------
@each_twin
@each_dtype
@pytest.mark.parametrize(("batch", "classes"), [(1, 1), (1, 5), (6, 2), (100, 5), (33, 40)])
def test_cross_entropy_is_the_formula(twin, dtype, batch, classes):
    z, label = logits(0, batch, classes, dtype)
    exact = z.astype(np.float64)
    softmax = np.exp(exact) / np.exp(exact).sum(axis=1, keepdims=True)
    value, slope = twin.cross_entropy(z, label)
    assert isinstance(value, float) and slope.dtype == dtype
    assert value == pytest.approx(-np.log(softmax[np.arange(batch), label]).mean(), abs=tolerance(dtype))
    np.testing.assert_allclose(slope, (softmax - np.eye(classes)[label]) / batch, atol=tolerance(dtype) / batch)


@each_twin
@each_dtype
def test_cross_entropy_of_huge_logits(twin, dtype):
    z = np.array([[-1e4, 0.0, 1e4], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4]], dtype)
    with np.errstate(all="raise", under="ignore"):
        value, slope = twin.cross_entropy(z, np.array([0, 0, 2]))
    assert value == pytest.approx((2e4 + np.log(3) + 2e4 + np.log(2)) / 3, rel=tolerance(dtype))
    expected = np.array([[-1, 0, 1], [-2 / 3, 1 / 3, 1 / 3], [0.5, 0.5, -1]]) / 3
    np.testing.assert_allclose(slope, expected, atol=tolerance(dtype))
    assert twin.cross_entropy(z[:1], np.array([2]))[0] == 0
    assert not twin.cross_entropy(z[:1], np.array([2]))[1].any()


@each_twin
@each_dtype
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("column", [0, 3])
def test_a_bad_logit_is_seen_in_the_value(twin, dtype, bad, column):
    z, label = logits(1, dtype=dtype)
    z[2, column] = bad
    with np.errstate(invalid="ignore"):
        assert np.isnan(twin.cross_entropy(z, label)[0])


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 12), st.sampled_from([np.float32, np.float64]))
def test_cross_entropy_twins_agree(seed, batch, classes, dtype):
    z, label = logits(seed, batch, classes, dtype)
    (value, slope), (expected, expected_slope) = (twin.cross_entropy(z, label) for twin in TWINS.values())
    assert value == pytest.approx(expected, rel=tolerance(dtype), abs=tolerance(dtype))
    np.testing.assert_allclose(slope, expected_slope, atol=tolerance(dtype))


@each_twin
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, ">i4"])
def test_labels_of_any_integer_type(twin, kind):
    z, label = logits(2)
    value, slope = twin.cross_entropy(z, label.astype(kind))
    expected, expected_slope = twin.cross_entropy(z, label)
    assert value == expected and np.array_equal(slope, expected_slope)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_a_label_that_is_no_class_reads_no_foreign_memory(label):
    z, labels = logits(3)
    labels[2] = label
    assert np.isnan(learning_compiled.cross_entropy(z, labels)[0])


# ---- ReLU ----------------------------------------------------------------------------------------------------------
@each_twin
@each_dtype
def test_relu_by_hand(twin, dtype):
    x = np.array([[-np.inf, -1, -0.0, 0], [1e-40, 2, np.inf, np.nan]], dtype)
    y, keep = twin.relu(x)
    np.testing.assert_array_equal(y, np.array([[0, 0, 0, 0], [x[1, 0], 2, np.inf, np.nan]], dtype))
    np.testing.assert_array_equal(keep, [[False] * 4, [True] * 4])
    assert y.dtype == dtype and not np.shares_memory(x, y)
    back = twin.relu_backward(keep, np.full(x.shape, -3, dtype))
    np.testing.assert_array_equal(back, [[0] * 4, [-3] * 4])
    assert back.dtype == dtype


@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_relu_twins_agree(seed, shape):
    x, u = np.random.default_rng(seed).standard_normal((2, *shape))
    (y, keep), (expected, expected_keep) = (twin.relu(x) for twin in TWINS.values())
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(keep, expected_keep)
    np.testing.assert_array_equal(*(twin.relu_backward(keep, u) for twin in TWINS.values()))


# ---- Adam ----------------------------------------------------------------------------------------------------------
@each_twin
@each_dtype
@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("shape", [(), (5,), (4, 1, 2, 3), (0, 2)])
def test_adam_is_the_algorithm(twin, dtype, step, shape):
    rng = np.random.default_rng(step)
    p, g, m, v = rng.standard_normal((4, *shape)).astype(dtype)
    v = np.abs(v)
    new_m, new_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
    moved = p - 0.05 * (new_m / (1 - 0.9**step)) / (np.sqrt(new_v / (1 - 0.99**step)) + 1e-8)
    (found,) = twin.adam_update([p], [g], [m], [v], 0.05, 0.9, 0.99, 1e-8, step)
    for array, expected in zip(found, (moved, new_m, new_v), strict=True):
        assert array.dtype == dtype and array.shape == shape
        np.testing.assert_allclose(array, expected, rtol=tolerance(dtype), atol=tolerance(dtype))


@each_twin
def test_adam_takes_several_arrays_of_both_dtypes_and_one_list_for_all(twin):
    rng = np.random.default_rng(3)
    arrays = [np.abs(rng.standard_normal(shape)).astype(t) for shape, t in (((2, 3), "f4"), ((4,), "f8"), ((5,), "f4"))]
    found = twin.adam_update(arrays, arrays, arrays, arrays, 0.1, 0.9, 0.99, 1e-8, 3)
    for array, new in zip(arrays, found, strict=True):
        (alone,) = twin.adam_update([array], [array.copy()], [array.copy()], [array.copy()], 0.1, 0.9, 0.99, 1e-8, 3)
        for a, b in zip(new, alone, strict=True):
            assert a.dtype == array.dtype
            np.testing.assert_array_equal(a, b)


# ---- what all of them take -----------------------------------------------------------------------------------------
@each_twin
@pytest.mark.parametrize("layout", ["read-only", "strided", "fortran"])
def test_any_layout_gives_the_same_and_is_left_alone(twin, layout):
    rng = np.random.default_rng(4)

    z, label = logits(5)
    p, g, m, v = np.abs(rng.standard_normal((4, 3, 6)))
    calls = [
        (twin.cross_entropy, (z, label), ()),
        (twin.relu, (g - 1,), ()),
        (lambda keep, u: [twin.relu_backward(keep, u)], (g > 1, p), ()),
        (lambda *arrays: twin.adam_update(*([a] for a in arrays), 0.1, 0.9, 0.99, 1e-8, 3)[0], (p, g, m, v), ()),
    ]
    for function, arrays, numbers in calls:
        other = [laid_out(array, layout) for array in arrays]
        for found, expected in zip(function(*other, *numbers), function(*arrays, *numbers), strict=True):
            np.testing.assert_array_equal(found, expected)
        for array, before in zip(other, arrays, strict=True):
            np.testing.assert_array_equal(array, before)


def test_arrays_that_do_not_fit_each_other_read_no_foreign_memory():
    z, label = logits(6)
    with pytest.raises(ValueError, match=r"shapes \(6,\) and \(7,\)"):
        learning_compiled.cross_entropy(z, label[:-1])
    with pytest.raises(ValueError, match="not the same"):
        learning_compiled.relu_backward(z > 0, z[:-1])
    with pytest.raises(ValueError, match="not the same"):
        learning_compiled.adam_update([z], [z[:-1]], [z], [z], 0.1, 0.9, 0.99, 1e-8, 1)
