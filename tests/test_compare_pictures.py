"""The comparison of pictures sees what it should."""

from __future__ import annotations

import numpy as np
from compare_pictures import alike


def test_pictures_are_compared():
    page = np.ones((400, 600))
    page[100:300].reshape(10, 20, 600)[:, :5, 50:550] = 0  # ten lines of text
    moved, missing = np.roll(page, 1, axis=0), page.copy()
    missing[100:140] = 1
    assert alike(page, page, True) and not alike(page, moved, True) and not alike(page, missing, True)
    assert not alike(page, missing[:-1], True)
    assert alike(page, np.roll(page, 1, axis=1), False) and not alike(page, np.roll(page, 200, axis=1), False)
