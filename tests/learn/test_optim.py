from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evref.learn import SGD, Adam


def run(optimizer, grads, start=1.0, **options):
    params = {"w": np.array([start])}
    state = optimizer.init(params)
    for g in grads:
        params, state = optimizer.step(params, {"w": np.array([g])}, state, **options)
    return params["w"][0], state


def test_adam_first_steps_by_hand():
    # beta1 = beta2 = 1/2, epsilon = 0. Step 1, g = 3: m = 3/2, v = 9/2, both divided by 1/2: 3 / sqrt(9) = 1.
    adam = Adam(learning_rate=0.25, beta1=0.5, beta2=0.5, epsilon=0.0)
    value, state = run(adam, [3.0])
    assert value == 0.75
    assert (state["m.w"][0], state["v.w"][0], int(state["step"])) == (1.5, 4.5, 1)
    # Step 2, g = -1: m = 3/4 - 1/2 = 1/4, v = 9/4 + 1/2 = 11/4, both divided by 3/4: (1/3) / sqrt(11/3).
    value, state = run(adam, [3.0, -1.0])
    assert (state["m.w"][0], state["v.w"][0], int(state["step"])) == (0.25, 2.75, 2)
    assert value == pytest.approx(0.75 - 0.25 * (1 / 3) / (11 / 3) ** 0.5, rel=1e-15)


def test_adam_against_the_algorithm_as_printed():
    adam = Adam(learning_rate=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.2)
    grads = np.random.default_rng(0).standard_normal(50)
    w, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate(grads, start=1):
        g += 0.2 * w
        m = 0.8 * m + (1 - 0.8) * g
        v = 0.95 * v + (1 - 0.95) * g**2
        w -= 0.1 * (m / (1 - 0.8**t)) / ((v / (1 - 0.95**t)) ** 0.5 + 1e-3)
    assert run(adam, grads)[0] == pytest.approx(w, rel=1e-12)


@settings(deadline=None)  # the first call may compile
@given(st.floats(1e-3, 1e3), st.sampled_from([-1.0, 1.0]))
def test_adam_first_step_has_the_size_of_the_learning_rate(size, sign):
    assert run(Adam(0.5), [sign * size])[0] == pytest.approx(1 - sign * 0.5, abs=1e-5)


def test_sgd_momentum_closed_form():
    # Constant gradient g: v_t = g (1 - mu^t) / (1 - mu), so w_T = w_0 - rate g sum_t (1 - mu^t) / (1 - mu).
    mu, rate, g, steps = 0.5, 0.25, 2.0, 6
    expected = 1.0 - rate * g * sum((1 - mu**t) / (1 - mu) for t in range(1, steps + 1))
    assert run(SGD(rate, momentum=mu), [g] * steps)[0] == expected
    nesterov = 1.0 - rate * g * sum(1 + mu * (1 - mu**t) / (1 - mu) for t in range(1, steps + 1))
    assert run(SGD(rate, momentum=mu, nesterov=True), [g] * steps)[0] == nesterov


def test_sgd_exact():
    assert run(SGD(0.5), [2.0, -4.0])[0] == 2.0
    assert run(SGD(0.5, weight_decay=1.0), [1.0, 0.0], start=4.0)[0] == 0.75  # 4 - (1 + 4)/2 = 1.5, 1.5 - 1.5/2


@pytest.mark.parametrize("optimizer", [Adam(), SGD(0.1, momentum=0.9)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_arrays_old_ones_untouched(optimizer, dtype):
    rng = np.random.default_rng(0)
    params = {"a": rng.standard_normal((2, 3)).astype(dtype), "b.c": rng.standard_normal(4).astype(dtype)}
    grads = {k: rng.standard_normal(v.shape) for k, v in params.items()}
    state = optimizer.init(params)
    for array in (*params.values(), *grads.values(), *state.values()):
        array.setflags(write=False)
    new, new_state = optimizer.step(params, grads, state)
    assert all(new[k].dtype == dtype and not np.shares_memory(new[k], params[k]) for k in params)
    assert new_state.keys() == state.keys()
    assert all(new_state[k].dtype == state[k].dtype and new_state[k].shape == state[k].shape for k in state)
    assert int(state["step"]) == 0 and int(new_state["step"]) == 1
    again, _ = optimizer.step(params, grads, state)
    assert all(np.array_equal(new[k], again[k]) for k in new)


def test_learning_rate_of_one_step():
    assert run(SGD(1.0), [1.0], learning_rate=0.25)[0] == 0.75
    assert run(Adam(1.0), [1.0], learning_rate=0.0)[0] == 1.0
    with pytest.raises(ValueError, match="learning_rate is -1"):
        run(SGD(1.0), [1.0], learning_rate=-1.0)


@pytest.mark.parametrize("optimizer", [Adam(0.1), SGD(0.1, momentum=0.5)], ids=repr)
def test_it_descends(optimizer):
    params = {"w": np.array([3.0, -2.0])}
    state = optimizer.init(params)
    for _ in range(300):
        params, state = optimizer.step(params, {"w": 2 * params["w"]}, state)
    np.testing.assert_allclose(params["w"], 0, atol=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(-1.0), "learning_rate is -1"),
        (lambda: Adam(np.nan), "learning_rate is nan"),
        (lambda: Adam(beta1=1.0), "beta1 is 1.0"),
        (lambda: Adam(beta2=-0.1), "beta2 is -0.1"),
        (lambda: Adam(beta2=1.0), "beta2 is 1.0"),
        (lambda: Adam(epsilon=-1.0), "epsilon is -1.0"),
        (lambda: Adam(weight_decay=-1.0), "weight_decay is -1.0"),
        (lambda: SGD(0.1, momentum=-1.0), "momentum is -1.0"),
        (lambda: SGD(0.1, nesterov=True), "momentum is 0"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_types_are_named():
    with pytest.raises(TypeError, match="learning_rate is 'fast'"):
        Adam("fast")
    with pytest.raises(TypeError, match="nesterov is 1"):
        SGD(0.1, momentum=0.9, nesterov=1)


def test_gradients_and_state_must_fit():
    adam = Adam()
    params = {"w": np.zeros(2)}
    state = adam.init(params)
    with pytest.raises(ValueError, match=r"grads has the names \['v'\]; expected \['w'\]"):
        adam.step(params, {"v": np.zeros(2)}, state)
    with pytest.raises(ValueError, match=r"grads\['w'\] has shape \(3,\); expected \(2,\)"):
        adam.step(params, {"w": np.zeros(3)}, state)
    with pytest.raises(ValueError, match="state has the names"):
        adam.step(params, {"w": np.zeros(2)}, SGD(0.1).init(params))


def test_repr_says_the_settings():
    assert repr(SGD(0.5, momentum=0.25)) == "SGD(learning_rate=0.5, momentum=0.25, nesterov=False, weight_decay=0.0)"
