from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evref.learn import schedules


def test_values():
    assert [schedules.constant(e) for e in (0, 9)] == [1, 1]
    assert [schedules.step_decay(3, factor=0.5)(e) for e in (0, 2, 3, 6)] == [1, 1, 0.5, 0.25]
    assert [schedules.exponential_decay(0.5)(e) for e in (0, 1, 4)] == [1, 0.5, 0.0625]
    assert schedules.cosine(10)(0) == 1
    assert schedules.cosine(10)(5) == pytest.approx(0.5)
    assert schedules.cosine(10, floor=0.25)(10) == schedules.cosine(10, floor=0.25)(99) == 0.25
    assert [schedules.warmup(1, schedules.step_decay(1, factor=0.5))(e) for e in range(4)] == [0.5, 1, 0.5, 0.25]
    assert schedules.warmup(0)(0) == 1


@given(st.integers(1, 50), st.integers(0, 100))
def test_cosine_falls_and_stays_in_range(total, epoch):
    schedule = schedules.cosine(total)
    assert 0 <= schedule(epoch + 1) <= schedule(epoch) <= 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: schedules.step_decay(0), ValueError, "every is 0"),
        (lambda: schedules.step_decay(2, factor=-1.0), ValueError, "factor is -1"),
        (lambda: schedules.exponential_decay("x"), TypeError, "rate is 'x'"),
        (lambda: schedules.cosine(1.5), TypeError, "total is 1.5"),
        (lambda: schedules.cosine(3, floor=2.0), ValueError, "floor is 2"),
        (lambda: schedules.warmup(-1), ValueError, "epochs is -1"),
        (lambda: schedules.warmup(2, then=0.5), TypeError, "then is float"),
    ],
)
def test_bad_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
