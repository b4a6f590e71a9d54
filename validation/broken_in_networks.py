"""A broken filter as the first layer of a network, for the mistakes that broken_networks.py has no example of."""

from __future__ import annotations

from typing import Any

from broken_base import Broken, Registry
from broken_features import BROKEN as OF_FEATURES
from broken_generated import BROKEN as GENERATED
from broken_means import BROKEN as MEANS
from broken_networks import run
from broken_normalised import BROKEN as NORMALISED
from broken_shifts import BROKEN as SHIFTS
from right_layers import Layer

import evref as ev

FILTERS = {
    "taps": "polynomial",
    "zeroth-term": "chebyshev",
    "self-loops": "gcn",
    "degree": "arma",
    "spectrum-scale": "tagcn",
    "chebyshev-recurrence": "chebyshev",
    "mean-for-sum": "ecc",
    "weights-transposed": "monet",
    "shared-weights": "polynomial",
}
BROKEN = Registry()


def first_layer(broken: Broken, reference: Any) -> Layer:
    return run(reference, {}, layers={0: broken.build})


def network_of(broken: Broken, rng: Any) -> Any:
    first = broken.reference(rng)
    return ev.Network([first, ev.Tanh(), ev.GCN(first.graph, first.out_features, 2, bias=True)])


for _mistake, _filter in FILTERS.items():
    _alone = next(
        broken
        for broken in (*SHIFTS, *NORMALISED, *MEANS, *OF_FEATURES, *GENERATED)
        if (broken.mistake, broken.filter) == (_mistake, _filter)
    )
    BROKEN.add(
        _mistake,
        "network",
        f"first layer, {_filter}: {_alone.variant}",
        lambda rng, alone=_alone: network_of(alone, rng),
        lambda reference, alone=_alone: first_layer(alone, reference),
    )
