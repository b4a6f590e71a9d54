"""Is a stored picture what would be drawn now?"""

from __future__ import annotations

from typing import Any

import numpy as np


def same_picture(stored: Any, now: Any) -> bool:
    """Two images of PIL; the stored one says in its metadata which matplotlib drew it."""
    import matplotlib

    return alike(grey(stored), grey(now), stored.info.get("Software") == f"matplotlib {matplotlib.__version__}")


def grey(picture: Any) -> np.ndarray:
    return np.asarray(picture.convert("L"), dtype=float) / 255


def alike(one: np.ndarray, other: np.ndarray, same_version: bool) -> bool:
    """Pixel by pixel, or, as another version of matplotlib may shift letters by a pixel, in means of 10 x 10 pixels."""
    if one.shape != other.shape:
        return False
    if same_version:
        return bool((np.abs(one - other) > 0.1).mean() < 2e-4)
    h, w = (length // 10 for length in one.shape)
    means = [a[: 10 * h, : 10 * w].reshape(h, 10, w, 10).mean(axis=(1, 3)) for a in (one, other)]
    return bool((np.abs(means[0] - means[1]) > 0.12).mean() < 2e-3)
