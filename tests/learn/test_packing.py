from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evref.learn import SGD, MeanSquaredError, Network, ReLU, fit
from evref.learn.packing import Packing


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=3), st.sampled_from([np.float32, np.float64])), max_size=6),
    st.randoms(use_true_random=False),
)
def test_there_and_back(kinds, random):
    rng = np.random.default_rng(random.getrandbits(32))
    arrays = {f"p{i}": rng.standard_normal(shape).astype(dtype) for i, (shape, dtype) in enumerate(kinds)}
    packing = Packing(arrays)
    vectors = packing.pack(arrays)
    assert vectors.keys() == {a.dtype.name for a in arrays.values()}
    assert all(v.ndim == 1 and v.dtype.name == name for name, v in vectors.items())
    assert sum(v.size for v in vectors.values()) == sum(a.size for a in arrays.values())
    back = packing.unpack(vectors)
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)
        assert not np.shares_memory(back[name], array)


def test_each_entry_has_a_place_of_its_own_and_gradients_take_the_dtype_of_their_parameter():
    params = {"a": np.zeros((2, 2), np.float32), "b": np.zeros(3), "c": np.zeros((1, 2), np.float32)}
    packing = Packing(params)
    vectors = packing.pack({"a": np.full((2, 2), 1.0), "b": np.full(3, 2.0, np.float32), "c": np.full((1, 2), 3.0)})
    np.testing.assert_array_equal(vectors["float32"], np.array([1, 1, 1, 1, 3, 3], np.float32))
    np.testing.assert_array_equal(vectors["float64"], [2.0, 2.0, 2.0])
    packing.unpack(vectors)["c"][:] = 7
    np.testing.assert_array_equal(vectors["float32"], [1, 1, 1, 1, 7, 7])


def test_a_network_without_parameters_can_be_fitted():
    x = np.ones((3, 2))
    result = fit(Network([ReLU()]), {}, (x, x), loss=MeanSquaredError(), optimizer=SGD(0.1), epochs=2)
    assert result.params == {} and result.history[-1]["loss"] == 0 and result.steps == 2
