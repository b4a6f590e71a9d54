"""Handwritten digits as signals on the grid of their pixels: a small real task beyond the paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..graph import Graph, generators
from ..learn import Network
from .experiment import Experiment
from .models import BASELINE, BASELINE_LABEL, EXTRA_LABELS, MODELS, network
from .train import Splits

Array = np.ndarray

SIDE = 8  # pixels
DARKEST = 16
IMAGES = 1797


@dataclass(frozen=True)
class Digits(Experiment):
    """Which digit is it? 1797 images of 8 x 8 pixels that come with scikit-learn, one node per pixel.

    Pixels are joined to those above, below, left and right; S = W / lambda_max. The graph is the same for every cell,
    a cell is a division of the images. "logistic" is the readout alone on the same pixels. See docs/experiments.md.

    >>> [part.size for part in Digits().division({"split": 0})]
    [1200, 197, 400]
    """

    name: ClassVar[str] = "digits"
    summary: ClassVar[str] = "beyond the paper: which digit is it, from the pixels of scikit-learn's digits?"
    labels: ClassVar[dict[str, str]] = {**BASELINE_LABEL, **EXTRA_LABELS}
    extent: ClassVar[tuple[str, ...]] = ("models", "splits")

    models: tuple[str, ...] = (*MODELS, BASELINE)
    splits: int = field(default=10, metadata={"help": "divisions into training, validation and test images"})
    train_samples: int = field(default=1200, metadata={"help": "training images"})
    valid_samples: int = field(default=197, metadata={"help": "validation images"})
    test_samples: int = field(default=400, metadata={"help": "test images"})
    features: int = field(default=8, metadata={"help": "F, the features of the filter"})
    order: int = field(default=4, metadata={"help": "K, the order of the filters"})
    privileged: int = field(default=8, metadata={"help": "|B|, the privileged nodes"})
    spline: int = field(default=5, metadata={"help": "b, the parameters of a spectral filter"})
    epochs: int = field(default=60, metadata={"help": "passes over the training images"})
    batch: int = field(default=50, metadata={"help": "images per step"})
    learning_rate: float = field(default=5e-3, metadata={"help": "of Adam"})
    validate_every: int = 24
    seed: int = field(default=0, metadata={"help": "of everything random"})

    def __post_init__(self) -> None:
        sizes = ("train_samples", "valid_samples", "test_samples")
        self._require_sound("splits", *sizes)
        wanted = [getattr(self, name) for name in sizes]
        if sum(wanted) > IMAGES:
            total = " + ".join(map(str, wanted))
            raise ValueError(f"train, valid and test_samples are {total} = {sum(wanted)}; expected at most {IMAGES}")

    def cells(self) -> list[dict[str, int]]:
        load()  # what is not installed is said now, not in every cell
        return [{"split": split} for split in range(self.splits)]

    def prepare(self, model: str, cell: dict[str, int]) -> tuple[Network, Splits]:
        net = network(
            model,
            self.graph(),
            in_features=1,
            features=self.features,
            order=self.order,
            n_privileged=self.privileged,
            n_spline=self.spline,
            classes=10,
        )
        return net, self.data(cell)

    def quick(self) -> Digits:
        return replace(self, splits=2, epochs=3)

    def positions(self, cell: dict[str, int]) -> Array:
        """As in the image: the first pixel at the top left."""
        row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
        return np.stack([column, -row], axis=1).astype(np.float64)

    # ---- graph and data ----------------------------------------------------------------------------------------------
    def graph(self) -> Graph:
        return generators.grid(SIDE, SIDE).with_shift("normalized_adjacency")

    def division(self, cell: dict[str, int]) -> tuple[Array, Array, Array]:
        """Training, validation and test images of a cell, by number: drawn at random, none twice."""
        rng = np.random.default_rng(self.seeds("data", *cell.values()))
        ends = np.cumsum([self.train_samples, self.valid_samples, self.test_samples])
        train, valid, test, _ = np.split(rng.permutation(IMAGES), ends)
        return train, valid, test

    def data(self, cell: dict[str, int]) -> Splits:
        """Pixels from 0 (paper) to 1 (ink), row by row, and the digits that were written."""
        images, digits = load()
        parts: list[Array] = []
        for chosen in self.division(cell):
            parts += [images[chosen][:, np.newaxis], digits[chosen]]
        return Splits(*parts)


def load() -> tuple[Array, Array]:
    """Images (1797, 64) in float32, from 0 to 1, and their digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError('the digits come with scikit-learn; pip install "evref[digits]"') from error
    images, digits = load_digits(return_X_y=True)
    return (images / DARKEST).astype(np.float32), digits.astype(np.int64)
